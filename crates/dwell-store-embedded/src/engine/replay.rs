//! Replay: applies the records of the journal to memory at a start.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dwell_core::{DoneJob, Job, Number, Phase, Timestamp, limits};
use foldhash::fast::RandomState as FastHash;
use hashbrown::HashMap;

use super::cold::ColdSlice;
use super::flush::FlushState;
use super::slots::{Home, IdHash, IdTable, Ids, Index, RecordLocation};
use super::start_sort::{self, Share, SortedJobs};
use super::topic::{Place, Topic};
use super::{Engine, totals};
use crate::cold::{BadPlace, View};
use crate::format::key::{Lane, Slice, Tombstone};
use crate::format::record::{
    self, BodyPart, Cause, DoneRecord, GoneCause, GoneRecord, JobMeta, PhaseKind, Record, TopicId, TopicRecord, id_of,
};
use crate::format::topics::{ColdSummary, SliceSummary};
use crate::sim_bugs::{self, Bug};

/// A record that does not fit what came before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ReplayError {
    /// A job's record without a body, of a job that has none anywhere.
    #[error("a job's record names a body that no other record has")]
    NoBody,
    /// A job of a topic that is not there.
    #[error("a job's record names a topic that no earlier record has")]
    NoTopic,
}

/// What is known of when a record was written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplayContext {
    /// Its sequence.
    pub(crate) sequence: u64,
    /// The topics, and what is counted of the cold tier, are already as they were after it: it says nothing about them.
    pub(crate) topics_known: bool,
    /// The cold tier is already as it was after it: it says nothing about jobs that are there.
    pub(crate) flushed: bool,
}

/// What is kept beside the jobs while the journal is replayed.
#[derive(Default)]
pub(super) struct Replaying {
    /// Jobs whose body has not been met.
    orphans: BTreeSet<Number>,
    /// Topics that were deleted.
    dead_topics: BTreeSet<TopicId>,
    /// The last record of jobs of which an earlier one has the body.
    headers: HashMap<Index, Box<[u8]>, FastHash>,
    /// The job of the last record, if nothing was known of it before: of one that was in the cold tier the next record says
    /// so.
    last: Option<(Number, Last)>,
    /// How many segments have been replayed.
    segments: usize,
    /// Tombstones that the topics file is thought to know.
    pub(super) passed_over: Vec<Tombstone>,
    /// Their first sequences.
    pub(super) starts: Vec<(u64, u64)>,
}

/// What the last record said of a job of which nothing was known.
#[derive(Clone, Copy)]
enum Last {
    /// It is no more.
    Gone(GoneCause),
    /// It is buried.
    Buried,
}

/// The record of a job: its bytes, and where they will lie.
#[derive(Clone, Copy)]
pub(crate) struct JobBytes<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) lying: RecordLocation,
}

/// What was seen of a job's record, by itself.
pub(crate) struct ScannedJob {
    pub(crate) topic: TopicId,
    pub(crate) cause: Cause,
    pub(crate) body: BodyPart,
    pub(crate) meta: JobMeta,
    /// Of its id, as [`Engine::id_hash`] hashes it.
    pub(crate) id_hash: u32,
    /// Where in its segment the record begins.
    pub(crate) at: usize,
    /// How long it is.
    pub(crate) length: usize,
}

impl Engine {
    /// How the ids of jobs are hashed that are replayed.
    pub(crate) fn id_hash(&self) -> IdHash {
        self.slots.id_hash()
    }

    /// A segment is about to be replayed, which begins with this sequence. Its place, for [`Engine::end_segment`].
    pub(crate) fn begin_segment(&mut self, segment: u64, first_sequence: u64) -> u32 {
        self.replaying.starts.push((segment, first_sequence));
        self.slots.expect_segment()
    }

    /// A segment has been replayed. These are its bytes: jobs lie in them from now on. After the first one so many are
    /// left.
    pub(crate) fn end_segment(&mut self, place: u32, bytes: Vec<u8>, left: usize) {
        self.slots.bring_segment(place, bytes);
        self.move_all();
        self.replaying.segments += 1;
        if self.replaying.segments == 1 {
            self.slots.make_room(self.slots.len() * left);
        }
    }

    /// Does one record again that is not a job's.
    pub(crate) fn replay(&mut self, record: Record, told: ReplayContext) -> Result<(), ReplayError> {
        let ReplayContext { sequence, topics_known, .. } = told;
        match record {
            Record::Job(_) => unreachable!("jobs are only looked at"),
            Record::Topic(_) if topics_known => {}
            Record::Gone(gone) => self.replay_gone(&gone, topics_known),
            Record::Done(DoneRecord { topic, done }) => match self.topics.get(&topic) {
                Some(known) if done.version.get() > known.forgotten => {
                    self.done.insert(topic, DoneJob { topic: known.name.clone(), ..done }, sequence);
                }
                None if !topics_known => return Err(ReplayError::NoTopic),
                Some(_) | None => {}
            },
            Record::Topic(topic) => self.replay_topic(topic),
            // What it would be on never came to be.
            Record::Tombstone(stale) if stale.since > self.flush.flushed_through() => {}
            Record::Tombstone(stale) if topics_known => self.replaying.passed_over.push(stale),
            Record::Tombstone(stale) => self.replay_tombstone(&stale),
            Record::TopicGone(id) => {
                if self.topics.contains_key(&id) && !topics_known {
                    self.forget_replayed_topic(id);
                }
            }
        }
        Ok(())
    }

    /// A copy in the cold tier is no longer true.
    fn replay_tombstone(&mut self, stale: &Tombstone) {
        let key = &stale.key;
        let last = self.replaying.last.take().filter(|(number, _)| *number == key.number);
        if let Some(topic) = self.topics.get_mut(&key.slice.topic) {
            match last {
                Some((_, Last::Gone(cause))) => totals::count_gone(&mut topic.totals, cause),
                // It was counted as if it had not been buried before.
                Some((_, Last::Buried)) if key.slice.lane == Lane::BURIED => topic.totals.buried -= 1,
                Some((_, Last::Buried)) | None => {}
            }
        }
        let of = self.slice_of(key.slice);
        of.stale.insert(key.place(), stale.version);
        of.copies = of.copies.saturating_sub(1);
        if key.slice.lane != Lane::BURIED {
            self.cold.minutes.remove(key.due_at);
        }
    }

    fn slice_of(&mut self, slice: Slice) -> &mut ColdSlice {
        let slices = match self.topics.get_mut(&slice.topic) {
            Some(topic) => &mut topic.slices,
            None => self.cold.gone.entry(slice.topic).or_default(),
        };
        slices.entry((slice.line, slice.lane)).or_insert_with(|| Box::new(ColdSlice::new(0, Timestamp::MAX)))
    }

    /// What is in the cold tier, as of the topics' file with this stamp.
    pub(crate) fn replay_cold_tier(
        &mut self,
        summary: ColdSummary,
        view: View,
        bad: &[BadPlace],
        flushed: u64,
        stamp: u64,
    ) {
        self.flush = FlushState::new(0, flushed);
        self.cold.stamp = Some(stamp);
        for (topic, lanes) in summary.lanes {
            if let Some(topic) = self.topics.get_mut(&topic) {
                topic.lanes = lanes;
            }
        }
        for SliceSummary { slice, jobs, first, passes } in summary.slices {
            *self.slice_of(slice) = ColdSlice { passes, ..ColdSlice::new(jobs, first) };
        }
        for Tombstone { key, version, .. } in summary.stale {
            self.slice_of(key.slice).stale.insert(key.place(), version);
        }
        self.cold.minutes = summary.minutes.into_iter().collect();
        self.cold.view = Arc::new(view);
        self.cold.bad = bad.iter().cloned().collect();
    }

    /// Does the record of a job again. Indexes and timers come later, with [`Engine::begin`]. Where topics are known it
    /// is already counted, and a job of a topic that is not there is no more.
    pub(crate) fn replay_job(
        &mut self,
        seen: &ScannedJob,
        record: JobBytes<'_>,
        told: ReplayContext,
    ) -> Result<(), ReplayError> {
        let ReplayContext { sequence, topics_known, flushed } = told;
        let ScannedJob { topic, cause, body, meta, id_hash, .. } = *seen;
        let Some(of_topic) = self.topics.get_mut(&topic) else {
            return if topics_known { Ok(()) } else { Err(ReplayError::NoTopic) };
        };
        let is_buried = meta.phase == PhaseKind::Buried;
        self.next_number = self.next_number.max(meta.number.get() + 1);
        // A job that was just put cannot be there already.
        let known = if cause == Cause::Put { None } else { self.slots.by_number(meta.number) };
        let Some(index) = known else {
            if body == BodyPart::Kept {
                // Its body was in a segment that is gone: it is in the cold tier as it was then or later, it has been logged
                // again since, or it has ended.
                if !flushed {
                    self.replaying.orphans.insert(meta.number);
                }
                return Ok(());
            }
            self.replaying.orphans.remove(&meta.number);
            if !topics_known {
                totals::count(&mut of_topic.totals, cause, false, is_buried);
                self.replaying.last = is_buried.then_some((meta.number, Last::Buried));
            }
            if !self.done.is_empty() {
                self.done.remove(topic, str::from_utf8(id_of(record.bytes)).expect("it was looked at"));
            }
            self.slots.load(topic, meta, id_hash, record.lying, Home::journal(sequence));
            return Ok(());
        };
        let slot = self.slots.get_mut(index);
        let was_buried = slot.meta.phase == PhaseKind::Buried;
        if !topics_known {
            totals::count(&mut of_topic.totals, cause, was_buried, is_buried);
        }
        slot.meta = meta;
        match body {
            BodyPart::Here => {
                slot.home = Home::journal(sequence);
                self.replaying.headers.remove(&index);
                self.slots.load_again(index, record.lying);
            }
            BodyPart::Kept => drop(self.replaying.headers.insert(index, record.bytes.into())),
        }
        Ok(())
    }

    fn replay_gone(&mut self, gone: &GoneRecord, counted: bool) {
        // A job whose records have been cleaned away may still have its end on record.
        self.replaying.orphans.remove(&gone.number);
        let Some(index) = self.slots.by_number(gone.number) else {
            self.replaying.last = Some((gone.number, Last::Gone(gone.cause)));
            return;
        };
        let topic = self.unload(index);
        if let Some(topic) = self.topics.get_mut(&topic)
            && !counted
        {
            totals::count_gone(&mut topic.totals, gone.cause);
        }
    }

    fn unload(&mut self, index: Index) -> TopicId {
        self.replaying.headers.remove(&index);
        self.slots.unload(index)
    }

    pub(crate) fn replay_topic(&mut self, record: TopicRecord) {
        let TopicRecord { id, name, policy, pause, totals, forgotten } = record;
        self.next_topic = self.next_topic.max(id.0 + 1);
        self.names.insert(name.clone(), id);
        self.sorted_names.insert(name.clone());
        self.done.forget_through(id, forgotten);
        let topic = self.topics.entry(id).or_insert_with(|| Topic::new(id, name));
        topic.forgotten = forgotten;
        topic.retime_cold_tier(&policy);
        topic.policy = policy;
        topic.pause = pause;
        topic.totals = totals;
    }

    fn forget_replayed_topic(&mut self, id: TopicId) {
        if let Some(topic) = self.topics.remove(&id) {
            self.names.remove(&topic.name);
            self.sorted_names.remove(&topic.name);
            if !topic.slices.is_empty() {
                self.cold.gone.insert(id, topic.slices);
            }
        }
        self.done.remove_topic(id);
        // Its jobs go all at once at the end, with those of other such topics.
        self.replaying.dead_topics.insert(id);
    }

    fn forget_jobs_of_dead_topics(&mut self) {
        let dead = std::mem::take(&mut self.replaying.dead_topics);
        if dead.is_empty() {
            return;
        }
        for index in 0..self.slots.end() {
            if self.slots.peek(index).is_some_and(|slot| dead.contains(&slot.topic)) {
                self.unload(index);
            }
        }
    }

    /// Whether everything fits together once all of it has been read.
    pub(crate) fn check_replayed(&self) -> Result<(), ReplayError> {
        if self.replaying.orphans.is_empty() { Ok(()) } else { Err(ReplayError::NoBody) }
    }

    /// Everything has been replayed. A table of ids is to be made of this, for [`Engine::name`]: wherever there is time,
    /// for it takes some.
    pub(crate) fn ids(&mut self) -> Ids {
        self.forget_jobs_of_dead_topics();
        self.slots.loaded()
    }

    /// Jobs are to be put in order, by two shares and wherever there is time, for [`Engine::begin`].
    pub(crate) fn shares(&self, now: Timestamp) -> [Share<'_>; 2] {
        start_sort::shares(&self.slots, now)
    }

    /// From now on jobs are found by their ids. Nothing else is done before.
    pub(crate) fn name(&mut self, ids: IdTable) {
        self.slots.name(ids);
    }

    /// Everything has been replayed: builds the indexes and sets the timers. Leases end no earlier than a minute (or
    /// their own ttr) from now: that the store was down is not their holders' fault.
    pub(super) fn replayed(&mut self, shares: [SortedJobs; 2]) {
        let headers = std::mem::take(&mut self.replaying.headers);
        let mut split: Vec<Index> = headers.keys().copied().collect();
        split.sort_unstable();
        for index in split {
            self.put_together(index, &headers[&index]);
        }
        let mut delayed: BTreeMap<TopicId, Vec<(Place, Index)>> = BTreeMap::new();
        for share in shares {
            for index in share.others {
                self.index_other(index);
            }
            for (topic, mut places) in share.delayed {
                match delayed.entry(topic) {
                    Entry::Vacant(none) => drop(none.insert(places)),
                    Entry::Occupied(mut sooner) => sooner.get_mut().append(&mut places),
                }
            }
        }
        // Most jobs are delayed: sorted all at once they cost a fraction of what they cost one by one.
        for (topic, places) in delayed {
            self.index_delayed(topic, &places);
        }
        let topics: Vec<TopicId> = self.topics.keys().copied().collect();
        for topic in topics {
            self.set_topic_timer(topic);
            self.wake_for_cold_tier(topic);
            self.note_pushing(topic);
        }
        self.move_all();
    }

    /// A job that takes more than a place among the delayed ones.
    fn index_other(&mut self, index: Index) {
        let meta = &self.slots.get(index).meta;
        match meta.phase {
            PhaseKind::Waiting if meta.due_at > self.now.at => self.set_timer(index),
            PhaseKind::Leased => {
                self.extend_lease(index);
                self.index(index);
            }
            PhaseKind::Waiting | PhaseKind::Buried => self.index(index),
        }
    }

    /// The job of which one record has the body, and this one, which is later, everything else.
    fn put_together(&mut self, index: Index, header: &[u8]) {
        let topic = &self.topics[&self.slots.get(index).topic];
        let job = self.slots.open(index, &topic.name);
        let body = std::mem::take(&mut job.body);
        *job = Job { body, ..record::decode_seen(header, &topic.name) };
        self.slots.changed(index);
        let meta = &self.slots.get(index).meta;
        if meta.phase == PhaseKind::Waiting && meta.due_at > self.now.at {
            self.slots.pack(index);
        }
    }

    fn extend_lease(&mut self, index: Index) {
        let now = self.now.at;
        if let Phase::Leased(lease) = &mut self.open(index).phase {
            let grace = lease.ttr.as_millis().min(limits::MINUTE);
            let grace = if sim_bugs::is(Bug::NoGrace) { 0 } else { grace };
            lease.expires_at = lease.expires_at.max(now.plus(grace));
        }
    }

    fn index_delayed(&mut self, id: TopicId, places: &[(Place, Index)]) {
        if self.topics[&id].policy.ttl.is_some() {
            for (_, index) in places {
                self.set_timer(*index);
            }
        }
        let topic = self.topics.get_mut(&id).expect("every job has a topic");
        topic.minutes.add_sorted(places, |((due_at, _), _)| *due_at);
        self.minutes.add_sorted(places, |((due_at, _), _)| *due_at);
        let first = places.first().map(|(place, _)| *place);
        topic.waiting.extend_sorted(places);
        if let Some(place) = first {
            self.promote_at(id, place);
        }
    }

    /// The last instant the timeline is known to have reached.
    pub(crate) fn now(&self) -> Timestamp {
        self.now.at
    }
}
