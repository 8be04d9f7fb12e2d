//! When a failed job is tried again, and when it is put aside: pure functions of attempt, time and a random number.

use std::num::NonZeroU32;
use std::sync::Arc;

use crate::limits;
use crate::time::{Delay, Now, Timestamp};

/// How often a job is handed over before it is buried, and how long it rests in between.
#[derive(Clone, Debug, PartialEq)]
pub struct RetryPolicy {
    /// Deliveries in all; 1 buries on the first failure.
    pub attempts: NonZeroU32,
    /// The rest after each failure.
    pub backoff: Backoff,
}

impl RetryPolicy {
    /// What a failure at `failed_at` of delivery number `attempt` leads to. A consumer's own `delay` replaces the
    /// step, never the count. `random` is uniform over all of `u64`.
    pub fn after_failure(
        &self,
        attempt: u32,
        delay: Option<Delay>,
        failed_at: impl Into<Now>,
        random: u64,
    ) -> AfterFailure {
        if attempt >= self.attempts.get() {
            return AfterFailure::Bury;
        }
        let step = delay.unwrap_or_else(|| self.backoff.step(attempt, random));
        AfterFailure::Retry(failed_at.into().after(step.as_millis()))
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        let attempts = NonZeroU32::new(limits::DEFAULT_ATTEMPTS).expect("a constant above zero");
        Self { attempts, backoff: Backoff::default() }
    }
}

/// What follows a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterFailure {
    /// Due again at that instant.
    Retry(Timestamp),
    /// No attempts left.
    Bury,
}

/// The rest between attempts.
#[derive(Clone, Debug, PartialEq)]
pub enum Backoff {
    /// Step k follows failure k; the last step repeats.
    Ladder(Ladder),
    /// `initial × factor^(k−1)` after failure k.
    Exponential(Exponential),
}

impl Backoff {
    /// The rest after failure number `failure` (1-based).
    pub fn step(&self, failure: u32, random: u64) -> Delay {
        match self {
            Self::Ladder(ladder) => ladder.step(failure),
            Self::Exponential(exponential) => exponential.step(failure, random),
        }
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self::Exponential(Exponential::default())
    }
}

/// A list of rests, at least one and at most [`limits::MAX_LADDER`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ladder(Arc<[Delay]>);

impl Ladder {
    /// Takes the steps, first failure first.
    pub fn new(steps: &[Delay]) -> Result<Self, RetryError> {
        match steps.len() {
            0 => Err(RetryError::EmptyLadder),
            length if length > limits::MAX_LADDER => Err(RetryError::LongLadder { length }),
            _ => Ok(Self(steps.into())),
        }
    }

    /// The policy of this ladder where the number of attempts is not given: each step is used once.
    pub fn into_policy(self) -> RetryPolicy {
        let attempts = u32::try_from(self.0.len() + 1).ok().and_then(NonZeroU32::new);
        RetryPolicy { attempts: attempts.expect("a ladder is short"), backoff: Backoff::Ladder(self) }
    }

    /// The steps, first failure first.
    pub fn steps(&self) -> &[Delay] {
        &self.0
    }

    fn step(&self, failure: u32) -> Delay {
        let index = usize::try_from(failure.saturating_sub(1)).unwrap_or(usize::MAX);
        self.0[index.min(self.0.len() - 1)]
    }
}

/// A rest that grows by a factor, with a lid, spread at random.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exponential {
    initial: Delay,
    factor: f64,
    max: Delay,
    jitter: f64,
}

impl Exponential {
    /// Takes the first rest, the factor (1 to 1,000), the lid, and the share (0 to 1) that is added at random on top
    /// of each rest, the lid included, so that a herd spreads out.
    pub fn new(initial: Delay, factor: f64, max: Delay, jitter: f64) -> Result<Self, RetryError> {
        if !(1.0..=limits::MAX_FACTOR).contains(&factor) {
            return Err(RetryError::Factor(factor));
        }
        if !(0.0..=1.0).contains(&jitter) {
            return Err(RetryError::Jitter(jitter));
        }
        if max < initial {
            return Err(RetryError::LidBelowInitial);
        }
        Ok(Self { initial, factor, max, jitter })
    }

    /// The rest after the first failure.
    pub fn initial(&self) -> Delay {
        self.initial
    }

    /// By what each rest is longer than the one before.
    pub fn factor(&self) -> f64 {
        self.factor
    }

    /// The longest rest, before jitter.
    pub fn max(&self) -> Delay {
        self.max
    }

    /// The share added at random.
    pub fn jitter(&self) -> f64 {
        self.jitter
    }

    #[expect(clippy::cast_precision_loss, reason = "delays are far below 2^53 ms")]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "capped and never negative")]
    fn step(&self, failure: u32, random: u64) -> Delay {
        let power = i32::try_from(failure.saturating_sub(1)).unwrap_or(i32::MAX);
        let grown = self.initial.as_millis() as f64 * self.factor.powi(power);
        let lid = self.max.as_millis() as f64;
        // `0 × ∞` is not a number: a rest that starts at nothing stays nothing.
        let rest = if grown.is_nan() { 0.0 } else { grown.min(lid) };
        let share = random as f64 / u64::MAX as f64;
        Delay::saturating((rest + rest * self.jitter * share).ceil() as u64)
    }
}

impl Default for Exponential {
    /// 1 s, doubled each time, at most 1 h, spread by a tenth.
    fn default() -> Self {
        let (initial, max) = (Delay::saturating(limits::SECOND), Delay::saturating(limits::HOUR));
        Self { initial, factor: 2.0, max, jitter: 0.1 }
    }
}

/// Why a retry policy was refused, and what would be right.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum RetryError {
    /// No steps.
    #[error("a ladder needs at least one step; for a single attempt say \"attempts\": 1")]
    EmptyLadder,
    /// Too many steps.
    #[error("the ladder has {length} steps; at most {} are allowed, and the last one repeats", limits::MAX_LADDER)]
    LongLadder {
        /// Steps it has.
        length: usize,
    },
    /// A factor out of range, or not a number.
    #[error("the factor is {0}; it must be from 1 to 1000")]
    Factor(f64),
    /// A jitter out of range, or not a number.
    #[error("the jitter is {0}; it must be from 0 to 1")]
    Jitter(f64),
    /// The lid is below the first step.
    #[error("the longest rest is shorter than the first one")]
    LidBelowInitial,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delay(millis: u64) -> Delay {
        Delay::from_millis(millis).unwrap()
    }

    fn ladder(steps: &[u64]) -> Ladder {
        Ladder::new(&steps.iter().map(|&s| delay(s)).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn a_ladder_uses_each_step_once_and_then_buries() {
        let policy = ladder(&[15_000, 180_000]).into_policy();
        let at = Timestamp::from_millis(1_000_000).unwrap();
        assert_eq!(policy.after_failure(1, None, at, 0), AfterFailure::Retry(at.plus(15_000)));
        assert_eq!(policy.after_failure(2, None, at, 0), AfterFailure::Retry(at.plus(180_000)));
        assert_eq!(policy.after_failure(3, None, at, 0), AfterFailure::Bury);
    }

    #[test]
    fn the_last_step_repeats_while_attempts_last() {
        let policy =
            RetryPolicy { attempts: NonZeroU32::new(5).unwrap(), backoff: Backoff::Ladder(ladder(&[10, 0, 30])) };
        let rests: Vec<_> = (1..5).map(|k| policy.backoff.step(k, 0).as_millis()).collect();
        assert_eq!(rests, [10, 0, 30, 30]);
        assert_eq!(policy.backoff.step(u32::MAX, 0).as_millis(), 30);
    }

    #[test]
    fn a_given_delay_replaces_the_step_but_not_the_count() {
        let policy = ladder(&[15_000]).into_policy();
        let at = Timestamp::from_millis(0).unwrap();
        assert_eq!(policy.after_failure(1, Some(delay(7)), at, 0), AfterFailure::Retry(at.plus(7)));
        assert_eq!(policy.after_failure(2, Some(delay(7)), at, 0), AfterFailure::Bury);
    }

    #[test]
    fn exponential_grows_to_its_lid() {
        let backoff = Exponential::new(delay(1_000), 2.0, delay(5_000), 0.0).unwrap();
        let rests: Vec<_> = (1..=5).map(|k| backoff.step(k, u64::MAX).as_millis()).collect();
        assert_eq!(rests, [1_000, 2_000, 4_000, 5_000, 5_000]);
        assert_eq!(backoff.step(u32::MAX, 0).as_millis(), 5_000);
    }

    #[test]
    fn jitter_only_lengthens_and_never_by_more_than_its_share() {
        let backoff = Exponential::new(delay(1_000), 1.0, delay(1_000), 0.1).unwrap();
        assert_eq!(backoff.step(1, 0).as_millis(), 1_000);
        assert_eq!(backoff.step(1, u64::MAX).as_millis(), 1_100);
        assert_eq!(backoff.step(1, u64::MAX / 2).as_millis(), 1_050);
    }

    #[test]
    fn extremes_stay_in_range() {
        let huge = Exponential::new(Delay::MAX, 1_000.0, Delay::MAX, 1.0).unwrap();
        assert_eq!(huge.step(u32::MAX, u64::MAX), Delay::MAX);
        let none = Exponential::new(Delay::ZERO, 1_000.0, Delay::MAX, 1.0).unwrap();
        assert_eq!(none.step(u32::MAX, u64::MAX), Delay::ZERO);
    }

    #[test]
    fn nonsense_is_refused() {
        assert_eq!(Ladder::new(&[]), Err(RetryError::EmptyLadder));
        assert_eq!(Ladder::new(&[Delay::ZERO; 101]), Err(RetryError::LongLadder { length: 101 }));
        assert_eq!(ladder(&[0; 100]).steps().len(), 100);
        for factor in [0.0, 0.99, 1_000.1, f64::NAN, f64::INFINITY, -2.0] {
            assert!(Exponential::new(delay(1), factor, delay(1), 0.0).is_err(), "{factor}");
        }
        for jitter in [-0.1, 1.1, f64::NAN] {
            assert!(Exponential::new(delay(1), 1.0, delay(1), jitter).is_err(), "{jitter}");
        }
        assert_eq!(Exponential::new(delay(2), 1.0, delay(1), 0.0), Err(RetryError::LidBelowInitial));
    }

    #[test]
    fn the_default_is_twenty_attempts_from_a_second_to_an_hour() {
        let policy = RetryPolicy::default();
        let rests: Vec<_> = [1, 2, 12, 13, 19].map(|k| policy.backoff.step(k, 0).as_millis()).into();
        assert_eq!(rests, [1_000, 2_000, 2_048_000, 3_600_000, 3_600_000]);
        assert_eq!(policy.backoff.step(19, u64::MAX).as_millis(), 3_960_000, "a tenth on top, the lid included");
        assert_eq!(policy.after_failure(20, None, Timestamp::EPOCH, 0), AfterFailure::Bury);
        assert_ne!(policy.after_failure(19, None, Timestamp::EPOCH, 0), AfterFailure::Bury);
    }

    #[test]
    fn parts_of_a_millisecond_round_up() {
        let backoff = Exponential::new(delay(1_001), 1.5, delay(5_000), 0.0).unwrap();
        assert_eq!(backoff.step(2, 0).as_millis(), 1_502);
    }
}
