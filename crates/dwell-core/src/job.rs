//! The job: what is put, what is kept, what a read shows.

use std::fmt;

use crate::limits;
use crate::names::{ErrorText, JobId, TopicName};
use crate::payload::{Body, Headers};
use crate::policy::{Rules, Secret};
use crate::retry::RetryPolicy;
use crate::state::{Phase, State};
use crate::target::{Line, Target};
use crate::time::{Delay, Now, TimeError, Timestamp, Ttl, Ttr, When};

/// A job that is live: delayed, ready, leased or buried.
///
/// Fields in [`Options`] that the job does not set stay unset and are resolved from its topic and the server when
/// they are used, so that a policy change applies to waiting jobs.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Where it queues.
    pub topic: TopicName,
    /// The caller's name for it.
    pub id: JobId,
    /// The store's name for it.
    pub number: Number,
    /// Its last change.
    pub version: Version,
    /// Waiting, leased or buried.
    pub phase: Phase,
    /// When it was put.
    pub created_at: Timestamp,
    /// When it may be handed over.
    pub due_at: Timestamp,
    /// What a ttl counts from: the due time as put, moved or redriven, or the creation if that is later.
    pub ttl_from: Timestamp,
    /// Lower goes first.
    pub priority: Priority,
    /// Deliveries so far that count.
    pub attempt: u32,
    /// What it sets for itself.
    pub options: Options,
    /// What has happened to it.
    pub counters: Counters,
    /// What went wrong last.
    pub last_error: Option<ErrorText>,
    /// The last pushes, newest last.
    pub deliveries: Vec<Delivery>,
    /// The caller's headers.
    pub headers: Headers,
    /// What the consumer gets.
    pub body: Body,
}

impl Job {
    /// The job that `new` asks for, taken at `now`. `random` (uniform over all of `u64`) is for its jitter.
    pub fn create(
        new: NewJob,
        number: Number,
        version: Version,
        now: impl Into<Now>,
        random: u64,
    ) -> Result<Self, TimeError> {
        let now = now.into();
        let due_at = new.due_at(now, random)?;
        let now = now.at;
        Ok(Self {
            topic: new.topic,
            id: new.id.resolve(number),
            number,
            version,
            phase: Phase::Waiting,
            created_at: now,
            due_at,
            ttl_from: due_at.max(now),
            priority: new.priority,
            attempt: 0,
            options: new.options,
            counters: Counters::default(),
            last_error: None,
            deliveries: Vec::new(),
            headers: new.headers,
            body: new.body,
        })
    }

    /// Which of its topic's queues it is on.
    pub fn line(&self) -> Line {
        Line::of(self.options.deliver_to.as_ref())
    }

    /// What it looks like at `now`, once [`crate::state::pass_time`] has brought it there.
    pub fn state(&self, now: Timestamp) -> State {
        match self.phase {
            Phase::Waiting if self.due_at > now => State::Delayed,
            Phase::Waiting => State::Ready,
            Phase::Leased(_) => State::Leased,
            Phase::Buried(_) => State::Buried,
        }
    }

    /// What decides which of two ready jobs of one line goes first.
    pub fn order(&self) -> (Priority, Timestamp, Number) {
        (self.priority, self.due_at, self.number)
    }
}

/// A uniform share of `jitter`, both ends included.
fn share(jitter: Delay, random: u64) -> u64 {
    let span = u128::from(jitter.as_millis()) + 1;
    u64::try_from((u128::from(random) * span) >> 64).expect("a share is no more than the whole")
}

/// A job to be put.
#[derive(Clone, Debug, PartialEq)]
pub struct NewJob {
    /// Where it queues.
    pub topic: TopicName,
    /// The caller's name for it.
    pub id: NewId,
    /// When it is due.
    pub when: When,
    /// Adds a random 0…jitter to the due time.
    pub jitter: Delay,
    /// Lower goes first.
    pub priority: Priority,
    /// What it sets for itself.
    pub options: Options,
    /// The caller's headers.
    pub headers: Headers,
    /// What the consumer gets.
    pub body: Body,
    /// What to do if a job of this topic and id is there already.
    pub if_exists: IfExists,
    /// Put only if the live job of this topic and id has this version.
    pub if_match: Option<Version>,
    /// Replace even a leased job; its lease is lost.
    pub force: bool,
}

impl NewJob {
    /// A job of this topic, id and time with everything else left open: `reject`, no body.
    pub fn new(topic: TopicName, id: JobId, when: When) -> Self {
        Self {
            topic,
            id: NewId::Named(id),
            when,
            jitter: Delay::ZERO,
            priority: Priority::DEFAULT,
            options: Options::default(),
            headers: Headers::default(),
            body: Body::default(),
            if_exists: IfExists::Reject,
            if_match: None,
            force: false,
        }
    }
}

impl NewJob {
    /// When the job is due if it is taken at `now`. Jitter counts towards how far ahead that may be.
    pub fn due_at(&self, now: Now, random: u64) -> Result<Timestamp, TimeError> {
        let due_at = self.when.resolve(now)?;
        if due_at.plus(self.jitter.as_millis()) > now.up.plus(limits::MAX_DELAY) && self.jitter > Delay::ZERO {
            return Err(TimeError::TooFar);
        }
        Ok(due_at.plus(share(self.jitter, random)))
    }
}

/// How a new job is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewId {
    /// By the caller; another job may have that id.
    Named(JobId),
    /// By the server, which made it up just now: no other job has it, and no store needs to look.
    Fresh(JobId),
    /// By its number: `$<number>`.
    FromNumber,
}

impl NewId {
    /// The id, once the number is known.
    pub fn resolve(self, number: Number) -> JobId {
        match self {
            Self::Named(id) | Self::Fresh(id) => id,
            Self::FromNumber => JobId::from_number(number),
        }
    }
}

/// What a put does when the topic already has a live job of that id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfExists {
    /// The new job takes its place, with a number of its own; a buried one starts afresh.
    Replace,
    /// The old job stays as it is, and the answer says so.
    Keep,
    /// The put is refused.
    Reject,
}

/// What a change does to a job. Everything not named stays.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Change {
    /// A new due time; of a buried job: revives it with fresh attempts.
    pub when: Option<When>,
    /// A new priority.
    pub priority: Option<Priority>,
    /// A new body.
    pub body: Option<Body>,
    /// New headers, all of them.
    pub headers: Option<Headers>,
    /// Its own time-to-run.
    pub ttr: Edit<Ttr>,
    /// Its own retry policy.
    pub retry: Edit<RetryPolicy>,
    /// Its own ttl.
    pub ttl: Edit<Ttl>,
    /// Its own target.
    pub deliver_to: Edit<Target>,
}

/// What happens to an optional field.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Edit<T> {
    /// It stays.
    #[default]
    Keep,
    /// It is unset.
    Clear,
    /// It is set.
    Set(T),
}

impl<T> Edit<T> {
    pub(crate) fn apply(self, field: &mut Option<T>) {
        match self {
            Self::Keep => {}
            Self::Clear => *field = None,
            Self::Set(value) => *field = Some(value),
        }
    }
}

/// What a job sets for itself; the rest comes from its topic, then from the server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// How long a lease lasts.
    pub ttr: Option<Ttr>,
    /// How it is tried again.
    pub retry: Option<RetryPolicy>,
    /// How long past its due time it is worth handing over.
    pub ttl: Option<Ttl>,
    /// Where it is pushed to.
    pub deliver_to: Option<Target>,
}

/// What has happened to a job since it was put.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Times it was leased.
    pub leases: u32,
    /// Leases that ran out.
    pub timeouts: u32,
    /// Times it was released.
    pub releases: u32,
    /// Times it was buried.
    pub buries: u32,
    /// Times it was redriven or kicked.
    pub kicks: u32,
}

/// One push of a job to its target, as kept beside the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// When it began.
    pub at: Timestamp,
    /// How long it took, in milliseconds.
    pub took: u64,
    /// The status of the answer, if there was one.
    pub status: Option<u16>,
    /// The first bytes of the answer.
    pub answer: DeliveryAnswer,
}

/// The first bytes of a target's answer, cut to [`limits::MAX_DELIVERY_ANSWER`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeliveryAnswer(Box<[u8]>);

impl DeliveryAnswer {
    /// Takes an answer, without what is over the limit.
    pub fn new(answer: &[u8]) -> Self {
        Self(answer[..answer.len().min(limits::MAX_DELIVERY_ANSWER)].into())
    }

    /// The bytes kept.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// What a read returns: the job, and its unset fields as they would be used now.
#[derive(Clone, Debug, PartialEq)]
pub struct JobView {
    /// The job as kept.
    pub job: Job,
    /// What it looked like when it was read.
    pub state: State,
    /// Time-to-run, resolved.
    pub ttr: Ttr,
    /// Retry policy, resolved.
    pub retry: RetryPolicy,
    /// When it expires, if ever.
    pub expires_at: Option<Timestamp>,
    /// Where it is pushed to, if it is.
    pub deliver_to: Option<Target>,
    /// What a push is signed with, newest first; never shown.
    pub deliver_secrets: Vec<Secret>,
}

impl JobView {
    /// `job` as seen at `now` under `rules`.
    pub fn new(job: Job, now: Timestamp, rules: &Rules<'_>) -> Self {
        Self {
            state: job.state(now),
            ttr: rules.ttr(&job),
            retry: rules.retry(&job).clone(),
            expires_at: rules.expires_at(&job),
            deliver_to: rules.deliver_to(&job).cloned(),
            deliver_secrets: rules.policy.deliver_secrets.clone(),
            job,
        }
    }
}

/// What is remembered of an acked job while its topic's `keep_done` lasts. It is not live: it cannot be changed,
/// cancelled or listed, but it answers look-ups and counts for `reject` and `keep`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoneJob {
    /// Where it was.
    pub topic: TopicName,
    /// The caller's name for it.
    pub id: JobId,
    /// The store's name for it.
    pub number: Number,
    /// Its last change: the ack.
    pub version: Version,
    /// When it was put.
    pub created_at: Timestamp,
    /// When it was due.
    pub due_at: Timestamp,
    /// The attempt that succeeded.
    pub attempt: u32,
    /// When it was acked.
    pub done_at: Timestamp,
}

impl DoneJob {
    /// `job` as it is remembered after an ack at `now`.
    pub fn new(job: &Job, version: Version, now: Timestamp) -> Self {
        Self {
            topic: job.topic.clone(),
            id: job.id.clone(),
            number: job.number,
            version,
            created_at: job.created_at,
            due_at: job.due_at,
            attempt: job.attempt,
            done_at: now,
        }
    }
}

/// The store's own name for a job, unique for ever in its store; below 2^53. A replaced job's successor has a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Number(u64);

/// The place of a job's last change in the store's sequence; below 2^53. It only grows, also when an id is used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(u64);

macro_rules! counted {
    ($name:ident) => {
        impl $name {
            /// `None` at 2^53 and above.
            pub const fn new(value: u64) -> Option<Self> {
                if value < limits::NUMBER_END { Some(Self(value)) } else { None }
            }

            /// The plain number.
            pub const fn get(self) -> u64 {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

counted!(Number);
counted!(Version);

/// Lower goes first; the default is 1,024.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(pub u32);

impl Priority {
    /// Where a job does not say.
    pub const DEFAULT: Self = Self(1_024);

    /// Whether it goes before the default one.
    pub fn is_urgent(self) -> bool {
        self < Self::DEFAULT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_reaches_both_ends_and_no_further() {
        let jitter = Delay::from_millis(10).unwrap();
        assert_eq!(share(jitter, 0), 0);
        assert_eq!(share(jitter, u64::MAX), 10);
        assert_eq!(share(Delay::ZERO, u64::MAX), 0);
        assert_eq!(share(Delay::MAX, u64::MAX), limits::MAX_DELAY);
    }

    #[test]
    fn numbers_survive_a_double() {
        assert_eq!(Number::new((1 << 53) - 1).map(Number::get), Some((1 << 53) - 1));
        assert_eq!(Number::new(1 << 53), None);
    }

    #[test]
    fn priority_goes_before_due_time_and_due_time_before_number() {
        let at = |millis| Timestamp::from_millis(millis).unwrap();
        let order = |priority, due, number| {
            let new = NewJob::new(TopicName::new("t").unwrap(), JobId::new("a").unwrap(), When::At(at(due)));
            let new = NewJob { priority: Priority(priority), ..new };
            Job::create(new, Number(number), Version(1), at(0), 0).unwrap().order()
        };
        let sorted = [order(0, 9, 9), order(1, 1, 9), order(1, 2, 1), order(1, 2, 2), order(2, 0, 0)];
        assert!(sorted.is_sorted_by(|a, b| a < b), "{sorted:?}");
        assert_eq!(Priority::DEFAULT, Priority(1_024));
        assert!(Priority(1_023).is_urgent() && !Priority::DEFAULT.is_urgent());
    }

    #[test]
    fn a_done_job_says_what_was_done_when() {
        let at = |millis| Timestamp::from_millis(millis).unwrap();
        let new = NewJob::new(TopicName::new("t").unwrap(), JobId::new("a").unwrap(), When::At(at(20)));
        let job = Job::create(new, Number(1), Version(2), at(10), 0).unwrap();
        let done = DoneJob::new(&Job { attempt: 3, ..job }, Version(5), at(30));
        assert_eq!((done.created_at, done.due_at, done.done_at), (at(10), at(20), at(30)));
        assert_eq!((done.number, done.version, done.attempt), (Number(1), Version(5), 3));
    }

    #[test]
    fn answers_are_cut() {
        assert_eq!(DeliveryAnswer::new(&[1; 1_000]).as_bytes().len(), 256);
    }

    #[test]
    fn jitter_does_not_reach_further_than_a_delay_may() {
        let at = |millis| Timestamp::from_millis(millis).unwrap();
        let half = Delay::from_millis(limits::MAX_DELAY / 2).unwrap();
        let more = Delay::from_millis(limits::MAX_DELAY / 2 + 1).unwrap();
        let new = NewJob::new(TopicName::new("t").unwrap(), JobId::new("a").unwrap(), When::In(half));
        assert!(NewJob { jitter: half, ..new.clone() }.due_at(at(0).into(), 0).is_ok());
        assert_eq!(NewJob { jitter: more, ..new }.due_at(at(0).into(), 0), Err(TimeError::TooFar));
    }

    #[test]
    fn a_ttl_counts_from_the_later_of_due_and_creation() {
        let at = |millis| Timestamp::from_millis(millis).unwrap();
        let topic = TopicName::new("t").unwrap();
        let make = |when| {
            let new = NewJob::new(topic.clone(), JobId::new("a").unwrap(), when);
            Job::create(new, Number(1), Version(1), at(1_000), 0).unwrap()
        };
        assert_eq!(make(When::At(at(10))).ttl_from, at(1_000));
        assert_eq!(make(When::At(at(10))).due_at, at(10));
        assert_eq!(make(When::At(at(2_000))).ttl_from, at(2_000));
    }
}
