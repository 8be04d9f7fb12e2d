//! What the engine knows about the cold tier: per slice the number of rows, how far it is loaded, and pending tombstones.
//!
//! A job's newest copy is in the journal or in the cold tier. A cold job may be in memory too, unchanged; then its slot is
//! clean and can be evicted at any time. The first change to a clean slot is logged whole, with a tombstone for the copy.
//! Until the next flush the pending tombstone is all that keeps that copy from coming back, so every row that is
//! loaded is first looked up among the pending tombstones.

mod prefetch;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use dwell_core::{Line, Priority, Timestamp, TopicPolicy, limits};

use super::Engine;
use super::due_histogram::DueHistogram;
use super::index::Indexed;
use super::slots::{Home, Index};
use super::timers::Timer;
use super::tombstones::PendingTombstones;
use super::topic::{Rank, Topic};
use crate::cold::reader::{Form, Row, Shown};
use crate::cold::{BadPlace, View};
use crate::format::key::{Key, Lane, Place, Slice, Tombstone, after_place, after_time, first_place};
use crate::format::record::{JobMeta, PhaseKind, TopicId};
use crate::sim_bugs::{self, Bug};

/// How long before they are due rows are prefetched, where a consumer waits.
pub(super) const PREFETCH_MILLIS: u64 = 2_000;

/// At most this many damaged parts of runs are named in the status.
const MAX_DAMAGED_PARTS: usize = 100;

/// A slice with more rows is looked through less often.
const SMALL_SLICE_ROWS: u64 = 8;

/// The sequence of a flush that is still collecting.
pub(super) const SEQUENCE_UNKNOWN: u64 = u64::MAX;

/// The slices of a topic. Most topics have one: boxed, since a map allocates room for many at once.
pub(super) type ColdSlices = BTreeMap<(Line, Lane), Box<ColdSlice>>;

/// What the engine knows about the rows of one slice.
#[derive(Debug)]
pub(super) struct ColdSlice {
    /// Rows without a tombstone, pending ones included.
    pub(super) copies: u64,
    /// How many of them are resident.
    pub(super) near: u64,
    /// How many of the resident ones are ready and installed.
    pub(super) ready: u64,
    /// All rows before this place are resident.
    pub(super) reached: Place,
    /// No row that is not resident is due before this.
    pub(super) first: Timestamp,
    /// No ttl or `keep_buried` of a row that is not resident ends before this.
    pub(super) passes: Timestamp,
    /// The same for resident rows.
    pub(super) resident_passes: Timestamp,
    /// Pending tombstones.
    pub(super) stale: PendingTombstones,
    /// Whether a read of more rows is under way.
    pub(super) asked: bool,
}

impl ColdSlice {
    pub(super) fn new(copies: u64, first: Timestamp) -> Self {
        let never = Timestamp::MAX;
        Self {
            copies,
            near: 0,
            ready: 0,
            reached: first_place(),
            first,
            passes: never,
            resident_passes: never,
            stale: PendingTombstones::default(),
            asked: false,
        }
    }

    /// How many rows are not resident.
    pub(super) fn away(&self) -> u64 {
        self.copies - self.near
    }

    /// No row that is not resident comes before this place.
    fn next(&self) -> Place {
        self.reached.max((self.first, first_place().1))
    }

    /// Pending tombstones of rows due up to a time.
    pub(super) fn tombstones_until(&self, at: Timestamp) -> u64 {
        self.stale.before(after_time(at)) as u64
    }
}

/// The row of a clean job: in a run, or in the flush that is under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct ColdCopy {
    stale: Tombstone,
    has_landed: bool,
}

impl ColdCopy {
    /// The tombstone to log when the job changes: none while the flush is still collecting.
    pub(super) fn record(self) -> Option<Tombstone> {
        (self.stale.since != SEQUENCE_UNKNOWN).then_some(self.stale)
    }
}

/// The cold tier, as the engine knows it.
#[derive(Default)]
pub(super) struct ColdTier {
    pub(super) view: Arc<View>,
    /// Counts views; the result of a read of an older view is read again.
    pub(super) generation: u64,
    /// Counts rounds of eviction: what a read plan has found to be resident may not be any more.
    pub(super) dropped: u64,
    /// When waiting rows are due.
    pub(super) minutes: DueHistogram,
    /// Slices of topics that were deleted.
    pub(super) gone: BTreeMap<TopicId, ColdSlices>,
    /// Slices of which more rows are to be read for a waiting consumer.
    pub(super) wanted: BTreeSet<Slice>,
    /// Slices that are being looked through because a ttl has ended there.
    pub(super) passing: BTreeMap<Slice, Passing>,
    /// The view that the next manifest will name.
    pub(super) next: Option<View>,
    /// For each manifest under way, the view it installs, if any.
    pub(super) saving: VecDeque<Option<Saving>>,
    /// Files that become obsolete with the next view.
    pub(super) obsolete: Vec<String>,
    /// Whether the next manifest has something new to say about runs or segments.
    pub(super) unsaved: bool,
    /// The sequence that names the last topics file.
    pub(super) stamp: Option<u64>,
    /// Damaged parts of runs; every manifest repeats them.
    pub(super) bad: BTreeSet<BadPlace>,
    /// Why the cold tier could not be written, until it could.
    pub(super) trouble: Option<String>,
}

impl ColdTier {
    /// Whether what the cold tier is has changed, and no manifest that says so is durable yet.
    pub(super) fn is_saving(&self) -> bool {
        self.unsaved || self.saving.iter().any(Option::is_some)
    }
}

/// The view that a manifest installs once it is durable.
pub(super) struct Saving {
    pub(super) view: Option<View>,
    /// Whether it installs a flush.
    pub(super) lands: bool,
}

/// How far a slice has been looked through.
#[derive(Debug)]
pub(super) struct Passing {
    /// Rows before this place are done.
    pub(super) from: Place,
    /// Whether more has been asked for.
    pub(super) asked: bool,
    /// Whether the read failed; the next sweep or command tries again.
    pub(super) failed: bool,
    /// Batches of rows that were read.
    rows: u64,
}

impl Passing {
    /// Reads again if the last read failed.
    fn try_again(&mut self) {
        if std::mem::take(&mut self.failed) {
            self.asked = false;
        }
    }
}

impl Topic {
    /// The lane a job of this priority and phase is on, if there is one.
    pub(super) fn lane(&self, priority: Priority, phase: PhaseKind) -> Lane {
        if phase == PhaseKind::Buried {
            return Lane::BURIED;
        }
        self.lanes.iter().position(|of| *of == priority).map_or(Lane::SHARED, Lane::own)
    }

    /// The same; a priority that has none gets one if there are any left. Once some share a lane, no other one is made: a
    /// job that lies there already would have two.
    pub(super) fn make_lane(&mut self, priority: Priority, phase: PhaseKind, most: usize) -> Lane {
        let known = phase == PhaseKind::Buried || self.lanes.contains(&priority);
        let is_shared = || self.slices.keys().any(|(_, lane)| *lane == Lane::SHARED);
        if !known && self.lanes.len() < most && !is_shared() {
            self.lanes.push(priority);
        }
        self.lane(priority, phase)
    }

    /// Changes a count of the slice of a clean job.
    pub(super) fn count_clean(&mut self, meta: &JobMeta, count: impl FnOnce(&mut ColdSlice)) {
        let lane = self.lane(meta.priority, meta.phase);
        count(self.slices.get_mut(&(meta.line, lane)).expect("a clean job is counted"));
    }

    /// Another policy has other ttls: rows are to be looked through again.
    pub(super) fn retime_cold_tier(&mut self, policy: &TopicPolicy) {
        if (self.policy.ttl, self.policy.keep_buried) != (policy.ttl, policy.keep_buried) {
            for of in self.slices.values_mut() {
                of.passes = Timestamp::EPOCH;
                of.resident_passes = Timestamp::EPOCH;
            }
        }
    }

    /// Its slices of waiting or of buried jobs.
    pub(super) fn cold_slices(&self, buried: bool) -> impl Iterator<Item = (Slice, &ColdSlice)> {
        let wanted = self.slices.iter().filter(move |((_, lane), _)| (*lane == Lane::BURIED) == buried);
        wanted.map(|(&(line, lane), of)| (Slice { topic: self.id, line, lane }, &**of))
    }

    /// How many waiting or buried rows are not resident.
    pub(super) fn away(&self, buried: bool) -> u64 {
        if self.slices.is_empty() { 0 } else { self.cold_slices(buried).map(|(_, of)| of.away()).sum() }
    }

    /// The slices of a line with jobs that are in the cold tier only and due, each with the best rank one of them may have;
    /// without one (the shared lane) it may be any.
    pub(super) fn behind(&self, line: Line, now: Timestamp) -> impl Iterator<Item = (Option<Rank>, Slice)> {
        let all = self.slices.range((line, Lane::FIRST)..=(line, Lane::LAST));
        let waiting = all.filter(|((_, lane), _)| *lane != Lane::BURIED);
        let due = waiting.filter(move |(_, of)| of.away() > 0 && of.first <= now);
        due.map(|(&(line, lane), of)| {
            let (due_at, number) = of.next();
            let rank = lane.place().map(|place| (self.lanes[place], due_at, number));
            (rank, Slice { topic: self.id, line, lane })
        })
    }
}

impl Engine {
    /// Notes damaged parts of runs.
    pub(super) fn note_bad(&mut self, places: Vec<BadPlace>) {
        let known = self.cold.bad.len();
        self.cold.bad.extend(places.into_iter().take(MAX_DAMAGED_PARTS.saturating_sub(known)));
        self.cold.unsaved |= self.cold.bad.len() > known;
    }

    /// The row of a clean job.
    pub(super) fn copy_of(&self, index: Index) -> Option<ColdCopy> {
        let slot = self.slots.get(index);
        if !slot.is_clean() {
            return None;
        }
        let topic = &self.topics[&slot.topic];
        let lane = topic.lane(slot.meta.priority, slot.meta.phase);
        let slice = Slice { topic: slot.topic, line: slot.meta.line, lane };
        let has_landed = slot.home == Home::COLD;
        let since = if has_landed { 0 } else { self.flush.through() };
        let stale = Tombstone { key: Key::new(slice, slot.meta.place()), version: self.job(index).version, since };
        Some(ColdCopy { stale, has_landed })
    }

    /// A clean job has changed or ended: its row gets a pending tombstone.
    pub(super) fn add_tombstone(&mut self, copy: Option<ColdCopy>) {
        let Some(ColdCopy { stale, has_landed }) = copy else { return };
        let Tombstone { key, version, .. } = stale;
        let topic = self.topics.get_mut(&key.slice.topic).expect("every job has a topic");
        let of = topic.slices.get_mut(&(key.slice.line, key.slice.lane)).expect("a clean job is counted");
        of.copies -= 1;
        of.near -= 1;
        if has_landed {
            of.stale.insert(key.place(), version);
        } else {
            self.flush.flown.push(stale);
        }
        if key.slice.lane != Lane::BURIED {
            self.cold.minutes.remove(key.due_at);
        }
    }

    /// Evicts a clean job from memory.
    pub(super) fn evict(&mut self, index: Index) {
        debug_assert_eq!(self.slots.get(index).home, Home::COLD);
        let passes = self.passage_at(index).unwrap_or(Timestamp::MAX);
        let slot = self.remove(index);
        let topic = self.topics.get_mut(&slot.topic).expect("every job has a topic");
        let place = slot.meta.place();
        topic.count_clean(&slot.meta, |of| {
            of.near -= 1;
            if sim_bugs::is(Bug::DroppedIsThere) {
                return;
            }
            of.reached = of.reached.min(place);
            of.first = of.first.min(place.0);
            of.passes = of.passes.min(passes);
        });
        self.wake_for_cold_tier(slot.topic);
        self.note_pushing(slot.topic);
        self.waiters.mark(slot.topic);
    }

    /// Loads a row into memory, unless its job is resident already or the row has a tombstone.
    pub(super) fn load(&mut self, job: Shown) -> Option<Index> {
        let index = self.load_unindexed(job)?;
        self.index(index);
        self.note_resident(index);
        Some(index)
    }

    fn load_unindexed(&mut self, job: Shown) -> Option<Index> {
        let topic = self.topics.get_mut(&job.topic)?;
        if self.slots.by_number(job.meta.number).is_some() {
            return None;
        }
        let lane = topic.lane(job.meta.priority, job.meta.phase);
        let of = topic.slices.get_mut(&(job.meta.line, lane))?;
        let is_stale = of.stale.contains(job.meta.place(), job.version);
        if (is_stale && !sim_bugs::is(Bug::StaleCopyLoaded)) || of.away() == 0 {
            return None;
        }
        of.near += 1;
        let index = match job.form {
            Form::Open(open, id) => self.slots.insert_open(job.topic, open, id, Home::COLD),
            Form::Record(ref record, _) => self.slots.insert_packed(job.topic, job.meta, job.id(), record, Home::COLD),
        };
        Some(index)
    }

    /// Counts a clean job as resident.
    pub(super) fn note_resident(&mut self, index: Index) {
        let passes = self.passage_at(index).unwrap_or(Timestamp::MAX);
        let slot = self.slots.get(index);
        let topic = self.topics.get_mut(&slot.topic).expect("every job has a topic");
        topic.count_clean(&slot.meta, |of| {
            of.resident_passes = if of.near <= 1 { passes } else { of.resident_passes.min(passes) };
        });
    }

    /// Sets a topic's timer for its rows: to prefetch them, to make them due, to end their ttls.
    pub(super) fn wake_for_cold_tier(&mut self, id: TopicId) {
        if self.topics[&id].slices.is_empty() {
            return;
        }
        self.pass_in_cold_tier(id);
        let topic = self.topics.get_mut(&id).expect("it is there");
        let now = self.now.at.as_millis();
        let due = topic.cold_slices(false).filter(|(_, of)| of.away() > 0).flat_map(|(_, of)| {
            // Once for loading it, once for saying that it is due.
            let first = of.first.as_millis();
            [first.saturating_sub(PREFETCH_MILLIS), first]
        });
        let passes = topic.slices.values().filter(|of| of.away() > 0).map(|of| of.passes.as_millis());
        let Some(at) = due.filter(|at| *at > now).chain(passes).min() else { return };
        match topic.cold_timer {
            Some((earlier, _)) if earlier <= at => {}
            Some((_, key)) => {
                self.wheel.reschedule(key, at);
                topic.cold_timer = Some((at, key));
            }
            None => topic.cold_timer = Some((at, self.wheel.insert(at, Timer::ColdTier(id)))),
        }
    }

    /// The timer of a topic for its rows fires.
    pub(super) fn wake_cold_tier(&mut self, id: TopicId) {
        let Some(topic) = self.topics.get_mut(&id) else { return };
        topic.cold_timer = None;
        self.prefetch_topic(id);
        self.note_pushing(id);
        self.waiters.mark(id);
        self.wake_for_cold_tier(id);
    }

    /// Begins to look through slices where a ttl has ended.
    fn pass_in_cold_tier(&mut self, id: TopicId) {
        let topic = self.topics.get_mut(&id).expect("it is there");
        for (&(line, lane), of) in &mut topic.slices {
            if of.away() > 0 && of.passes <= self.now.at {
                of.passes = Timestamp::MAX;
                let passing = Passing { from: first_place(), asked: false, failed: false, rows: 0 };
                self.cold.passing.insert(Slice { topic: id, line, lane }, passing);
            }
        }
    }

    /// Applies the passing of time to a batch of rows; the rest of the slice comes later.
    pub(super) fn pass_row(&mut self, slice: Slice, row: Row) {
        for job in row.jobs {
            let number = job.meta.number;
            let Some(index) = self.load(job) else {
                // Somebody else has loaded it, before anyone looked at what time has done to it.
                self.slots.by_number(number).map(|index| self.refresh(index));
                continue;
            };
            if self.refresh(index) && self.slots.get(index).home == Home::COLD && self.rests(index) {
                self.evict(index);
            }
        }
        self.cold.dropped += 1;
        let Some(passing) = self.cold.passing.get_mut(&slice) else { return };
        passing.rows += 1;
        passing.asked = false;
        if let Some(through) = row.through {
            passing.from = after_place(through);
            return;
        }
        // A large slice is not looked through again and again: what it costs is bounded by the time between.
        let rest = if passing.rows > SMALL_SLICE_ROWS { passing.rows * limits::SECOND } else { 0 };
        let not_before = self.now.at.plus(rest);
        self.cold.passing.remove(&slice);
        if let Some(of) = self.slice_mut(slice) {
            of.passes = of.passes.max(not_before);
        }
        self.wake_if_there(slice.topic);
    }

    fn wake_if_there(&mut self, id: TopicId) {
        if self.topics.contains_key(&id) {
            self.wake_for_cold_tier(id);
        }
    }

    /// Whether slices of a topic are being looked through because a ttl has ended there. Commands on the whole topic wait for
    /// that.
    pub(super) fn is_passing(&mut self, id: TopicId) -> bool {
        self.pass_in_cold_tier(id);
        let first = Slice { topic: id, line: Line::PULL, lane: Lane::FIRST };
        let of_topic = self.cold.passing.range_mut(first..).take_while(|(slice, _)| slice.topic == id);
        of_topic.map(|(_, passing)| passing.try_again()).count() > 0
    }

    /// Reads again what of these slices could not be read.
    pub(super) fn retry_passages(&mut self) {
        self.cold.passing.values_mut().for_each(Passing::try_again);
    }

    /// Whether a job is waiting or buried, and indexed as such: not leased, and not in the middle of a change.
    pub(super) fn rests(&self, index: Index) -> bool {
        matches!(self.slots.get(index).indexed, Indexed::Delayed | Indexed::Ready(_) | Indexed::Buried)
    }
}
