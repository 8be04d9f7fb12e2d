//! Read requests to the cold tier, and their results.
//!
//! A result leaves out rows that have a tombstone in its view. Tombstones that are still pending, and jobs that are in
//! memory too, only the engine knows: it checks every row.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use dwell_core::{Job, JobId, Number, Timestamp, TopicName, Version};

use super::{BadPlace, LiveRun, View};
use crate::engine::IdHash;
use crate::format::key::{Key, Place, Slice, after_time, first_place};
use crate::format::record::{JobMeta, TopicId, decode_seen};
use crate::format::run::{self, Block, RunError, id_hash};

/// What is asked.
#[derive(Clone, Debug)]
pub(crate) enum ReadRequest {
    /// Jobs by their topic and id, and by number.
    Find {
        /// By topic and id.
        ids: Vec<(TopicId, JobId)>,
        /// By number.
        numbers: Vec<Number>,
    },
    /// Jobs of these slices in the order they are due.
    Row(RowRequest),
    /// How many jobs of a slice are due at or before a time.
    Ranks(Vec<(Slice, Timestamp)>),
}

/// Which jobs of some slices are wanted.
#[derive(Clone, Debug)]
pub(crate) struct RowRequest {
    pub(crate) slices: Vec<Slice>,
    /// From this place on.
    pub(crate) from: Place,
    /// Due at this time or before.
    pub(crate) until: Timestamp,
    /// At most so many; one is always given.
    pub(crate) limit: usize,
    /// At most so many bytes; one is always given.
    pub(crate) bytes: usize,
    /// Those that are ready are about to be handed out, and are taken apart.
    pub(crate) ready: Option<Ready>,
}

/// Which jobs are ready: those due at this time or before. Their topic has this name, and so their ids are hashed.
#[derive(Clone, Debug)]
pub(crate) struct Ready {
    pub(crate) topic: TopicName,
    pub(crate) at: Timestamp,
    pub(crate) hash: IdHash,
}

/// What is answered.
#[derive(Debug)]
pub(crate) enum Reply {
    /// What was found.
    Found(Vec<Shown>),
    /// See [`Row`].
    Row(Row),
    /// In the order they were asked for.
    Ranks(Vec<u64>),
}

/// A job, and what was seen in it: whoever reads has more time to look than the engine.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) topic: TopicId,
    pub(crate) version: Version,
    pub(crate) meta: JobMeta,
    pub(crate) form: Form,
}

/// The job itself.
#[derive(Debug)]
pub(crate) enum Form {
    /// Its record, and where in it its id is.
    Record(Vec<u8>, Range<usize>),
    /// Taken apart, and the hash of its id.
    Open(Box<Job>, u32),
}

impl Shown {
    fn of(record: &[u8], ready: Option<&Ready>) -> Option<Self> {
        let seen = run::look(record).ok()?;
        let (topic, version, meta) = (seen.topic, seen.version, seen.meta);
        let form = match ready {
            Some(ready) if meta.place().0 <= ready.at => {
                let hash = ready.hash.of(topic, seen.id);
                Form::Open(Box::new(decode_seen(record, &ready.topic)), hash)
            }
            _ => {
                let begin = record.element_offset(seen.id.first()?)?;
                Form::Record(record.to_vec(), begin..begin + seen.id.len())
            }
        };
        Some(Self { topic, version, meta, form })
    }

    /// The hash of its id, if it is known.
    pub(crate) fn id_hash(&self) -> Option<u32> {
        match self.form {
            Form::Record(..) => None,
            Form::Open(_, hash) => Some(hash),
        }
    }

    /// The caller's name for it.
    pub(crate) fn id(&self) -> &str {
        match &self.form {
            Form::Record(record, id) => str::from_utf8(&record[id.clone()]).expect("it was looked at"),
            Form::Open(job, _) => job.id.as_str(),
        }
    }
}

/// Jobs in the order they are due.
#[derive(Debug, Default)]
pub(crate) struct Row {
    pub(crate) jobs: Vec<Shown>,
    /// All that was asked for up to this place is there; without one, all of it.
    pub(crate) through: Option<Place>,
    /// When the first one that is not there is due, asked for or not.
    pub(crate) next: Option<Timestamp>,
}

/// An answer, and what could not be read for it.
#[derive(Debug)]
pub(crate) struct ReadOutcome {
    pub(crate) reply: Reply,
    /// What is damaged, and was left out.
    pub(crate) bad: Vec<BadPlace>,
    /// Why the answer is worth nothing: the disk did not give what is there.
    pub(crate) failed: Option<String>,
}

/// Answers a question.
pub(crate) fn answer(view: &View, question: &ReadRequest) -> ReadOutcome {
    let mut reading = Reading { view, bad: Vec::new(), failed: None };
    let reply = match question {
        ReadRequest::Find { ids, numbers } => Reply::Found(reading.find(ids, numbers)),
        ReadRequest::Row(question) => Reply::Row(reading.row(question)),
        ReadRequest::Ranks(wanted) => Reply::Ranks(reading.ranks(wanted)),
    };
    ReadOutcome { reply, bad: reading.bad, failed: reading.failed }
}

struct Reading<'a> {
    view: &'a View,
    bad: Vec<BadPlace>,
    failed: Option<String>,
}

impl<'a> Reading<'a> {
    fn note(&mut self, live_run: &LiveRun, what: &str, error: &RunError) {
        let place = BadPlace::new(live_run.run.number, what, error);
        match error {
            RunError::Damaged(_) => self.bad.push(place),
            RunError::Io(_) => self.failed = Some(place.told),
        }
    }

    fn find(&mut self, ids: &[(TopicId, JobId)], numbers: &[Number]) -> Vec<Shown> {
        let view = self.view;
        let mut found = Vec::new();
        for live_run in &view.runs {
            for (topic, id) in ids {
                let hash = id_hash(*topic, id.as_str().as_bytes());
                if !live_run.run.may_have(hash) {
                    continue;
                }
                let ordinals = live_run.run.find_id(hash);
                self.show(live_run, ordinals, &mut found, |shown| shown.topic == *topic && shown.id() == id.as_str());
            }
            for number in numbers {
                let ordinals = live_run.run.find_number(number.get());
                self.show(live_run, ordinals, &mut found, |_| true);
            }
        }
        found
    }

    fn show(
        &mut self,
        live_run: &LiveRun,
        ordinals: Result<Vec<u32>, RunError>,
        found: &mut Vec<Shown>,
        meant: impl Fn(&Shown) -> bool,
    ) {
        let ordinals = ordinals.unwrap_or_else(|error| {
            self.note(live_run, "a table", &error);
            Vec::new()
        });
        for ordinal in ordinals.into_iter().filter(|ordinal| !live_run.dead.contains(*ordinal)) {
            let Some(block) = self.block(live_run, live_run.run.block_of(ordinal)) else { continue };
            let shown = block.by_ordinal(ordinal).and_then(|entry| Shown::of(entry.record, None));
            found.extend(shown.filter(&meant));
        }
    }

    fn block(&mut self, live_run: &LiveRun, block: usize) -> Option<Block> {
        if block >= live_run.run.index.len() {
            return None;
        }
        match live_run.run.block(block) {
            Ok(block) => Some(block),
            Err(error) => {
                self.note(live_run, &format!("block {block}"), &error);
                None
            }
        }
    }

    fn row(&mut self, question: &RowRequest) -> Row {
        let mut walks: Vec<Walk<'a>> = Vec::new();
        let mut heads = BinaryHeap::new();
        for live_run in &self.view.runs {
            for slice in &question.slices {
                let mut walk = Walk::begin(live_run, *slice, question.from);
                if let Some(place) = walk.settle(self) {
                    heads.push(Reverse((place, walks.len())));
                    walks.push(walk);
                }
            }
        }
        let mut row = Row::default();
        let mut bytes = 0;
        let mut last = None;
        while let Some(Reverse((place, at))) = heads.pop() {
            let full = row.jobs.len() >= question.limit || bytes >= question.bytes;
            if place.0 > question.until || (full && last.is_some()) {
                row.next = Some(place.0);
                row.through = if place.0 > question.until { None } else { last };
                break;
            }
            let record = walks[at].record();
            bytes += record.len();
            row.jobs.extend(Shown::of(record, question.ready.as_ref()));
            last = Some(place);
            if let Some(place) = walks[at].advance(self) {
                heads.push(Reverse((place, at)));
            }
        }
        row
    }

    /// How many jobs of slices that are not dead are due by some times.
    fn ranks(&mut self, wanted: &[(Slice, Timestamp)]) -> Vec<u64> {
        let view = self.view;
        let mut counts = vec![0; wanted.len()];
        for live_run in &view.runs {
            let mut last = None;
            let mut begin: Option<(Slice, u32)> = None;
            for ((slice, at), count) in wanted.iter().zip(&mut counts) {
                let begin = match begin {
                    Some((of, ordinal)) if of == *slice => ordinal,
                    _ => {
                        let ordinal = self.ordinal(live_run, &Key::new(*slice, first_place()), &mut last);
                        begin = Some((*slice, ordinal));
                        ordinal
                    }
                };
                let end = self.ordinal(live_run, &Key::new(*slice, after_time(*at)), &mut last);
                if begin < end {
                    *count += u64::from(end - begin) - live_run.dead.range_cardinality(begin..end);
                }
            }
        }
        counts
    }

    /// How many jobs of a run come before this key. The block that was looked at last is kept: the next key is often in
    /// the same one.
    fn ordinal(&mut self, live_run: &LiveRun, key: &Key, last: &mut Option<(usize, Block)>) -> u32 {
        let run = &live_run.run;
        let at = run.block_from(key);
        let Some(block) = run.index.get(at) else { return 0 };
        if *key <= block.first_key {
            return block.first;
        }
        if last.as_ref().is_none_or(|(of, _)| *of != at) {
            *last = self.block(live_run, at).map(|block| (at, block));
        }
        // What cannot be read counts as if it came after.
        let place = last.as_ref().map_or(0, |(_, block)| block.place_of(key));
        block.first + u32::try_from(place).expect("blocks are small")
    }
}

/// A way through one slice of one run.
struct Walk<'a> {
    live_run: &'a LiveRun,
    slice: Slice,
    from: Key,
    /// The block it is at.
    at: usize,
    block: Option<Block>,
    place: usize,
}

impl<'a> Walk<'a> {
    fn begin(live_run: &'a LiveRun, slice: Slice, from: Place) -> Self {
        let from = Key::new(slice, from);
        Self { live_run, slice, from, at: live_run.run.block_from(&from), block: None, place: 0 }
    }

    /// Goes to the first job from here on that is not dead; its place.
    fn settle(&mut self, reading: &mut Reading<'_>) -> Option<Place> {
        loop {
            let first_key = self.live_run.run.index.get(self.at)?.first_key;
            if first_key.slice > self.slice {
                return None;
            }
            if self.block.is_none() && !self.live_run.is_dead(self.at) {
                self.block = reading.block(self.live_run, self.at);
                self.place = self.block.as_ref().map_or(0, |block| block.place_of(&self.from));
            }
            let block = self.block.as_ref();
            while let Some(entry) = block.and_then(|block| block.get(self.place)) {
                if entry.key.slice > self.slice {
                    return None;
                }
                if !self.live_run.dead.contains(entry.ordinal) {
                    return Some(entry.key.place());
                }
                self.place += 1;
            }
            self.block = None;
            self.at += 1;
        }
    }

    fn advance(&mut self, reading: &mut Reading<'_>) -> Option<Place> {
        self.place += 1;
        self.settle(reading)
    }

    fn record(&self) -> &[u8] {
        self.block.as_ref().and_then(|block| block.get(self.place)).map_or(&[], |entry| entry.record)
    }
}
