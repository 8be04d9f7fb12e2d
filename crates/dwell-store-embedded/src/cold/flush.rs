//! The compactor's half of a flush: writes the collected jobs as a run and sets tombstones in all runs.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use dwell_core::{Number, Timestamp, Version, limits};
use roaring::RoaringBitmap;

use super::{BadPlace, LiveRun, View, stand_back};
use crate::format::key::{Key, Lane, Place, Slice};
use crate::format::run::{self, Block, Run, RunError, RunWriter, id_hash};
use crate::storage::Storage;

/// Bytes of a run for each of its jobs beside the record: in both tables and the filter.
const ENTRY_BYTES: usize = 40;

/// Bytes of a run beside all that.
pub(super) const RUN_BYTES: u64 = 16 << 10;

/// What is to go to the cold tier, and what is no longer there.
#[derive(Default)]
pub(crate) struct Flush {
    /// Jobs, in no order: where they stand, and where their record is.
    pub(crate) jobs: Vec<(Key, std::ops::Range<usize>)>,
    /// All records.
    pub(crate) records: Vec<u8>,
    /// Copies that are no more.
    pub(crate) tombstones: Vec<(Number, Version)>,
    /// Whole ranges that are no more.
    pub(crate) purges: Vec<Stretch>,
    /// Whether it may take the room that is kept: one that is small enough to give back what it takes.
    pub(crate) may_spend: bool,
}

/// What of a slice lies between two places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) slice: Slice,
    pub(crate) from: Place,
    /// Not this one, and nothing after it.
    pub(crate) end: Place,
}

/// How many of those that were purged had been due in each minute, buried ones not counted.
pub(crate) type Purged = BTreeMap<u64, u64>;

impl Flush {
    /// Bytes that the run is reckoned to take, or a little more.
    pub(crate) fn reckoned(&self) -> u64 {
        if self.jobs.is_empty() {
            0
        } else {
            (self.records.len() * 9 / 8 + self.jobs.len() * ENTRY_BYTES) as u64 + RUN_BYTES
        }
    }

    /// Makes a run of the jobs, if there are any.
    pub(crate) fn write(&mut self, storage: &dyn Storage, run: u64, block: usize) -> io::Result<Option<Arc<Run>>> {
        if self.jobs.is_empty() {
            return Ok(None);
        }
        self.jobs.sort_unstable_by_key(|(key, _)| *key);
        let mut writer = RunWriter::create(storage, run, block)?;
        let mut ids = Vec::with_capacity(self.jobs.len());
        let mut numbers = Vec::with_capacity(self.jobs.len());
        for (key, record) in &self.jobs {
            let record = &self.records[record.clone()];
            let ordinal = writer.add(*key, record)?;
            stand_back(ordinal);
            let id = crate::format::record::id_of(record);
            ids.push((id_hash(key.slice.topic, id), ordinal));
            numbers.push((key.number.get(), ordinal));
        }
        writer.finish_with(ids, numbers).map(|run| Some(Arc::new(run)))
    }

    /// Notes tombstones and purges, in runs of which the first so many were there before. Damage in one of those holds
    /// nothing up: what cannot be read cannot come back either.
    pub(crate) fn apply_tombstones(&mut self, view: &mut View, older: usize) -> Result<AppliedTombstones, RunError> {
        self.tombstones.sort_unstable();
        let mut absorbed = AppliedTombstones::default();
        for (place, live_run) in view.runs.iter_mut().enumerate() {
            let mut dead = RoaringBitmap::clone(&live_run.dead);
            let mut blocks = Blocks { live_run, last: None, bad: (place < older).then_some(&mut absorbed.bad) };
            self.bury(&mut blocks, &mut dead)?;
            for range in &self.purges {
                purge(&mut blocks, range, &mut dead, &mut absorbed.purged)?;
            }
            if dead != *live_run.dead {
                live_run.dead = Arc::new(dead);
                live_run.stamp = None;
            }
        }
        Ok(absorbed)
    }

    /// Finds the copies that are no more.
    fn bury(&self, blocks: &mut Blocks<'_>, dead: &mut RoaringBitmap) -> Result<(), RunError> {
        let numbers: Vec<u64> = self.tombstones.iter().map(|(number, _)| number.get()).collect();
        let mut found = match blocks.live_run.run.find_numbers(&numbers) {
            Err(RunError::Damaged(damage)) => {
                blocks.note("a table", RunError::Damaged(damage))?;
                blocks.find_numbers(&numbers)?
            }
            found => found?,
        };
        found.sort_unstable_by_key(|(_, ordinal)| *ordinal);
        for (death, ordinal) in found {
            if dead.contains(ordinal) {
                continue;
            }
            let at = blocks.live_run.run.block_of(ordinal);
            let is_it = match blocks.read(at)? {
                // Of its copies only this one has been true of late.
                None => true,
                Some(block) => match block.by_ordinal(ordinal) {
                    Some(entry) => run::look(entry.record)?.version == self.tombstones[death].1,
                    None => false,
                },
            };
            if is_it {
                dead.insert(ordinal);
            }
        }
        Ok(())
    }
}

/// What became of tombstones and purges.
#[derive(Default)]
pub(crate) struct AppliedTombstones {
    pub(crate) purged: Purged,
    /// What could not be read.
    pub(crate) bad: Vec<BadPlace>,
}

/// The blocks of one run.
struct Blocks<'a> {
    live_run: &'a LiveRun,
    /// The one that was read last, with its place: the next job is often in the same one. None, if it is damaged.
    last: Option<(usize, Option<Block>)>,
    /// Where damage is noted, if it may be there.
    bad: Option<&'a mut Vec<BadPlace>>,
}

impl Blocks<'_> {
    /// Reads a block; nothing, if it is damaged.
    fn read(&mut self, at: usize) -> Result<Option<&Block>, RunError> {
        if self.last.as_ref().is_none_or(|(of, _)| *of != at) {
            let block = match self.live_run.run.block(at) {
                Ok(block) => Some(block),
                Err(error) => {
                    self.note(&format!("block {at}"), error)?;
                    None
                }
            };
            self.last = Some((at, block));
        }
        Ok(self.last.as_ref().and_then(|(_, block)| block.as_ref()))
    }

    fn note(&mut self, what: &str, error: RunError) -> Result<(), RunError> {
        match (&error, &mut self.bad) {
            (RunError::Damaged(_), Some(bad)) => bad.push(BadPlace::new(self.live_run.run.number, what, &error)),
            _ => return Err(error),
        }
        Ok(())
    }

    /// Finds jobs by their numbers, which come in order, without the table of numbers.
    fn find_numbers(&mut self, numbers: &[u64]) -> Result<Vec<(usize, u32)>, RunError> {
        let mut found = Vec::new();
        for at in 0..self.live_run.run.index.len() {
            let Some(block) = self.read(at)? else { continue };
            for entry in (0..).map_while(|place| block.get(place)) {
                let place = numbers.binary_search(&entry.key.number.get()).ok();
                found.extend(place.map(|place| (place, entry.ordinal)));
            }
        }
        Ok(found)
    }

    /// How many jobs come before this key; those of a damaged block do not, if it is in the middle of one.
    fn before(&mut self, key: &Key) -> Result<u32, RunError> {
        let run = &self.live_run.run;
        let at = run.block_from(key);
        let Some(block) = run.index.get(at) else { return Ok(0) };
        if *key <= block.first_key {
            return Ok(block.first);
        }
        let first = block.first;
        let place = self.read(at)?.map_or(0, |block| block.place_of(key));
        Ok(first + u32::try_from(place).expect("blocks are small"))
    }
}

/// Notes that a range is no more. What of it is damaged stays: when it was due cannot be told.
fn purge(
    blocks: &mut Blocks<'_>,
    range: &Stretch,
    dead: &mut RoaringBitmap,
    purged: &mut Purged,
) -> Result<(), RunError> {
    let begin = blocks.before(&Key::new(range.slice, range.from))?;
    let end = blocks.before(&Key::new(range.slice, range.end))?;
    let mut ordinal = begin;
    while ordinal < end {
        let at = blocks.live_run.run.block_of(ordinal);
        let until = end.min(blocks.live_run.run.end_of(at));
        if let Some(block) = blocks.read(at)? {
            for entry in (ordinal..until).filter_map(|ordinal| block.by_ordinal(ordinal)) {
                if dead.insert(entry.ordinal) {
                    let waits = entry.key.slice.lane != Lane::BURIED;
                    *purged.entry(minute(entry.key.due_at)).or_default() += u64::from(waits);
                }
            }
        }
        ordinal = until;
    }
    Ok(())
}

fn minute(at: Timestamp) -> u64 {
    at.as_millis() / limits::MINUTE
}
