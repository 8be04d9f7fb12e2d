//! What a topic says for all its jobs, and how unset fields are resolved: job, then topic, then server.

use std::fmt;
use std::num::NonZeroU32;

use crate::job::Job;
use crate::limits;
use crate::retry::RetryPolicy;
use crate::target::Target;
use crate::time::{Delay, Timestamp, Ttl, Ttr};

/// What a topic says for all its jobs. Unset fields fall through to the server's [`Defaults`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TopicPolicy {
    /// Time-to-run of jobs that do not say.
    pub ttr: Option<Ttr>,
    /// Retry policy of jobs that do not say.
    pub retry: Option<RetryPolicy>,
    /// Ttl of jobs that do not say.
    pub ttl: Option<Ttl>,
    /// Pushes all jobs of the topic that have no target of their own.
    pub deliver_to: Option<Target>,
    /// Keys that pushes are signed with, newest first, at most [`limits::MAX_SECRETS`].
    pub deliver_secrets: Vec<Secret>,
    /// Live leases at once, pull and push together.
    pub max_in_flight: Option<NonZeroU32>,
    /// Jobs handed out a second, in bursts of at most one second's worth. Jobs leased by their number go in any case,
    /// and count. A start begins with a full burst: how much of it was used before is not kept.
    pub max_rate: Option<Rate>,
    /// Dead letters are dropped this long after they were buried; unset: kept until someone acts.
    pub keep_buried: Option<Delay>,
    /// An acked job is remembered this long; unset or 0: not at all.
    pub keep_done: Option<Delay>,
}

/// What the server says where neither job nor topic does.
#[derive(Clone, Debug, PartialEq)]
pub struct Defaults {
    /// Time-to-run.
    pub ttr: Ttr,
    /// Retry policy.
    pub retry: RetryPolicy,
}

impl Default for Defaults {
    fn default() -> Self {
        Self { ttr: Ttr::DEFAULT, retry: RetryPolicy::default() }
    }
}

/// A topic's policy over the server's defaults: what holds for a job that does not say otherwise.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'a> {
    /// The topic's.
    pub policy: &'a TopicPolicy,
    /// The server's.
    pub defaults: &'a Defaults,
}

impl Rules<'_> {
    /// How long a lease of `job` lasts.
    pub fn ttr(&self, job: &Job) -> Ttr {
        job.options.ttr.or(self.policy.ttr).unwrap_or(self.defaults.ttr)
    }

    /// How `job` is tried again.
    pub fn retry<'j>(&'j self, job: &'j Job) -> &'j RetryPolicy {
        job.options.retry.as_ref().or(self.policy.retry.as_ref()).unwrap_or(&self.defaults.retry)
    }

    /// When `job` is no longer worth handing over, if ever.
    pub fn expires_at(&self, job: &Job) -> Option<Timestamp> {
        let ttl = job.options.ttl.or(self.policy.ttl)?;
        Some(job.ttl_from.plus(ttl.as_millis()))
    }

    /// Where `job` is pushed to, if it is.
    pub fn deliver_to<'j>(&'j self, job: &'j Job) -> Option<&'j Target> {
        job.options.deliver_to.as_ref().or(self.policy.deliver_to.as_ref())
    }
}

/// A key to sign pushes with. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<[u8]>);

impl Secret {
    /// Takes a key; `None` if it is empty or over [`limits::MAX_SECRET`] bytes.
    pub fn new(key: &[u8]) -> Option<Self> {
        (1..=limits::MAX_SECRET).contains(&key.len()).then(|| Self(key.into()))
    }

    /// The key, to sign with.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Jobs a second, in thousandths: 0.001 to 1,000,000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate {
    thousandths: u64,
}

impl Rate {
    /// Takes a rate in range, to the nearest thousandth; `None` if it is out of range or not a number.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be in range")]
    pub fn per_second(jobs: f64) -> Option<Self> {
        let in_range = (limits::MIN_RATE..=limits::MAX_RATE).contains(&jobs);
        in_range.then(|| Self { thousandths: (jobs * 1_000.0).round() as u64 })
    }

    /// Jobs a second.
    #[expect(clippy::cast_precision_loss, reason = "at most 10^9")]
    pub fn as_per_second(self) -> f64 {
        self.thousandths as f64 / 1_000.0
    }

    /// Milliseconds until job number `k` (0-based) of a row that goes at this rate.
    pub fn offset(self, k: u64) -> u64 {
        k.saturating_mul(MILLIONTHS).div_ceil(self.thousandths)
    }

    /// One second's worth, at least one job, in millionths of a job.
    fn burst(self) -> u64 {
        (self.thousandths * 1_000).max(MILLIONTHS)
    }
}

/// Buckets count in millionths of a job: a rate in thousandths a second is as many millionths a millisecond, exactly.
const MILLIONTHS: u64 = 1_000_000;

/// How many jobs a topic with a `max_rate` may hand out now: a bucket that holds one second's worth (at least one
/// job) and is full when the topic gets its rate or the store starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateBucket {
    millionths: u64,
    filled_at: Timestamp,
}

impl RateBucket {
    /// A full bucket.
    pub fn full(rate: Rate, now: Timestamp) -> Self {
        Self { millionths: rate.burst(), filled_at: now }
    }

    /// Fills up to `now` and says how many whole jobs may go.
    pub fn available(&mut self, rate: Rate, now: Timestamp) -> u32 {
        let gained = now.since(self.filled_at).saturating_mul(rate.thousandths);
        self.millionths = self.millionths.saturating_add(gained).min(rate.burst());
        self.filled_at = self.filled_at.max(now);
        u32::try_from(self.millionths / MILLIONTHS).expect("at most a million jobs")
    }

    /// Takes `jobs` out at `now`; there may be fewer left, if someone does not ask.
    pub fn take(&mut self, rate: Rate, now: Timestamp, jobs: u32) {
        self.available(rate, now);
        self.millionths = self.millionths.saturating_sub(u64::from(jobs) * MILLIONTHS);
    }

    /// When the next job may go.
    pub fn next_at(&self, rate: Rate) -> Timestamp {
        let missing = MILLIONTHS.saturating_sub(self.millionths);
        self.filled_at.plus(missing.div_ceil(rate.thousandths))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{NewJob, Number, Options, Version};
    use crate::names::{JobId, TopicName};
    use crate::retry::Ladder;
    use crate::time::When;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis).unwrap()
    }

    #[test]
    fn a_bucket_gives_one_second_at_once_and_then_keeps_the_pace() {
        let rate = Rate::per_second(10.0).unwrap();
        let mut bucket = RateBucket::full(rate, at(0));
        assert_eq!(bucket.available(rate, at(0)), 10);
        bucket.take(rate, at(0), 10);
        assert_eq!(bucket.available(rate, at(99)), 0);
        assert_eq!(bucket.next_at(rate), at(100));
        assert_eq!(bucket.available(rate, at(100)), 1);
        assert_eq!(bucket.available(rate, at(1_000_000)), 10);
    }

    #[test]
    fn a_slow_rate_still_gives_whole_jobs() {
        let rate = Rate::per_second(0.1).unwrap();
        let mut bucket = RateBucket::full(rate, at(0));
        assert_eq!(bucket.available(rate, at(0)), 1);
        bucket.take(rate, at(0), 1);
        assert_eq!(bucket.next_at(rate), at(10_000));
        assert_eq!(bucket.available(rate, at(9_999)), 0);
        assert_eq!(bucket.available(rate, at(10_000)), 1);
    }

    #[test]
    fn what_is_taken_is_taken_from_what_is_there_then() {
        let rate = Rate::per_second(2.0).unwrap();
        let (mut seen, mut unseen) = (RateBucket::full(rate, at(0)), RateBucket::full(rate, at(0)));
        seen.available(rate, at(700));
        for bucket in [&mut seen, &mut unseen] {
            bucket.take(rate, at(700), 2);
            assert_eq!((bucket.available(rate, at(1_199)), bucket.available(rate, at(1_200))), (0, 1));
        }
    }

    #[test]
    fn a_bucket_never_gains_from_a_clock_that_stands_or_falls() {
        let rate = Rate::per_second(1.0).unwrap();
        let mut bucket = RateBucket::full(rate, at(5_000));
        bucket.take(rate, at(5_000), 1);
        assert_eq!(bucket.available(rate, at(4_000)), 0);
        assert_eq!(bucket.available(rate, at(5_999)), 0);
        assert_eq!(bucket.available(rate, at(6_000)), 1);
    }

    #[test]
    fn the_next_job_goes_no_earlier_than_the_bucket_allows() {
        let rate = Rate::per_second(3.0).unwrap();
        let mut bucket = RateBucket::full(rate, at(0));
        bucket.take(rate, at(0), 3);
        assert_eq!(bucket.next_at(rate), at(334));
        assert_eq!((bucket.available(rate, at(333)), bucket.available(rate, at(334))), (0, 1));
    }

    #[test]
    fn the_job_goes_before_its_topic_and_the_topic_before_the_server() {
        let ttr = |secs: u64| Ttr::from_millis(secs * 1_000).unwrap();
        let ttl = |millis| Ttl::from_millis(millis).unwrap();
        let retry = |step| Ladder::new(&[Delay::from_millis(step).unwrap()]).unwrap().into_policy();
        let target = |host: &str| Target::new(host, host).unwrap();
        let defaults = Defaults { ttr: ttr(3), retry: retry(3) };
        let (own, of_topic) = (target("own"), target("topic"));
        let policy = TopicPolicy {
            ttr: Some(ttr(2)),
            retry: Some(retry(2)),
            ttl: Some(ttl(2)),
            deliver_to: Some(of_topic.clone()),
            ..TopicPolicy::default()
        };
        let new = NewJob::new(TopicName::new("t").unwrap(), JobId::new("a").unwrap(), When::At(at(100)));
        let mut job = Job::create(new, Number::new(1).unwrap(), Version::new(1).unwrap(), at(0), 0).unwrap();
        let said = |job: &Job, policy: &TopicPolicy| {
            let rules = Rules { policy, defaults: &defaults };
            (rules.ttr(job), rules.retry(job).clone(), rules.expires_at(job), rules.deliver_to(job).cloned())
        };
        assert_eq!(said(&job, &TopicPolicy::default()), (ttr(3), retry(3), None, None));
        assert_eq!(said(&job, &policy), (ttr(2), retry(2), Some(at(102)), Some(of_topic)));
        job.options =
            Options { ttr: Some(ttr(1)), retry: Some(retry(1)), ttl: Some(ttl(1)), deliver_to: Some(own.clone()) };
        assert_eq!(said(&job, &policy), (ttr(1), retry(1), Some(at(101)), Some(own)));
    }

    #[test]
    fn rates_are_bounded() {
        for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY, 1_000_001.0] {
            assert_eq!(Rate::per_second(wrong), None, "{wrong}");
        }
        assert_eq!(Rate::per_second(3.0).unwrap().offset(1), 334);
        assert_eq!(Rate::per_second(10.0).unwrap().offset(25), 2_500);
    }

    #[test]
    fn secrets_do_not_print() {
        let secret = Secret::new(b"hush").unwrap();
        assert_eq!(format!("{secret:?}"), "Secret(…)");
        assert_eq!(Secret::new(b""), None);
        assert_eq!(Secret::new(&[7; 255]).map(|secret| secret.expose().len()), Some(255));
        assert_eq!(Secret::new(&[7; 256]), None);
    }
}
