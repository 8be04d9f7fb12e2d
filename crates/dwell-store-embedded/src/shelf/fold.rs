//! Folding: jobs that the engine has collected become a run, and what has died since is noted in the sets of all runs.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use dwell_core::{Number, Timestamp, Version, limits};
use roaring::RoaringBitmap;

use super::read::ordinal_of;
use super::{Shelved, View};
use crate::format::key::{Key, Lane, Place, Slice};
use crate::format::run::{self, Run, RunError, RunWriter, id_hash};
use crate::storage::Storage;

/// Bytes of a run for each of its jobs beside the record: in both tables and the filter.
const A_JOB: usize = 40;

/// Bytes of a run beside all that.
const A_RUN: usize = 16 << 10;

/// What is to go onto the shelf, and what is no longer there.
#[derive(Default)]
pub(crate) struct Fold {
    /// Jobs, in no order: where they stand, and where their record is.
    pub(crate) jobs: Vec<(Key, std::ops::Range<usize>)>,
    /// All records.
    pub(crate) records: Vec<u8>,
    /// Copies that are no more.
    pub(crate) deaths: Vec<(Number, Version)>,
    /// Whole stretches that are no more.
    pub(crate) purges: Vec<Stretch>,
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

impl Fold {
    /// Bytes that the run is reckoned to take, or a little more.
    pub(crate) fn reckoned(&self) -> u64 {
        if self.jobs.is_empty() { 0 } else { (self.records.len() * 9 / 8 + self.jobs.len() * A_JOB + A_RUN) as u64 }
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
            let id = crate::format::record::id_of(record);
            ids.push((id_hash(key.slice.topic, id), ordinal));
            numbers.push((key.number.get(), ordinal));
        }
        writer.finish_with(ids, numbers).map(|run| Some(Arc::new(run)))
    }

    /// Notes deaths and purges; what was purged.
    pub(crate) fn absorb(&mut self, view: &mut View) -> Result<Purged, RunError> {
        self.deaths.sort_unstable();
        let mut purged = Purged::default();
        for shelved in &mut view.runs {
            let mut dead = RoaringBitmap::clone(&shelved.dead);
            self.bury(shelved, &mut dead)?;
            for stretch in &self.purges {
                purge(shelved, stretch, &mut dead, &mut purged)?;
            }
            if dead != *shelved.dead {
                shelved.dead = Arc::new(dead);
                shelved.stamp = None;
            }
        }
        Ok(purged)
    }

    /// Finds the copies that are no more.
    fn bury(&self, shelved: &Shelved, dead: &mut RoaringBitmap) -> Result<(), RunError> {
        let numbers: Vec<u64> = self.deaths.iter().map(|(number, _)| number.get()).collect();
        let mut found = shelved.run.find_numbers(&numbers)?;
        found.sort_unstable_by_key(|(_, ordinal)| *ordinal);
        let mut block = None;
        for (death, ordinal) in found {
            if dead.contains(ordinal) {
                continue;
            }
            let at = shelved.run.block_of(ordinal);
            let block = match &mut block {
                Some((of, block)) if *of == at => block,
                other => &mut other.insert((at, shelved.run.block(at)?)).1,
            };
            let Some(entry) = block.by_ordinal(ordinal) else { continue };
            if run::look(entry.record)?.version == self.deaths[death].1 {
                dead.insert(ordinal);
            }
        }
        Ok(())
    }
}

fn purge(shelved: &Shelved, stretch: &Stretch, dead: &mut RoaringBitmap, purged: &mut Purged) -> Result<(), RunError> {
    let begin = ordinal_of(shelved, &Key::new(stretch.slice, stretch.from))?;
    let end = ordinal_of(shelved, &Key::new(stretch.slice, stretch.end))?;
    let mut ordinal = begin;
    while ordinal < end {
        let at = shelved.run.block_of(ordinal);
        let block = shelved.run.block(at)?;
        let until = end.min(shelved.run.end_of(at));
        for ordinal in ordinal..until {
            if let Some(entry) = block.by_ordinal(ordinal)
                && dead.insert(ordinal)
            {
                *purged.entry(minute(entry.key.due_at)).or_default() += u64::from(entry.key.slice.lane != Lane::BURIED);
            }
        }
        ordinal = until;
    }
    Ok(())
}

fn minute(at: Timestamp) -> u64 {
    at.as_millis() / limits::MINUTE
}
