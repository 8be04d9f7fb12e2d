//! What an attempt means for its job.

use std::time::Duration;

use dwell_core::{Delay, ErrorText, JobView, Reason, Verdict};

use super::TIMEOUT;
use super::courier::Landing;

/// How it went, as metrics call it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Outcome {
    /// 2xx.
    Delivered,
    /// 410: the target is gone for good.
    Gone,
    /// 429 or 503 with `Retry-After`.
    Later,
    /// Any other status.
    Failed,
    /// No answer in time.
    TimedOut,
    /// Not reached, or broken off.
    Broken,
    /// It may not be called.
    Refused,
}

impl Outcome {
    /// What a landing is.
    pub(crate) fn of(landing: &Landing) -> Self {
        match landing {
            Landing::Answered { status: 200..=299, .. } => Self::Delivered,
            Landing::Answered { status: 410, .. } => Self::Gone,
            Landing::Answered { status: 429 | 503, retry_after: Some(_), .. } => Self::Later,
            Landing::Answered { .. } => Self::Failed,
            Landing::TimedOut => Self::TimedOut,
            Landing::Broken { .. } => Self::Broken,
            Landing::Refused { .. } => Self::Refused,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Gone => "gone",
            Self::Later => "later",
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
            Self::Broken => "broken",
            Self::Refused => "refused",
        }
    }
}

/// What went wrong, in a line.
pub(crate) fn error(landing: &Landing) -> Option<String> {
    match landing {
        Landing::Answered { status: 200..=299, .. } => None,
        Landing::Answered { status, .. } => Some(format!("the target answered {}", status_line(*status))),
        Landing::TimedOut => Some(format!("no answer within {} s", TIMEOUT.as_secs())),
        Landing::Broken { reason } => Some(reason.clone()),
        Landing::Refused { reason } => Some(format!("the target {reason}")),
    }
}

fn status_line(status: u16) -> String {
    let code = axum::http::StatusCode::from_u16(status).ok();
    let reason = code.and_then(|code| code.canonical_reason());
    reason.map_or_else(|| status.to_string(), |reason| format!("{status} {reason}"))
}

/// What the holder of the job says of it. `random` is for the policy's jitter where the target's own wish is compared
/// with it.
pub(crate) fn verdict(landing: &Landing, view: &JobView, random: u64) -> Verdict {
    match Outcome::of(landing) {
        Outcome::Delivered => Verdict::Ack,
        Outcome::Gone => Verdict::Bury { reason: Some(Reason::own(Reason::GONE)), priority: None },
        Outcome::Refused => Verdict::Bury { reason: Some(Reason::own(Reason::TARGET_REFUSED)), priority: None },
        Outcome::Later => nack(landing, later(landing, view, random)),
        Outcome::Failed | Outcome::TimedOut | Outcome::Broken => nack(landing, None),
    }
}

fn nack(landing: &Landing, delay: Option<Delay>) -> Verdict {
    Verdict::Nack { error: error(landing).map(|error| ErrorText::new(&error)), delay }
}

/// The later of the target's wish and the policy's step; `None` where the step is left to the store.
fn later(landing: &Landing, view: &JobView, random: u64) -> Option<Delay> {
    let Landing::Answered { retry_after: Some(wish), .. } = landing else { return None };
    let wish = Delay::from_millis(millis(*wish)).unwrap_or(Delay::MAX);
    let step = view.retry.backoff.step(view.job.attempt, random);
    Some(wish.max(step))
}

/// Whole milliseconds, rounded up.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use dwell_core::{
        Defaults, Job, JobId, Ladder, NewJob, Number, Options, Rules, Timestamp, TopicName, TopicPolicy, Version, When,
    };

    use super::*;

    fn answered(status: u16, retry_after: Option<u64>) -> Landing {
        let retry_after = retry_after.map(Duration::from_secs);
        Landing::Answered { status, retry_after, answer: Vec::new() }
    }

    /// A job at its second attempt of a ladder of 15 s, 3 m, 10 m.
    fn view() -> JobView {
        let steps = [15_000, 180_000, 600_000].map(|step| Delay::from_millis(step).unwrap());
        let options = Options { retry: Some(Ladder::new(&steps).unwrap().into_policy()), ..Options::default() };
        let new = NewJob::new(TopicName::new("t").unwrap(), JobId::new("a").unwrap(), When::NOW);
        let new = NewJob { options, ..new };
        let job = Job::create(new, Number::new(1).unwrap(), Version::new(1).unwrap(), Timestamp::EPOCH, 0).unwrap();
        let (policy, defaults) = (TopicPolicy::default(), Defaults::default());
        let rules = Rules { policy: &policy, defaults: &defaults };
        JobView::new(Job { attempt: 2, ..job }, Timestamp::EPOCH, &rules)
    }

    #[test]
    fn every_answer_has_its_verdict() {
        let bury = |reason: &'static str| Verdict::Bury { reason: Some(Reason::own(reason)), priority: None };
        let nack = |error: &str, delay: Option<u64>| Verdict::Nack {
            error: Some(ErrorText::new(error)),
            delay: delay.map(|delay| Delay::from_millis(delay).unwrap()),
        };
        let refused = Landing::Refused { reason: "is 10.0.0.1".to_owned() };
        let broken = Landing::Broken { reason: "connection refused".to_owned() };
        for (landing, wanted) in [
            (answered(200, None), Verdict::Ack),
            (answered(201, None), Verdict::Ack),
            (answered(204, Some(60)), Verdict::Ack),
            (answered(299, None), Verdict::Ack),
            (answered(410, None), bury("gone")),
            (answered(410, Some(60)), bury("gone")),
            (answered(301, None), nack("the target answered 301 Moved Permanently", None)),
            (answered(304, None), nack("the target answered 304 Not Modified", None)),
            (answered(400, None), nack("the target answered 400 Bad Request", None)),
            (answered(500, Some(600)), nack("the target answered 500 Internal Server Error", None)),
            (answered(599, None), nack("the target answered 599", None)),
            (answered(429, None), nack("the target answered 429 Too Many Requests", None)),
            (answered(503, None), nack("the target answered 503 Service Unavailable", None)),
            // The step after the second failure is 3 m.
            (answered(429, Some(60)), nack("the target answered 429 Too Many Requests", Some(180_000))),
            (answered(429, Some(181)), nack("the target answered 429 Too Many Requests", Some(181_000))),
            (answered(503, Some(3_600)), nack("the target answered 503 Service Unavailable", Some(3_600_000))),
            (Landing::TimedOut, nack("no answer within 15 s", None)),
            (broken, nack("connection refused", None)),
            (refused, bury("target_refused")),
        ] {
            assert_eq!(verdict(&landing, &view(), 0), wanted, "{landing:?}");
        }
    }
}
