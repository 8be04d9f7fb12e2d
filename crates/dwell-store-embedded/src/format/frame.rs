//! Frames: one batch of records, written and made durable as one.
//!
//! ```text
//!  offset, a multiple of 4096                                                          next multiple of 4096
//!  │ magic │ version │ flags │ payload length │ record count │ crc │ 0 │ segment │ epoch │ first sequence │ …
//!  0       4         6       8                12             16    20  24        32      40
//!  … durable through │ now │ payload │ zeros │
//!    48                56    64
//! ```
//!
//! All numbers are little-endian. The crc is the CRC32C of the header, with zeros where the crc stands, and the
//! payload. A frame starts on a page so that a write of it that tears touches no byte that was acknowledged before.
//!
//! A segment is used again under another number, without being wiped: what follows its last frame are frames of its
//! earlier life, or the insides of such frames. They say another segment, and so they are no damage: they are
//! [`ReadFrame::Nothing`]. A frame of which the first bytes never reached the disk looks just the same. So the end of
//! a segment proves nothing by itself, whether it is nothing or damage: it is the torn tail of the journal unless a
//! later valid frame ([`find_later`], or one of a later segment) says that what should be here was durable.

use std::fmt;

use dwell_core::limits;

use super::VERSION;
use super::bytes::{Damage, Reader};

/// Frames begin on multiples of this.
pub(crate) const PAGE: usize = 4096;
/// Bytes before the payload.
pub(crate) const HEADER: usize = 64;
/// Bytes of a payload at the most; two full batches.
pub(crate) const MAX_PAYLOAD: usize = 64 << 20;

const MAGIC: u32 = u32::from_le_bytes(*b"DwFr");
const CRC_AT: std::ops::Range<usize> = 16..20;

/// What a frame says of itself, beside its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    /// The segment it was written to.
    pub segment: u64,
    /// The start of the store that wrote it.
    pub epoch: u64,
    /// The sequence of its first record; the others follow.
    pub first_sequence: u64,
    /// How many records it has.
    pub record_count: u32,
    /// Everything up to this sequence was durable when it was written.
    pub durable_through: u64,
    /// The store's time when it was made, in milliseconds since 1970.
    pub now: u64,
}

/// A frame as found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    /// What it says of itself.
    pub header: FrameHeader,
    /// Its records.
    pub payload: &'a [u8],
    /// Where it begins.
    pub offset: usize,
    /// Where the next one would begin.
    pub next_offset: usize,
}

/// What is to be found at a place in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadFrame<'a> {
    /// A whole frame of this segment.
    Frame(Frame<'a>),
    /// No frame of this segment: the end of the file, zeros, or bytes of the segment's earlier life.
    Nothing,
    /// A frame of this segment that is not as it was written.
    Damaged {
        /// Where it begins.
        offset: usize,
        /// What is wrong with it.
        why: FrameDamage,
    },
}

/// What is wrong with a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameDamage {
    /// Its format is not ours.
    Version(u16),
    /// It is longer than it can be, or than what is left of the segment.
    Length(u32),
    /// Its checksum does not match.
    Checksum,
    /// The checksum matches, but a field cannot be.
    Field,
}

impl fmt::Display for FrameDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(found) => write!(f, "its format version is {found}, and this build reads {VERSION}"),
            Self::Length(length) => write!(f, "its length of {length} bytes does not fit the segment"),
            Self::Checksum => f.write_str("its checksum does not match"),
            Self::Field => f.write_str("a field of its header cannot be"),
        }
    }
}

/// A new buffer for the records of a frame: room for the header and nothing else.
pub(crate) fn room() -> Vec<u8> {
    vec![0; HEADER]
}

/// Bytes of the frame that a buffer of this length becomes.
pub(crate) fn padded(length: usize) -> u64 {
    length.next_multiple_of(PAGE) as u64
}

/// Makes a frame of a buffer that was [`room`] and got records appended: fills in the header and pads it with zeros to
/// whole pages.
///
/// # Panics
///
/// If the payload is larger than [`MAX_PAYLOAD`], or the header has no room: both are mistakes of the writer.
pub(crate) fn seal(buffer: &mut Vec<u8>, header: &FrameHeader) {
    let payload = buffer.len().checked_sub(HEADER).expect("the header has room");
    assert!(payload <= MAX_PAYLOAD, "a payload of {payload} bytes does not fit a frame");
    let mut fixed = [0; HEADER];
    fixed[0..4].copy_from_slice(&MAGIC.to_le_bytes());
    fixed[4..6].copy_from_slice(&VERSION.to_le_bytes());
    fixed[8..12].copy_from_slice(&u32::try_from(payload).expect("64 MiB at most").to_le_bytes());
    fixed[12..16].copy_from_slice(&header.record_count.to_le_bytes());
    fixed[24..32].copy_from_slice(&header.segment.to_le_bytes());
    fixed[32..40].copy_from_slice(&header.epoch.to_le_bytes());
    fixed[40..48].copy_from_slice(&header.first_sequence.to_le_bytes());
    fixed[48..56].copy_from_slice(&header.durable_through.to_le_bytes());
    fixed[56..64].copy_from_slice(&header.now.to_le_bytes());
    let crc = checksum(&fixed, &buffer[HEADER..]);
    fixed[CRC_AT].copy_from_slice(&crc.to_le_bytes());
    buffer[..HEADER].copy_from_slice(&fixed);
    buffer.resize(buffer.len().next_multiple_of(PAGE), 0);
}

/// What is at `offset` of a segment, of which `bytes` is the whole content.
pub(crate) fn read_frame(bytes: &[u8], offset: usize, segment: u64) -> ReadFrame<'_> {
    let Some((fixed, rest)) = bytes.get(offset..).and_then(<[u8]>::split_first_chunk::<HEADER>) else {
        return ReadFrame::Nothing;
    };
    let Ok(fields) = Fields::read(fixed) else { return ReadFrame::Nothing };
    if fields.magic != MAGIC || fields.segment != segment {
        return ReadFrame::Nothing;
    }
    match check(fixed, &fields, rest) {
        Ok((header, payload)) => {
            let next_offset = (offset + HEADER + payload.len()).next_multiple_of(PAGE);
            ReadFrame::Frame(Frame { header, payload, offset, next_offset })
        }
        Err(why) => ReadFrame::Damaged { offset, why },
    }
}

/// All valid frames of `segment` from `offset` on, at whatever pages they begin.
pub(crate) fn find_later(bytes: &[u8], offset: usize, segment: u64) -> impl Iterator<Item = Frame<'_>> {
    let mut next = offset.next_multiple_of(PAGE);
    std::iter::from_fn(move || {
        while next < bytes.len() {
            if let ReadFrame::Frame(frame) = read_frame(bytes, next, segment) {
                next = frame.next_offset;
                return Some(frame);
            }
            next += PAGE;
        }
        None
    })
}

struct Fields {
    magic: u32,
    version: u16,
    flags: u16,
    payload_len: u32,
    record_count: u32,
    crc: u32,
    reserved: u32,
    segment: u64,
    epoch: u64,
    first_sequence: u64,
    durable_through: u64,
    now: u64,
}

impl Fields {
    fn read(fixed: &[u8; HEADER]) -> Result<Self, Damage> {
        let mut reader = Reader::new(fixed);
        Ok(Self {
            magic: reader.u32()?,
            version: reader.u16()?,
            flags: reader.u16()?,
            payload_len: reader.u32()?,
            record_count: reader.u32()?,
            crc: reader.u32()?,
            reserved: reader.u32()?,
            segment: reader.u64()?,
            epoch: reader.u64()?,
            first_sequence: reader.u64()?,
            durable_through: reader.u64()?,
            now: reader.u64()?,
        })
    }
}

fn check<'a>(fixed: &[u8; HEADER], fields: &Fields, rest: &'a [u8]) -> Result<(FrameHeader, &'a [u8]), FrameDamage> {
    if fields.version != VERSION {
        return Err(FrameDamage::Version(fields.version));
    }
    let too_long = FrameDamage::Length(fields.payload_len);
    let length = usize::try_from(fields.payload_len).map_err(|_| too_long)?;
    if length > MAX_PAYLOAD {
        return Err(too_long);
    }
    let payload = rest.get(..length).ok_or(too_long)?;
    let mut blank = *fixed;
    blank[CRC_AT].fill(0);
    if checksum(&blank, payload) != fields.crc {
        return Err(FrameDamage::Checksum);
    }
    if fields.flags != 0 || fields.reserved != 0 || fields.now > limits::MAX_TIMESTAMP {
        return Err(FrameDamage::Field);
    }
    let header = FrameHeader {
        segment: fields.segment,
        epoch: fields.epoch,
        first_sequence: fields.first_sequence,
        record_count: fields.record_count,
        durable_through: fields.durable_through,
        now: fields.now,
    };
    Ok((header, payload))
}

fn checksum(fixed: &[u8; HEADER], payload: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(fixed), payload)
}

#[cfg(test)]
mod tests;
