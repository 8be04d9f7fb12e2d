//! Instants as the wheel counts them: milliseconds since the queue was made.

use std::time::Duration;

use tokio::time::Instant;

/// How long to sleep for a deadline that is beyond the end of [`Instant`].
const LONGEST_SLEEP: Duration = Duration::from_hours(24);

#[derive(Clone, Copy)]
pub(crate) struct Clock {
    start: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { start: Instant::now() }
    }

    /// The last whole millisecond that has begun.
    pub(crate) fn now(self) -> u64 {
        millis(self.start.elapsed().as_nanos() / NANOS_PER_MILLI)
    }

    /// The first millisecond that begins no earlier than `delay` from now.
    pub(crate) fn after(self, delay: Duration) -> u64 {
        millis((self.start.elapsed().as_nanos() + delay.as_nanos()).div_ceil(NANOS_PER_MILLI))
    }

    /// The first millisecond that begins no earlier than `instant`.
    pub(crate) fn at(self, instant: Instant) -> u64 {
        millis(instant.saturating_duration_since(self.start).as_nanos().div_ceil(NANOS_PER_MILLI))
    }

    /// When to wake for `deadline`, or to look again if there is no such instant.
    pub(crate) fn instant(self, deadline: u64) -> Instant {
        let instant = self.start.checked_add(Duration::from_millis(deadline));
        instant.unwrap_or_else(|| Instant::now() + LONGEST_SLEEP)
    }
}

const NANOS_PER_MILLI: u128 = 1_000_000;

/// The end of `u64` is half a billion years off; later is as good as then.
fn millis(millis: u128) -> u64 {
    u64::try_from(millis).unwrap_or(u64::MAX)
}
