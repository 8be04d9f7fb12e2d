//! The record of a job. It is written for each put, lease and verdict, so it is kept small: what is unset or as
//! usual costs a bit.
//!
//! ```text
//! cause (1 byte) │ flags (2 bytes) │ topic │ number │ version │ created_at │ due_at − created_at │ id
//! │ [priority] │ [attempt] │ [ttl_from − created_at] │ phase │ [ttr] │ [retry] │ [ttl] │ [deliver_to]
//! │ [counters] │ [last_error] │ [deliveries] │ [headers] │ [body]
//! ```
//!
//! The flags say which of the fields in brackets are there, which phase the job is in (for a waiting job the field is
//! empty), where the body is and of which kind. A put takes 28 bytes beside id and body once a hundred million
//! jobs have been put, 38 in the largest of stores.

use std::sync::Arc;

use dwell_core::{
    Body, Burial, Consumer, Counters, Delivery, DeliveryAnswer, ErrorText, Headers, Job, JobId, Lease, LeaseToken,
    Number, Options, Phase, Priority, Reason, Timestamp, TopicName, Ttl, Ttr, Version, limits,
};

use super::topic::{put_retry, put_target, retry, target};
use super::{BodyPart, Cause, JobRecord, TopicId, distant, number, put_distance, timestamp, version};
use crate::format::bytes::{Damage, Reader, Why, put_bytes, put_signed, put_text, put_u16, put_u64, put_varint};
use crate::format::frame::MAX_PAYLOAD;

pub(crate) mod header;

const BODY: u16 = 1 << 0;
const JSON: u16 = 1 << 1;
const LEASED: u16 = 1 << 2;
const BURIED: u16 = 1 << 3;
const PRIORITY: u16 = 1 << 4;
const ATTEMPT: u16 = 1 << 5;
const TTL_FROM: u16 = 1 << 6;
const TTR: u16 = 1 << 7;
const RETRY: u16 = 1 << 8;
const TTL: u16 = 1 << 9;
const DELIVER_TO: u16 = 1 << 10;
const COUNTERS: u16 = 1 << 11;
const LAST_ERROR: u16 = 1 << 12;
const DELIVERIES: u16 = 1 << 13;
const HEADERS: u16 = 1 << 14;
const UNUSED: u16 = 1 << 15;

/// Beside id and body, so much room is enough for nearly all jobs.
const USUAL: usize = 64;

/// Appends the fields of a job.
pub(crate) fn encode(out: &mut Vec<u8>, topic: TopicId, cause: Cause, job: &Job, body: BodyPart) {
    let flags = flags(job, body);
    let body_len = if flags & BODY == 0 { 0 } else { job.body.len() };
    out.reserve(USUAL + job.id.as_str().len() + body_len);
    out.push(cause as u8);
    put_u16(out, flags);
    put_varint(out, topic.0.into());
    put_varint(out, job.number.get());
    put_varint(out, job.version.get());
    put_varint(out, job.created_at.as_millis());
    put_distance(out, job.created_at, job.due_at);
    put_text(out, job.id.as_str());
    if flags & !(BODY | JSON) != 0 {
        put_unusual(out, flags, job);
    }
    if flags & BODY != 0 {
        put_bytes(out, job.body.as_bytes());
    }
}

fn flags(job: &Job, body: BodyPart) -> u16 {
    let flag = |set: bool, flag: u16| if set { flag } else { 0 };
    let body = match (body, &job.body) {
        (BodyPart::Here, Body::Json(_)) => BODY | JSON,
        (BodyPart::Here, Body::Bytes(_)) => BODY,
        (BodyPart::Kept, _) => 0,
    };
    let phase = match job.phase {
        Phase::Waiting => 0,
        Phase::Leased(_) => LEASED,
        Phase::Buried(_) => BURIED,
    };
    body | phase
        | flag(job.priority != Priority::DEFAULT, PRIORITY)
        | flag(job.attempt != 0, ATTEMPT)
        | flag(job.ttl_from != usual_ttl_from(job.created_at, job.due_at), TTL_FROM)
        | flag(job.options.ttr.is_some(), TTR)
        | flag(job.options.retry.is_some(), RETRY)
        | flag(job.options.ttl.is_some(), TTL)
        | flag(job.options.deliver_to.is_some(), DELIVER_TO)
        | flag(job.counters != Counters::default(), COUNTERS)
        | flag(job.last_error.is_some(), LAST_ERROR)
        | flag(!job.deliveries.is_empty(), DELIVERIES)
        | flag(!job.headers.is_empty(), HEADERS)
}

/// What a ttl counts from until the job is nacked, released or leased by number.
fn usual_ttl_from(created_at: Timestamp, due_at: Timestamp) -> Timestamp {
    created_at.max(due_at)
}

/// Everything in brackets but the body.
fn put_unusual(out: &mut Vec<u8>, flags: u16, job: &Job) {
    if flags & PRIORITY != 0 {
        put_varint(out, job.priority.0.into());
    }
    if flags & ATTEMPT != 0 {
        put_varint(out, job.attempt.into());
    }
    if flags & TTL_FROM != 0 {
        put_distance(out, job.created_at, job.ttl_from);
    }
    match &job.phase {
        Phase::Waiting => {}
        Phase::Leased(lease) => put_lease(out, job, lease),
        Phase::Buried(burial) => {
            put_distance(out, job.created_at, burial.at);
            put_text(out, burial.reason.as_str());
        }
    }
    put_options(out, &job.options);
    if flags & COUNTERS != 0 {
        put_counters(out, &job.counters);
    }
    if let Some(error) = &job.last_error {
        put_text(out, error.as_str());
    }
    if !job.deliveries.is_empty() {
        put_deliveries(out, job);
    }
    if !job.headers.is_empty() {
        put_headers(out, &job.headers);
    }
}

fn put_lease(out: &mut Vec<u8>, job: &Job, lease: &Lease) {
    put_difference(out, job.number.get(), lease.token.number.get());
    put_difference(out, job.version.get(), lease.token.version.get());
    put_u64(out, lease.token.secret);
    put_distance(out, job.created_at, lease.expires_at);
    put_varint(out, lease.ttr.as_millis());
    // No consumer is called "".
    put_text(out, lease.consumer.as_ref().map_or("", Consumer::as_str));
}

/// Writes `value` by how much it differs from `base`, both below 2^53.
fn put_difference(out: &mut Vec<u8>, base: u64, value: u64) {
    put_signed(out, value.wrapping_sub(base).cast_signed());
}

fn put_options(out: &mut Vec<u8>, options: &Options) {
    if let Some(ttr) = options.ttr {
        put_varint(out, ttr.as_millis());
    }
    if let Some(retry) = &options.retry {
        put_retry(out, retry);
    }
    if let Some(ttl) = options.ttl {
        put_varint(out, ttl.as_millis());
    }
    if let Some(target) = &options.deliver_to {
        put_target(out, target);
    }
}

fn put_counters(out: &mut Vec<u8>, counters: &Counters) {
    let Counters { leases, timeouts, releases, buries, kicks } = *counters;
    for count in [leases, timeouts, releases, buries, kicks] {
        put_varint(out, count.into());
    }
}

fn put_deliveries(out: &mut Vec<u8>, job: &Job) {
    put_varint(out, job.deliveries.len() as u64);
    for delivery in &job.deliveries {
        put_distance(out, job.created_at, delivery.at);
        put_varint(out, delivery.took);
        put_varint(out, delivery.status.map_or(0, |status| u64::from(status) + 1));
        put_bytes(out, delivery.answer.as_bytes());
    }
}

fn put_headers(out: &mut Vec<u8>, headers: &Headers) {
    put_varint(out, headers.iter().count() as u64);
    for (name, value) in headers.iter() {
        put_text(out, name);
        put_text(out, value);
    }
}

/// Reads the fields of a job.
pub(crate) fn decode(
    reader: &mut Reader<'_>,
    topics: &dyn Fn(TopicId) -> Option<TopicName>,
) -> Result<JobRecord, Damage> {
    let Start { cause, flags, topic, number, version, created_at, due_at, id } = start(reader)?;
    let has = |flag| flags & flag != 0;
    let name = topics(topic).ok_or_else(|| reader.damage(Why::UnknownTopic(topic.0)))?;
    let usual_ttl_from = usual_ttl_from(created_at, due_at);
    let job = Job {
        topic: name,
        id: job_id(reader, id)?,
        number,
        version,
        created_at,
        due_at,
        priority: if has(PRIORITY) { Priority(reader.varint_u32()?) } else { Priority::DEFAULT },
        attempt: if has(ATTEMPT) { reader.varint_u32()? } else { 0 },
        ttl_from: if has(TTL_FROM) { distant(reader, created_at)? } else { usual_ttl_from },
        phase: phase(reader, flags, number, version, created_at)?,
        options: options(reader, flags)?,
        counters: if has(COUNTERS) { counters(reader)? } else { Counters::default() },
        last_error: if has(LAST_ERROR) { Some(ErrorText::new(reader.text(limits::MAX_ERROR)?)) } else { None },
        deliveries: if has(DELIVERIES) { deliveries(reader, created_at)? } else { Vec::new() },
        headers: if has(HEADERS) { headers(reader)? } else { Headers::default() },
        body: body(reader, flags)?,
    };
    Ok(JobRecord { topic, cause, job, body: if has(BODY) { BodyPart::Here } else { BodyPart::Kept } })
}

/// What every record of a job begins with.
struct Start<'a> {
    cause: Cause,
    flags: u16,
    topic: TopicId,
    number: Number,
    version: Version,
    created_at: Timestamp,
    due_at: Timestamp,
    /// Not yet known to be one.
    id: &'a [u8],
}

#[inline]
fn start<'a>(reader: &mut Reader<'a>) -> Result<Start<'a>, Damage> {
    let cause = Cause::read(reader)?;
    let flags = reader.u16()?;
    if flags & UNUSED != 0 || flags & (LEASED | BURIED) == LEASED | BURIED || flags & (BODY | JSON) == JSON {
        return Err(reader.invalid("flag"));
    }
    let topic = TopicId(reader.varint_u32()?);
    let (number, version, created_at) = (number(reader)?, version(reader)?, timestamp(reader)?);
    let due_at = distant(reader, created_at)?;
    let id = reader.bytes(limits::MAX_JOB_ID)?;
    Ok(Start { cause, flags, topic, number, version, created_at, due_at, id })
}

fn job_id(reader: &Reader<'_>, id: &[u8]) -> Result<JobId, Damage> {
    let id = str::from_utf8(id).map_err(|_| reader.damage(Why::NotText))?;
    JobId::new(id).map_err(|_| reader.invalid("job id"))
}

fn phase(
    reader: &mut Reader<'_>,
    flags: u16,
    number: Number,
    version: Version,
    created_at: Timestamp,
) -> Result<Phase, Damage> {
    if flags & LEASED != 0 {
        let (number, version) = (difference(reader, number.get())?, difference(reader, version.get())?);
        let token = LeaseToken {
            number: Number::new(number).ok_or_else(|| reader.invalid("token"))?,
            version: Version::new(version).ok_or_else(|| reader.invalid("token"))?,
            secret: reader.u64()?,
        };
        let expires_at = distant(reader, created_at)?;
        Ok(Phase::Leased(Lease { token, expires_at, ttr: ttr(reader)?, consumer: consumer(reader)? }))
    } else if flags & BURIED != 0 {
        let at = distant(reader, created_at)?;
        let reason = Reason::new(reader.text(limits::MAX_REASON)?).map_err(|_| reader.invalid("reason"))?;
        Ok(Phase::Buried(Burial { at, reason }))
    } else {
        Ok(Phase::Waiting)
    }
}

fn difference(reader: &mut Reader<'_>, base: u64) -> Result<u64, Damage> {
    base.checked_add_signed(reader.signed()?).ok_or_else(|| reader.invalid("token"))
}

fn consumer(reader: &mut Reader<'_>) -> Result<Option<Consumer>, Damage> {
    match reader.text(limits::MAX_CONSUMER)? {
        "" => Ok(None),
        name => Consumer::new(name).map(Some).map_err(|_| reader.invalid("consumer")),
    }
}

fn options(reader: &mut Reader<'_>, flags: u16) -> Result<Options, Damage> {
    let has = |flag| flags & flag != 0;
    Ok(Options {
        ttr: if has(TTR) { Some(ttr(reader)?) } else { None },
        retry: if has(RETRY) { Some(retry(reader)?) } else { None },
        ttl: if has(TTL) { Some(ttl(reader)?) } else { None },
        deliver_to: if has(DELIVER_TO) { Some(target(reader)?) } else { None },
    })
}

/// Reads a time-to-run.
pub(super) fn ttr(reader: &mut Reader<'_>) -> Result<Ttr, Damage> {
    let millis = reader.varint()?;
    Ttr::from_millis(millis).map_err(|_| reader.invalid("ttr"))
}

/// Reads a ttl.
pub(super) fn ttl(reader: &mut Reader<'_>) -> Result<Ttl, Damage> {
    let millis = reader.varint()?;
    Ttl::from_millis(millis).map_err(|_| reader.invalid("ttl"))
}

fn counters(reader: &mut Reader<'_>) -> Result<Counters, Damage> {
    Ok(Counters {
        leases: reader.varint_u32()?,
        timeouts: reader.varint_u32()?,
        releases: reader.varint_u32()?,
        buries: reader.varint_u32()?,
        kicks: reader.varint_u32()?,
    })
}

fn deliveries(reader: &mut Reader<'_>, created_at: Timestamp) -> Result<Vec<Delivery>, Damage> {
    let count = reader.length(reader.remaining())?;
    let mut deliveries = Vec::with_capacity(count.min(limits::MAX_DELIVERIES));
    for _ in 0..count {
        deliveries.push(Delivery {
            at: distant(reader, created_at)?,
            took: reader.varint()?,
            status: match reader.varint()?.checked_sub(1) {
                None => None,
                Some(status) => Some(u16::try_from(status).map_err(|_| reader.invalid("status"))?),
            },
            answer: DeliveryAnswer::new(reader.bytes(limits::MAX_DELIVERY_ANSWER)?),
        });
    }
    Ok(deliveries)
}

fn headers(reader: &mut Reader<'_>) -> Result<Headers, Damage> {
    let count = reader.length(reader.remaining())?;
    let mut headers = Vec::with_capacity(count.min(16));
    for _ in 0..count {
        let name = reader.text(limits::MAX_HEADERS)?.to_owned();
        if headers.last().is_some_and(|(last, _)| *last >= name) {
            return Err(reader.invalid("order of headers"));
        }
        headers.push((name, reader.text(limits::MAX_HEADERS)?.to_owned()));
    }
    Headers::new(headers).map_err(|_| reader.invalid("headers"))
}

fn body(reader: &mut Reader<'_>, flags: u16) -> Result<Body, Damage> {
    if flags & BODY == 0 {
        return Ok(Body::default());
    }
    let bytes = Arc::from(reader.bytes(MAX_PAYLOAD)?);
    Ok(if flags & JSON == 0 { Body::Bytes(bytes) } else { Body::Json(bytes) })
}
