//! The shelf: jobs that wait for long, in files instead of memory.
//!
//! Runs ([`crate::format::run`]) are made of jobs that the engine has collected ([`fold`]), merged into larger ones
//! ([`merge`]), and read for the engine ([`read`]), which never reads a file itself. Which jobs of a run are no more is
//! in a set beside it. A [`View`] is all of them at one moment; it never changes, the engine gets another one.

pub(crate) mod fold;
pub(crate) mod merge;
pub(crate) mod read;
pub(crate) mod shelver;

use std::sync::Arc;

use roaring::RoaringBitmap;

use crate::format::run::{self, Run, RunError};

/// Jobs, or entries of tables, that the shelf's thread writes before others may go first.
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
pub(crate) struct Shelved {
    pub(crate) run: Arc<Run>,
    pub(crate) dead: Arc<RoaringBitmap>,
    /// The stamp of the file that says so; there is none where all jobs are there.
    pub(crate) stamp: Option<u64>,
}

impl Shelved {
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

/// A place of a run that cannot be read: what is there stays, and nothing else suffers from it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BadPlace {
    pub(crate) run: u64,
    /// Where it is and what is wrong, for people.
    pub(crate) told: String,
}

impl BadPlace {
    /// Bytes of what is told, at the most.
    pub(crate) const MOST: usize = 512;

    pub(crate) fn new(run: u64, what: &str, error: &RunError) -> Self {
        let mut told = format!("{}, {what}: {error}", run::name(run));
        told.truncate(told.floor_char_boundary(Self::MOST));
        Self { run, told }
    }
}

/// All runs at one moment.
#[derive(Clone, Default)]
pub(crate) struct View {
    pub(crate) runs: Vec<Shelved>,
}

impl View {
    /// False if there is surely no job of this hash.
    pub(crate) fn may_have(&self, hash: u64) -> bool {
        self.runs.iter().any(|shelved| shelved.run.may_have(hash))
    }
}

#[cfg(test)]
mod tests;
