//! What is stored, as bytes: a job's blob and its state, remembered acks, policies.
//!
//! The **blob** is what was put; it changes only when a caller changes body, headers or options. The **state** is what
//! happens to a job afterwards; a job that nothing has happened to has none. Both begin with a head of fixed places
//! that the scripts read; what follows is this crate's alone. `docs/reference/redis-keys.md` has the table.

mod bytes;
mod rules;

use std::sync::Arc;

use dwell_core::{
    Body, Burial, Consumer, Counters, Delivery, DeliveryAnswer, DoneJob, ErrorText, Headers, Job, JobId, Lease,
    LeaseToken, Line, Number, Options, Phase, Priority, Reason, Timestamp, TopicName, Ttl, Ttr, Version,
};

pub(crate) use bytes::{Reader, Unreadable, Writer, number_bytes, version_bytes};
pub(crate) use rules::{read_policy, write_policy};

use rules::{read_retry, read_target, write_retry, write_target};

/// Bodies over this many bytes are kept apart, so that scripts that read blobs stay quick.
pub(crate) const INLINE_BODY: usize = 1_024;

/// The body is kept apart.
const APART: u8 = 1;
/// The body is bytes, not JSON.
const BYTES: u8 = 2;
/// It has a ttr, a ttl or a target of its own.
const EXTRAS: u8 = 4;
/// It has a retry policy, a target or headers of its own.
const RULES: u8 = 8;

/// Bytes of a blob before its priority: creation and due time, which scripts fill in.
const STAMP: usize = 6 + 6;

/// In place of the length of the last error: there was none.
const NO_ERROR: u64 = 0xffff;

/// What a job's blob says from its priority on, and its body if that is kept apart.
pub(crate) struct Parts {
    pub(crate) blob: Vec<u8>,
    pub(crate) body: Vec<u8>,
}

/// What of a job goes into its blob.
pub(crate) struct Sent<'a> {
    pub(crate) topic: &'a TopicName,
    /// None of a job that the script names by its number.
    pub(crate) id: Option<&'a JobId>,
    pub(crate) priority: Priority,
    pub(crate) options: &'a Options,
    pub(crate) headers: &'a Headers,
    pub(crate) body: &'a Body,
}

impl Sent<'_> {
    /// The blob without its stamp.
    pub(crate) fn parts(&self) -> Parts {
        let apart = self.body.len() > INLINE_BODY;
        let mut flags = if apart { APART } else { 0 };
        flags |= if matches!(self.body, Body::Bytes(_)) { BYTES } else { 0 };
        let mut writer = Writer::default();
        let Options { ttr, ttl, retry, deliver_to } = self.options;
        let has_extras = ttr.is_some() || ttl.is_some() || deliver_to.is_some();
        let has_rules = retry.is_some() || deliver_to.is_some() || self.headers.iter().next().is_some();
        flags |= if has_extras { EXTRAS } else { 0 } | if has_rules { RULES } else { 0 };
        writer.uint(self.priority.0.into(), 4).uint(flags.into(), 1);
        if has_extras {
            writer.uint(ttr.map_or(0, Ttr::as_millis), 4).uint(ttl.map_or(0, Ttl::as_millis), 6);
            writer.uint(Line::of(deliver_to.as_ref()).index().into(), 2);
        }
        writer.uint(self.body.len() as u64, if apart { 4 } else { 2 });
        writer.short(self.topic.as_str().as_bytes()).short(self.id.map_or(&[], |id| id.as_str().as_bytes()));
        if has_rules {
            write_retry(&mut writer, retry.as_ref());
            write_target(&mut writer, deliver_to.as_ref());
            writer.uint(self.headers.iter().count() as u64, 2);
            for (name, value) in self.headers.iter() {
                writer.sized(name.as_bytes(), 2).sized(value.as_bytes(), 2);
            }
        }
        let body = if apart {
            self.body.as_bytes().to_vec()
        } else {
            writer.raw(self.body.as_bytes());
            Vec::new()
        };
        Parts { blob: writer.into_bytes(), body }
    }
}

/// A job's blob as it is, stamp included: for a change that rewrites it.
pub(crate) fn whole_blob(job: &Job, stamp: &[u8]) -> Parts {
    let Job { topic, id, priority, options, headers, body, .. } = job;
    let parts = Sent { topic, id: Some(id), priority: *priority, options, headers, body }.parts();
    let mut blob = stamp[..STAMP.min(stamp.len())].to_vec();
    blob.extend_from_slice(&parts.blob);
    Parts { blob, ..parts }
}

/// A job's state as stored. Its version, and that of a lease that is new, are filled in by the script.
pub(crate) fn write_state(job: &Job, request: u64) -> Vec<u8> {
    let mut writer = Writer::default();
    let phase = match &job.phase {
        Phase::Waiting => b"w",
        Phase::Leased(_) => b"l",
        Phase::Buried(_) => b"b",
    };
    writer.raw(phase).version(job.version).time(job.due_at).time(job.ttl_from);
    writer.uint(job.priority.0.into(), 4).uint(job.attempt.into(), 4);
    let Counters { leases, timeouts, releases, buries, kicks } = job.counters;
    for counter in [leases, timeouts, releases, buries, kicks] {
        writer.uint(counter.into(), 4);
    }
    writer.uint(request, 8);
    match &job.phase {
        Phase::Waiting => {}
        Phase::Leased(lease) => {
            writer.time(lease.expires_at).uint(lease.ttr.as_millis(), 4).version(lease.token.version);
            writer.uint(lease.token.secret, 8);
            writer.short(lease.consumer.as_ref().map_or(&[], |consumer| consumer.as_str().as_bytes()));
        }
        Phase::Buried(burial) => {
            writer.time(burial.at).short(burial.reason.as_str().as_bytes());
        }
    }
    match &job.last_error {
        Some(error) => writer.sized(error.as_str().as_bytes(), 2),
        None => writer.uint(NO_ERROR, 2),
    };
    for delivery in &job.deliveries {
        writer.time(delivery.at).uint(delivery.took, 8).uint(delivery.status.unwrap_or(0).into(), 2);
        writer.sized(delivery.answer.as_bytes(), 2);
    }
    writer.into_bytes()
}

/// Reads a job from its blob, its state (empty if nothing has happened to it yet) and its body if that is kept apart;
/// without it, such a job is read as if it had none.
pub(crate) fn read_job(number: Number, blob: &[u8], state: &[u8], apart: Option<&[u8]>) -> Result<Job, Unreadable> {
    let mut reader = Reader::new(blob, "job");
    let (created_at, due_at) = (reader.time()?, reader.time()?);
    let priority = Priority(reader.u32()?);
    let flags = reader.u8()?;
    let (mut ttr, mut ttl) = (None, None);
    if flags & EXTRAS != 0 {
        ttr = some_millis(reader.uint(4)?, Ttr::from_millis, &reader)?;
        ttl = some_millis(reader.uint(6)?, Ttl::from_millis, &reader)?;
        reader.raw(2)?;
    }
    let length = reader.uint(if flags & APART == 0 { 2 } else { 4 })?;
    let topic = reader.named(TopicName::new)?;
    let id = reader.named(JobId::new)?;
    let (mut retry, mut deliver_to, mut headers) = (None, None, Headers::default());
    if flags & RULES != 0 {
        (retry, deliver_to) = (read_retry(&mut reader)?, read_target(&mut reader)?);
        headers = read_headers(&mut reader)?;
    }
    let options = Options { ttr, ttl, retry, deliver_to };
    let is_apart = flags & APART != 0;
    let body: Arc<[u8]> = if is_apart { apart.unwrap_or_default().into() } else { reader.rest().into() };
    if body.len() as u64 != length && !(is_apart && apart.is_none()) {
        return Err(reader.wrong());
    }
    let body = if flags & BYTES == 0 { Body::Json(body) } else { Body::Bytes(body) };
    let mut job = Job {
        topic,
        id,
        number,
        // Until something happens to it, whereupon it has a state.
        version: first_version(number),
        phase: Phase::Waiting,
        created_at,
        due_at,
        ttl_from: due_at.max(created_at),
        priority,
        attempt: 0,
        options,
        counters: Counters::default(),
        last_error: None,
        deliveries: Vec::new(),
        headers,
        body,
    };
    if !state.is_empty() {
        read_state(&mut job, state)?;
    }
    Ok(job)
}

fn some_millis<T, E>(
    millis: u64,
    build: impl FnOnce(u64) -> Result<T, E>,
    reader: &Reader<'_>,
) -> Result<Option<T>, Unreadable> {
    if millis == 0 { Ok(None) } else { build(millis).map(Some).map_err(|_| reader.wrong()) }
}

fn read_headers(reader: &mut Reader<'_>) -> Result<Headers, Unreadable> {
    let count = reader.uint(2)?;
    let pairs: Result<Vec<_>, _> =
        (0..count).map(|_| Ok((reader.text(2)?.to_owned(), reader.text(2)?.to_owned()))).collect();
    Headers::new(pairs?).map_err(|_| reader.wrong())
}

fn read_state(job: &mut Job, state: &[u8]) -> Result<(), Unreadable> {
    let mut reader = Reader::new(state, "state");
    let phase = reader.u8()?;
    job.version = reader.version()?;
    (job.due_at, job.ttl_from) = (reader.time()?, reader.time()?);
    (job.priority, job.attempt) = (Priority(reader.u32()?), reader.u32()?);
    job.counters = Counters {
        leases: reader.u32()?,
        timeouts: reader.u32()?,
        releases: reader.u32()?,
        buries: reader.u32()?,
        kicks: reader.u32()?,
    };
    reader.raw(8)?;
    job.phase = match phase {
        b'w' => Phase::Waiting,
        b'l' => Phase::Leased(read_lease(job.number, &mut reader)?),
        b'b' => Phase::Buried(Burial { at: reader.time()?, reason: reader.named(Reason::new)? }),
        _ => return Err(reader.wrong()),
    };
    job.last_error = match reader.uint(2)? {
        NO_ERROR => None,
        length => {
            let text = reader.raw(usize::try_from(length).map_err(|_| reader.wrong())?)?;
            Some(ErrorText::new(std::str::from_utf8(text).map_err(|_| reader.wrong())?))
        }
    };
    while reader.end().is_err() {
        let (at, took, status) = (reader.time()?, reader.uint(8)?, reader.uint(2)?);
        let status = u16::try_from(status).ok().filter(|status| *status > 0);
        job.deliveries.push(Delivery { at, took, status, answer: DeliveryAnswer::new(reader.sized(2)?) });
    }
    Ok(())
}

fn read_lease(number: Number, reader: &mut Reader<'_>) -> Result<Lease, Unreadable> {
    let expires_at = reader.time()?;
    let ttr = Ttr::from_millis(reader.uint(4)?).map_err(|_| reader.wrong())?;
    let token = LeaseToken { number, version: reader.version()?, secret: reader.secret()? };
    let consumer = reader.text(1)?;
    let consumer = if consumer.is_empty() { None } else { Some(Consumer::new(consumer).map_err(|_| reader.wrong())?) };
    Ok(Lease { token, expires_at, ttr, consumer })
}

/// Reads what a script remembers of an acked job.
pub(crate) fn read_done(topic: &TopicName, id: &JobId, bytes: &[u8]) -> Result<DoneJob, Unreadable> {
    let mut reader = Reader::new(bytes, "acked job");
    let done = DoneJob {
        topic: topic.clone(),
        id: id.clone(),
        number: reader.number()?,
        version: reader.version()?,
        created_at: reader.time()?,
        due_at: reader.time()?,
        attempt: reader.u32()?,
        done_at: reader.time()?,
    };
    reader.end()?;
    Ok(done)
}

/// The version of a job that nothing has happened to: its number.
pub(crate) fn first_version(number: Number) -> Version {
    Version::new(number.get()).expect("numbers are as small as versions")
}

/// A version from its place in a record.
pub(crate) fn read_version(bytes: &[u8]) -> Result<Version, Unreadable> {
    Reader::new(bytes, "version").version()
}

/// A number from a member or field.
pub(crate) fn read_number(bytes: &[u8]) -> Result<Number, Unreadable> {
    Reader::new(bytes, "number").number()
}

/// An instant that a script answered.
pub(crate) fn read_time(millis: i64) -> Result<Timestamp, Unreadable> {
    let millis = u64::try_from(millis).map_err(|_| Unreadable("time"))?;
    Timestamp::from_millis(millis).map_err(|_| Unreadable("time"))
}

#[cfg(test)]
mod tests;
