//! What can be read of a journal, frame by frame, whatever is between them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use dwell_core::{DoneJob, Job};

use super::{Repair, later, nameless};
use crate::format::bytes::Reader;
use crate::format::frame::{self, Frame};
use crate::format::manifest::Manifest;
use crate::format::record::{self, BodyPart, Cause, Record, RecordHeader, Seen, TopicId, TopicRecord};
use crate::format::segment::{self, SegmentHeader};
use crate::format::topics::Topics;
use crate::storage::Storage;

/// Everything that the journal says.
pub(super) struct Salvaged {
    pub(super) topics: BTreeMap<TopicId, TopicRecord>,
    /// The priorities of topics that have lanes of their own, as far as that is known.
    pub(super) lanes: BTreeMap<TopicId, Vec<dwell_core::Priority>>,
    pub(super) gone_topics: BTreeSet<TopicId>,
    /// By number.
    pub(super) jobs: BTreeMap<u64, Kept>,
    /// Ended and remembered, by topic and id.
    pub(super) done: BTreeMap<(TopicId, String), (TopicId, DoneJob)>,
    /// Copies in the cold tier that are no longer true, by number and version.
    pub(super) stale: HashSet<(u64, u64)>,
    /// Jobs whose body was not there, by number, and where.
    pub(super) bodiless: HashMap<u64, String>,
    pub(super) last_sequence: u64,
    /// What came before the first segment there is has been freed: all up to this sequence.
    freed: u64,
    epoch: u64,
    pub(super) mark: u64,
    topics_known: u64,
    flushed: u64,
}

/// What is known of a job.
pub(super) enum Kept {
    /// It is there: its record, and what has been said of it since.
    Job { topic: TopicId, record: Vec<u8>, header: Option<Vec<u8>> },
    /// It has ended.
    Gone,
}

impl Kept {
    /// Its record as it is now.
    pub(super) fn record(&self) -> Option<Vec<u8>> {
        let Self::Job { topic, record, header } = self else { return None };
        let Some(header) = header else { return Some(record.clone()) };
        let name = nameless(*topic).name;
        let job = record::decode_seen(record, &name);
        let job = Job { body: job.body, ..record::decode_seen(header, &name) };
        let mut whole = Vec::new();
        record::encode_job(&mut whole, *topic, Cause::Relog, &job, BodyPart::Here);
        Some(whole)
    }

    fn topic(&self) -> Option<TopicId> {
        match self {
            Self::Job { topic, .. } => Some(*topic),
            Self::Gone => None,
        }
    }
}

impl Salvaged {
    pub(super) fn read(
        from: &dyn Storage,
        names: &[String],
        manifest: Option<&Manifest>,
        (known, stamp): (Topics, u64),
        found: &mut Repair,
    ) -> Self {
        let mut salvaged = Self {
            topics: known.topics.into_iter().map(|topic| (topic.id, topic)).collect(),
            lanes: known.cold.lanes.into_iter().collect(),
            gone_topics: BTreeSet::new(),
            jobs: BTreeMap::new(),
            done: BTreeMap::new(),
            stale: known.cold.stale.iter().map(|stale| (stale.key.number.get(), stale.version.get())).collect(),
            bodiless: HashMap::new(),
            last_sequence: 0,
            freed: 0,
            epoch: 0,
            mark: manifest.map_or(0, |manifest| manifest.mark),
            topics_known: stamp,
            flushed: manifest.map_or(0, |manifest| manifest.flushed),
        };
        let first = manifest.map_or(0, |manifest| manifest.first_segment);
        let mut ids: Vec<u64> = names.iter().filter_map(|name| segment::parse_name(name)).collect();
        ids.retain(|id| *id >= first);
        ids.sort_unstable();
        let from_first = ids.first().copied().filter(|_| manifest.is_none()).unwrap_or(first);
        for missing in (from_first..ids.last().map_or(first, |last| last + 1)).filter(|id| !ids.contains(id)) {
            found.note(from, &segment::name(missing), "is missing");
        }
        for id in &ids {
            salvaged.segment(from, *id, Some(id) == ids.last(), found);
        }
        if ids.is_empty() && manifest.is_some_and(|manifest| manifest.first_segment > 1 || manifest.topics.is_some()) {
            found.note(from, &segment::name(first), "is missing");
        }
        if let Some(clean) = manifest.and_then(|manifest| manifest.clean)
            && clean.last_sequence > salvaged.last_sequence.max(salvaged.freed)
        {
            let last = ids.last().copied().unwrap_or(first);
            found.note(from, &segment::name(last), "ends before the last clean stop did");
        }
        salvaged.last_sequence = salvaged.last_sequence.max(salvaged.topics_known);
        salvaged.forget_gone();
        salvaged
    }

    fn segment(&mut self, from: &dyn Storage, id: u64, last: bool, found: &mut Repair) {
        let name = segment::name(id);
        let bytes = match crate::recovery::read(from, &name) {
            Ok(bytes) => bytes,
            Err(error) => return found.note(from, &name, format!("cannot be read: {error}")),
        };
        let header = SegmentHeader::decode(&bytes).ok().filter(|header| header.segment == id);
        if header.is_none() && (!last || frame::find_later(&bytes, 0, id).next().is_some()) {
            found.note(from, &name, "at byte 0: the header of the segment is damaged");
        }
        if let Some(header) = header.filter(|_| self.epoch == 0) {
            (self.epoch, self.freed) = (header.epoch, header.first_sequence.saturating_sub(1));
        }
        let mut end = frame::PAGE;
        for frame in frame::find_later(&bytes, frame::PAGE, id) {
            let epoch = frame.header.epoch;
            let fits = header.is_none_or(|header| header.epoch == epoch) && epoch >= self.epoch;
            if !fits || frame.header.first_sequence <= self.last_sequence {
                continue;
            }
            let follows = self.last_sequence.max(self.freed) + 1;
            let known = header.map_or(0, |header| header.first_sequence.saturating_sub(1));
            let lost = frame.header.durable_through > self.last_sequence.max(known).max(self.flushed);
            let gap = epoch == self.epoch && frame.header.first_sequence > follows;
            if self.epoch > 0 && (gap || lost) {
                let what = format!(
                    "at byte {end}: {} records, sequences {follows} to {}, cannot be read",
                    frame.header.first_sequence.saturating_sub(follows),
                    frame.header.first_sequence - 1
                );
                found.note(from, &name, what);
            } else if frame.offset > end {
                found.note(from, &name, format!("at byte {end}: {} bytes cannot be read", frame.offset - end));
            }
            end = frame.next_offset;
            self.epoch = epoch;
            self.mark = later(self.mark, frame.header.now);
            if let Err(why) = self.frame(&frame, &name) {
                found.note(from, &name, format!("at byte {}: the rest of a frame cannot be read: {why}", frame.offset));
            }
        }
    }

    fn frame(&mut self, frame: &Frame<'_>, name: &str) -> Result<(), String> {
        let mut reader = Reader::new(frame.payload);
        let nowhere = nameless(TopicId(0)).name;
        let first = frame.header.first_sequence;
        let end = first + u64::from(frame.header.record_count);
        for sequence in first..end {
            self.last_sequence = end - 1;
            let begin = reader.position();
            let seen = record::see(&mut reader, &|_| Some(nowhere.clone())).map_err(|damage| damage.to_string())?;
            match seen {
                Seen::Job(glance) => {
                    let record = &frame.payload[begin..reader.position()];
                    let place = format!("{name}, at byte {}", frame.offset + frame::HEADER + begin);
                    self.job(&glance, record, sequence, &place);
                }
                Seen::Other(record) => self.other(*record, sequence),
            }
        }
        Ok(())
    }

    fn job(&mut self, seen: &RecordHeader<'_>, record: &[u8], sequence: u64, place: &str) {
        let number = seen.meta.number.get();
        let id = String::from_utf8_lossy(seen.id).into_owned();
        self.done.remove(&(seen.topic, id.clone()));
        match seen.body {
            BodyPart::Here => {
                self.bodiless.remove(&number);
                self.jobs.insert(number, Kept::Job { topic: seen.topic, record: record.into(), header: None });
            }
            BodyPart::Kept => match self.jobs.get_mut(&number) {
                Some(Kept::Job { header, .. }) => *header = Some(record.into()),
                None if sequence > self.flushed => {
                    self.bodiless.insert(number, format!("{place}: job {id:?} has lost its body"));
                }
                Some(Kept::Gone) | None => {}
            },
        }
    }

    fn other(&mut self, record: Record, sequence: u64) {
        let known = sequence <= self.topics_known;
        match record {
            Record::Job(_) => unreachable!("jobs are only looked at"),
            Record::Gone(gone) => {
                self.bodiless.remove(&gone.number.get());
                self.jobs.insert(gone.number.get(), Kept::Gone);
            }
            Record::Done(done) => {
                self.done.insert((done.topic, done.done.id.as_str().to_owned()), (done.topic, done.done));
            }
            Record::Tombstone(stale) => {
                self.stale.insert((stale.key.number.get(), stale.version.get()));
            }
            Record::Topic(_) | Record::TopicGone(_) if known => {}
            Record::Topic(topic) => drop(self.topics.insert(topic.id, topic)),
            Record::TopicGone(id) => {
                self.topics.remove(&id);
                self.gone_topics.insert(id);
            }
        }
    }

    /// Jobs of topics that were deleted are gone; topics that nobody has named get a name.
    fn forget_gone(&mut self) {
        let (gone, topics) = (&self.gone_topics, &mut self.topics);
        for kept in self.jobs.values_mut() {
            match kept.topic() {
                Some(topic) if gone.contains(&topic) => *kept = Kept::Gone,
                Some(topic) => drop(topics.entry(topic).or_insert_with(|| nameless(topic))),
                None => {}
            }
        }
        self.done.retain(|(topic, _), (_, done)| {
            topics.get(topic).is_some_and(|topic| done.version.get() > topic.forgotten)
        });
    }
}
