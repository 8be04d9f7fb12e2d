//! Flushing: frees the oldest journal segments by moving their waiting jobs to the cold tier.
//!
//! Jobs that are leased or soon due are logged again instead. Segments are freed oldest first: the record that ends a job
//! is in the same segment as its first record or in a later one, so a job that has ended cannot come back. A segment is
//! freed only once everything that replaces it is durable; topics, which any later record may name, are in a file of their own.
//! The manifest that names the new run also lets go of the segments, so no job is in both. See [`crate::cold`] for the
//! whole flow.
//!
//! A store in memory has no cold tier: it logs live jobs again, one segment at a time.

mod backpressure;
mod install;

use std::time::Duration;

use dwell_core::Timestamp;

use super::Engine;
use super::arena_compaction::SLOTS_A_JOB;
use super::cold::{ColdSlice, SEQUENCE_UNKNOWN};
use super::cold_reads::READY_WINDOW;
use super::index::Indexed;
use super::slots::{Home, Index};
use crate::cold::View;
use crate::cold::flush::{Flush, Stretch};
use crate::format::key::{Key, Slice, Tombstone, after_time, first_place};
use crate::format::record::{self, JobMeta, TopicId};
use crate::sim_bugs::{self, Bug};

pub(crate) use backpressure::Admission;

/// Bytes of unwritten records at which a flush pauses.
const BATCH_BYTES_THAT_PAUSE_FLUSH: usize = 4 << 20;

/// A job that is due within this time, in a topic with a waiting consumer, is logged again instead of flushed.
const RELOGGED_DUE_WITHIN_MILLIS: u64 = 10_000;

/// A flushed job that is due within this time stays resident if memory allows.
const KEPT_DUE_WITHIN_MILLIS: u64 = 30_000;

/// A topic that was leased from within this time counts as consumed.
const RECENTLY_ASKED: Duration = Duration::from_secs(10);

/// Without a cold tier: segments that are kept however few jobs are live.
const MEMORY_SEGMENTS_KEPT: u64 = 4;

/// Without a cold tier: bytes a job counts for beside its record. To free a segment takes a walk over all jobs and several
/// syncs, so it must be worth it where jobs are small, or are drained faster than that.
const MEMORY_BYTES_A_JOB: usize = 512;

/// After this many fruitless flushes puts no longer wait for one: what is in memory has to be there.
const FRUITLESS_FLUSHES: u32 = 3;

/// A flush that evicts less than this share of the memory for jobs is fruitless.
const RELIEF_SHARE: usize = 32;

/// When a failed flush is tried again; sooner after ENOSPC, since everything waits for it.
const RETRY_AFTER: Duration = Duration::from_secs(1);
const RETRY_AFTER_ON_FULL_DISK: Duration = Duration::from_millis(20);

/// The state of the flush that is under way, and what is kept between flushes.
pub(super) struct FlushState {
    /// The oldest journal segment that is needed.
    first: u64,
    pub(super) step: Step,
    /// The records that are collected for the new run.
    flush: Flush,
    /// The slots of the collected records.
    collected: Vec<Collected>,
    /// The slices whose pending tombstones this flush writes.
    noted: Vec<Slice>,
    /// Deleted topics whose rows this flush deletes.
    cleared: Vec<TopicId>,
    /// Clean slots that are to be evicted.
    evicting: Vec<(Index, dwell_core::Number)>,
    /// Tombstones for rows of this flush: their jobs have changed since they were collected.
    pub(super) flown: Vec<Tombstone>,
    /// The flush, ready for the compactor.
    ready: Option<Box<Flush>>,
    /// After a failure: no flush before this time.
    not_before: Duration,
    /// Failures in a row.
    failures: u32,
    /// The run is written and no manifest names it yet.
    pub(super) lands: bool,
    /// Bytes that this flush has logged again.
    again: usize,
    /// A command waits for a flush.
    soon: bool,
    /// Flushes begun since memory was last below its limit.
    unrelieved: u32,
    /// Bytes of jobs that this flush evicts and that were cold before it.
    relief: usize,
    /// After a fruitless flush: no flush for memory's sake before this time.
    idle_until: Duration,
    /// The sequence of the last flush that was installed.
    flushed: u64,
}

/// A job on its way to the cold tier.
struct Collected {
    index: Index,
    number: dwell_core::Number,
    /// Its home before the flush, restored if the flush fails.
    home: Home,
}

pub(super) enum Step {
    /// Nothing to do.
    Idle,
    /// Walking over slots, from this one on; segments before the other number are to be free.
    Collecting(Index, u64),
    /// The compactor writes the run. After that everything up to this sequence must be durable.
    Writing(u64, u64),
    /// All is logged again or written; segments before the other number are free once everything up to this sequence is durable.
    Syncing(u64, u64),
}

impl FlushState {
    pub(super) fn new(first: u64, flushed: u64) -> Self {
        Self {
            first,
            step: Step::Idle,
            flush: Flush::default(),
            collected: Vec::new(),
            noted: Vec::new(),
            cleared: Vec::new(),
            evicting: Vec::new(),
            flown: Vec::new(),
            not_before: Duration::ZERO,
            failures: 0,
            ready: None,
            lands: false,
            again: 0,
            soon: false,
            unrelieved: 0,
            relief: 0,
            idle_until: Duration::ZERO,
            flushed,
        }
    }

    pub(super) fn first_segment(&self) -> u64 {
        self.first
    }

    /// The sequence of the last flush that was installed.
    pub(super) fn flushed_through(&self) -> u64 {
        self.flushed
    }

    /// What [`FlushState::flushed_through`] will be once the flush that is under way is installed.
    pub(super) fn through(&self) -> u64 {
        match self.step {
            Step::Writing(sequence, _) | Step::Syncing(sequence, _) => sequence,
            Step::Collecting(..) => SEQUENCE_UNKNOWN,
            Step::Idle => self.flushed,
        }
    }

    /// Whether a flush has begun and is not in a manifest yet.
    pub(super) fn is_under_way(&self) -> bool {
        !matches!(self.step, Step::Idle) || self.is_flying()
    }

    /// Whether collected jobs are counted as cold and not installed yet.
    pub(super) fn is_flying(&self) -> bool {
        !self.collected.is_empty()
    }
}

impl Engine {
    /// One step of a flush.
    pub(super) fn flush_step(&mut self, jobs: usize) {
        self.evict_step(jobs);
        if !self.is_full() {
            self.flush.unrelieved = 0;
        }
        match self.flush.step {
            Step::Idle => {
                if let Some(target) = self.wants_flush() {
                    self.flush.unrelieved += 1;
                    self.flush.soon = false;
                    self.flush.again = 0;
                    self.flush.step = Step::Collecting(0, target);
                    self.reserve_for_flush();
                } else {
                    self.begin_segment_for_flush();
                }
            }
            Step::Collecting(from, target) => self.flush_slots(from, target, jobs),
            Step::Syncing(sequence, target) if self.batch.durable() >= sequence => {
                self.flush.first = target;
                self.batch.forget_before(target);
                self.flush.flushed = sequence;
                self.flush.step = Step::Idle;
                self.cold.unsaved = true;
            }
            Step::Writing(..) | Step::Syncing(..) => {}
        }
    }

    /// Reserves address space for all jobs, of which the system commits only what is used: so the buffer of collected records is
    /// never copied to grow.
    fn reserve_for_flush(&mut self) {
        if self.settings.cold_tier {
            let (jobs, bytes) = (self.slots.len(), self.slots.live());
            self.flush.flush.jobs.reserve(jobs);
            self.flush.flush.records.reserve(bytes);
            self.flush.collected.reserve(jobs);
        }
    }

    /// Whether the next step of a flush, an eviction or arena compaction can be done now.
    pub(crate) fn is_cleaning(&self) -> bool {
        let cleans = match self.flush.step {
            Step::Idle => self.wants_flush().is_some(),
            Step::Collecting(..) => self.batch.len() < BATCH_BYTES_THAT_PAUSE_FLUSH,
            Step::Writing(..) => false,
            Step::Syncing(sequence, _) => self.batch.durable() >= sequence,
        };
        let drops = !self.flush.evicting.is_empty();
        self.failed.is_none() && (cleans || drops || self.is_moving())
    }

    /// How many segments the journal may have before a flush. On a full disk one: what was put just before takes more space in
    /// the cold tier than later calls would leave.
    fn tail(&self) -> u64 {
        if self.room.is_short {
            return 1;
        }
        (self.settings.tail.min(self.settings.memory as u64 / 4) / self.settings.segment).max(1)
    }

    /// The segment before which all are to be freed, if a flush is wanted.
    fn wants_flush(&self) -> Option<u64> {
        let busy = self.cold.is_saving() || self.flush.is_flying();
        if busy || self.now.real < self.flush.not_before {
            return None;
        }
        let segments = self.batch.segment() - self.flush.first;
        if self.settings.cold_tier {
            let is_due = segments > 0 && (segments > self.tail() || self.is_heavy() || self.is_low());
            let wanted = (is_due && self.batch.has_begun_segment()) || self.flush.soon;
            // A segment that is not there yet cannot be where the journal begins.
            let last = if self.batch.has_begun_segment() { self.batch.segment() } else { self.flush.first };
            // Where there is little room, no more of it is used at a time than one segment gives back.
            let target = if self.flushes_sparingly() { last.min(self.flush.first + 1) } else { last };
            return (wanted && self.flush.evicting.is_empty()).then_some(target);
        }
        let live = self.slots.live() + self.slots.len() * MEMORY_BYTES_A_JOB + self.done.weight();
        let many = segments > MEMORY_SEGMENTS_KEPT + 2 * (live as u64 / self.settings.segment);
        many.then_some(self.flush.first + 1)
    }

    /// Whether disk space is short, or the last flush got ENOSPC.
    fn flushes_sparingly(&self) -> bool {
        self.room.is_short || self.flush.failures > 0
    }

    /// A command waits for a flush.
    pub(super) fn flush_soon(&mut self) {
        self.flush.soon = true;
    }

    fn flush_slots(&mut self, from: Index, target: u64, jobs: usize) {
        let mut end = self.slots.end();
        let stays = self.batch.first_sequence(target);
        let mut effort = 0;
        for index in from..end {
            if self.batch.len() >= BATCH_BYTES_THAT_PAUSE_FLUSH || effort >= jobs * SLOTS_A_JOB {
                end = index;
                break;
            }
            effort += 1;
            let Some(slot) = self.slots.peek(index) else { continue };
            if slot.home.is_before(stays) && !sim_bugs::is(Bug::FreedTooEarly) {
                effort += SLOTS_A_JOB;
                if self.goes_cold(index) {
                    self.collect(index);
                } else {
                    self.log_again(index);
                }
            } else if slot.home == Home::COLD && self.should_evict(index) {
                self.flush.relief += self.slots.bytes(index);
                self.flush.evicting.push((index, self.slots.get(index).meta.number));
            }
        }
        if end < self.slots.end() {
            self.flush.step = Step::Collecting(end, target);
            return;
        }
        self.flush_done_jobs(target);
        self.note_relief();
        let shares = sim_bugs::is(Bug::FlushesShareSequence) || sim_bugs::is(Bug::TopicsShareName);
        // Records name a flush by its sequence: two flushes with one could not be told apart by a start.
        if self.batch.last_sequence() <= self.flush.flushed && !shares {
            self.batch.log(record::encode_no_op);
        }
        let sequence = self.batch.last_sequence();
        self.collect_tombstones();
        let mut flush = std::mem::take(&mut self.flush.flush);
        if sim_bugs::is(Bug::TombstonesDropped) {
            flush.tombstones.clear();
        }
        if flush.jobs.is_empty() && flush.tombstones.is_empty() && flush.purges.is_empty() {
            self.flush.step = Step::Syncing(sequence, target);
            self.retry_for_flush();
            return;
        }
        flush.may_spend = self.flushes_sparingly();
        self.flush.ready = Some(Box::new(flush));
        self.flush.step = Step::Writing(sequence, target);
    }

    /// A fruitless flush is not followed at once by another one: the jobs in memory are leased or soon due, and would only be
    /// logged again and again.
    fn note_relief(&mut self) {
        let relief = std::mem::take(&mut self.flush.relief) + self.flush.flush.records.len();
        if relief < self.settings.memory / RELIEF_SHARE {
            self.flush.idle_until = self.now.real + RETRY_AFTER;
        }
    }

    /// Whether a job is flushed. If not it is logged again: it is soon due and a consumer waits, and not too much was logged
    /// again already.
    fn goes_cold(&self, index: Index) -> bool {
        let many = self.flush.again as u64 > self.tail() * self.settings.segment / 2;
        let needed = || {
            self.is_due_within(index, RELOGGED_DUE_WITHIN_MILLIS)
                && self.is_asked_for(&self.topics[&self.slots.get(index).topic])
        };
        self.settings.cold_tier && self.rests(index) && (many || !needed())
    }

    /// Whether a clean job is evicted.
    fn should_evict(&self, index: Index) -> bool {
        let stays = self.is_light() && self.is_due_within(index, KEPT_DUE_WITHIN_MILLIS) && !self.is_surplus(index);
        self.rests(index) && !stays
    }

    /// Whether a job is ready in a topic without recent consumers, behind a full window of others: it would take memory from
    /// jobs that are needed.
    fn is_surplus(&self, index: Index) -> bool {
        let slot = self.slots.get(index);
        let topic = &self.topics[&slot.topic];
        let idle =
            || topic.asked.is_none_or(|asked| asked + RECENTLY_ASKED <= self.now.real) && !self.is_asked_for(topic);
        matches!(slot.indexed, Indexed::Ready(_)) && topic.ready_count > READY_WINDOW as u64 && idle()
    }

    /// Whether clean jobs that are soon due may stay resident: well below the limit where flushes begin, so that one flush does
    /// not lead to the next.
    pub(super) fn is_light(&self) -> bool {
        self.weight() <= self.settings.memory / 4
    }

    fn is_due_within(&self, index: Index, millis: u64) -> bool {
        let slot = self.slots.get(index);
        slot.indexed != Indexed::Buried && slot.meta.due_at <= self.now.at.plus(millis)
    }

    fn log_again(&mut self, index: Index) {
        let before = self.batch.len();
        self.slots.get_mut(index).home = Home::journal(self.batch.next_sequence());
        self.batch.log(|out| self.slots.encode_again(index, out));
        self.flush.again += self.batch.len() - before;
    }

    /// Collects a job. From now on it is counted as cold.
    fn collect(&mut self, index: Index) {
        let slot = self.slots.get(index);
        let (meta, id, indexed) = (slot.meta, slot.topic, slot.indexed);
        let topic = self.topics.get_mut(&id).expect("every job has a topic");
        let lane = topic.make_lane(meta.priority, meta.phase, self.settings.lanes);
        let of = topic.slices.entry((meta.line, lane)).or_insert_with(|| Box::new(ColdSlice::new(0, Timestamp::MAX)));
        of.copies += 1;
        of.near += 1;
        if indexed != Indexed::Buried {
            topic.minutes.remove(meta.due_at);
            self.minutes.remove(meta.due_at);
            self.cold.minutes.add(meta.due_at, 1);
        }
        let begin = self.flush.flush.records.len();
        self.slots.encode_again(index, &mut self.flush.flush.records);
        let slice = Slice { topic: id, line: meta.line, lane };
        let range = begin..self.flush.flush.records.len();
        self.flush.flush.jobs.push((Key::new(slice, meta.place()), range));
        let home = std::mem::replace(&mut self.slots.get_mut(index).home, Home::FLUSHING);
        self.flush.collected.push(Collected { index, number: meta.number, home });
        self.note_resident(index);
    }

    fn flush_done_jobs(&mut self, target: u64) {
        self.forget_done();
        let end = self.batch.first_sequence(target);
        for (topic, done, home) in self.done.at_home_before(end) {
            *home = self.batch.next_sequence();
            self.batch.log(|out| record::encode_done(out, topic, done));
        }
    }

    /// All tombstones that will still be pending once the flush that is under way is installed.
    pub(super) fn unnoted(&self) -> impl Iterator<Item = Tombstone> {
        let live = self.topics.iter().map(|(id, topic)| (*id, &topic.slices));
        let gone = self.cold.gone.iter().map(|(id, slices)| (*id, slices));
        let slices = live.chain(gone).flat_map(|(topic, slices)| {
            slices.iter().map(move |(&(line, lane), of)| (Slice { topic, line, lane }, of))
        });
        let new = slices.flat_map(|(slice, of)| {
            let stale = move |&(place, version)| Tombstone { key: Key::new(slice, place), version, since: 0 };
            of.stale.new_ones().map(stale)
        });
        new.chain(self.flush.flown.iter().copied())
    }

    /// Adds pending tombstones and deleted topics to the flush.
    fn collect_tombstones(&mut self) {
        let FlushState { flush, noted, cleared, flown, .. } = &mut self.flush;
        flush.tombstones.extend(flown.drain(..).map(|stale| (stale.key.number, stale.version)));
        let live = self.topics.iter_mut().map(|(id, topic)| (*id, &mut topic.slices));
        let gone = self.cold.gone.iter_mut().map(|(id, slices)| (*id, slices));
        for (topic, slices) in live.chain(gone) {
            for (&(line, lane), of) in slices.iter_mut().filter(|(_, of)| !of.stale.is_empty()) {
                noted.push(Slice { topic, line, lane });
                flush.tombstones.extend(of.stale.take_up().map(|&((_, number), version)| (number, version)));
            }
        }
        for (topic, slices) in &self.cold.gone {
            cleared.push(*topic);
            for &(line, lane) in slices.keys() {
                let slice = Slice { topic: *topic, line, lane };
                flush.purges.push(Stretch { slice, from: first_place(), end: after_time(Timestamp::MAX) });
            }
        }
    }

    /// Waiting jobs of a topic that are collected: counted as cold, and in no run yet.
    pub(super) fn flying(&self, topic: TopicId) -> impl Iterator<Item = &JobMeta> {
        let slots = self.flush.collected.iter().filter_map(|collected| {
            let slot = self.slots.peek(collected.index)?;
            (slot.meta.number == collected.number && slot.home == Home::FLUSHING).then_some(slot)
        });
        slots.filter(move |slot| slot.topic == topic && slot.indexed != Indexed::Buried).map(|slot| &slot.meta)
    }

    /// The flush for the compactor, if one is ready.
    pub(crate) fn take_flush(&mut self) -> Option<Box<Flush>> {
        self.flush.ready.take()
    }

    pub(super) fn slice_mut(&mut self, slice: Slice) -> Option<&mut ColdSlice> {
        let slices = match self.topics.get_mut(&slice.topic) {
            Some(topic) => &mut topic.slices,
            None => self.cold.gone.get_mut(&slice.topic)?,
        };
        slices.get_mut(&(slice.line, slice.lane)).map(|of| &mut **of)
    }

    /// Evicts a few clean jobs.
    fn evict_step(&mut self, jobs: usize) {
        if self.flush.evicting.is_empty() {
            return;
        }
        self.cold.dropped += 1;
        for _ in 0..jobs {
            let Some((index, number)) = self.flush.evicting.pop() else { break };
            let slot = self.slots.peek(index);
            if slot.is_some_and(|slot| slot.meta.number == number && slot.home == Home::COLD)
                && self.should_evict(index)
            {
                self.evict(index);
            }
        }
    }

    /// The current view of the cold tier.
    pub(crate) fn cold_view(&self) -> View {
        View::clone(&self.cold.view)
    }

    /// A manifest is under way that does not change the cold tier.
    pub(crate) fn saves_nothing(&mut self) {
        self.cold.saving.push_back(None);
    }

    /// What the status says is wrong with the cold tier.
    pub(crate) fn troubles(&self) -> Vec<String> {
        let bad = self.cold.bad.iter().map(|place| &place.told);
        bad.chain(&self.cold.trouble).cloned().collect()
    }

    /// The sequence of the last flush that was installed.
    pub(crate) fn flushed_through(&self) -> u64 {
        self.flush.flushed
    }
}
