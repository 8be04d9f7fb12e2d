//! Leases: how a job is asked for, held and settled.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::job::{Delivery, JobView, Number, Priority, Version};
use crate::limits;
use crate::names::{Consumer, ErrorText, Reason, TopicName};
use crate::target::Line;
use crate::time::{Delay, Timestamp, Ttr};

/// A consumer's hold on a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// What its holder shows to settle it.
    pub token: LeaseToken,
    /// From then on the token is worth nothing and the attempt has failed.
    pub expires_at: Timestamp,
    /// What an `extend` without a ttr of its own asks for.
    pub ttr: Ttr,
    /// Who holds it.
    pub consumer: Option<Consumer>,
}

/// What the holder of a lease shows: compared whole, so a stale or made-up one never settles anything.
///
/// It prints as `<number>-<version>-<secret>` in lower-case hexadecimal; callers treat that as opaque.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaseToken {
    /// The job.
    pub number: Number,
    /// The job's version when it was leased: the fence.
    pub version: Version,
    /// Sixty-four random bits: tokens cannot be guessed from one another.
    pub secret: u64,
}

impl fmt::Display for LeaseToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}-{:x}-{:016x}", self.number.get(), self.version.get(), self.secret)
    }
}

impl FromStr for LeaseToken {
    type Err = NotAToken;

    /// Reads exactly what [`LeaseToken`] prints; no other spelling of the same token.
    fn from_str(text: &str) -> Result<Self, NotAToken> {
        let hex = |part: Option<&str>| part.and_then(|p| u64::from_str_radix(p, 16).ok()).ok_or(NotAToken);
        let mut parts = text.split('-');
        let (number, version, secret) = (hex(parts.next())?, hex(parts.next())?, hex(parts.next())?);
        let number = Number::new(number).ok_or(NotAToken)?;
        let version = Version::new(version).ok_or(NotAToken)?;
        let token = Self { number, version, secret };
        if token.to_string() == text { Ok(token) } else { Err(NotAToken) }
    }
}

/// The text is no lease token. To a caller that is the same as a lost lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not a lease token")]
pub struct NotAToken;

/// A consumer's question for jobs.
#[derive(Clone, Debug, PartialEq)]
pub struct LeaseRequest {
    /// Which jobs.
    pub from: LeaseFrom,
    /// At most so many (1 to [`limits::MAX_LEASE`]).
    pub max: u32,
    /// How long to hold them; unset: as each job, its topic or the server says.
    pub ttr: Option<Ttr>,
    /// How long to wait for the first job, in real time. Zero: only look.
    pub wait: Duration,
    /// Who asks.
    pub consumer: Option<Consumer>,
    /// Settle the jobs in the same step: at most once, no tokens.
    pub auto_ack: bool,
}

impl LeaseRequest {
    /// One job of one topic, without waiting.
    pub fn of(topic: TopicName) -> Self {
        Self::from(LeaseFrom::Pull(vec![topic]))
    }

    /// One job, without waiting.
    pub fn from(from: LeaseFrom) -> Self {
        Self { from, max: 1, ttr: None, wait: Duration::ZERO, consumer: None, auto_ack: false }
    }

    /// The same for up to `max` jobs.
    #[must_use]
    pub fn up_to(self, max: u32) -> Self {
        Self { max: max.min(limits::MAX_LEASE), ..self }
    }

    /// The same, waiting that long for the first job.
    #[must_use]
    pub fn waiting(self, wait: Duration) -> Self {
        Self { wait: wait.min(Duration::from_millis(limits::MAX_WAIT)), ..self }
    }
}

/// Which jobs a lease call is for.
#[derive(Clone, Debug, PartialEq)]
pub enum LeaseFrom {
    /// As a consumer: line 0 of these topics. A topic whose policy pushes gives nothing here.
    Pull(Vec<TopicName>),
    /// As the courier of pushes: every pushed line of every topic but the blocked ones.
    Push(PushLines),
    /// This very job, be it ready, delayed or buried, paused topic or not: the asker names it and means it. The one
    /// way to get a job before it is due. Never one that is leased or whose ttl has run out. Does not wait.
    Number(Number),
}

/// Which pushed lines a courier wants to hear from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PushLines {
    /// At most so many jobs of one (topic, line) in one call, so that no backlog takes a whole answer; 0 means one.
    pub per_line: u32,
    /// Lines not to take from, in any topic: their targets are down or busy.
    pub blocked_lines: Vec<Line>,
    /// Topics whose own pushed line 0 is not to be taken from.
    pub blocked_topics: Vec<TopicName>,
}

/// A job in a consumer's hands.
#[derive(Clone, Debug, PartialEq)]
pub struct LeasedJob {
    /// The job, as leased.
    pub view: JobView,
    /// What settles it; `None` if it was settled as it was handed out.
    pub token: Option<LeaseToken>,
}

/// One lease to settle.
#[derive(Clone, Debug, PartialEq)]
pub struct Settle {
    /// Which.
    pub token: LeaseToken,
    /// How.
    pub verdict: Verdict,
    /// The push that led to it, kept beside the job.
    pub delivery: Option<Delivery>,
}

impl Settle {
    /// A verdict without a push behind it.
    pub fn new(token: LeaseToken, verdict: Verdict) -> Self {
        Self { token, verdict, delivery: None }
    }
}

/// What a holder says of its job.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Done: the job is gone.
    Ack,
    /// Failed: the retry policy says when it is due again, or buries it.
    Nack {
        /// What went wrong.
        error: Option<ErrorText>,
        /// Instead of the policy's step; the attempt counts all the same.
        delay: Option<Delay>,
    },
    /// Given back without blame: the attempt is uncounted.
    Release {
        /// Due that long from now; unset: it keeps its place.
        delay: Option<Delay>,
        /// A new priority.
        priority: Option<Priority>,
    },
    /// Put aside until someone redrives, moves or cancels it.
    Bury {
        /// Why; unset: [`Reason::BURIED`].
        reason: Option<Reason>,
        /// A new priority.
        priority: Option<Priority>,
    },
    /// Held for longer: the lease ends that long from now.
    Extend {
        /// Unset: the lease's own ttr.
        ttr: Option<Ttr>,
    },
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_the_one_spelling_is_a_token() {
        let token = LeaseToken { number: Number::new(7).unwrap(), version: Version::new(0x1a).unwrap(), secret: 0x8f };
        assert_eq!(token.to_string(), "7-1a-000000000000008f");
        for wrong in [
            "",
            "7",
            "7-1a",
            "7-1a-8f",
            "07-1a-000000000000008f",
            "7-1A-000000000000008f",
            "7-1a-000000000000008f-",
            "+7-1a-000000000000008f",
            "7-1a-0000000000000008f",
            "20000000000000-1a-000000000000008f",
            "ffffffffffffffffff-1-000000000000008f",
        ] {
            assert_eq!(wrong.parse::<LeaseToken>(), Err(NotAToken), "{wrong}");
        }
    }

    #[test]
    fn a_request_is_for_one_job_at_once_and_keeps_to_the_limits() {
        let request = LeaseRequest::of(TopicName::new("t").unwrap());
        assert_eq!((request.max, request.wait, request.auto_ack), (1, Duration::ZERO, false));
        let request = request.up_to(u32::MAX).waiting(Duration::MAX);
        assert_eq!((request.max, request.wait), (1_000, Duration::from_mins(1)));
    }

    proptest! {
        #[test]
        fn every_token_reads_back(number in 0..limits::NUMBER_END, version in 0..limits::NUMBER_END, secret: u64) {
            let (number, version) = (Number::new(number).unwrap(), Version::new(version).unwrap());
            let token = LeaseToken { number, version, secret };
            prop_assert_eq!(token.to_string().parse(), Ok(token));
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "\\PC*") {
            if let Ok(token) = text.parse::<LeaseToken>() {
                prop_assert_eq!(token.to_string(), text);
            }
        }
    }
}
