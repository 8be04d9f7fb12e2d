//! A look at a job's record that takes nothing out of it: whether it can be read, and the little that is needed to
//! find the job, to put it in order and to know when to look again.

use std::sync::LazyLock;

use dwell_core::{Job, Line, Number, Phase, Priority, Timestamp, TopicName, Version};

use super::{BODY, JSON, Start, decode, job_id, start};
use crate::format::bytes::{Damage, Reader};
use crate::format::frame::MAX_PAYLOAD;
use crate::format::record::{BodyPart, Cause, JOB, TopicId};

/// What the topic of a job is called that is only looked at.
static NOWHERE: LazyLock<TopicName> = LazyLock::new(|| TopicName::new("$").expect("a good name"));

/// What is known of a job without reading its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JobMeta {
    /// The store's name for it.
    pub number: Number,
    /// When it may be handed over.
    pub due_at: Timestamp,
    /// Lower goes first.
    pub priority: Priority,
    /// Which of its topic's queues it is on.
    pub line: Line,
    /// What it is doing.
    pub phase: PhaseKind,
    /// Whether it has a ttl of its own.
    pub own_ttl: bool,
}

/// A [`Phase`] without what is true only then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PhaseKind {
    /// See [`Phase::Waiting`].
    Waiting,
    /// See [`Phase::Leased`].
    Leased,
    /// See [`Phase::Buried`].
    Buried,
}

impl JobMeta {
    /// Where it stands among all jobs of its topic.
    pub(crate) fn place(&self) -> (Timestamp, Number) {
        (self.due_at, self.number)
    }

    /// Where it stands among the ready jobs of its line.
    pub(crate) fn rank(&self) -> (Priority, Timestamp, Number) {
        (self.priority, self.due_at, self.number)
    }

    /// What is to be known of this job.
    pub(crate) fn of(job: &Job) -> Self {
        Self {
            number: job.number,
            due_at: job.due_at,
            priority: job.priority,
            line: job.line(),
            phase: match job.phase {
                Phase::Waiting => PhaseKind::Waiting,
                Phase::Leased(_) => PhaseKind::Leased,
                Phase::Buried(_) => PhaseKind::Buried,
            },
            own_ttl: job.options.ttl.is_some(),
        }
    }
}

/// A job's record, looked at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RecordHeader<'a> {
    /// Its topic.
    pub topic: TopicId,
    /// What happened to it.
    pub cause: Cause,
    /// The caller's name for it, a good one.
    pub id: &'a [u8],
    /// Where its body is.
    pub body: BodyPart,
    /// Its last change.
    pub version: Version,
    /// The rest.
    pub meta: JobMeta,
}

/// Looks at the fields of a job. What this accepts, [`decode`] accepts too, and the other way round.
#[inline]
pub(crate) fn read_header<'a>(reader: &mut Reader<'a>) -> Result<RecordHeader<'a>, Damage> {
    let mut again = reader.clone();
    let Start { cause, flags, topic, number, version, due_at, id, .. } = start(reader)?;
    let body = if flags & BODY == 0 { BodyPart::Kept } else { BodyPart::Here };
    let meta = if flags & !(BODY | JSON) == 0 {
        check_id(reader, id)?;
        if flags & BODY != 0 {
            reader.bytes(MAX_PAYLOAD)?;
        }
        let (priority, line) = (Priority::DEFAULT, Line::PULL);
        JobMeta { number, due_at, priority, line, phase: PhaseKind::Waiting, own_ttl: false }
    } else {
        // Few have anything unusual: those are read as a whole.
        let record = decode(&mut again, &|_| Some(NOWHERE.clone()))?;
        *reader = again;
        JobMeta::of(&record.job)
    };
    Ok(RecordHeader { topic, cause, id, body, version, meta })
}

#[inline]
fn check_id(reader: &Reader<'_>, id: &[u8]) -> Result<(), Damage> {
    // Nearly all are plain, and that is told without taking them for text first. Two dots are no id.
    let plain = id.iter().fold(id.len() > 2, |plain, byte| plain & matches!(byte, b' '..=b'~'));
    if plain { Ok(()) } else { job_id(reader, id).map(drop) }
}

/// The id in a whole record that can be read, type included.
pub(crate) fn id_of(record: &[u8]) -> &[u8] {
    let mut reader = Reader::new(record);
    let id = reader.u8().and_then(|kind| start(&mut reader).map(|start| (kind, start.id)));
    let (kind, id) = id.expect("it was looked at before it was kept");
    debug_assert_eq!(kind, JOB);
    id
}
