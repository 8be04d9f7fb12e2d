//! Instants and durations. Nothing here reads a clock: `now` is always an argument.

use std::fmt;

use crate::limits;

/// An instant, in whole milliseconds since 1970 (UTC), up to the year 9999.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// 1970-01-01T00:00:00Z.
    pub const EPOCH: Self = Self(0);
    /// The last instant there is.
    pub const MAX: Self = Self(limits::MAX_TIMESTAMP);

    /// The instant `millis` after 1970.
    pub const fn from_millis(millis: u64) -> Result<Self, TimeError> {
        if millis > limits::MAX_TIMESTAMP { Err(TimeError::PastTheEnd) } else { Ok(Self(millis)) }
    }

    /// Milliseconds since 1970.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// The instant `millis` later; [`Timestamp::MAX`] where there is none that late.
    #[must_use]
    pub const fn plus(self, millis: u64) -> Self {
        let sum = self.0.saturating_add(millis);
        if sum > limits::MAX_TIMESTAMP { Self::MAX } else { Self(sum) }
    }

    /// Milliseconds from `earlier` to `self`; 0 if `earlier` is later.
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// When a job is to be due. Only a store turns a delay into an instant, on its own timeline: an edge that did so
/// with its own clock would hand jobs over early as soon as that clock is set back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// That long after the store takes the job.
    In(Delay),
    /// At that instant; one in the past means at once.
    At(Timestamp),
}

impl When {
    /// As soon as the store takes the job.
    pub const NOW: Self = Self::In(Delay::ZERO);

    /// The instant this means at `now`.
    pub fn resolve(self, now: impl Into<Now>) -> Result<Timestamp, TimeError> {
        let now = now.into();
        match self {
            Self::In(delay) => Ok(now.after(delay.as_millis())),
            Self::At(at) if at > now.at.plus(limits::MAX_DELAY) => Err(TimeError::TooFar),
            Self::At(at) => Ok(at),
        }
    }
}

/// What time it is on a store's timeline, which is finer than a millisecond: rounded down, for what is due; and rounded
/// up, for what delays count from, so that none is ever cut short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Rounded down.
    pub at: Timestamp,
    /// Rounded up.
    pub up: Timestamp,
}

impl Now {
    /// The instant so many milliseconds from now; now itself if that is none.
    pub fn after(self, millis: u64) -> Timestamp {
        if millis == 0 { self.at } else { self.up.plus(millis) }
    }
}

impl From<Timestamp> for Now {
    /// A time that is whole milliseconds.
    fn from(at: Timestamp) -> Self {
        Self { at, up: at }
    }
}

/// Why an instant or a duration was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimeError {
    /// Beyond the year 9999.
    #[error("lies past the year 9999; epoch times are in milliseconds")]
    PastTheEnd,
    /// More than [`limits::MAX_DELAY`] ahead.
    #[error("lies more than 3,650 days ahead")]
    TooFar,
    /// Not between the two (milliseconds).
    #[error("must be from {} to {}", Human(*.least), Human(*.most))]
    OutOfRange {
        /// The shortest that is allowed.
        least: u64,
        /// The longest that is allowed.
        most: u64,
    },
}

/// A duration type: milliseconds in a range, built only valid.
macro_rules! duration {
    ($(#[$doc:meta])* $name:ident, $least:expr, $most:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u64);

        impl $name {
            /// The shortest there is.
            pub const MIN: Self = Self($least);
            /// The longest there is.
            pub const MAX: Self = Self($most);

            /// So many milliseconds.
            pub const fn from_millis(millis: u64) -> Result<Self, TimeError> {
                if millis >= Self::MIN.0 && millis <= Self::MAX.0 {
                    Ok(Self(millis))
                } else {
                    Err(TimeError::OutOfRange { least: $least, most: $most })
                }
            }

            /// The length in milliseconds.
            pub const fn as_millis(self) -> u64 {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                Human(self.0).fmt(f)
            }
        }
    };
}

duration! {
    /// How long something is put off: 0 to 3,650 days.
    Delay, 0, limits::MAX_DELAY
}

impl Delay {
    /// No delay.
    pub const ZERO: Self = Self(0);

    /// So many milliseconds, cut to the longest there is.
    #[must_use]
    pub const fn saturating(millis: u64) -> Self {
        if millis > limits::MAX_DELAY { Self::MAX } else { Self(millis) }
    }
}

duration! {
    /// Time-to-run: how long a consumer holds a job before it is taken for failed. 1 s to 24 h.
    Ttr, limits::MIN_TTR, limits::MAX_TTR
}

impl Ttr {
    /// Where neither job nor topic says otherwise.
    pub const DEFAULT: Self = Self(limits::DEFAULT_TTR);
}

duration! {
    /// How long past its due time a job is still worth handing over. 1 ms to 3,650 days.
    Ttl, 1, limits::MAX_DELAY
}

/// Milliseconds as people write them: `90s` is `1m30s`.
#[derive(Clone, Copy, Debug)]
pub struct Human(pub u64);

impl fmt::Display for Human {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("0s");
        }
        let mut rest = self.0;
        let units = [("d", limits::DAY), ("h", limits::HOUR), ("m", limits::MINUTE), ("s", limits::SECOND), ("ms", 1)];
        for (unit, length) in units {
            if rest >= length {
                write!(f, "{}{unit}", rest / length)?;
                rest %= length;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_000_000);

    #[test]
    fn a_delay_counts_from_now_and_an_instant_is_itself() {
        assert_eq!(When::In(Delay(250)).resolve(NOW), Ok(Timestamp(1_000_250)));
        assert_eq!(When::At(Timestamp(5)).resolve(NOW), Ok(Timestamp(5)));
    }

    #[test]
    fn a_delay_is_never_cut_short_and_none_is_none() {
        let now = Now { at: NOW, up: NOW.plus(1) };
        assert_eq!(When::In(Delay(250)).resolve(now), Ok(Timestamp(1_000_251)));
        assert_eq!(When::NOW.resolve(now), Ok(NOW), "what is due now is ready now");
        assert_eq!(When::At(NOW).resolve(now), Ok(NOW));
    }

    #[test]
    fn nothing_reaches_further_than_ten_years() {
        let last = NOW.plus(limits::MAX_DELAY);
        assert_eq!(When::At(last).resolve(NOW), Ok(last));
        assert_eq!(When::At(last.plus(1)).resolve(NOW), Err(TimeError::TooFar));
        assert_eq!(When::In(Delay::MAX).resolve(NOW), Ok(last));
        assert!(Delay::from_millis(limits::MAX_DELAY + 1).is_err());
    }

    #[test]
    fn overflow_ends_late_never_early() {
        assert_eq!(Timestamp::MAX.plus(u64::MAX), Timestamp::MAX);
        assert_eq!(Delay::saturating(u64::MAX), Delay::MAX);
        assert_eq!(Timestamp::from_millis(u64::MAX), Err(TimeError::PastTheEnd));
        assert_eq!(Timestamp::from_millis(limits::MAX_TIMESTAMP), Ok(Timestamp::MAX));
        assert_eq!(Timestamp::EPOCH.since(NOW), 0);
    }

    #[test]
    fn ranges_are_closed_and_say_what_would_be_right() {
        assert!(Ttr::from_millis(1_000).is_ok());
        assert!(Ttr::from_millis(86_400_000).is_ok());
        assert!(Ttl::from_millis(0).is_err());
        let refused = Ttr::from_millis(999).unwrap_err();
        assert_eq!(refused.to_string(), "must be from 1s to 1d");
    }

    #[test]
    fn durations_print_as_people_write_them() {
        assert_eq!(Human(90_000).to_string(), "1m30s");
        assert_eq!(Human(86_400_250).to_string(), "1d250ms");
        assert_eq!(Human(0).to_string(), "0s");
    }
}
