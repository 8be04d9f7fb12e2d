//! A clock that stands still until it is moved.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dwell_core::Timestamp;
use dwell_server::MovableClock;
use dwell_store_embedded::clock::{Clock, SystemClock};

#[derive(Debug)]
pub(crate) struct HandClock {
    start: Timestamp,
    ahead: AtomicU64,
    /// How long consumers really wait.
    system: SystemClock,
}

impl HandClock {
    pub(crate) fn new(start: Timestamp) -> Self {
        Self { start, ahead: AtomicU64::new(0), system: SystemClock::default() }
    }
}

impl Clock for HandClock {
    fn wall(&self) -> Timestamp {
        self.start.plus(self.ahead.load(Ordering::SeqCst))
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.ahead.load(Ordering::SeqCst))
    }

    fn real(&self) -> Duration {
        self.system.real()
    }
}

impl MovableClock for HandClock {
    fn advance(&self, millis: u64) {
        self.ahead.fetch_add(millis, Ordering::SeqCst);
    }
}
