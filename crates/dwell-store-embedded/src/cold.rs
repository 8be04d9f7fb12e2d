//! The cold tier: waiting jobs in files instead of memory. It is a small LSM tree.
//!
//! # Nouns
//!
//! - A **run** is an SSTable: a sorted file of jobs that never changes ([`crate::format::run`]). It has blocks, a sparse index, a
//!   Bloom filter over ids, and hash tables from id and number to row.
//! - A **row** is one copy of a job in a run. Its **key** is topic, push queue (*line*), priority list (*lane*), due time and number.
//! - A **slice** is all rows of one topic, line and lane: the unit that is counted, prefetched and looked through.
//! - A **tombstone** marks a row as deleted. The tombstones of a run are a Roaring bitmap in a file beside it. Tombstones that
//!   no file has yet are *pending*: the engine keeps them per slice, and the journal has a record of each.
//! - A **view** is all runs with their tombstones at one moment. It never changes; the engine gets a new one.
//!
//! # Owners
//!
//! - The engine thread decides what is flushed, counts slices, keeps pending tombstones, and reads no file.
//! - The compactor thread ([`compactor`]) alone writes runs and tombstone files: flushes ([`flush`]) first, compaction
//!   ([`merge`]) when nothing else is to be done.
//! - The reader thread answers the engine's read requests from a view ([`reader`]).
//! - The journal thread writes the manifest, which alone says which runs exist.
//!
//! # The flow of a flush
//!
//! 1. The engine walks over its slots, a few at a time. A job in an old journal segment is either logged again (it is leased or
//!    soon due) or collected: its record is copied and its slot is marked as *flushing*.
//! 2. The compactor writes the collected jobs as a run, sets the pending tombstones in all runs, and syncs.
//! 3. The engine waits until every record up to the flush's sequence is durable in the journal.
//! 4. A new manifest names the run and lets go of the old segments in one step, with a file of all topics and counts.
//! 5. The engine installs the view: flushing jobs are now *cold*, and those not needed soon are evicted from memory.
//!
//! # Why no job is lost or doubled
//!
//! - A job's newest copy is in the journal or in a run, never in both: step 4 is atomic.
//! - The first change to a cold job is logged whole, in one frame with its tombstone.
//! - A tombstone for a row of a flush that is still under way names the flush by its sequence, and a start ignores it unless that
//!   flush was installed. No two flushes have the same sequence.
//! - A flush that fails is undone: its jobs are still in memory and in the journal.

pub(crate) mod compactor;
pub(crate) mod flush;
pub(crate) mod merge;
pub(crate) mod reader;

use std::sync::Arc;

use roaring::RoaringBitmap;

use crate::format::run::{self, Run, RunError};

/// Jobs, or entries of tables, that the compactor's thread writes before others may go first.
const JOBS_AT_ONCE: u32 = 64;

/// Lets others go first, now and then. Without it the system lets a thread that never waits have its core for
/// milliseconds, though one that goes before it has woken up.
fn stand_back(done: u32) {
    if done.is_multiple_of(JOBS_AT_ONCE) {
        std::thread::yield_now();
    }
}

/// A run, and which of its jobs are no more.
#[derive(Clone)]
pub(crate) struct LiveRun {
    pub(crate) run: Arc<Run>,
    pub(crate) dead: Arc<RoaringBitmap>,
    /// The stamp of the file that says so; there is none where all jobs are there.
    pub(crate) stamp: Option<u64>,
}

impl LiveRun {
    /// How many of its jobs are still there.
    pub(crate) fn live(&self) -> u64 {
        u64::from(self.run.entries) - self.dead.len()
    }

    /// Whether all jobs of a block are no more.
    pub(crate) fn is_dead(&self, block: usize) -> bool {
        let (first, end) = (self.run.index[block].first, self.run.end_of(block));
        self.dead.range_cardinality(first..end) == u64::from(end - first)
    }
}

/// A damaged part of a run: its rows stay, and all others are served.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BadPlace {
    pub(crate) run: u64,
    /// The file, the part and the error, as the status shows them.
    pub(crate) told: String,
}

impl BadPlace {
    /// Bytes of that text, at the most.
    pub(crate) const MAX_TEXT: usize = 512;

    pub(crate) fn new(run: u64, what: &str, error: &RunError) -> Self {
        let mut told = format!("{}, {what}: {error}", run::name(run));
        told.truncate(told.floor_char_boundary(Self::MAX_TEXT));
        Self { run, told }
    }
}

/// All runs at one moment.
#[derive(Clone, Default)]
pub(crate) struct View {
    pub(crate) runs: Vec<LiveRun>,
}

impl View {
    /// False if there is surely no job of this hash.
    pub(crate) fn may_have(&self, hash: u64) -> bool {
        self.runs.iter().any(|live_run| live_run.run.may_have(hash))
    }
}

#[cfg(test)]
mod tests;
