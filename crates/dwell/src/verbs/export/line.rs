//! What a line of an export says.

use dwell_core::limits::{DEFAULT_ATTEMPTS, DEFAULT_TTR, HOUR, SECOND};
use dwell_wire::change::Edit;
use dwell_wire::job::Job;
use dwell_wire::put::PutJob;
use dwell_wire::retry::{Backoff, Exponential, LooseDuration, Retry};
use dwell_wire::topic::{Policy, Topic};
use dwell_wire::{Duration, Instant};
use serde::Serialize;

/// What the protocol's own ids begin with: nobody else may put them.
const OWN: char = '$';

/// A job: what a put can carry. `ttl` is given as the instant it ends at, because a put counts from its own time.
#[derive(Serialize)]
pub(super) struct JobLine<'a> {
    #[serde(flatten)]
    put: PutJob<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Instant>,
}

/// What a topic says for all its jobs, and whether it is paused.
#[derive(Serialize)]
pub(super) struct TopicLine<'a> {
    topic: &'a str,
    policy: Policy,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    paused: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    paused_until: Option<Instant>,
}

/// A line for a topic that has something to say.
pub(super) fn of_topic(topic: &Topic) -> Option<TopicLine<'_>> {
    if topic.policy == Policy::default() && !topic.paused {
        return None;
    }
    // Secrets are never shown.
    let policy = Policy { deliver_secret: Edit::Keep, ..topic.policy.clone() };
    Some(TopicLine { topic: &topic.name, policy, paused: topic.paused, paused_until: topic.paused_until })
}

/// A line for a job. What it has from its topic or the server, it will have from them again.
pub(super) fn of_job<'a>(job: &'a Job, policy: &Policy) -> JobLine<'a> {
    let ttr = policy.ttr.unwrap_or(Duration(DEFAULT_TTR));
    let retry = policy.retry.clone().unwrap_or_else(servers_retry);
    // A job put over beanstalk has no id of its own, only a number.
    let id = match job.id.strip_prefix(OWN) {
        Some(number) => format!("beanstalk-{number}").into(),
        None => job.id.as_str().into(),
    };
    let put = PutJob {
        topic: Some(job.topic.as_str().into()),
        id: Some(id),
        at: Some(job.due_at),
        body: job.body.as_deref(),
        body_base64: job.body_base64.as_deref().map(Into::into),
        headers: (!job.headers.is_empty()).then(|| job.headers.clone()),
        priority: job.priority,
        ttr: job.ttr_ms.map(Duration).filter(|own| *own != ttr),
        retry: job.retry.clone().filter(|own| *own != retry),
        deliver_to: job.deliver_to.as_deref().filter(|own| Some(*own) != policy.deliver_to.as_deref()).map(Into::into),
        ..PutJob::default()
    };
    JobLine { put, expires_at: job.expires_at }
}

/// What the server says where neither job nor topic does.
fn servers_retry() -> Retry {
    let rest = |millis| Some(LooseDuration(Duration(millis)));
    let backoff = Exponential { initial: rest(SECOND), factor: Some(2.0), max: rest(HOUR), jitter: Some(0.1) };
    Retry { attempts: Some(DEFAULT_ATTEMPTS), backoff: Some(Backoff::Exponential(backoff)) }
}
