//! A clock that tests can move: the machine's own, and an offset that only grows.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dwell_core::Timestamp;
use dwell_server::MovableClock;
use dwell_store_embedded::clock::{Clock, SystemClock};

/// The machine's clock, moved ahead.
#[derive(Debug, Default)]
pub(super) struct DevClock {
    system: SystemClock,
    ahead: AtomicU64,
}

impl Clock for DevClock {
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

impl MovableClock for DevClock {
    fn advance(&self, millis: u64) {
        self.ahead.fetch_add(millis, Ordering::SeqCst);
    }
}

/// The clock of a store in Redis: the engine's own, moved ahead for this server alone.
pub(super) struct RedisClock(pub(super) Arc<dwell_store_redis::Clock>);

impl MovableClock for RedisClock {
    fn advance(&self, millis: u64) {
        self.0.advance(millis);
    }
}
