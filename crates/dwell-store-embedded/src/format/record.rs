//! Records: what a frame's payload is made of.
//!
//! Each is one byte with its type, then its fields. Numbers are varints unless told otherwise; instants are
//! milliseconds, where it helps as a signed distance from one another; texts and bytes follow their length. Every
//! record says how things are from then on, never by how much they changed, so replaying one twice does no harm, and
//! the last one about a job or topic is the truth.
//!
//! | type | record | fields |
//! |---|---|---|
//! | 1 | [`Record::Job`] | see [`job`] |
//! | 2 | [`Record::Gone`] | cause (1 byte), number, version, at |
//! | 3 | [`Record::Done`] | topic, number, version, `done_at`, `created_at` and `due_at` as distances from it, attempt, id |
//! | 4 | [`Record::Topic`] | see [`topic`] |
//! | 5 | [`Record::TopicGone`] | topic |
//! | 6 | [`Record::Tombstone`] | topic, line, lane (1 byte), `due_at`, number, version, since |
//!
//! A job's record does not repeat the name of its topic; it has the topic's id. Everything is read through the
//! constructors of `dwell-core`: what they refuse is [`Damage`]. Where they know no limit (the length of a body, the
//! number of deliveries) neither does the reader, so that whatever was written can be read.

pub(crate) mod job;
pub(crate) mod topic;

use dwell_core::{
    DoneJob, Job, JobId, Line, Number, Pause, Timestamp, TopicName, TopicPolicy, Totals, Version, limits,
};

pub(crate) use self::job::header::{JobMeta, PhaseKind, RecordHeader, id_of};
use super::bytes::{Damage, Reader, Why, put_signed, put_text, put_varint};
use super::key::{Key, Lane, Slice, Tombstone};

/// The store's own name for a topic, never used again once the topic is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TopicId(pub u32);

/// One fact of the journal.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Record {
    /// The whole header of a job; the last one wins.
    Job(JobRecord),
    /// The job of this number is no more.
    Gone(GoneRecord),
    /// A remembered acked job.
    Done(DoneRecord),
    /// A topic: absolute values.
    Topic(TopicRecord),
    /// The topic of this id is no more, and with it all its jobs.
    TopicGone(TopicId),
    /// This copy in the cold tier is no longer true. It follows the record that says what is.
    Tombstone(Tombstone),
}

/// A job as it is from now on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JobRecord {
    /// Its topic.
    pub topic: TopicId,
    /// What happened to it.
    pub cause: Cause,
    /// All of it.
    pub job: Job,
    /// Where its body is.
    pub body: BodyPart,
}

/// Where the body of a recorded job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyPart {
    /// In this record.
    Here,
    /// In an earlier record of the same number; `job.body` is the default.
    Kept,
}

/// A job that is no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GoneRecord {
    /// Which.
    pub number: Number,
    /// Why.
    pub cause: GoneCause,
    /// Its last change: this one.
    pub version: Version,
    /// When.
    pub at: Timestamp,
}

/// A remembered acked job.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DoneRecord {
    /// Its topic.
    pub topic: TopicId,
    /// What is remembered.
    pub done: DoneJob,
}

/// A topic as it is from now on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TopicRecord {
    /// The store's name for it.
    pub id: TopicId,
    /// The users' name for it.
    pub name: TopicName,
    /// Its policy.
    pub policy: TopicPolicy,
    /// Whether it hands out jobs.
    pub pause: Pause,
    /// What has happened in it.
    pub totals: Totals,
    /// Acked jobs up to this version are no longer remembered.
    pub forgotten: u64,
}

/// An enum stored as one byte: the place of the variant in its list. Variants are only ever added, at the end.
macro_rules! coded {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $name { $($(#[$variant_doc])* $variant,)* }

        impl $name {
            /// All of them, in the order of their codes.
            pub(crate) const ALL: &[Self] = &[$(Self::$variant,)*];

            fn read(reader: &mut Reader<'_>) -> Result<Self, Damage> {
                let code = reader.u8()?;
                Self::ALL.get(usize::from(code)).copied().ok_or_else(|| reader.invalid("cause"))
            }
        }
    };
}

coded! {
    /// What happened to a job, so that a topic's totals can be counted again.
    Cause {
        /// It was put.
        Put,
        /// It was put in the place of another.
        Replace,
        /// It was leased.
        Lease,
        /// Its holder failed.
        Nack,
        /// Its lease ran out.
        Timeout,
        /// Its holder gave it back.
        Release,
        /// Its holder buried it.
        Bury,
        /// Its lease was extended.
        Extend,
        /// It was changed or moved.
        Change,
        /// It was redriven or kicked.
        Redrive,
        /// Its ttl ran out.
        Expire,
        /// Nothing: its record was in a segment that was cleaned.
        Relog,
    }
}

coded! {
    /// How a job came to be no more.
    GoneCause {
        /// It was acked.
        Ack,
        /// It was cancelled.
        Cancel,
        /// It was purged.
        Purge,
        /// Another was put in its place.
        Replaced,
        /// It was a dead letter for longer than its topic keeps them.
        KeepOver,
        /// Its topic is gone.
        TopicGone,
    }
}

const JOB: u8 = 1;
const GONE: u8 = 2;
const DONE: u8 = 3;
const TOPIC: u8 = 4;
const TOPIC_GONE: u8 = 5;
const TOMBSTONE: u8 = 6;

/// Appends a [`Record::Job`]. With [`BodyPart::Kept`] the body of `job` is not written.
pub(crate) fn encode_job(out: &mut Vec<u8>, topic: TopicId, cause: Cause, job: &Job, body: BodyPart) {
    out.push(JOB);
    job::encode(out, topic, cause, job, body);
}

/// Appends the record of a job once more, because the first one is in a segment that is cleaned.
pub(crate) fn encode_job_again(out: &mut Vec<u8>, record: &[u8]) {
    let (fixed, rest) = record.split_first_chunk().expect("a record has a type and a cause");
    let [JOB, _] = *fixed else { unreachable!("it is not the record of a job") };
    out.extend_from_slice(&[JOB, Cause::Relog as u8]);
    out.extend_from_slice(rest);
}

/// Appends a [`Record::Gone`].
pub(crate) fn encode_gone(out: &mut Vec<u8>, gone: &GoneRecord) {
    out.extend_from_slice(&[GONE, gone.cause as u8]);
    put_varint(out, gone.number.get());
    put_varint(out, gone.version.get());
    put_varint(out, gone.at.as_millis());
}

/// Appends a [`Record::Done`].
pub(crate) fn encode_done(out: &mut Vec<u8>, topic: TopicId, done: &DoneJob) {
    out.push(DONE);
    put_varint(out, topic.0.into());
    put_varint(out, done.number.get());
    put_varint(out, done.version.get());
    put_varint(out, done.done_at.as_millis());
    put_distance(out, done.done_at, done.created_at);
    put_distance(out, done.done_at, done.due_at);
    put_varint(out, done.attempt.into());
    put_text(out, done.id.as_str());
}

/// Appends a [`Record::Topic`].
pub(crate) fn encode_topic(
    out: &mut Vec<u8>,
    id: TopicId,
    name: &TopicName,
    policy: &TopicPolicy,
    pause: Pause,
    totals: &Totals,
    forgotten: u64,
) {
    out.push(TOPIC);
    topic::encode(out, id, name, policy, pause, totals, forgotten);
}

/// Appends a [`Record::TopicGone`].
pub(crate) fn encode_topic_gone(out: &mut Vec<u8>, id: TopicId) {
    out.push(TOPIC_GONE);
    put_varint(out, id.0.into());
}

/// Appends a record that changes nothing: the topic that no store ever has is gone. It takes a sequence, for what needs
/// one that nothing else has.
pub(crate) fn encode_no_op(out: &mut Vec<u8>) {
    encode_topic_gone(out, TopicId(0));
}

/// Appends a [`Record::Tombstone`].
pub(crate) fn encode_tombstone(out: &mut Vec<u8>, stale: &Tombstone) {
    let Tombstone { key: Key { slice, due_at, number }, version, since } = stale;
    out.push(TOMBSTONE);
    put_slice(out, *slice);
    put_varint(out, due_at.as_millis());
    put_varint(out, number.get());
    put_varint(out, version.get());
    put_varint(out, *since);
}

/// Reads the next record. `topics` names the topics that jobs belong to; a job of one that it does not know is
/// damage of its own kind ([`Why::UnknownTopic`]).
pub(crate) fn decode(reader: &mut Reader<'_>, topics: &dyn Fn(TopicId) -> Option<TopicName>) -> Result<Record, Damage> {
    match reader.u8()? {
        JOB => job::decode(reader, topics).map(Record::Job),
        GONE => decode_gone(reader).map(Record::Gone),
        DONE => decode_done(reader, topics).map(Record::Done),
        TOPIC => topic::decode(reader).map(Record::Topic),
        TOPIC_GONE => Ok(Record::TopicGone(TopicId(reader.varint_u32()?))),
        TOMBSTONE => decode_stale(reader).map(Record::Tombstone),
        _ => Err(reader.invalid("type of record")),
    }
}

/// A record as a start reads it: jobs are looked at, everything else is read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Seen<'a> {
    /// A [`Record::Job`].
    Job(RecordHeader<'a>),
    /// Any other one.
    Other(Box<Record>),
}

/// Looks at the next record. What it accepts, [`decode`] accepts too, given the same topics.
#[inline]
pub(crate) fn see<'a>(
    reader: &mut Reader<'a>,
    topics: &dyn Fn(TopicId) -> Option<TopicName>,
) -> Result<Seen<'a>, Damage> {
    let mut ahead = reader.clone();
    if ahead.u8() == Ok(JOB) {
        *reader = ahead;
        return job::header::read_header(reader).map(Seen::Job);
    }
    decode(reader, topics).map(Box::new).map(Seen::Other)
}

/// Reads the whole record of a job of this topic that was looked at before.
pub(crate) fn decode_seen(record: &[u8], topic: &TopicName) -> Job {
    match decode(&mut Reader::new(record), &|_| Some(topic.clone())) {
        Ok(Record::Job(record)) => record.job,
        other => unreachable!("it was looked at before it was kept: {other:?}"),
    }
}

fn decode_gone(reader: &mut Reader<'_>) -> Result<GoneRecord, Damage> {
    let cause = GoneCause::read(reader)?;
    Ok(GoneRecord { cause, number: number(reader)?, version: version(reader)?, at: timestamp(reader)? })
}

fn decode_done(reader: &mut Reader<'_>, topics: &dyn Fn(TopicId) -> Option<TopicName>) -> Result<DoneRecord, Damage> {
    let (topic, name) = topic_of(reader, topics)?;
    let (number, version, done_at) = (number(reader)?, version(reader)?, timestamp(reader)?);
    let done = DoneJob {
        topic: name,
        number,
        version,
        done_at,
        created_at: distant(reader, done_at)?,
        due_at: distant(reader, done_at)?,
        attempt: reader.varint_u32()?,
        id: job_id(reader)?,
    };
    Ok(DoneRecord { topic, done })
}

fn decode_stale(reader: &mut Reader<'_>) -> Result<Tombstone, Damage> {
    let slice = slice(reader)?;
    let key = Key { slice, due_at: timestamp(reader)?, number: number(reader)? };
    Ok(Tombstone { key, version: version(reader)?, since: reader.varint()? })
}

/// Appends a slice of the cold tier.
pub(crate) fn put_slice(out: &mut Vec<u8>, slice: Slice) {
    put_varint(out, slice.topic.0.into());
    put_varint(out, slice.line.index().into());
    out.push(slice.lane.index());
}

/// Reads what [`put_slice`] wrote.
pub(crate) fn slice(reader: &mut Reader<'_>) -> Result<Slice, Damage> {
    let topic = TopicId(reader.varint_u32()?);
    let line = u16::try_from(reader.varint()?).ok().and_then(Line::from_index);
    let line = line.ok_or_else(|| reader.invalid("line"))?;
    let lane = Lane::from_index(reader.u8()?);
    Ok(Slice { topic, line, lane })
}

fn topic_of(
    reader: &mut Reader<'_>,
    topics: &dyn Fn(TopicId) -> Option<TopicName>,
) -> Result<(TopicId, TopicName), Damage> {
    let id = TopicId(reader.varint_u32()?);
    let name = topics(id).ok_or_else(|| reader.damage(Why::UnknownTopic(id.0)))?;
    Ok((id, name))
}

#[inline]
fn number(reader: &mut Reader<'_>) -> Result<Number, Damage> {
    let value = reader.varint()?;
    Number::new(value).ok_or_else(|| reader.invalid("number"))
}

#[inline]
fn version(reader: &mut Reader<'_>) -> Result<Version, Damage> {
    let value = reader.varint()?;
    Version::new(value).ok_or_else(|| reader.invalid("version"))
}

#[inline]
pub(super) fn timestamp(reader: &mut Reader<'_>) -> Result<Timestamp, Damage> {
    let millis = reader.varint()?;
    Timestamp::from_millis(millis).map_err(|_| reader.invalid("time"))
}

/// Writes `at` as its distance from `base`.
fn put_distance(out: &mut Vec<u8>, base: Timestamp, at: Timestamp) {
    put_signed(out, at.as_millis().wrapping_sub(base.as_millis()).cast_signed());
}

/// Reads what [`put_distance`] wrote.
#[inline]
fn distant(reader: &mut Reader<'_>, base: Timestamp) -> Result<Timestamp, Damage> {
    let millis = base.as_millis().checked_add_signed(reader.signed()?);
    millis.and_then(|millis| Timestamp::from_millis(millis).ok()).ok_or_else(|| reader.invalid("time"))
}

fn job_id(reader: &mut Reader<'_>) -> Result<JobId, Damage> {
    let text = reader.text(limits::MAX_JOB_ID)?;
    JobId::new(text).map_err(|_| reader.invalid("job id"))
}

#[cfg(test)]
mod golden;
#[cfg(test)]
pub(crate) mod strategies;
#[cfg(test)]
mod tests;
