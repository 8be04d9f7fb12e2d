//! The time by which leases end.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dwell_core::{Store, Timestamp};
use tokio::time::Instant;

/// How far the store's time has come, on a scale of instants. It goes with the machine's, unless it can be moved: then
/// it may stand still or jump, and only the store can tell.
#[derive(Debug)]
pub(super) struct StoreTime {
    start: Instant,
    can_be_moved: bool,
    first: OnceLock<Timestamp>,
    /// Milliseconds from the first to the last that the store told.
    passed: AtomicU64,
}

impl StoreTime {
    pub(super) fn new(can_be_moved: bool) -> Self {
        Self { start: Instant::now(), can_be_moved, first: OnceLock::new(), passed: AtomicU64::new(0) }
    }

    pub(super) fn can_be_moved(&self) -> bool {
        self.can_be_moved
    }

    /// Where it is now. Not to be compared with the machine's.
    pub(super) async fn now(&self, store: &dyn Store) -> Instant {
        if !self.can_be_moved {
            return Instant::now();
        }
        // A store that does not answer now has told before, and will say itself what is wrong.
        if let Ok(status) = store.status().await {
            let first = self.first.get_or_init(|| status.now);
            self.passed.fetch_max(status.now.as_millis().saturating_sub(first.as_millis()), Ordering::SeqCst);
        }
        self.start + Duration::from_millis(self.passed.load(Ordering::SeqCst))
    }
}
