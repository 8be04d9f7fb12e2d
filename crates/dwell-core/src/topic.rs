//! What is known of a topic: counts, totals, pause, and what is asked of all its jobs at once.

use std::collections::BTreeSet;
use std::ops::{Index, IndexMut};

use crate::job::Number;
use crate::limits;
use crate::names::{JobId, Reason, TopicName};
use crate::policy::{Rate, TopicPolicy};
use crate::state::State;
use crate::time::{Delay, Now, Timestamp};

/// What a topic looks like now.
#[derive(Clone, Debug, PartialEq)]
pub struct TopicInfo {
    /// Its name.
    pub name: TopicName,
    /// Live jobs by state.
    pub counts: Counts,
    /// Ready jobs that go before those of the default priority: beanstalk calls them urgent.
    pub urgent: u64,
    /// When the next delayed job is due.
    pub next_due_at: Option<Timestamp>,
    /// When the ready job that has waited longest became due.
    pub oldest_ready_at: Option<Timestamp>,
    /// What has happened since the topic was created.
    pub totals: Totals,
    /// Its policy.
    pub policy: TopicPolicy,
    /// Whether hand-outs are stopped.
    pub pause: Pause,
    /// Consumers waiting in a lease call that names it.
    pub waiting: u64,
}

/// Live jobs by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts([u64; 4]);

impl Counts {
    /// All four together.
    pub fn live(&self) -> u64 {
        self.0.iter().sum()
    }
}

impl Index<State> for Counts {
    type Output = u64;

    fn index(&self, state: State) -> &u64 {
        &self.0[state as usize]
    }
}

impl IndexMut<State> for Counts {
    fn index_mut(&mut self, state: State) -> &mut u64 {
        &mut self.0[state as usize]
    }
}

/// What has happened in a topic since it was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Jobs created or replaced.
    pub put: u64,
    /// Leases given.
    pub leased: u64,
    /// Jobs acked.
    pub acked: u64,
    /// Failures reported by consumers.
    pub nacked: u64,
    /// Leases that ran out.
    pub timed_out: u64,
    /// Jobs given back.
    pub released: u64,
    /// Jobs buried, for whatever reason.
    pub buried: u64,
    /// Jobs redriven or kicked.
    pub redriven: u64,
    /// Jobs cancelled.
    pub cancelled: u64,
    /// Jobs purged, and dead letters dropped after `keep_buried`.
    pub purged: u64,
}

/// Whether a topic hands out jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pause {
    /// It does.
    #[default]
    Off,
    /// Not before that instant.
    Until(Timestamp),
    /// Not until it is resumed.
    On,
}

impl Pause {
    /// Whether hand-outs are stopped at `now`.
    pub fn holds_at(self, now: Timestamp) -> bool {
        match self {
            Self::Off => false,
            Self::Until(until) => now < until,
            Self::On => true,
        }
    }
}

/// What to do about hand-outs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetPause {
    /// Stop them until further notice.
    On,
    /// Stop them for that long.
    For(Delay),
    /// Go on.
    Off,
}

impl SetPause {
    /// The pause this means at `now`.
    pub fn resolve(self, now: impl Into<Now>) -> Pause {
        match self {
            Self::On => Pause::On,
            Self::For(delay) => Pause::Until(now.into().after(delay.as_millis())),
            Self::Off => Pause::Off,
        }
    }
}

/// Which jobs are to come back.
#[derive(Clone, Debug, PartialEq)]
pub enum Redrive {
    /// Dead letters of a topic.
    Topic(RedriveTopic),
    /// This one, be it buried or delayed (beanstalk's kick-job).
    Number(Number),
}

/// Which dead letters of a topic are to come back, and how fast.
#[derive(Clone, Debug, PartialEq)]
pub struct RedriveTopic {
    /// Where.
    pub topic: TopicName,
    /// Only these.
    pub ids: Option<BTreeSet<JobId>>,
    /// Only those buried for this reason.
    pub reason: Option<Reason>,
    /// At most so many.
    pub max: u32,
    /// Due that long from now.
    pub delay: Delay,
    /// Spread: job k is due k/rate seconds later.
    pub rate: Option<Rate>,
    /// If not one job is buried, make delayed ones due instead, earliest first (beanstalk's kick).
    pub else_delayed: bool,
}

impl RedriveTopic {
    /// All dead letters of a topic, at once, up to the default number.
    pub fn all(topic: TopicName) -> Self {
        Self {
            topic,
            ids: None,
            reason: None,
            max: limits::DEFAULT_REDRIVE,
            delay: Delay::ZERO,
            rate: None,
            else_delayed: false,
        }
    }

    /// When job number `k` (0-based) of this redrive is due.
    pub fn due_at(&self, k: u64, now: impl Into<Now>) -> Timestamp {
        let spread = self.rate.map_or(0, |rate| rate.offset(k));
        now.into().after(self.delay.as_millis().saturating_add(spread).min(limits::MAX_DELAY))
    }

    /// Whether a dead letter is meant.
    pub fn matches(&self, id: &JobId, reason: &Reason) -> bool {
        self.ids.as_ref().is_none_or(|ids| ids.contains(id)) && self.reason.as_ref().is_none_or(|r| r == reason)
    }
}

/// What a redrive did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Redriven {
    /// Jobs that came back.
    pub redriven: u64,
    /// Dead letters that were meant and are still buried.
    pub remaining: u64,
}

/// What a purge removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purge {
    /// All jobs in this state; leased ones lose their leases.
    Jobs(State),
    /// The topic: its jobs, leases, policy, pause and totals. A topic of that name starts afresh.
    Topic,
}

/// A page of topics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicsQuery {
    /// Only names that start so.
    pub prefix: String,
    /// Only names after this one: the last of the page before.
    pub after: Option<TopicName>,
    /// At most so many.
    pub limit: u32,
}

impl Default for TopicsQuery {
    fn default() -> Self {
        Self { prefix: String::new(), after: None, limit: limits::DEFAULT_PAGE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_ends_at_its_instant() {
        let at = |millis| Timestamp::from_millis(millis).unwrap();
        let pause = SetPause::For(Delay::from_millis(10).unwrap()).resolve(at(5));
        assert!(pause.holds_at(at(14)));
        assert!(!pause.holds_at(at(15)));
        assert!(Pause::On.holds_at(Timestamp::MAX));
        assert!(!Pause::Off.holds_at(at(0)));
    }

    #[test]
    fn a_redrive_spreads_from_its_delay_on() {
        let now = Timestamp::from_millis(1_000).unwrap();
        let mut redrive = RedriveTopic::all(TopicName::new("t").unwrap());
        redrive.delay = Delay::from_millis(500).unwrap();
        assert_eq!(redrive.due_at(9, now).as_millis(), 1_500);
        redrive.rate = Rate::per_second(2.0);
        assert_eq!(redrive.due_at(0, now).as_millis(), 1_500);
        assert_eq!(redrive.due_at(3, now).as_millis(), 3_000);
    }

    #[test]
    fn a_redrive_means_what_passes_every_filter() {
        let (id, other) = (JobId::new("a").unwrap(), JobId::new("b").unwrap());
        let (reason, another) = (Reason::own(Reason::EXPIRED), Reason::own(Reason::GONE));
        let redrive = RedriveTopic {
            ids: Some(BTreeSet::from([id.clone()])),
            reason: Some(reason.clone()),
            ..RedriveTopic::all(TopicName::new("t").unwrap())
        };
        assert!(redrive.matches(&id, &reason));
        assert!(!redrive.matches(&other, &reason) && !redrive.matches(&id, &another));
    }

    #[test]
    fn what_is_not_said_is_moderate() {
        assert_eq!(RedriveTopic::all(TopicName::new("t").unwrap()).max, 1_000);
        assert_eq!(TopicsQuery::default().limit, 100);
    }

    #[test]
    fn counts_are_by_state() {
        let mut counts = Counts::default();
        counts[State::Leased] += 2;
        counts[State::Buried] += 1;
        assert_eq!((counts[State::Leased], counts[State::Delayed], counts.live()), (2, 0, 3));
    }
}
