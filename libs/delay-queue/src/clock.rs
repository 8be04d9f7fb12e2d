//! Instants as the wheel counts them: milliseconds since the queue was made.

use std::time::Duration;

use tokio::time::Instant;

/// A consumer sleeps no longer than this at a time. Only to stay clear of the end of [`Instant`].
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

    /// When to wake for `deadline`, or to look again if that is far off.
    pub(crate) fn instant(self, deadline: u64) -> Instant {
        let far = Instant::now() + LONGEST_SLEEP;
        self.start.checked_add(Duration::from_millis(deadline)).map_or(far, |instant| instant.min(far))
    }
}

const NANOS_PER_MILLI: u128 = 1_000_000;

/// The end of `u64` is half a billion years off; later is as good as then.
fn millis(millis: u128) -> u64 {
    u64::try_from(millis).unwrap_or(u64::MAX)
}
