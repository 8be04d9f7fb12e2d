//! Pages of jobs, and how many are due when.

use std::fmt;
use std::str::FromStr;

use crate::job::{Job, JobView, Number};
use crate::limits;
use crate::names::TopicName;
use crate::state::State;
use crate::time::Timestamp;

/// A page of a topic's jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListQuery {
    /// Which topic.
    pub topic: TopicName,
    /// Only jobs in this state; unset: all, in the order of [`Section`].
    pub state: Option<State>,
    /// Only what comes after this place.
    pub after: Option<Cursor>,
    /// At most so many jobs.
    pub limit: u32,
    /// At most so many bytes of bodies; one job always fits.
    pub max_bytes: usize,
}

impl ListQuery {
    /// The first page of all jobs of a topic.
    pub fn of(topic: TopicName) -> Self {
        let (limit, max_bytes) = (limits::DEFAULT_PAGE, limits::MAX_ANSWER_BYTES);
        Self { topic, state: None, after: None, limit, max_bytes }
    }

    /// Whether a job in `state` belongs into this list.
    pub fn wants(&self, state: State) -> bool {
        self.state.is_none_or(|wanted| wanted == state)
    }
}

/// One page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// The jobs, in order.
    pub jobs: Vec<JobView>,
    /// Where the next page begins, if there may be one.
    pub next: Option<Cursor>,
}

/// A place in a list of jobs. It names no page and no file, so it survives everything: a job that does not change is
/// seen exactly once by a caller who follows cursors to the end.
///
/// It prints as `<section>-<due time>-<number>` in hexadecimal; callers treat that as opaque.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    /// Which part of the list.
    pub section: Section,
    /// The due time of the last job seen.
    pub due_at: Timestamp,
    /// Its number.
    pub number: Number,
}

impl Cursor {
    /// The place of `job` as it is at `now`.
    pub fn at(job: &Job, now: Timestamp) -> Self {
        Self { section: Section::of(job.state(now)), due_at: job.due_at, number: job.number }
    }
}

/// The parts of a list, in order. Delayed and ready are one part, by due time, so that a job that becomes due between
/// two pages stays in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Section {
    /// Delayed and ready.
    Waiting,
    /// Leased.
    Leased,
    /// Buried.
    Buried,
}

impl Section {
    /// Where jobs in this state are listed.
    pub fn of(state: State) -> Self {
        match state {
            State::Delayed | State::Ready => Self::Waiting,
            State::Leased => Self::Leased,
            State::Buried => Self::Buried,
        }
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let section = match self.section {
            Section::Waiting => 'w',
            Section::Leased => 'l',
            Section::Buried => 'b',
        };
        write!(f, "{section}-{:x}-{:x}", self.due_at.as_millis(), self.number.get())
    }
}

impl FromStr for Cursor {
    type Err = NotACursor;

    fn from_str(text: &str) -> Result<Self, NotACursor> {
        let hex = |part: Option<&str>| part.and_then(|p| u64::from_str_radix(p, 16).ok()).ok_or(NotACursor);
        let mut parts = text.split('-');
        let section = match parts.next() {
            Some("w") => Section::Waiting,
            Some("l") => Section::Leased,
            Some("b") => Section::Buried,
            _ => return Err(NotACursor),
        };
        let due_at = Timestamp::from_millis(hex(parts.next())?).map_err(|_| NotACursor)?;
        let number = Number::new(hex(parts.next())?).ok_or(NotACursor)?;
        let cursor = Self { section, due_at, number };
        if cursor.to_string() == text { Ok(cursor) } else { Err(NotACursor) }
    }
}

/// The text is no cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not a cursor; take it from the page before, as it is")]
pub struct NotACursor;

/// How many jobs are due when: buckets of whole minutes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimelineQuery {
    topic: Option<TopicName>,
    from: Timestamp,
    step: u64,
    buckets: u32,
}

impl TimelineQuery {
    /// Buckets of `step` milliseconds from the minute of `from` on, of one topic or of all.
    pub fn new(topic: Option<TopicName>, from: Timestamp, step: u64, buckets: u32) -> Result<Self, TimelineError> {
        if step == 0 || !step.is_multiple_of(limits::MINUTE) || step > limits::MAX_DELAY {
            return Err(TimelineError::Step);
        }
        if buckets == 0 || buckets > limits::MAX_BUCKETS {
            return Err(TimelineError::Buckets { wanted: buckets });
        }
        let minute = from.as_millis() / limits::MINUTE * limits::MINUTE;
        let from = Timestamp::from_millis(minute).expect("no later than a valid instant");
        Ok(Self { topic, from, step, buckets })
    }

    /// The topic; `None`: all of them.
    pub fn topic(&self) -> Option<&TopicName> {
        self.topic.as_ref()
    }

    /// Where the first bucket begins, a whole minute.
    pub fn from(&self) -> Timestamp {
        self.from
    }

    /// Milliseconds a bucket, whole minutes.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// How many buckets.
    pub fn buckets(&self) -> u32 {
        self.buckets
    }

    /// Which bucket counts a job that is due at `due_at`: the one that begins no later and ends after it.
    pub fn bucket_of(&self, due_at: Timestamp) -> Option<usize> {
        if due_at < self.from {
            return None;
        }
        let bucket = due_at.since(self.from) / self.step;
        (bucket < u64::from(self.buckets)).then(|| usize::try_from(bucket).expect("at most 1,000"))
    }
}

/// Why a timeline was refused, and what would be right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimelineError {
    /// Not whole minutes.
    #[error("the step must be a whole number of minutes, from 1m to 3650d")]
    Step,
    /// None, or too many.
    #[error(
        "{wanted} buckets; from 1 to {} are allowed: choose a longer step or a shorter stretch",
        limits::MAX_BUCKETS
    )]
    Buckets {
        /// Buckets asked for.
        wanted: u32,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis).unwrap()
    }

    #[test]
    fn cursors_read_back_and_nothing_else_does() {
        let cursor = Cursor { section: Section::Buried, due_at: at(0x1234), number: Number::new(0xab).unwrap() };
        assert_eq!(cursor.to_string(), "b-1234-ab");
        for (section, text) in
            [(Section::Waiting, "w-1234-ab"), (Section::Leased, "l-1234-ab"), (Section::Buried, "b-1234-ab")]
        {
            assert_eq!(text.parse(), Ok(Cursor { section, ..cursor }), "{text}");
        }
        for wrong in ["", "b", "b-1234", "x-1234-ab", "b-1234-AB", "b-01234-ab", "b-1234-ab-1", "b-ffffffffffff-ab"] {
            assert_eq!(wrong.parse::<Cursor>(), Err(NotACursor), "{wrong}");
        }
    }

    #[test]
    fn cursors_sort_as_lists_do() {
        let cursor = |section, due, number| Cursor { section, due_at: at(due), number: Number::new(number).unwrap() };
        assert!(cursor(Section::Waiting, 9, 9) < cursor(Section::Leased, 1, 1));
        assert!(cursor(Section::Waiting, 1, 9) < cursor(Section::Waiting, 2, 1));
        assert!(cursor(Section::Waiting, 1, 1) < cursor(Section::Waiting, 1, 2));
    }

    #[test]
    fn buckets_are_half_open() {
        let query = TimelineQuery::new(None, at(60_001), 60_000, 2).unwrap();
        assert_eq!(query.from(), at(60_000));
        assert_eq!(query.bucket_of(at(59_999)), None);
        assert_eq!(query.bucket_of(at(60_000)), Some(0));
        assert_eq!(query.bucket_of(at(119_999)), Some(0));
        assert_eq!(query.bucket_of(at(120_000)), Some(1));
        assert_eq!(query.bucket_of(at(180_000)), None);
    }

    #[test]
    fn timelines_are_whole_minutes_and_bounded() {
        for step in [0, 1, 59_999, 60_001, limits::MAX_DELAY + 60_000] {
            assert_eq!(TimelineQuery::new(None, at(0), step, 1), Err(TimelineError::Step), "{step}");
        }
        assert!(TimelineQuery::new(None, at(0), limits::MAX_DELAY, 1_000).is_ok());
        assert_eq!(TimelineQuery::new(None, at(0), 60_000, 0), Err(TimelineError::Buckets { wanted: 0 }));
        assert_eq!(TimelineQuery::new(None, at(0), 60_000, 1_001), Err(TimelineError::Buckets { wanted: 1_001 }));
    }
}
