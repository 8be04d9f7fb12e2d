//! The manifest: the small file that says what holds at start, replaced as a whole.
//!
//! ```text
//! magic u32 │ version u16 │ 0 u16 │ length of the rest u32 │ crc u32 │ fields
//! ```
//!
//! The crc is the CRC32C of the whole file with zeros where the crc stands. This first row is the same in all
//! versions for ever, so that every build can tell a manifest of a later one from a damaged one.
//!
//! # How the format is changed
//!
//! There is one version for all files ([`super::VERSION`]), and the manifest is what a start looks at first. To change
//! anything that is written:
//!
//! 1. Raise the version, and keep the old decoders: version n reads n and n − 1, file by file, by the version each
//!    file says. Nothing is rewritten at start.
//! 2. The start that finds a manifest of n − 1 replays the journal as it is, opens a fresh segment (as every start
//!    does) and stores its manifest as n. From then on an older build refuses the directory with
//!    [`ManifestError::Newer`], before it touches a file.
//! 3. Segments of n − 1 go away by themselves as they are cleaned: their live records are logged again as n. Version
//!    n + 1 may drop the decoders of n − 1 if a start of n stores its version only when no segment of n − 1 is left,
//!    or else must read them.
//! 4. The golden bytes in the tests of these modules stay as the tests of the old decoders.

use std::io;

use dwell_core::limits;

use super::VERSION;
use super::bytes::{Damage, Reader, put_text, put_u16, put_u32, put_u64};
use crate::cold::BadPlace;
use crate::storage::Storage;

/// The name of the manifest.
pub(crate) const NAME: &str = "manifest";
/// The name of a manifest that is being written. One found at start is left from a crash and means nothing.
pub(crate) const NEW_NAME: &str = "manifest.new";

const MAGIC: u32 = u32::from_le_bytes(*b"DwMf");
const CRC_AT: std::ops::Range<usize> = 12..16;
const PRELUDE: usize = 16;
/// Bytes of a manifest at the most: so much is read, whatever the file is.
const MAX_SIZE: usize = 1 << 20;

/// What holds at start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// Counts the starts of the store.
    pub epoch: u64,
    /// The oldest segment that is in use.
    pub first_segment: u64,
    /// No segment has this id or a later one.
    pub next_segment: u64,
    /// No sequence was given out at or beyond this.
    pub sequence_reserved: u64,
    /// No job number was given out at or beyond this.
    pub number_reserved: u64,
    /// No topic id was given out at or beyond this.
    pub topic_ids_reserved: u32,
    /// The store's time has come at least so far, in milliseconds since 1970.
    pub mark: u64,
    /// The file of topics to start from ([`super::topics`]), by the sequence it is stamped with.
    pub topics: Option<u64>,
    /// Set by an orderly stop, unset by the next start.
    pub clean: Option<CleanStop>,
    /// Everything up to this sequence that was true of jobs in the cold tier is there.
    pub flushed: u64,
    /// The runs of the cold tier.
    pub runs: Vec<RunName>,
    /// Places of them that were found to be damaged.
    pub bad: Vec<BadPlace>,
}

/// A run of the cold tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunName {
    /// Its number.
    pub run: u64,
    /// The stamp of the file that says which of its jobs are no more, if there is one.
    pub dead: Option<u64>,
}

/// What an orderly stop leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CleanStop {
    /// The sequence of the last record in the journal: if it is not found, something is lost.
    pub last_sequence: u64,
}

/// Why the manifest could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ManifestError {
    /// The system refused.
    #[error("cannot read {file}: {source}")]
    Io {
        /// Which file.
        file: String,
        /// What the system said.
        source: io::Error,
    },
    /// It is of a later version of Dwell.
    #[error(
        "{file} has format version {found}, and this build of Dwell reads up to {VERSION}; \
         start the version of Dwell that wrote it, or a later one"
    )]
    Newer {
        /// Which file.
        file: String,
        /// Its version.
        found: u16,
    },
    /// It is not as it was written.
    #[error("{file} is damaged: {why}")]
    Damaged {
        /// Which file.
        file: String,
        /// What is wrong.
        why: Damage,
    },
}

impl Manifest {
    /// The whole file.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(128);
        put_u32(&mut out, MAGIC);
        put_u16(&mut out, VERSION);
        put_u16(&mut out, 0);
        put_u64(&mut out, 0);
        put_u64(&mut out, self.epoch);
        put_u64(&mut out, self.first_segment);
        put_u64(&mut out, self.next_segment);
        put_u64(&mut out, self.sequence_reserved);
        put_u64(&mut out, self.number_reserved);
        put_u32(&mut out, self.topic_ids_reserved);
        put_u64(&mut out, self.mark);
        put_option(&mut out, self.topics);
        put_option(&mut out, self.clean.map(|clean| clean.last_sequence));
        put_u64(&mut out, self.flushed);
        put_u32(&mut out, u32::try_from(self.runs.len()).expect("there are few runs"));
        for run in &self.runs {
            put_u64(&mut out, run.run);
            put_option(&mut out, run.dead);
        }
        put_u32(&mut out, u32::try_from(self.bad.len()).expect("few of them are noted"));
        for place in &self.bad {
            put_u64(&mut out, place.run);
            put_text(&mut out, &place.told);
        }
        let length = u32::try_from(out.len() - PRELUDE).expect("a manifest is small");
        out[8..12].copy_from_slice(&length.to_le_bytes());
        let crc = crc32c::crc32c(&out);
        out[CRC_AT].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Reads the whole file.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        if reader.u32()? != MAGIC {
            return Err(reader.invalid("file type").into());
        }
        let (version, flags) = (reader.u16()?, reader.u16()?);
        let (length, crc) = (reader.u32()?, reader.u32()?);
        if usize::try_from(length) != Ok(reader.remaining()) || crc != checksum(bytes) {
            return Err(reader.invalid("checksum").into());
        }
        if version > VERSION {
            return Err(DecodeError::Newer { found: version });
        }
        if version != VERSION || flags != 0 {
            return Err(reader.invalid("format version").into());
        }
        Ok(Self::fields(&mut reader)?)
    }

    fn fields(reader: &mut Reader<'_>) -> Result<Self, Damage> {
        let manifest = Self {
            epoch: reader.u64()?,
            first_segment: reader.u64()?,
            next_segment: reader.u64()?,
            sequence_reserved: reader.u64()?,
            number_reserved: reader.u64()?,
            topic_ids_reserved: reader.u32()?,
            mark: match reader.u64()? {
                millis if millis > limits::MAX_TIMESTAMP => return Err(reader.invalid("time")),
                millis => millis,
            },
            topics: option(reader)?,
            clean: option(reader)?.map(|last_sequence| CleanStop { last_sequence }),
            flushed: reader.u64()?,
            runs: {
                let count = reader.u32()?;
                (0..count)
                    .map(|_| Ok(RunName { run: reader.u64()?, dead: option(reader)? }))
                    .collect::<Result<_, _>>()?
            },
            bad: {
                let count = reader.u32()?;
                (0..count)
                    .map(|_| Ok(BadPlace { run: reader.u64()?, told: reader.text(BadPlace::MAX_TEXT)?.to_owned() }))
                    .collect::<Result<_, _>>()?
            },
        };
        if reader.is_empty() { Ok(manifest) } else { Err(reader.invalid("field")) }
    }
}

fn put_option(out: &mut Vec<u8>, value: Option<u64>) {
    out.push(u8::from(value.is_some()));
    put_u64(out, value.unwrap_or(0));
}

fn option(reader: &mut Reader<'_>) -> Result<Option<u64>, Damage> {
    match (reader.u8()?, reader.u64()?) {
        (0, 0) => Ok(None),
        (1, value) => Ok(Some(value)),
        _ => Err(reader.invalid("optional field")),
    }
}

/// Why bytes are no manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DecodeError {
    /// They are of a later version.
    Newer {
        /// Which.
        found: u16,
    },
    /// They are not as they were written.
    Damaged(Damage),
}

impl From<Damage> for DecodeError {
    fn from(damage: Damage) -> Self {
        Self::Damaged(damage)
    }
}

fn checksum(bytes: &[u8]) -> u32 {
    let (before, after) = (&bytes[..CRC_AT.start], &bytes[CRC_AT.end..]);
    crc32c::crc32c_append(crc32c::crc32c_append(crc32c::crc32c(before), &[0; 4]), after)
}

/// Puts `manifest` in the place of the one that is there. Once this succeeds it is durable; if it fails or the
/// machine stops in between, a start finds the old one or the new one, whole.
pub(crate) fn store(storage: &dyn Storage, manifest: &Manifest) -> io::Result<()> {
    let file = storage.create(NEW_NAME)?;
    file.write_at(0, &manifest.encode())?;
    file.sync_data()?;
    storage.rename(NEW_NAME, NAME)?;
    storage.sync_dir()
}

/// The manifest, or `None` where there is none.
pub(crate) fn load(storage: &dyn Storage) -> Result<Option<Manifest>, ManifestError> {
    let bytes = match read(storage) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(ManifestError::Io { file: storage.describe(NAME), source }),
    };
    parse(&bytes, storage.describe(NAME)).map(Some)
}

/// The manifest that this file holds.
pub(crate) fn parse(bytes: &[u8], file: String) -> Result<Manifest, ManifestError> {
    Manifest::decode(bytes).map_err(|error| match error {
        DecodeError::Newer { found } => ManifestError::Newer { file, found },
        DecodeError::Damaged(why) => ManifestError::Damaged { file, why },
    })
}

fn read(storage: &dyn Storage) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; MAX_SIZE];
    let length = storage.open(NAME)?.read_at(0, &mut bytes)?;
    bytes.truncate(length);
    Ok(bytes)
}

#[cfg(test)]
mod tests;
