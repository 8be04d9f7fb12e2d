//! Couriers: how a job gets to its target. One a scheme, behind one small trait.

use std::pin::Pin;
use std::time::Duration;

use dwell_core::{Body, Secret};

use crate::trace::Context;

/// A job on its way: what every courier needs to know of it.
#[derive(Clone, Debug)]
pub(crate) struct Parcel {
    /// Where it goes.
    pub(crate) address: String,
    /// What the receiver knows the job by: the same at every attempt.
    pub(crate) id: String,
    pub(crate) topic: String,
    pub(crate) job_id: String,
    /// Which attempt this is, from 1.
    pub(crate) attempt: u32,
    /// When it was due, as RFC 3339.
    pub(crate) due_at: String,
    /// This attempt, as a span of the trace that the job belongs to.
    pub(crate) span: Context,
    /// The job's own headers.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Body,
    /// What it is signed with, newest first.
    pub(crate) secrets: Vec<Secret>,
}

/// What became of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Landing {
    /// The target answered.
    Answered {
        status: u16,
        /// How long it asks to be left alone.
        retry_after: Option<Duration>,
        /// The first bytes of what it said.
        answer: Vec<u8>,
    },
    /// It did not answer in time.
    TimedOut,
    /// It was not reached, or broke off.
    Broken { reason: String },
    /// It may not be called.
    Refused { reason: String },
}

/// An attempt under way.
pub(crate) type Attempt<'a> = Pin<Box<dyn Future<Output = Landing> + Send + 'a>>;

/// Takes parcels to targets of one scheme.
pub(crate) trait Courier: Send + Sync {
    /// Makes one attempt, which ends within [`super::TIMEOUT`].
    fn deliver<'a>(&'a self, parcel: &'a Parcel) -> Attempt<'a>;
}
