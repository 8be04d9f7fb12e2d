//! What a handler can say, and what is told of it.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use super::hold::End;
use crate::error::Error;

/// A failed attempt: why, and when the job is to come again. Any error turns into one with `?`, and then the job's retry
/// policy says when.
pub struct Retry {
    pub(super) when: When,
    pub(super) reason: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    ByPolicy,
    After(Duration),
    Never,
}

impl Retry {
    /// Comes again when its retry policy says, or is buried if that allows no more attempts.
    pub fn by_policy(reason: impl fmt::Display) -> Self {
        Self { when: When::ByPolicy, reason: reason.to_string() }
    }

    /// Comes again that long from now. It replaces the policy's rest, never its count.
    pub fn after(rest: Duration, reason: impl fmt::Display) -> Self {
        Self { when: When::After(rest), reason: reason.to_string() }
    }

    /// Never comes again by itself: it is buried, a dead letter for people to look at and redrive.
    pub fn never(reason: impl fmt::Display) -> Self {
        Self { when: When::Never, reason: reason.to_string() }
    }
}

impl fmt::Debug for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retry").field("when", &self.when).field("reason", &self.reason).finish()
    }
}

impl<E: StdError> From<E> for Retry {
    fn from(error: E) -> Self {
        let mut reason = error.to_string();
        let mut cause = error.source();
        while let Some(deeper) = cause {
            reason = format!("{reason}: {deeper}");
            cause = deeper.source();
        }
        Self::by_policy(reason)
    }
}

/// Something that a log may want to know.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// The server does not answer, or cannot work; it is asked again after the rest.
    Away {
        /// What is wrong.
        error: Error,
        /// How long until it is asked again.
        rest: Duration,
    },
    /// A handler failed; the server was told.
    Failed {
        /// Where the job queues.
        topic: String,
        /// Its id.
        id: String,
        /// The attempt that failed.
        attempt: u32,
        /// Why.
        reason: String,
    },
    /// A lease was lost while its handler ran; what that said was not heard.
    LeaseLost {
        /// Where the job queues.
        topic: String,
        /// Its id.
        id: String,
    },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Away { error, rest } => write!(f, "{error}; asking again in {} ms", rest.as_millis()),
            Self::Failed { topic, id, attempt, reason } => {
                write!(f, "{id} on {topic} failed at attempt {attempt}: {reason}")
            }
            Self::LeaseLost { topic, id } => write!(f, "the lease of {id} on {topic} is lost"),
        }
    }
}

/// What became of the jobs of a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Done.
    pub acked: u64,
    /// Failed, to come again or to be buried by their policy.
    pub nacked: u64,
    /// Buried because the handler said so.
    pub buried: u64,
    /// Given back without having been begun.
    pub released: u64,
    /// Somebody else's before the handler had ended, or nobody was there to hear what it said.
    pub lost: u64,
}

impl Tally {
    pub(super) fn add(&mut self, end: End) {
        match end {
            End::Acked => self.acked += 1,
            End::Nacked => self.nacked += 1,
            End::Buried => self.buried += 1,
            End::Lost => self.lost += 1,
        }
    }
}
