//! Files of topics: every topic with its policy, pause and totals, and what of it is in the cold tier, as of one sequence.
//!
//! Totals and counts go on from here by replaying what the journal has beyond that sequence. Such a file is written
//! once, made durable, and then named by the manifest; one that no manifest names means nothing.
//!
//! ```text
//! magic u32 │ version u16 │ 0 u16 │ sequence u64 │ number of topics u32 │ crc u32 │ records of topics │ the cold tier
//!
//! the cold tier: number, (topic, number of priorities, priority …) …
//!          │ number, (slice, jobs, due time of the first, when time next does something to one) …
//!          │ number, (minutes since the last, jobs due in it) …
//!          │ number, records of stale copies
//! ```
//!
//! Slices of topics that are not in the file are those of deleted ones that are still to be cleared away.
//!
//! The crc is the CRC32C of the whole file with zeros where the crc stands.

use std::io;

use dwell_core::{Priority, Timestamp};

use super::bytes::{Damage, Reader, put_varint};
use super::key::{Lane, Slice, Tombstone};
use super::record::{self, Record, TopicId, TopicRecord};
use super::{VERSION, numbered_name, parse_numbered_name};
use crate::storage::Storage;

/// What the names of these files begin with; the sequence in 16 hexadecimal digits follows.
pub(crate) const PREFIX: &str = "topics-";

/// The name of such a file while it is being written. One found at start is left from a crash and means nothing.
pub(crate) const NEW_NAME: &str = "topics.new";

const MAGIC: u32 = u32::from_le_bytes(*b"DwTp");
const HEADER: usize = 24;
const CRC_AT: std::ops::Range<usize> = 20..24;

/// The name of the file as of `sequence`.
pub(crate) fn name(sequence: u64) -> String {
    numbered_name(PREFIX, sequence)
}

/// The sequence in a name that [`name`] made.
pub(crate) fn parse_name(name: &str) -> Option<u64> {
    parse_numbered_name(PREFIX, name)
}

/// A new buffer for such a file. Topics are appended to it with [`record::encode_topic`], then a [`ColdSummary`].
pub(crate) fn room() -> Vec<u8> {
    vec![0; HEADER]
}

/// Makes a file of a buffer that was [`room`] and got `count` topics appended.
///
/// # Panics
///
/// If the header has no room: a mistake of the writer.
pub(crate) fn seal(buffer: &mut [u8], sequence: u64, count: u32) {
    buffer[0..4].copy_from_slice(&MAGIC.to_le_bytes());
    buffer[4..6].copy_from_slice(&VERSION.to_le_bytes());
    buffer[8..16].copy_from_slice(&sequence.to_le_bytes());
    buffer[16..20].copy_from_slice(&count.to_le_bytes());
    let crc = crc32c::crc32c(buffer);
    buffer[CRC_AT].copy_from_slice(&crc.to_le_bytes());
}

/// What a file says.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Topics {
    pub(crate) topics: Vec<TopicRecord>,
    pub(crate) cold: ColdSummary,
}

/// What is in the cold tier.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ColdSummary {
    /// The priorities of topics that have lanes of their own, in the order of the lanes.
    pub(crate) lanes: Vec<(TopicId, Vec<Priority>)>,
    /// What there is of each slice.
    pub(crate) slices: Vec<SliceSummary>,
    /// How many waiting ones are due in each minute, in order.
    pub(crate) minutes: Vec<(u64, u64)>,
    /// Copies that are stale, and not known to be so in the cold tier.
    pub(crate) stale: Vec<Tombstone>,
}

/// What there is of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SliceSummary {
    pub(crate) slice: Slice,
    /// How many jobs.
    pub(crate) jobs: u64,
    /// None is due before this.
    pub(crate) first: Timestamp,
    /// Time does nothing to any of them before this, beside making them due.
    pub(crate) passes: Timestamp,
}

impl ColdSummary {
    /// Appends it to a file.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.lanes.len() as u64);
        for (topic, priorities) in &self.lanes {
            put_varint(out, topic.0.into());
            put_varint(out, priorities.len() as u64);
            for priority in priorities {
                put_varint(out, priority.0.into());
            }
        }
        put_varint(out, self.slices.len() as u64);
        for SliceSummary { slice, jobs, first, passes } in &self.slices {
            record::put_slice(out, *slice);
            put_varint(out, *jobs);
            put_varint(out, first.as_millis());
            put_varint(out, passes.as_millis());
        }
        put_varint(out, self.minutes.len() as u64);
        let mut last = 0;
        for (minute, jobs) in &self.minutes {
            put_varint(out, minute - last);
            put_varint(out, *jobs);
            last = *minute;
        }
        put_varint(out, self.stale.len() as u64);
        for stale in &self.stale {
            record::encode_tombstone(out, stale);
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Damage> {
        let mut cold = Self::default();
        for _ in 0..reader.length(reader.remaining())? {
            let topic = TopicId(reader.varint_u32()?);
            let count = reader.length(Lane::OWN)?;
            let priorities = (0..count).map(|_| Ok(Priority(reader.varint_u32()?)));
            cold.lanes.push((topic, priorities.collect::<Result<_, Damage>>()?));
        }
        for _ in 0..reader.length(reader.remaining())? {
            let (slice, jobs) = (record::slice(reader)?, reader.varint()?);
            let (first, passes) = (record::timestamp(reader)?, record::timestamp(reader)?);
            cold.slices.push(SliceSummary { slice, jobs, first, passes });
        }
        let mut minute = 0_u64;
        for _ in 0..reader.length(reader.remaining())? {
            minute = minute.checked_add(reader.varint()?).ok_or_else(|| reader.invalid("time"))?;
            cold.minutes.push((minute, reader.varint()?));
        }
        for _ in 0..reader.length(reader.remaining())? {
            match record::decode(reader, &|_| None)? {
                Record::Tombstone(stale) => cold.stale.push(stale),
                _ => return Err(reader.invalid("type of record")),
            }
        }
        Ok(cold)
    }
}

/// Reads a whole file, which must be the one as of `sequence`.
pub(crate) fn decode(bytes: &[u8], sequence: u64) -> Result<Topics, Damage> {
    let mut reader = Reader::new(bytes);
    if reader.u32()? != MAGIC {
        return Err(reader.invalid("file type"));
    }
    if (reader.u16()?, reader.u16()?) != (VERSION, 0) {
        return Err(reader.invalid("format version"));
    }
    let (found, count, crc) = (reader.u64()?, reader.u32()?, reader.u32()?);
    let covered = crc32c::crc32c_append(crc32c::crc32c(&bytes[..CRC_AT.start]), &[0; 4]);
    if found != sequence || crc != crc32c::crc32c_append(covered, &bytes[HEADER..]) {
        return Err(reader.invalid("checksum"));
    }
    let mut topics = Vec::new();
    for _ in 0..count {
        match record::decode(&mut reader, &|_| None)? {
            Record::Topic(topic) => topics.push(topic),
            _ => return Err(reader.invalid("type of record")),
        }
    }
    let cold = ColdSummary::decode(&mut reader)?;
    if reader.is_empty() { Ok(Topics { topics, cold }) } else { Err(reader.invalid("record")) }
}

/// Why a file of topics could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TopicsError {
    /// The system refused.
    #[error("cannot read {file}: {source}")]
    Io {
        /// Which file.
        file: String,
        /// What the system said.
        source: io::Error,
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

/// Reads the file that a manifest names.
pub(crate) fn load(storage: &dyn Storage, sequence: u64) -> Result<Topics, TopicsError> {
    let name = name(sequence);
    let bytes = read(storage, &name).map_err(|source| TopicsError::Io { file: storage.describe(&name), source })?;
    decode(&bytes, sequence).map_err(|why| TopicsError::Damaged { file: storage.describe(&name), why })
}

fn read(storage: &dyn Storage, name: &str) -> io::Result<Vec<u8>> {
    let file = storage.open(name)?;
    let length = usize::try_from(file.len()?).map_err(|_| io::ErrorKind::FileTooLarge)?;
    let mut bytes = vec![0; length];
    let read = file.read_at(0, &mut bytes)?;
    bytes.truncate(read);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::format::hex;
    use crate::format::record::strategies;
    use crate::storage::MemoryStorage;

    fn file(topics: &[TopicRecord], sequence: u64) -> Vec<u8> {
        let mut buffer = room();
        for topic in topics {
            record::encode_topic(
                &mut buffer,
                topic.id,
                &topic.name,
                &topic.policy,
                topic.pause,
                &topic.totals,
                topic.forgotten,
            );
        }
        ColdSummary::default().encode(&mut buffer);
        seal(&mut buffer, sequence, u32::try_from(topics.len()).unwrap());
        buffer
    }

    #[test]
    fn the_header_has_its_golden_bytes() {
        assert_eq!(hex(&file(&[], 0x0102)), "447754700100000002010000000000000000000011e3f0f300000000");
        assert_eq!(name(0x0102), "topics-0000000000000102");
        assert_eq!(parse_name("topics-0000000000000102"), Some(0x0102));
    }

    #[test]
    fn a_file_of_another_sequence_is_not_taken() {
        let bytes = file(&[], 7);
        assert_eq!(decode(&bytes, 7), Ok(Topics::default()));
        assert!(decode(&bytes, 8).is_err());
        let storage = MemoryStorage::new();
        assert!(matches!(load(&storage, 7), Err(TopicsError::Io { .. })));
        storage.create(&name(7)).unwrap().write_at(0, &bytes).unwrap();
        storage.create(&name(8)).unwrap().write_at(0, &bytes).unwrap();
        assert_eq!(load(&storage, 7).unwrap(), Topics::default());
        assert!(matches!(load(&storage, 8), Err(TopicsError::Damaged { .. })));
    }

    #[test]
    fn records_are_counted_and_are_topics() {
        let sealed = |records: &[u8], count| {
            let mut buffer = [&room()[..], records].concat();
            seal(&mut buffer, 1, count);
            decode(&buffer, 1)
        };
        let mut gone = Vec::new();
        record::encode_topic_gone(&mut gone, TopicId(1));
        assert!(sealed(&gone, 1).is_err());
        assert!(sealed(&gone, 0).is_err());
        assert!(sealed(&[], u32::MAX).is_err());
        let later = |at: usize| {
            let mut buffer = room();
            seal(&mut buffer, 1, 0);
            buffer[at] = 9;
            buffer[CRC_AT].fill(0);
            let crc = crc32c::crc32c(&buffer);
            buffer[CRC_AT].copy_from_slice(&crc.to_le_bytes());
            decode(&buffer, 1)
        };
        assert!(later(0).is_err() && later(4).is_err() && later(6).is_err());
    }

    proptest! {
        #[test]
        fn files_read_back_and_no_flipped_bit_or_cut_goes_unseen(
            topics in prop::collection::vec(strategies::topic(), 0..4),
            sequence: u64,
            at: prop::sample::Index,
            bit in 0..8,
        ) {
            let mut bytes = file(&topics, sequence);
            prop_assert_eq!(decode(&bytes, sequence).map(|read| read.topics), Ok(topics));
            let at = at.index(bytes.len());
            prop_assert!(decode(&bytes[..at], sequence).is_err());
            bytes[at] ^= 1_u8 << bit;
            prop_assert!(decode(&bytes, sequence).is_err());
        }
    }
}
