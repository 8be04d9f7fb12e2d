//! Runs: the files of the cold tier. Each holds jobs sorted by [`Key`], never changes once it is written, and is complete
//! or not there.
//!
//! ```text
//! header │ blocks │ ids: pages │ numbers: pages │ filter │ index │ fences of ids │ fences of numbers │ trailer
//!
//! header:  magic u32 │ version u16 │ 0 u16 │ run u64
//! block:   crc u32 │ entries u32 │ (line u16, lane u8, length, record) …
//! index:   (first key, offset u64, length u32, first ordinal u32) …
//! trailer: the header once more │ entries u32 │ 0 u32 │ (offset u64, length u64, crc u32) of each part │ crc u32
//! ```
//!
//! A job is known within a run by its ordinal: how many come before it. Ids are found by a hash of topic and id
//! ([`id_hash`]), numbers by themselves ([`super::table`]); the filter knows which hashes there may be. Blocks and pages
//! carry their own checksums and are read when they are needed; everything from the filter on is read when the run is
//! opened.

mod block;

use std::io;
use std::sync::Arc;

use super::bloom_filter::Filter;
use super::bytes::{Damage, Reader, put_u16, put_u32, put_u64, put_varint};
use super::key::Key;
use super::record::TopicId;
use super::table::{self, Table, TablePages};
use super::{VERSION, numbered_name, parse_numbered_name};
use crate::sim_bugs::{self, Bug};
use crate::storage::{Storage, StoredFile};

pub(crate) use block::{Block, blocks_in_a_row, look};

/// What the names of these files begin with; the run's number in 16 hexadecimal digits follows.
pub(crate) const PREFIX: &str = "run-";

const MAGIC: u32 = u32::from_le_bytes(*b"DwRn");
const HEADER: usize = 16;
/// Blocks, ids, numbers, filter, index, fences of ids, fences of numbers.
const PARTS: usize = 7;
const TRAILER: usize = HEADER + 8 + PARTS * 20 + 4;
/// Crc and number of entries.
const BLOCK_HEADER: usize = 8;

/// Bytes written at a time, and synced, so that nobody's sync has to wait for much of it.
const STEP: usize = 256 << 10;

/// The name of a run's file.
pub(crate) fn name(run: u64) -> String {
    numbered_name(PREFIX, run)
}

/// The run in a name that [`name`] made.
pub(crate) fn parse_name(name: &str) -> Option<u64> {
    parse_numbered_name(PREFIX, name)
}

/// What a job is found by under its id. Kept in files: fixed for ever.
pub(crate) fn id_hash(topic: TopicId, id: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(id, topic.0.into())
}

/// Where a part of the file is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Part {
    offset: u64,
    length: u64,
    /// Of its bytes; 0 where parts of it have their own.
    crc: u32,
}

/// Where a block is, and what comes first in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockAt {
    pub(crate) first_key: Key,
    offset: u64,
    length: u32,
    /// The ordinal of its first job.
    pub(crate) first: u32,
}

/// Writes a run from front to back: first jobs, then ids, then numbers, each in order.
pub(crate) struct RunWriter {
    file: Arc<dyn StoredFile>,
    run: u64,
    block_size: usize,
    /// What has not been written yet.
    buffer: Vec<u8>,
    /// Where in the file the buffer goes.
    offset: u64,
    block: Vec<u8>,
    in_block: u32,
    first_key: Option<Key>,
    entries: u32,
    index: Vec<BlockAt>,
    parts: [Part; PARTS],
}

impl RunWriter {
    /// Begins the file of a run. Blocks are ended when they have so many bytes.
    pub(crate) fn create(storage: &dyn Storage, run: u64, block_size: usize) -> io::Result<Self> {
        let mut writer = Self {
            file: storage.create(&name(run))?,
            run,
            block_size,
            buffer: Vec::with_capacity(STEP + STEP / 4),
            offset: 0,
            block: vec![0; BLOCK_HEADER],
            in_block: 0,
            first_key: None,
            entries: 0,
            index: Vec::new(),
            parts: [Part::default(); PARTS],
        };
        put_header(&mut writer.buffer, run);
        writer.parts[0].offset = HEADER as u64;
        Ok(writer)
    }

    fn position(&self) -> u64 {
        self.offset + self.buffer.len() as u64
    }

    /// How many bytes there are so far.
    pub(crate) fn len(&self) -> u64 {
        self.position() + self.block.len() as u64
    }

    pub(crate) fn entries(&self) -> u32 {
        self.entries
    }

    /// Adds the record of a job, in the order of keys; its ordinal.
    pub(crate) fn add(&mut self, key: Key, record: &[u8]) -> io::Result<u32> {
        let ordinal = self.entries;
        if self.first_key.is_none() {
            self.first_key = Some(key);
        }
        put_u16(&mut self.block, key.slice.line.index());
        self.block.push(key.slice.lane.index());
        put_varint(&mut self.block, record.len() as u64);
        self.block.extend_from_slice(record);
        self.in_block += 1;
        self.entries = self.entries.checked_add(1).ok_or(io::ErrorKind::FileTooLarge)?;
        if self.block.len() >= self.block_size {
            self.end_block()?;
        }
        Ok(ordinal)
    }

    fn end_block(&mut self) -> io::Result<()> {
        let Some(first_key) = self.first_key.take() else { return Ok(()) };
        let entries = std::mem::take(&mut self.in_block);
        self.block[4..8].copy_from_slice(&entries.to_le_bytes());
        let crc = crc32c::crc32c(&self.block[4..]);
        self.block[..4].copy_from_slice(&crc.to_le_bytes());
        let length = u32::try_from(self.block.len()).map_err(|_| io::ErrorKind::FileTooLarge)?;
        self.index.push(BlockAt { first_key, offset: self.position(), length, first: self.entries - entries });
        self.buffer.extend_from_slice(&self.block);
        self.block.truncate(BLOCK_HEADER);
        self.write_steps()
    }

    fn write_steps(&mut self) -> io::Result<()> {
        if self.buffer.len() >= STEP { self.write_out() } else { Ok(()) }
    }

    fn write_out(&mut self) -> io::Result<()> {
        self.file.write_at(self.offset, &self.buffer)?;
        if !sim_bugs::is(Bug::RunNotSynced) {
            self.file.sync_data()?;
        }
        self.offset += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// All jobs have been added; next come the ids.
    pub(crate) fn end_jobs(&mut self) -> io::Result<TableWriter> {
        self.end_block()?;
        self.parts[0].length = self.position() - self.parts[0].offset;
        Ok(self.begin_table(1))
    }

    fn begin_table(&mut self, part: usize) -> TableWriter {
        self.parts[part].offset = self.position();
        TableWriter { pages: TablePages::new(), part }
    }

    /// Adds an entry to a table, in order.
    pub(crate) fn add_entry(&mut self, table: &mut TableWriter, number: u64, ordinal: u32) -> io::Result<()> {
        let page = table.pages.add(number, ordinal);
        self.add_page(page)
    }

    fn add_page(&mut self, page: Option<Vec<u8>>) -> io::Result<()> {
        if let Some(page) = page {
            self.buffer.extend_from_slice(&page);
            self.write_steps()?;
        }
        Ok(())
    }

    /// All ids have been added; next come the numbers.
    pub(crate) fn end_ids(&mut self, mut ids: TableWriter) -> io::Result<(TableWriter, Vec<u64>)> {
        let page = ids.pages.finish();
        self.add_page(page)?;
        self.parts[ids.part].length = self.position() - self.parts[ids.part].offset;
        Ok((self.begin_table(2), ids.pages.fences))
    }

    /// All numbers have been added: the rest, and everything made durable but the file's name.
    pub(crate) fn finish(mut self, mut numbers: TableWriter, id_fences: Vec<u64>, filter: Filter) -> io::Result<Run> {
        let page = numbers.pages.finish();
        self.add_page(page)?;
        self.parts[numbers.part].length = self.position() - self.parts[numbers.part].offset;
        self.part(3, |out| filter.encode(out))?;
        let index = std::mem::take(&mut self.index);
        self.part(4, |out| index.iter().for_each(|block| put_block_at(out, block)))?;
        let number_fences = numbers.pages.fences;
        self.part(5, |out| table::encode_fences(&id_fences, out))?;
        self.part(6, |out| table::encode_fences(&number_fences, out))?;
        let mut trailer = Vec::with_capacity(TRAILER);
        put_header(&mut trailer, self.run);
        put_u32(&mut trailer, self.entries);
        put_u32(&mut trailer, 0);
        for part in self.parts {
            put_u64(&mut trailer, part.offset);
            put_u64(&mut trailer, part.length);
            put_u32(&mut trailer, part.crc);
        }
        let crc = crc32c::crc32c(&trailer);
        put_u32(&mut trailer, crc);
        self.buffer.extend_from_slice(&trailer);
        self.write_out()?;
        Ok(Run {
            number: self.run,
            file: self.file,
            entries: self.entries,
            bytes: self.offset,
            index,
            ids: Table::new(self.parts[1].offset, id_fences),
            numbers: Table::new(self.parts[2].offset, number_fences),
            filter,
        })
    }

    /// Ends the run after the last job: with the hashes of all ids, and all numbers, each with the job's ordinal.
    pub(crate) fn finish_with(mut self, mut ids: Vec<(u64, u32)>, mut numbers: Vec<(u64, u32)>) -> io::Result<Run> {
        ids.sort_unstable();
        numbers.sort_unstable();
        let mut filter = Filter::for_hashes(ids.len());
        let mut table = self.end_jobs()?;
        for (hash, ordinal) in ids {
            filter.insert(hash);
            self.add_entry(&mut table, hash, ordinal)?;
        }
        let (mut table, fences) = self.end_ids(table)?;
        for (number, ordinal) in numbers {
            self.add_entry(&mut table, number, ordinal)?;
        }
        self.finish(table, fences, filter)
    }

    fn part(&mut self, part: usize, encode: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        let begin = self.buffer.len();
        self.parts[part].offset = self.position();
        encode(&mut self.buffer);
        self.parts[part].length = (self.buffer.len() - begin) as u64;
        self.parts[part].crc = crc32c::crc32c(&self.buffer[begin..]);
        self.write_steps()
    }
}

/// A table of a run being written.
pub(crate) struct TableWriter {
    pages: TablePages,
    part: usize,
}

fn put_header(out: &mut Vec<u8>, run: u64) {
    put_u32(out, MAGIC);
    put_u16(out, VERSION);
    put_u16(out, 0);
    put_u64(out, run);
}

fn check_header(reader: &mut Reader<'_>, run: u64) -> Result<(), Damage> {
    if reader.u32()? != MAGIC {
        return Err(reader.invalid("file type"));
    }
    if (reader.u16()?, reader.u16()?) != (VERSION, 0) {
        return Err(reader.invalid("format version"));
    }
    if reader.u64()? == run { Ok(()) } else { Err(reader.invalid("run")) }
}

fn put_block_at(out: &mut Vec<u8>, block: &BlockAt) {
    block.first_key.encode(out);
    put_u64(out, block.offset);
    put_u32(out, block.length);
    put_u32(out, block.first);
}

/// Bytes of the index a block.
const BLOCK_AT: usize = Key::BYTES + 16;

fn decode_index(reader: &mut Reader<'_>) -> Result<Vec<BlockAt>, Damage> {
    let mut index = Vec::with_capacity(reader.remaining() / BLOCK_AT);
    while !reader.is_empty() {
        let first_key = Key::decode(reader)?;
        index.push(BlockAt { first_key, offset: reader.u64()?, length: reader.u32()?, first: reader.u32()? });
    }
    Ok(index)
}

/// A run that is open.
pub(crate) struct Run {
    /// What it is called by.
    pub(crate) number: u64,
    file: Arc<dyn StoredFile>,
    pub(crate) entries: u32,
    /// Bytes of the file.
    pub(crate) bytes: u64,
    pub(crate) index: Vec<BlockAt>,
    ids: Table,
    numbers: Table,
    filter: Filter,
}

/// Why something of a run cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    /// The system refused.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is not as it was written.
    #[error("{0}")]
    Damaged(Damage),
}

impl From<Damage> for RunError {
    fn from(damage: Damage) -> Self {
        Self::Damaged(damage)
    }
}

impl Run {
    /// Opens a run's file.
    pub(crate) fn open(storage: &dyn Storage, run: u64) -> Result<Self, RunError> {
        let file = storage.open(&name(run))?;
        let bytes = file.len()?;
        check_header(&mut Reader::new(&read(&*file, 0, HEADER as u64)?), run)?;
        let at = bytes.saturating_sub(TRAILER as u64);
        let trailer = read(&*file, at, TRAILER as u64)?;
        let mut reader = Reader::new(&trailer);
        check_header(&mut reader, run)?;
        let (entries, zero) = (reader.u32()?, reader.u32()?);
        let mut parts = [Part::default(); PARTS];
        for part in &mut parts {
            *part = Part { offset: reader.u64()?, length: reader.u64()?, crc: reader.u32()? };
        }
        if zero != 0 || reader.u32()? != crc32c::crc32c(&trailer[..TRAILER - 4]) {
            return Err(reader.invalid("checksum").into());
        }
        let ends = |part: &Part| part.offset.checked_add(part.length);
        if parts.iter().any(|part| ends(part).is_none_or(|end| end > at)) {
            return Err(reader.invalid("part").into());
        }
        let part = |part: usize| -> Result<Vec<u8>, RunError> {
            let Part { offset, length, crc } = parts[part];
            let bytes = read(&*file, offset, length)?;
            if crc32c::crc32c(&bytes) == crc { Ok(bytes) } else { Err(Reader::new(&[]).invalid("checksum").into()) }
        };
        let filter = Filter::decode(&mut Reader::new(&part(3)?))?;
        let index = decode_index(&mut Reader::new(&part(4)?))?;
        let id_fences = table::decode_fences(&mut Reader::new(&part(5)?))?;
        let number_fences = table::decode_fences(&mut Reader::new(&part(6)?))?;
        let ids = Table::new(parts[1].offset, id_fences);
        let numbers = Table::new(parts[2].offset, number_fences);
        Ok(Self { number: run, file, entries, bytes, index, ids, numbers, filter })
    }

    /// False if there is surely no job of this hash.
    pub(crate) fn may_have(&self, hash: u64) -> bool {
        self.filter.may_have(hash)
    }

    /// The ordinals of jobs whose id may have this hash.
    pub(crate) fn find_id(&self, hash: u64) -> Result<Vec<u32>, RunError> {
        self.ids.find(&*self.file, hash)
    }

    /// The ordinals of a number's copies.
    pub(crate) fn find_number(&self, number: u64) -> Result<Vec<u32>, RunError> {
        self.numbers.find(&*self.file, number)
    }

    /// The same for many numbers, which come in order; with each, the place of its number among those asked for.
    pub(crate) fn find_numbers(&self, numbers: &[u64]) -> Result<Vec<(usize, u32)>, RunError> {
        self.numbers.find_many(&*self.file, numbers)
    }

    /// The tables of ids and of numbers, for whoever reads them from front to back.
    pub(crate) fn tables(&self) -> [(&Table, &dyn StoredFile); 2] {
        [(&self.ids, &*self.file), (&self.numbers, &*self.file)]
    }

    /// The block that has this ordinal.
    pub(crate) fn block_of(&self, ordinal: u32) -> usize {
        self.index.partition_point(|block| block.first <= ordinal).saturating_sub(1)
    }

    /// The ordinal of the first job of the block after this one.
    pub(crate) fn end_of(&self, block: usize) -> u32 {
        self.index.get(block + 1).map_or(self.entries, |next| next.first)
    }

    /// The first block that may have this key, or one after it.
    pub(crate) fn block_from(&self, key: &Key) -> usize {
        self.index.partition_point(|block| block.first_key <= *key).saturating_sub(1)
    }

    /// Where a block is in the file.
    pub(crate) fn offset_of(&self, block: usize) -> u64 {
        self.index[block].offset
    }

    /// Reads a block.
    pub(crate) fn block(&self, block: usize) -> Result<Block, RunError> {
        let at = &self.index[block];
        let bytes = read(&*self.file, at.offset, at.length.into())?;
        Ok(Block::decode(bytes, at.first, self.end_of(block) - at.first)?)
    }
}

/// Reads all of these bytes, or says that there are not so many.
fn read(file: &dyn StoredFile, offset: u64, length: u64) -> io::Result<Vec<u8>> {
    // Not allocated before it is known to be there.
    if offset.checked_add(length).is_none_or(|end| file.len().is_ok_and(|bytes| bytes < end)) {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut bytes = vec![0; usize::try_from(length).map_err(|_| io::ErrorKind::FileTooLarge)?];
    if file.read_at(offset, &mut bytes)? == bytes.len() { Ok(bytes) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}
