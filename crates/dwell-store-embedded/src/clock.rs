//! The clocks a store reads. Production has one; tests and simulations bring their own.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use dwell_core::Timestamp;

/// Where the time comes from.
pub trait Clock: Send + Sync + 'static {
    /// What the wall clock says. It may be wrong, and it may be set.
    fn wall(&self) -> Timestamp;

    /// What carries the store's timeline between two looks at the wall clock. It never falls.
    fn monotonic(&self) -> Duration;

    /// What waiting consumers go by: real time, also where the timeline is made up.
    fn real(&self) -> Duration;

    /// Whether the timeline moves by hand alone. Then it is never compared with the wall clock, and a start goes on
    /// from what the store had reached, however far that is ahead.
    fn is_set_by_hand(&self) -> bool {
        false
    }
}

/// The machine's own clocks.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    begun: Instant,
}

impl Default for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is where the time comes from")]
    fn default() -> Self {
        Self { begun: Instant::now() }
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is where the time comes from")]
    fn wall(&self) -> Timestamp {
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let millis = u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX);
        Timestamp::from_millis(millis).unwrap_or(Timestamp::MAX)
    }

    fn monotonic(&self) -> Duration {
        self.begun.elapsed()
    }

    fn real(&self) -> Duration {
        self.begun.elapsed()
    }
}

/// A clock that stands still until it is moved: for tests of applications.
#[derive(Debug)]
pub struct HandClock {
    start: Timestamp,
    ahead: AtomicU64,
    system: SystemClock,
}

impl HandClock {
    /// Stands at `start`.
    pub fn new(start: Timestamp) -> Self {
        Self { start, ahead: AtomicU64::new(0), system: SystemClock::default() }
    }

    /// Moves it on.
    pub fn advance(&self, millis: u64) {
        self.ahead.fetch_add(millis, Ordering::SeqCst);
    }
}

impl Default for HandClock {
    /// Stands at what the machine's clock says now.
    fn default() -> Self {
        Self::new(SystemClock::default().wall())
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

    fn is_set_by_hand(&self) -> bool {
        true
    }
}
