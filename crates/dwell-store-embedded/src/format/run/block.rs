//! A block of a run: jobs that lie together, with a checksum of their own.

use super::super::bytes::{Damage, Reader};
use super::super::key::{Key, Slice, line_and_lane};
use super::super::record::{self, RecordHeader, Seen};
use super::HEADER;

/// Jobs that lie together.
pub(crate) struct Block {
    bytes: Vec<u8>,
    jobs: Vec<RecordLocation>,
}

#[derive(Clone, Copy)]
struct RecordLocation {
    key: Key,
    at: u32,
    length: u32,
    ordinal: u32,
}

/// A job in a block.
#[derive(Clone, Copy)]
pub(crate) struct Entry<'a> {
    pub(crate) ordinal: u32,
    pub(crate) key: Key,
    /// Its record.
    pub(crate) record: &'a [u8],
}

impl Block {
    pub(super) fn decode(bytes: Vec<u8>, first: u32, count: u32) -> Result<Self, Damage> {
        let mut reader = Reader::new(&bytes);
        let (crc, entries) = (reader.u32()?, reader.u32()?);
        if crc != crc32c::crc32c(&bytes[4..]) || entries != count {
            return Err(reader.invalid("checksum"));
        }
        let mut jobs = Vec::with_capacity((entries as usize).min(bytes.len()));
        for ordinal in first..first + entries {
            let (line, lane) = line_and_lane(&mut reader)?;
            let length = reader.length(bytes.len())?;
            let at = reader.position();
            let seen = look(reader.take(length)?)?;
            let slice = Slice { topic: seen.topic, line, lane };
            let short = |number: usize| u32::try_from(number).map_err(|_| reader.invalid("length"));
            let key = Key::new(slice, seen.meta.place());
            jobs.push(RecordLocation { key, at: short(at)?, length: short(length)?, ordinal });
        }
        if !reader.is_empty() {
            return Err(reader.invalid("number of entries"));
        }
        Ok(Self { bytes, jobs })
    }

    /// How many jobs there are.
    pub(crate) fn len(&self) -> usize {
        self.jobs.len()
    }

    /// All of them.
    pub(crate) fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        (0..self.jobs.len()).filter_map(|place| self.get(place))
    }

    pub(crate) fn get(&self, place: usize) -> Option<Entry<'_>> {
        let RecordLocation { key, at, length, ordinal } = *self.jobs.get(place)?;
        Some(Entry { ordinal, key, record: &self.bytes[at as usize..][..length as usize] })
    }

    /// The job of this ordinal.
    pub(crate) fn by_ordinal(&self, ordinal: u32) -> Option<Entry<'_>> {
        self.get(ordinal.checked_sub(self.jobs.first()?.ordinal)? as usize)
    }

    /// The place in the block of the first job at or after this key.
    pub(crate) fn place_of(&self, key: &Key) -> usize {
        self.jobs.partition_point(|job| job.key < *key)
    }
}

/// The blocks of a run from its beginning on, as far as they can be read, without its index.
pub(crate) fn blocks_in_a_row(file: &[u8]) -> Vec<Block> {
    let mut blocks = Vec::new();
    let (mut at, mut first) = (HEADER, 0);
    while let Some(length) = block_length(&file[at.min(file.len())..]) {
        let bytes = file[at..at + length].to_vec();
        let count = u32::from_le_bytes(bytes[4..8].try_into().expect("four bytes"));
        let Ok(block) = Block::decode(bytes, first, count) else { break };
        (at, first) = (at + length, first + count);
        blocks.push(block);
    }
    blocks
}

/// How long a block is that begins here, as far as its entries say.
fn block_length(bytes: &[u8]) -> Option<usize> {
    let mut reader = Reader::new(bytes);
    let (_, entries) = (reader.u32().ok()?, reader.u32().ok()?);
    for _ in 0..entries {
        line_and_lane(&mut reader).ok()?;
        let length = reader.length(reader.remaining()).ok()?;
        reader.take(length).ok()?;
    }
    (entries > 0).then_some(reader.position())
}

/// Looks at a whole record, which must be that of a job with its body.
pub(crate) fn look(record: &[u8]) -> Result<RecordHeader<'_>, Damage> {
    let mut reader = Reader::new(record);
    match record::see(&mut reader, &|_| None)? {
        Seen::Job(seen) if reader.is_empty() && seen.body == record::BodyPart::Here => Ok(seen),
        _ => Err(reader.invalid("record")),
    }
}
