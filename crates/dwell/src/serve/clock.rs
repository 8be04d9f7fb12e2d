//! The clock of `dwell dev`: the machine's own, and an offset that only grows.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dwell_core::Timestamp;
use dwell_store_embedded::clock::{Clock, SystemClock};

/// The machine's clock, moved ahead.
#[derive(Debug, Default)]
pub(super) struct RunningClock {
    system: SystemClock,
    ahead: AtomicU64,
}

impl RunningClock {
    pub(super) fn advance(&self, millis: u64) {
        self.ahead.fetch_add(millis, Ordering::SeqCst);
    }
}

impl Clock for RunningClock {
    fn wall(&self) -> Timestamp {
        self.system.wall().plus(self.ahead.load(Ordering::SeqCst))
    }

    fn monotonic(&self) -> Duration {
        self.system.monotonic() + Duration::from_millis(self.ahead.load(Ordering::SeqCst))
    }

    fn real(&self) -> Duration {
        self.system.real()
    }
}
