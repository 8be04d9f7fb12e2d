//! One target, as this server knows it: how many deliveries it takes at once, and whether it is worth calling at all.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

use super::board::Queue;
use super::courier::Landing;

/// Deliveries at once to a target that nothing is known of, and how many more jobs one lease call takes for it.
pub(super) const START: usize = 16;

/// Strikes in a row after which a target is left alone for a while.
const OUT: u32 = 20;
/// How long at first; then twice as long each time, up to [`LONGEST`].
const FIRST: Duration = Duration::from_secs(5);
/// How long a target is left alone at the most: when it is back, that is how late the first job may be.
const LONGEST: Duration = Duration::from_mins(1);

/// A target.
#[derive(Debug)]
pub(super) struct Origin {
    pub(super) in_flight: usize,
    /// Deliveries at once: grows by one with each that lands, halves with each that hangs or breaks.
    pub(super) limit: usize,
    pub(super) breaker: Breaker,
    /// Failures since the last success, the slow ones counting more.
    strikes: u32,
    /// Where its jobs have come from.
    pub(super) queues: BTreeSet<Queue>,
    pub(super) used_at: Instant,
}

/// Whether a target is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Breaker {
    /// It is.
    Closed,
    /// It is not, until then; then one job goes to see.
    Open { until: Instant, wait: Duration },
    /// That one job is on its way.
    Probing { wait: Duration },
}

/// What a target's breaker did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It opened: the target is left alone for so long.
    Opened(Duration),
    /// It closed: the target is back.
    Closed,
}

impl Origin {
    pub(super) fn new(now: Instant) -> Self {
        Self { in_flight: 0, limit: START, breaker: Breaker::Closed, strikes: 0, queues: BTreeSet::new(), used_at: now }
    }

    /// How many more deliveries may go to it, if no more than `share` may be under way.
    pub(super) fn room(&self, share: usize, now: Instant) -> usize {
        match self.breaker {
            Breaker::Closed => self.limit.min(share).saturating_sub(self.in_flight),
            Breaker::Open { until, .. } => usize::from(until <= now),
            Breaker::Probing { .. } => 0,
        }
    }

    /// A delivery goes out.
    pub(super) fn take(&mut self, now: Instant) {
        self.in_flight += 1;
        self.used_at = now;
        if let Breaker::Open { wait, .. } = self.breaker {
            self.breaker = Breaker::Probing { wait };
        }
    }

    /// A delivery has ended without a word on the target.
    pub(super) fn give_up(&mut self, now: Instant) {
        self.in_flight = self.in_flight.saturating_sub(1);
        if let Breaker::Probing { wait } = self.breaker {
            self.breaker = Breaker::Open { until: now, wait };
        }
    }

    /// A delivery has ended so; its place is free.
    pub(super) fn landed(&mut self, landing: &Landing, most: usize, now: Instant) -> Option<Turn> {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.used_at = now;
        match strikes(landing) {
            0 => {
                self.strikes = 0;
                let was = std::mem::replace(&mut self.breaker, Breaker::Closed);
                self.limit = if was == Breaker::Closed { (self.limit + 1).min(most) } else { START.min(most) };
                (was != Breaker::Closed).then_some(Turn::Closed)
            }
            strikes => {
                self.strikes = self.strikes.saturating_add(strikes);
                if !matches!(landing, Landing::Answered { .. }) {
                    self.limit = (self.limit / 2).max(1);
                }
                self.fail(now)
            }
        }
    }

    fn fail(&mut self, now: Instant) -> Option<Turn> {
        let wait = match self.breaker {
            Breaker::Closed if self.strikes >= OUT => FIRST,
            Breaker::Probing { wait } => (wait * 2).min(LONGEST),
            // One that went out before it opened says nothing new.
            Breaker::Closed | Breaker::Open { .. } => return None,
        };
        self.breaker = Breaker::Open { until: now + wait, wait };
        Some(Turn::Opened(wait))
    }
}

/// How much a failure weighs: one that holds a place for long weighs more. What the target refuses for the job's sake, or
/// Dwell for the target's, says nothing against the target.
fn strikes(landing: &Landing) -> u32 {
    match landing {
        Landing::Answered { status: 429 | 500..=599, .. } => 1,
        Landing::Answered { .. } | Landing::Refused { .. } => 0,
        Landing::Broken { .. } => 2,
        Landing::TimedOut => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(status: u16) -> Landing {
        Landing::Answered { status, retry_after: None, answer: Vec::new() }
    }

    fn end(origin: &mut Origin, landing: &Landing, now: Instant) -> Option<Turn> {
        origin.take(now);
        origin.landed(landing, 32, now)
    }

    #[tokio::test(start_paused = true)]
    async fn a_target_that_fails_is_left_alone_and_then_tried_with_one_job() {
        let now = Instant::now();
        let mut origin = Origin::new(now);
        for _ in 0..4 {
            assert_eq!(end(&mut origin, &Landing::TimedOut, now), None);
        }
        assert_eq!(end(&mut origin, &Landing::TimedOut, now), Some(Turn::Opened(FIRST)));
        assert_eq!(origin.room(32, now + FIRST - Duration::from_millis(1)), 0);
        let later = now + FIRST;
        assert_eq!(origin.room(32, later), 1, "one job goes to see");
        origin.take(later);
        assert_eq!(origin.room(32, later), 0, "and only one");
        assert_eq!(origin.landed(&answered(500), 32, later), Some(Turn::Opened(2 * FIRST)), "twice as long");
        assert_eq!(end(&mut origin, &answered(200), later + 2 * FIRST), Some(Turn::Closed));
        assert_eq!((origin.breaker, origin.room(32, now)), (Breaker::Closed, START));
    }

    #[tokio::test(start_paused = true)]
    async fn a_target_is_never_left_alone_for_longer_than_a_minute() {
        let mut now = Instant::now();
        let mut origin = Origin::new(now);
        let mut waits = Vec::new();
        for _ in 0..40 {
            if let Some(Turn::Opened(wait)) = end(&mut origin, &answered(500), now) {
                waits.push(wait.as_secs());
                now += wait;
            }
        }
        assert_eq!(waits[..6], [5, 10, 20, 40, 60, 60]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_the_jobs_fault_is_not_the_targets() {
        let now = Instant::now();
        let mut origin = Origin::new(now);
        for status in [400, 404, 410, 301].into_iter().cycle().take(100) {
            assert_eq!(end(&mut origin, &answered(status), now), None);
        }
        for _ in 0..19 {
            assert_eq!(end(&mut origin, &answered(500), now), None);
        }
        end(&mut origin, &answered(200), now);
        assert_eq!(end(&mut origin, &answered(500), now), None, "a success wipes the slate");
    }

    #[tokio::test(start_paused = true)]
    async fn room_grows_with_success_and_shrinks_with_silence() {
        let now = Instant::now();
        let mut origin = Origin::new(now);
        for _ in 0..100 {
            end(&mut origin, &answered(200), now);
        }
        assert_eq!((origin.room(100, now), origin.room(5, now)), (32, 5));
        end(&mut origin, &Landing::TimedOut, now);
        assert_eq!(origin.limit, 16);
        for _ in 0..3 {
            end(&mut origin, &Landing::Broken { reason: String::new() }, now);
        }
        assert_eq!(origin.limit, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_probe_that_is_given_up_is_made_again() {
        let now = Instant::now();
        let mut origin = Origin::new(now);
        origin.breaker = Breaker::Open { until: now, wait: FIRST };
        origin.take(now);
        origin.give_up(now);
        assert_eq!(origin.room(32, now), 1);
    }
}
