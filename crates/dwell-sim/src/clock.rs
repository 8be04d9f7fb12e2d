//! A clock that shows what the simulation says.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dwell_core::Timestamp;
use dwell_store_embedded::clock::Clock;

/// Where wall clocks begin: 2026-01-01T00:00:00Z.
const START: u64 = 1_767_225_600_000;

/// The machine's clocks: one that is carried on, one that can be set.
#[derive(Debug)]
pub struct SimClock {
    run: AtomicU64,
    wall: AtomicU64,
}

impl Default for SimClock {
    fn default() -> Self {
        Self { run: AtomicU64::new(0), wall: AtomicU64::new(START) }
    }
}

impl SimClock {
    /// Lets time pass.
    pub fn advance(&self, millis: u64) {
        self.run.fetch_add(millis, Ordering::Relaxed);
        self.wall.fetch_add(millis, Ordering::Relaxed);
    }

    /// Sets the wall clock ahead or back.
    pub fn step_wall(&self, by: i64) {
        let wall = self.wall.load(Ordering::Relaxed);
        // Never before the beginning: a machine that wakes up in another decade is another story.
        self.wall.store(wall.saturating_add_signed(by).max(START / 2), Ordering::Relaxed);
    }

    /// Sets the wall clock right: as far from its beginning as time has run.
    pub fn mend_wall(&self) {
        self.wall.store(START + self.run.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Another clock that shows the same.
    #[must_use]
    pub fn copy(&self) -> Self {
        let same = |time: &AtomicU64| AtomicU64::new(time.load(Ordering::Relaxed));
        Self { run: same(&self.run), wall: same(&self.wall) }
    }

    /// Milliseconds that have passed.
    pub fn run(&self) -> u64 {
        self.run.load(Ordering::Relaxed)
    }
}

impl Clock for SimClock {
    fn wall(&self) -> Timestamp {
        Timestamp::from_millis(self.wall.load(Ordering::Relaxed)).unwrap_or(Timestamp::MAX)
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.run())
    }

    fn real(&self) -> Duration {
        Duration::from_millis(self.run())
    }
}
