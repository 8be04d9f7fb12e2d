//! The time of a store under test.

use std::sync::atomic::{AtomicU64, Ordering};

use dwell_core::Timestamp;
use tokio::sync::watch;
use tokio::time::Instant;

/// Moves the time of a store under test. Every store reads its engine's time plus an offset, which is zero in
/// production; this sets the offset.
pub trait TestClock: Send + Sync {
    /// Moves the store's time on.
    fn advance(&self, millis: u64);

    /// Whether time moves by [`TestClock::advance`] alone. If not, an engine's own clock runs on between two calls,
    /// and the suite allows for it.
    fn is_frozen(&self) -> bool;
}

/// A clock made up for a test: it stands still until it is moved, or runs on by itself as an engine's would.
#[derive(Debug)]
pub struct FakeClock {
    offset: AtomicU64,
    running_since: Option<Instant>,
    moved: watch::Sender<()>,
}

/// Where fake clocks begin: 2026-01-01T00:00:00Z.
const START: u64 = 1_767_225_600_000;

impl FakeClock {
    /// A clock that stands still.
    pub fn frozen() -> Self {
        Self { offset: AtomicU64::new(START), running_since: None, moved: watch::Sender::new(()) }
    }

    /// A clock that runs.
    pub fn running() -> Self {
        Self { running_since: Some(Instant::now()), ..Self::frozen() }
    }

    /// The time it shows.
    pub fn now(&self) -> Timestamp {
        let run = self.running_since.map_or(0, |since| u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX));
        let shown = self.offset.load(Ordering::SeqCst).saturating_add(run);
        Timestamp::from_millis(shown).expect("tests end before the year 9999")
    }

    /// Tells whoever holds the receiver of every move.
    pub fn moves(&self) -> watch::Receiver<()> {
        self.moved.subscribe()
    }
}

impl TestClock for FakeClock {
    fn advance(&self, millis: u64) {
        self.offset.fetch_add(millis, Ordering::SeqCst);
        self.moved.send_replace(());
    }

    fn is_frozen(&self) -> bool {
        self.running_since.is_none()
    }
}
