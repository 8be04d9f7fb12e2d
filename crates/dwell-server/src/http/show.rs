//! What a store answers, turned into what travels.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use dwell_core::{
    Backoff, Body, Counts, Delivery, DoneJob, Found, Job, JobView, Pause, Phase, Receipt, RetryPolicy, State, Target,
    Timestamp, TopicInfo, TopicPolicy, Totals,
};
use dwell_wire::change::Edit;
use dwell_wire::job::Attempt;
use dwell_wire::put::Outcome;
use dwell_wire::retry::{Exponential, LooseDuration, Retry};
use dwell_wire::{Duration, Instant, job, retry, topic};
use serde_json::value::RawValue;

pub(super) fn instant(at: Timestamp) -> Instant {
    Instant(at.as_millis())
}

pub(super) fn state(state: State) -> job::State {
    match state {
        State::Delayed => job::State::Delayed,
        State::Ready => job::State::Ready,
        State::Leased => job::State::Leased,
        State::Buried => job::State::Buried,
    }
}

/// A job with all that it carries.
pub(super) fn whole_job(mut view: JobView) -> job::Job {
    let headers = view.job.headers.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let body = std::mem::take(&mut view.job.body);
    let (body, body_base64) = match &body {
        Body::Json(text) => match raw(text) {
            Some(json) => (Some(json), None),
            // It was checked when it came in. If it is not JSON all the same, it is at least not lost.
            None => (None, Some(STANDARD.encode(text))),
        },
        Body::Bytes(bytes) => (None, Some(STANDARD.encode(bytes))),
    };
    job::Job { headers, body, body_base64, ..bare_job(view) }
}

/// A stored text, if it is JSON.
fn raw(text: &[u8]) -> Option<Box<RawValue>> {
    let text = std::str::from_utf8(text).ok()?.to_owned();
    RawValue::from_string(text).ok()
}

/// A job without body and headers.
pub(super) fn bare_job(view: JobView) -> job::Job {
    let JobView { job: kept, state: seen, ttr, retry, expires_at, deliver_to, deliver_secrets: _ } = view;
    let Job { topic, id, number, version, phase, created_at, due_at, priority, attempt, last_error, .. } = kept;
    let (lease, burial) = match phase {
        Phase::Waiting => (None, None),
        Phase::Leased(lease) => (Some(lease), None),
        Phase::Buried(burial) => (None, Some(burial)),
    };
    let (created_at, due_at) = (instant(created_at), instant(due_at));
    job::Job {
        version: version.get(),
        priority: Some(priority.0),
        ttr_ms: Some(ttr.as_millis()),
        attempt,
        retry: Some(retry_policy(&retry)),
        deliver_to: deliver_to.as_ref().map(address),
        expires_at: expires_at.map(instant),
        last_error: last_error.map(|error| error.to_string()),
        buried_at: burial.as_ref().map(|burial| instant(burial.at)),
        buried_reason: burial.map(|burial| burial.reason.to_string()),
        lease_expires_at: lease.as_ref().map(|lease| instant(lease.expires_at)),
        consumer: lease.and_then(|lease| lease.consumer).map(|consumer| consumer.to_string()),
        ..job::Job::new(topic.to_string(), id.to_string(), number.get(), state(seen), created_at, due_at)
    }
}

/// A job that was acked and is remembered.
pub(super) fn done_job(done: &DoneJob) -> job::Job {
    let (topic, id, number) = (done.topic.to_string(), done.id.to_string(), done.number.get());
    job::Job {
        version: done.version.get(),
        attempt: done.attempt,
        done_at: Some(instant(done.done_at)),
        ..job::Job::new(topic, id, number, job::State::Done, instant(done.created_at), instant(done.due_at))
    }
}

/// A job that was found, with all that it carries.
pub(super) fn found(found: Found) -> job::Job {
    match found {
        Found::Live(view) => {
            let attempts = view.job.deliveries.iter().map(attempt).collect();
            job::Job { attempts, ..whole_job(*view) }
        }
        Found::Done(done) => done_job(&done),
    }
}

/// A push. What went wrong is kept where the answer would be.
fn attempt(delivery: &Delivery) -> Attempt {
    let text = String::from_utf8_lossy(delivery.answer.as_bytes()).into_owned();
    let (answer, error) = if delivery.status.is_some() { (Some(text), None) } else { (None, Some(text)) };
    Attempt { at: instant(delivery.at), took_ms: delivery.took, status: delivery.status, answer, error }
}

/// A job that a put met and left as it is.
pub(super) fn kept(found: Found) -> job::Job {
    let job = match found {
        Found::Live(view) => bare_job(*view),
        Found::Done(done) => done_job(&done),
    };
    job::Job { outcome: Some(Outcome::Kept), ..job }
}

/// A job that was just put.
pub(super) fn put_job(topic: String, id: String, priority: u32, receipt: &Receipt, outcome: Outcome) -> job::Job {
    let (number, state) = (receipt.number.get(), state(receipt.state));
    job::Job {
        version: receipt.version.get(),
        priority: Some(priority),
        ttr_ms: Some(receipt.ttr.as_millis()),
        retry: Some(retry_policy(&receipt.retry)),
        deliver_to: receipt.deliver_to.as_ref().map(address),
        expires_at: receipt.expires_at.map(instant),
        outcome: Some(outcome),
        ..job::Job::new(topic, id, number, state, instant(receipt.created_at), instant(receipt.due_at))
    }
}

fn address(target: &Target) -> String {
    target.address().to_owned()
}

fn retry_policy(policy: &RetryPolicy) -> Retry {
    let rest = |delay: dwell_core::Delay| LooseDuration(Duration(delay.as_millis()));
    let backoff = match &policy.backoff {
        Backoff::Ladder(ladder) => retry::Backoff::Ladder(ladder.steps().iter().copied().map(rest).collect()),
        Backoff::Exponential(exponential) => retry::Backoff::Exponential(Exponential {
            initial: Some(rest(exponential.initial())),
            factor: Some(exponential.factor()),
            max: Some(rest(exponential.max())),
            jitter: Some(exponential.jitter()),
        }),
    };
    Retry { attempts: Some(policy.attempts.get()), backoff: Some(backoff) }
}

pub(super) fn topic(info: &TopicInfo, now: Timestamp) -> topic::Topic {
    let paused = info.pause.holds_at(now);
    let paused_until = match info.pause {
        Pause::Until(until) if paused => Some(instant(until)),
        Pause::Until(_) | Pause::On | Pause::Off => None,
    };
    topic::Topic {
        name: info.name.to_string(),
        counts: counts(&info.counts),
        next_due_at: info.next_due_at.map(instant),
        oldest_ready_at: info.oldest_ready_at.map(instant),
        totals: totals(&info.totals),
        waiting: info.waiting,
        policy: policy(&info.policy),
        paused,
        paused_until,
    }
}

fn counts(counts: &Counts) -> topic::Counts {
    topic::Counts {
        delayed: counts[State::Delayed],
        ready: counts[State::Ready],
        leased: counts[State::Leased],
        buried: counts[State::Buried],
    }
}

fn totals(totals: &Totals) -> topic::Totals {
    topic::Totals {
        put: totals.put,
        leased: totals.leased,
        acked: totals.acked,
        nacked: totals.nacked,
        timed_out: totals.timed_out,
        released: totals.released,
        buried: totals.buried,
        redriven: totals.redriven,
        cancelled: totals.cancelled,
        purged: totals.purged,
    }
}

pub(super) fn policy(policy: &TopicPolicy) -> topic::Policy {
    topic::Policy {
        ttr: policy.ttr.map(|ttr| Duration(ttr.as_millis())),
        retry: policy.retry.as_ref().map(retry_policy),
        ttl: policy.ttl.map(|ttl| Duration(ttl.as_millis())),
        deliver_to: policy.deliver_to.as_ref().map(address),
        deliver_secret: Edit::Keep,
        max_in_flight: policy.max_in_flight.map(std::num::NonZero::get),
        max_rate: policy.max_rate.map(dwell_core::Rate::as_per_second),
        keep_buried: policy.keep_buried.map(|keep| Duration(keep.as_millis())),
        keep_done: policy.keep_done.map(|keep| Duration(keep.as_millis())),
    }
}
