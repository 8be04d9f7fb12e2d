//! What travels, turned into what a store takes. What is wrong is noted by field; the rest is read on.

#![expect(clippy::needless_pass_by_value, reason = "a reason for a refusal is handed over")]

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::Arc;

use axum::http::HeaderMap;
use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use dwell_core::limits;
use dwell_core::{
    Backoff, Body, Change, Consumer, Delay, Edit, ErrorText, Exponential, Headers, IfExists, JobId, Ladder, NewId,
    NewJob, Options, Priority, Rate, Reason, RedriveTopic, RetryPolicy, Secret, Timestamp, TopicName, TopicPolicy, Ttl,
    Ttr, Verdict, Version, When,
};
use dwell_wire::change::{self, ChangeJob};
use dwell_wire::put::{self, PutJob};
use dwell_wire::settle::{Terms, Verb};
use dwell_wire::topic::{Policy, Redrive};
use dwell_wire::{Code, Duration, FieldError, Instant, retry};

use super::answer::Failure;
use crate::delivery::{self, Guard};
use crate::trace::Context;

/// The header of W3C Trace Context.
pub(super) const TRACEPARENT: &str = "traceparent";

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// What is wrong with a request, as it is found.
#[derive(Default)]
pub(super) struct Mistakes(pub(super) Vec<FieldError>);

impl Mistakes {
    pub(super) fn note(&mut self, field: &str, reason: impl ToString) {
        self.0.push(FieldError { field: field.to_owned(), reason: reason.to_string() });
    }

    /// The value, or a note of what is wrong with it.
    pub(super) fn take<T, E: ToString>(&mut self, field: &str, value: Result<T, E>) -> Option<T> {
        value.map_err(|error| self.note(field, error)).ok()
    }

    /// Reads a value that may be absent.
    fn read<T, U, E: ToString>(
        &mut self,
        field: &str,
        value: Option<T>,
        read: impl FnOnce(T) -> Result<U, E>,
    ) -> Option<U> {
        value.and_then(|value| self.take(field, read(value)))
    }

    /// Fine if nothing was noted.
    pub(super) fn none(self) -> Result<(), Failure> {
        if self.0.is_empty() { Ok(()) } else { Err(Failure::invalid(self.0)) }
    }
}

/// Names that a put may not use.
const OWN: &str = "starts with '$', which is kept for Dwell itself";

/// What a job may be like on this server.
#[derive(Clone)]
pub(super) struct Bounds {
    /// Bytes of its body.
    pub(super) max_body: usize,
    /// Which targets may be called.
    pub(super) guard: Arc<Guard>,
    /// The trace that the request belongs to.
    pub(super) traceparent: Option<String>,
}

/// How a put is called, and what it does by default when it meets a job.
pub(super) struct Naming {
    pub(super) topic: TopicName,
    pub(super) id: NewId,
    pub(super) if_exists: IfExists,
}

/// A topic that a put may use.
pub(super) fn own_topic(mistakes: &mut Mistakes, name: &str) -> Option<TopicName> {
    let topic = mistakes.take("topic", TopicName::new(name))?;
    check_own(mistakes, "topic", topic.is_own());
    Some(topic)
}

/// An id that a put may use.
pub(super) fn own_id(mistakes: &mut Mistakes, field: &str, id: &str) -> Option<JobId> {
    let id = mistakes.take(field, JobId::new(id))?;
    check_own(mistakes, field, id.is_own());
    Some(id)
}

pub(super) fn check_own(mistakes: &mut Mistakes, field: &str, is_own: bool) {
    if is_own {
        mistakes.note(field, OWN);
    }
}

/// A job to be put.
pub(super) fn new_job(
    put: PutJob<'_>,
    naming: Option<Naming>,
    mut mistakes: Mistakes,
    bounds: &Bounds,
) -> Result<NewJob, Failure> {
    let when = when(&mut mistakes, put.delay, put.at).unwrap_or(When::NOW);
    let body = body(&mut mistakes, put.body.map(serde_json::value::RawValue::get), put.body_base64.as_deref());
    let headers = mistakes.read("headers", put.headers, Headers::new).unwrap_or_default();
    let options = Options {
        ttr: mistakes.read("ttr", put.ttr, ttr),
        retry: put.retry.and_then(|wanted| retry_policy(&mut mistakes, wanted)),
        ttl: mistakes.read("ttl", put.ttl, ttl),
        deliver_to: mistakes.read("deliver_to", put.deliver_to, |address| bounds.guard.read(&address)),
    };
    let jitter = mistakes.read("jitter", put.jitter, delay);
    mistakes.none()?;
    let body = body.unwrap_or_default();
    check_size(&body, bounds.max_body)?;
    let Naming { topic, id, if_exists } = naming.ok_or_else(|| Failure::new(Code::Internal, "a put without a name"))?;
    Ok(NewJob {
        topic,
        id,
        when,
        jitter: jitter.unwrap_or(Delay::ZERO),
        priority: put.priority.map_or(Priority::DEFAULT, Priority),
        options,
        headers: traced(headers, bounds.traceparent.as_deref()),
        body,
        if_exists: put.if_exists.map_or(if_exists, met),
        if_match: None,
        force: false,
    })
}

/// Headers of a job with the trace that its put belongs to, unless they name another or there is no room.
fn traced(headers: Headers, traceparent: Option<&str>) -> Headers {
    let Some(traceparent) = traceparent else { return headers };
    if headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(TRACEPARENT)) {
        return headers;
    }
    let own = headers.iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
    Headers::new(own.chain([(TRACEPARENT.to_owned(), traceparent.to_owned())])).unwrap_or(headers)
}

/// The trace that a request belongs to, if it says so as W3C Trace Context has it.
pub(super) fn traceparent(headers: &HeaderMap) -> Option<String> {
    let text = headers.get(TRACEPARENT)?.to_str().ok()?;
    Context::parse(text).map(|_| text.to_owned())
}

fn met(if_exists: put::IfExists) -> IfExists {
    match if_exists {
        put::IfExists::Replace => IfExists::Replace,
        put::IfExists::Keep => IfExists::Keep,
        put::IfExists::Reject => IfExists::Reject,
    }
}

/// A change.
pub(super) fn change(wanted: ChangeJob<'_>, mut mistakes: Mistakes, bounds: &Bounds) -> Result<Change, Failure> {
    let when = when(&mut mistakes, wanted.delay, wanted.at);
    let raw = wanted.body.map(serde_json::value::RawValue::get);
    let body = body(&mut mistakes, raw, wanted.body_base64.as_deref());
    let priority = match wanted.priority {
        change::Edit::Keep => None,
        change::Edit::Clear => Some(Priority::DEFAULT),
        change::Edit::Set(priority) => Some(Priority(priority)),
    };
    let headers = match wanted.headers {
        change::Edit::Keep => None,
        change::Edit::Clear => Some(Headers::default()),
        change::Edit::Set(headers) => mistakes.take("headers", Headers::new(headers)),
    };
    let ttr = edit(wanted.ttr, |wanted| mistakes.take("ttr", ttr(wanted)));
    let ttl = edit(wanted.ttl, |wanted| mistakes.take("ttl", ttl(wanted)));
    let retry = edit(wanted.retry, |wanted| retry_policy(&mut mistakes, wanted));
    let deliver_to = edit(wanted.deliver_to, |address| mistakes.take("deliver_to", bounds.guard.read(&address)));
    mistakes.none()?;
    if let Some(body) = &body {
        check_size(body, bounds.max_body)?;
    }
    Ok(Change { when, priority, body, headers, ttr, retry, ttl, deliver_to })
}

fn edit<T, U>(wanted: change::Edit<T>, read: impl FnOnce(T) -> Option<U>) -> Edit<U> {
    match wanted {
        change::Edit::Keep => Edit::Keep,
        change::Edit::Clear => Edit::Clear,
        change::Edit::Set(value) => read(value).map_or(Edit::Keep, Edit::Set),
    }
}

/// A due time, if one is given.
fn when(mistakes: &mut Mistakes, in_a_while: Option<Duration>, at: Option<Instant>) -> Option<When> {
    let in_a_while = mistakes.read("delay", in_a_while, delay).map(When::In);
    let at = mistakes.read("at", at, timestamp).map(When::At);
    in_a_while.or(at)
}

pub(super) fn body(mistakes: &mut Mistakes, json: Option<&str>, base64: Option<&str>) -> Option<Body> {
    let bytes = mistakes
        .read("body_base64", base64, |text| BASE64.decode(text).map_err(|error| format!("is not base64: {error}")));
    json.map(|json| Body::Json(json.as_bytes().into())).or_else(|| bytes.map(|bytes| Body::Bytes(bytes.into())))
}

pub(super) fn check_size(body: &Body, most: usize) -> Result<(), Failure> {
    if body.len() <= most {
        return Ok(());
    }
    Err(Failure::new(Code::TooLarge, format!("the body has {} bytes; at most {most} are allowed", body.len())))
}

pub(super) fn delay(wanted: Duration) -> Result<Delay, impl ToString> {
    Delay::from_millis(wanted.0)
}

pub(super) fn ttr(wanted: Duration) -> Result<Ttr, impl ToString> {
    Ttr::from_millis(wanted.0)
}

fn ttl(wanted: Duration) -> Result<Ttl, impl ToString> {
    Ttl::from_millis(wanted.0)
}

pub(super) fn timestamp(wanted: Instant) -> Result<Timestamp, impl ToString> {
    Timestamp::from_millis(wanted.0)
}

/// A retry policy; what it does not say is the server's default.
fn retry_policy(mistakes: &mut Mistakes, wanted: retry::Retry) -> Option<RetryPolicy> {
    let defaults = RetryPolicy::default();
    let policy = match wanted.backoff {
        None => defaults,
        Some(retry::Backoff::Exponential(exponential)) => {
            RetryPolicy { backoff: Backoff::Exponential(grows(mistakes, &exponential)?), ..defaults }
        }
        Some(retry::Backoff::Ladder(steps)) => {
            let steps: Result<Vec<_>, _> = steps.into_iter().map(|step| Delay::from_millis(step.0.0)).collect();
            let steps = mistakes.take("retry.backoff", steps)?;
            mistakes.take("retry.backoff", Ladder::new(&steps))?.into_policy()
        }
    };
    Some(RetryPolicy { attempts: wanted.attempts.and_then(NonZeroU32::new).unwrap_or(policy.attempts), ..policy })
}

fn grows(mistakes: &mut Mistakes, wanted: &retry::Exponential) -> Option<Exponential> {
    let defaults = Exponential::default();
    let rest = |mistakes: &mut Mistakes, field: &str, rest: Option<retry::LooseDuration>| match rest {
        None => Some(None),
        Some(rest) => mistakes.take(field, delay(rest.0)).map(Some),
    };
    let initial = rest(mistakes, "retry.backoff.initial", wanted.initial)?.unwrap_or(defaults.initial());
    let max = rest(mistakes, "retry.backoff.max", wanted.max)?.unwrap_or(defaults.max().max(initial));
    let (factor, jitter) = (wanted.factor.unwrap_or(defaults.factor()), wanted.jitter.unwrap_or(defaults.jitter()));
    mistakes.take("retry.backoff", Exponential::new(initial, factor, max, jitter))
}

/// A topic's policy, and what is said of its secrets.
pub(super) fn policy(
    wanted: Policy,
    mut mistakes: Mistakes,
    guard: &Guard,
) -> Result<(TopicPolicy, Edit<Vec<Secret>>), Failure> {
    let secrets = edit(wanted.deliver_secret, |texts| secrets(&mut mistakes, &texts));
    let policy = TopicPolicy {
        ttr: mistakes.read("ttr", wanted.ttr, ttr),
        retry: wanted.retry.and_then(|wanted| retry_policy(&mut mistakes, wanted)),
        ttl: mistakes.read("ttl", wanted.ttl, ttl),
        deliver_to: mistakes.read("deliver_to", wanted.deliver_to, |address| guard.read(&address)),
        deliver_secrets: Vec::new(),
        max_in_flight: wanted.max_in_flight.and_then(NonZeroU32::new),
        max_rate: mistakes.read("max_rate", wanted.max_rate, rate),
        keep_buried: mistakes.read("keep_buried", wanted.keep_buried, delay),
        keep_done: mistakes.read("keep_done", wanted.keep_done, delay),
    };
    mistakes.none()?;
    Ok((policy, secrets))
}

fn secrets(mistakes: &mut Mistakes, texts: &[String]) -> Option<Vec<Secret>> {
    if texts.is_empty() || texts.len() > limits::MAX_SECRETS {
        mistakes.note("deliver_secret", format!("must be one secret, or a list of 1 to {}", limits::MAX_SECRETS));
    }
    texts.iter().map(|text| mistakes.take("deliver_secret", delivery::secret(text))).collect()
}

fn rate(wanted: f64) -> Result<Rate, String> {
    let range = || format!("{wanted} is not a rate from {} to {} jobs a second", limits::MIN_RATE, limits::MAX_RATE);
    Rate::per_second(wanted).ok_or_else(range)
}

/// Which dead letters are to come back.
pub(super) fn redrive(topic: TopicName, wanted: Redrive<'_>, mut mistakes: Mistakes) -> Result<RedriveTopic, Failure> {
    if wanted.ids.as_ref().is_some_and(|ids| ids.len() > limits::MAX_BATCH) {
        return Err(Failure::new(Code::TooLarge, format!("at most {} ids are allowed", limits::MAX_BATCH)));
    }
    let ids: Option<Result<BTreeSet<JobId>, _>> = wanted
        .ids
        .map(|ids| ids.iter().map(|id| JobId::new(id).map_err(|error| format!("\"{id}\" {error}"))).collect());
    let everything = RedriveTopic::all(topic);
    let redrive = RedriveTopic {
        ids: ids.and_then(|ids| mistakes.take("ids", ids)),
        reason: mistakes.read("reason", wanted.reason, |reason| Reason::new(&reason)),
        max: wanted.max.unwrap_or(everything.max),
        delay: mistakes.read("delay", wanted.delay, delay).unwrap_or(Delay::ZERO),
        rate: mistakes.read("rate", wanted.rate, rate),
        ..everything
    };
    mistakes.none()?;
    Ok(redrive)
}

/// What a holder says of its job.
pub(super) fn verdict(verb: Verb, terms: Terms<'_>, mistakes: &mut Mistakes) -> Verdict {
    let delay = mistakes.read("delay", terms.delay, delay);
    let priority = terms.priority.map(Priority);
    match verb {
        Verb::Ack => Verdict::Ack,
        Verb::Nack => Verdict::Nack { error: terms.error.map(|error| ErrorText::new(&error)), delay },
        Verb::Release => Verdict::Release { delay, priority },
        Verb::Bury => {
            Verdict::Bury { reason: mistakes.read("reason", terms.reason, |reason| Reason::new(&reason)), priority }
        }
        Verb::Extend => Verdict::Extend { ttr: mistakes.read("ttr", terms.ttr, ttr) },
    }
}

/// What a consumer calls itself.
pub(super) fn consumer(mistakes: &mut Mistakes, name: Option<&str>) -> Option<Consumer> {
    mistakes.read("consumer", name, Consumer::new)
}

/// The version that a request insists on: `If-Match: "7"`, quoted or not.
pub(super) fn if_match(headers: &HeaderMap) -> Result<Option<Version>, Failure> {
    let Some(value) = headers.get(axum::http::header::IF_MATCH) else { return Ok(None) };
    let text = value.to_str().unwrap_or("").trim();
    let bare = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(text);
    if text == "*" || text.contains(',') {
        return Err(Failure::field("If-Match", "must be one version, as the ETag of a read gives it: \"7\""));
    }
    // What is no version of ours is another version than the job has.
    match bare.parse().ok().and_then(Version::new).filter(|_| bare.bytes().all(|byte| byte.is_ascii_digit())) {
        Some(version) => Ok(Some(version)),
        None => Err(Failure::new(Code::VersionMismatch, format!("no job has the version {text}"))),
    }
}
