//! How an embedded store is set up.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use dwell_core::{Defaults, limits};

use crate::clock::{Clock, SystemClock};
use crate::format::frame::PAGE;
use crate::format::key::Lane;
use crate::storage::{MemoryStorage, Storage};

/// Segments are at most one of so many parts of the memory for jobs.
const SEGMENT_SHARE_OF_MEMORY: u64 = 8;
/// Bytes of a segment at the least: each is a file, and a sync when it is begun.
const SMALLEST_SEGMENT: u64 = 128 << 10;

/// How an embedded store is set up. [`Config::in_directory`] and [`Config::in_memory`] are the usual beginnings.
#[derive(Clone)]
pub struct Config {
    /// Where jobs are kept.
    pub place: Place,
    /// What an answered success survives.
    pub durability: Durability,
    /// What holds where neither job nor topic says.
    pub defaults: Defaults,
    /// How many topics there may be.
    pub max_topics: usize,
    /// Bytes of memory jobs may take. Those that wait for long leave it for the cold tier; without one, puts past it are
    /// refused with `storage_full`, and nothing else is. [`Config::with_memory`] sets it.
    pub memory: usize,
    /// Whether jobs that wait for long leave memory.
    pub cold_tier: bool,
    /// Bytes of journal that are enough: what is older goes to the cold tier.
    #[doc(hidden)]
    pub tail: u64,
    /// Bytes of a block of the cold tier: what is read to find one job.
    #[doc(hidden)]
    pub block: usize,
    /// How many priorities of a topic have a lane of their own in the cold tier; the rest share one.
    #[doc(hidden)]
    pub lanes: usize,
    /// Bytes of one journal segment, whole pages.
    pub segment: u64,
    /// Start even though the wall clock is more than an hour behind what the store has seen.
    pub accept_clock: bool,
    /// Where the time comes from.
    pub clock: Arc<dyn Clock>,
    /// What all chance comes from; the system's own if there is none. Only simulators have one.
    #[doc(hidden)]
    pub seed: Option<u64>,
}

/// Where jobs are kept.
#[derive(Clone)]
pub enum Place {
    /// In files of this directory, which belongs to one process at a time.
    Directory(PathBuf),
    /// Behind this door: memory, or something a test has made up.
    Storage(Arc<dyn Storage>),
}

/// What an answered success survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// A power cut: success is answered after the change is synced to disk.
    Sync,
    /// A crash of the process; a power cut loses at most what came in this long before it.
    Interval(Duration),
    /// A crash of the process; a power cut loses what the system had not written by itself.
    None,
}

impl Config {
    /// A store in a directory, with everything as it is unless said otherwise.
    pub fn in_directory(directory: impl Into<PathBuf>) -> Self {
        Self::at(Place::Directory(directory.into()))
    }

    /// A store that is gone when the process is.
    pub fn in_memory() -> Self {
        let config = Self::at(Place::Storage(Arc::new(MemoryStorage::default())));
        Self { durability: Durability::None, cold_tier: false, memory: 1 << 30, ..config }
    }

    /// The same with so much memory for jobs, and segments that suit it: what is in the newest one cannot leave memory yet.
    #[must_use]
    pub fn with_memory(self, memory: usize) -> Self {
        let share = (memory as u64 / SEGMENT_SHARE_OF_MEMORY).next_multiple_of(PAGE as u64).max(SMALLEST_SEGMENT);
        Self { memory, segment: self.segment.min(share), ..self }
    }

    fn at(place: Place) -> Self {
        Self {
            place,
            durability: Durability::Sync,
            defaults: Defaults::default(),
            max_topics: limits::DEFAULT_MAX_TOPICS,
            memory: 256 << 20,
            cold_tier: true,
            tail: 64 << 20,
            block: 32 << 10,
            lanes: Lane::OWN,
            segment: 16 << 20,
            accept_clock: false,
            clock: Arc::new(SystemClock::default()),
            seed: None,
        }
    }
}
