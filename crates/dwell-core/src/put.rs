//! What a put does when it meets a job of the same topic and id.

use crate::error::PutError;
use crate::job::{DoneJob, IfExists, Job, JobView, NewJob, Number, Version};
use crate::limits;
use crate::policy::Rules;
use crate::retry::RetryPolicy;
use crate::state::{Phase, State};
use crate::target::Target;
use crate::time::{Timestamp, Ttr};

/// The job of the same topic and id that a put meets.
#[derive(Clone, Copy, Debug)]
pub enum Existing<'a> {
    /// A live one.
    Live(&'a Job),
    /// One that was acked and is remembered.
    Done(&'a DoneJob),
}

/// What the put does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutPlan {
    /// A new job; nothing live is in its way.
    Create,
    /// A new job in place of the live one.
    Replace,
    /// Nothing: the old one stays.
    Keep,
}

/// Says what `new` does to `existing`, which [`crate::state::pass_time`] has brought up to now. The version is judged
/// before everything else.
pub fn plan(new: &NewJob, existing: Option<Existing<'_>>) -> Result<PutPlan, PutError> {
    if let Some(wanted) = new.if_match {
        let found = existing.and_then(|existing| match existing {
            Existing::Live(job) => Some(job.version),
            Existing::Done(_) => None,
        });
        if found != Some(wanted) {
            return Err(PutError::VersionMismatch);
        }
    }
    if new.body.len() > limits::MAX_BODY {
        return Err(PutError::TooLarge);
    }
    match (existing, new.if_exists) {
        (None, _) | (Some(Existing::Done(_)), IfExists::Replace) => Ok(PutPlan::Create),
        (Some(_), IfExists::Reject) => Err(PutError::JobExists),
        (Some(_), IfExists::Keep) => Ok(PutPlan::Keep),
        (Some(Existing::Live(job)), IfExists::Replace) if matches!(job.phase, Phase::Leased(_)) && !new.force => {
            Err(PutError::JobLeased)
        }
        (Some(Existing::Live(_)), IfExists::Replace) => Ok(PutPlan::Replace),
    }
}

/// What a put answers.
#[derive(Clone, Debug, PartialEq)]
pub enum PutOutcome {
    /// There was none.
    Created(Receipt),
    /// It took the place of a live one.
    Replaced(Receipt),
    /// The one that was there stays.
    Kept(Found),
}

/// What the store adds to what the caller sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Receipt {
    /// The store's name for the job.
    pub number: Number,
    /// Its version.
    pub version: Version,
    /// When it was put.
    pub created_at: Timestamp,
    /// When it is due, jitter included.
    pub due_at: Timestamp,
    /// When it expires, if ever.
    pub expires_at: Option<Timestamp>,
    /// Delayed or ready.
    pub state: State,
    /// Time-to-run, resolved.
    pub ttr: Ttr,
    /// Retry policy, resolved.
    pub retry: RetryPolicy,
    /// Where it is pushed to, if it is.
    pub deliver_to: Option<Target>,
}

impl Receipt {
    /// The receipt of a job that was just put.
    pub fn new(job: &Job, now: Timestamp, rules: &Rules<'_>) -> Self {
        Self {
            number: job.number,
            version: job.version,
            created_at: job.created_at,
            due_at: job.due_at,
            expires_at: rules.expires_at(job),
            state: job.state(now),
            ttr: rules.ttr(job),
            retry: rules.retry(job).clone(),
            deliver_to: rules.deliver_to(job).cloned(),
        }
    }
}

/// What a look-up finds.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    /// A live job.
    Live(Box<JobView>),
    /// One that was acked and is remembered.
    Done(DoneJob),
}

impl Found {
    /// The live job, if it is one.
    pub fn live(self) -> Option<JobView> {
        match self {
            Self::Live(view) => Some(*view),
            Self::Done(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{JobView, Version};
    use crate::lease::{Lease, LeaseToken};
    use crate::names::{JobId, TopicName};
    use crate::payload::Body;
    use crate::policy::{Defaults, TopicPolicy};
    use crate::time::When;

    /// Columns: nothing there, waiting, leased, done. `force` only matters where a column says so.
    const TABLE: [(IfExists, bool, [&str; 4]); 4] = [
        (IfExists::Replace, false, ["Create", "Replace", "JobLeased", "Create"]),
        (IfExists::Replace, true, ["Create", "Replace", "Replace", "Create"]),
        (IfExists::Keep, false, ["Create", "Keep", "Keep", "Keep"]),
        (IfExists::Reject, true, ["Create", "JobExists", "JobExists", "JobExists"]),
    ];

    #[test]
    fn every_put_meets_every_job() {
        let (waiting, leased) = (job(), leased_job());
        let done = DoneJob::new(&waiting, version(5), Timestamp::EPOCH);
        let met = [None, Some(Existing::Live(&waiting)), Some(Existing::Live(&leased)), Some(Existing::Done(&done))];
        for (if_exists, force, expected) in TABLE {
            for (existing, expected) in met.into_iter().zip(expected) {
                let answer = plan(&NewJob { if_exists, force, ..new() }, existing);
                let answer = answer.map_or_else(|error| format!("{error:?}"), |plan| format!("{plan:?}"));
                assert_eq!(answer, expected, "{if_exists:?} meets {existing:?}");
            }
        }
    }

    #[test]
    fn the_version_is_judged_first_and_only_a_live_job_has_one() {
        let leased = leased_job();
        let done = DoneJob::new(&leased, version(3), Timestamp::EPOCH);
        let matching = |value| NewJob { if_match: Some(version(value)), if_exists: IfExists::Replace, ..new() };
        assert_eq!(plan(&matching(3), Some(Existing::Live(&job()))), Ok(PutPlan::Replace));
        assert_eq!(plan(&matching(4), Some(Existing::Live(&leased))), Err(PutError::VersionMismatch));
        assert_eq!(plan(&matching(3), Some(Existing::Live(&leased))), Err(PutError::JobLeased));
        assert_eq!(plan(&matching(3), Some(Existing::Done(&done))), Err(PutError::VersionMismatch));
        assert_eq!(plan(&matching(3), None), Err(PutError::VersionMismatch));
    }

    #[test]
    fn a_body_no_store_takes_is_refused() {
        let sized = |length: usize| NewJob { body: Body::Bytes(vec![0; length].into()), ..new() };
        assert_eq!(plan(&sized(limits::MAX_BODY), None), Ok(PutPlan::Create));
        assert_eq!(plan(&sized(limits::MAX_BODY + 1), None), Err(PutError::TooLarge));
    }

    #[test]
    fn only_a_live_find_is_live() {
        let (policy, defaults) = (TopicPolicy::default(), Defaults::default());
        let view = JobView::new(job(), Timestamp::EPOCH, &Rules { policy: &policy, defaults: &defaults });
        let done = DoneJob::new(&job(), version(5), Timestamp::EPOCH);
        assert_eq!(Found::Live(Box::new(view.clone())).live(), Some(view));
        assert_eq!(Found::Done(done).live(), None);
    }

    fn version(value: u64) -> Version {
        Version::new(value).unwrap()
    }

    fn new() -> NewJob {
        NewJob::new(TopicName::new("t").unwrap(), JobId::new("a").unwrap(), When::NOW)
    }

    fn job() -> Job {
        Job::create(new(), Number::new(1).unwrap(), version(3), Timestamp::EPOCH, 0).unwrap()
    }

    fn leased_job() -> Job {
        let token = LeaseToken { number: Number::new(1).unwrap(), version: version(3), secret: 0 };
        let phase = Phase::Leased(Lease { token, expires_at: Timestamp::MAX, ttr: Ttr::MIN, consumer: None });
        Job { phase, ..job() }
    }
}
