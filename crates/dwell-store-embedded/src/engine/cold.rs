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

/// How long before they are due jobs are loaded into memory, where somebody waits for them.
pub(super) const PREFETCH_MILLIS: u64 = 2_000;

/// Places that cannot be read are told of, up to so many.
const MAX_DAMAGED_PARTS: usize = 100;

/// Rows of a slice that can be looked through at any time.
const SMALL_SLICE_ROWS: u64 = 8;

/// Not yet known.
pub(super) const SEQUENCE_UNKNOWN: u64 = u64::MAX;

/// What of each slice of a topic is in the cold tier. Most topics have one slice: boxed, since a map takes room for many at once.
pub(super) type ColdSlices = BTreeMap<(Line, Lane), Box<ColdSlice>>;

/// What of one slice is in the cold tier.
#[derive(Debug)]
pub(super) struct ColdSlice {
    /// True copies.
    pub(super) copies: u64,
    /// How many of them are in memory too.
    pub(super) near: u64,
    /// How many of those are ready and have arrived there.
    pub(super) ready: u64,
    /// All true copies before this place are in memory.
    pub(super) reached: Place,
    /// No copy that is not in memory is due before this.
    pub(super) first: Timestamp,
    /// Time does nothing to any copy that is not in memory before this, beside making it due.
    pub(super) passes: Timestamp,
    /// The same for those that are.
    pub(super) resident_passes: Timestamp,
    /// Copies that are stale, and not yet known to be so in the cold tier.
    pub(super) stale: PendingTombstones,
    /// Whether more of it has been asked for.
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

    /// How many are not in memory.
    pub(super) fn away(&self) -> u64 {
        self.copies - self.near
    }

    /// No copy that is not in memory comes before this place.
    fn next(&self) -> Place {
        self.reached.max((self.first, first_place().1))
    }

    /// How many stale ones there are up to a time.
    pub(super) fn tombstones_until(&self, at: Timestamp) -> u64 {
        self.stale.before(after_time(at)) as u64
    }
}

/// The copy of a job that is in the cold tier, or on its way there.
#[derive(Clone, Copy, Debug)]
pub(super) struct ColdCopy {
    stale: Tombstone,
    has_landed: bool,
}

impl ColdCopy {
    /// What is to be logged when it becomes stale: nothing, while it is still being collected.
    pub(super) fn record(self) -> Option<Tombstone> {
        (self.stale.since != SEQUENCE_UNKNOWN).then_some(self.stale)
    }
}

/// The cold tier, as the engine knows it.
#[derive(Default)]
pub(super) struct ColdTier {
    pub(super) view: Arc<View>,
    /// Counts the views; an answer of an older one is asked for again.
    pub(super) generation: u64,
    /// Counts what has been dropped from memory other than by itself: what was found to be there may not be any more.
    pub(super) dropped: u64,
    /// When waiting copies are due, stale ones not counted.
    pub(super) minutes: DueHistogram,
    /// Slices of topics that were deleted.
    pub(super) gone: BTreeMap<TopicId, ColdSlices>,
    /// What more is to be loaded of, for somebody who waits.
    pub(super) wanted: BTreeSet<Slice>,
    /// Slices that are looked through because time has done something to a job there.
    pub(super) passing: BTreeMap<Slice, Passing>,
    /// What the cold tier will be once a manifest names it.
    pub(super) next: Option<View>,
    /// For each manifest under way, what the cold tier is from then on, if that changes.
    pub(super) saving: VecDeque<Option<Saving>>,
    /// Files that are not needed once a manifest names the view.
    pub(super) obsolete: Vec<String>,
    /// Whether what is to be in the cold tier, or what is free of the journal, is not yet in a manifest.
    pub(super) unsaved: bool,
    /// As of which sequence the topics were written last.
    pub(super) stamp: Option<u64>,
    /// What could not be read, since whenever: every manifest says it again.
    pub(super) bad: BTreeSet<BadPlace>,
    /// What could not be written, until it could.
    pub(super) trouble: Option<String>,
}

impl ColdTier {
    /// Whether what the cold tier is has changed, and no manifest that says so is durable yet.
    pub(super) fn is_saving(&self) -> bool {
        self.unsaved || self.saving.iter().any(Option::is_some)
    }
}

/// What the cold tier is once a manifest is durable.
pub(super) struct Saving {
    pub(super) view: Option<View>,
    /// Whether what was flushed has arrived then.
    pub(super) lands: bool,
}

/// How far a slice has been looked through.
#[derive(Debug)]
pub(super) struct Passing {
    /// What comes before has been.
    pub(super) from: Place,
    /// Whether more has been asked for.
    pub(super) asked: bool,
    /// Whether the disk did not give it; with the next sweep or command it is asked again.
    pub(super) failed: bool,
    /// How often it did.
    rows: u64,
}

impl Passing {
    /// Asks again if the disk did not give what was asked for.
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

    /// Counts something about a job that is in the cold tier as it is.
    pub(super) fn count_clean(&mut self, meta: &JobMeta, count: impl FnOnce(&mut ColdSlice)) {
        let lane = self.lane(meta.priority, meta.phase);
        count(self.slices.get_mut(&(meta.line, lane)).expect("a clean job is counted"));
    }

    /// Time means something else to jobs under another policy: those in the cold tier are to be looked at again.
    pub(super) fn retime_cold_tier(&mut self, policy: &TopicPolicy) {
        if (self.policy.ttl, self.policy.keep_buried) != (policy.ttl, policy.keep_buried) {
            for of in self.slices.values_mut() {
                of.passes = Timestamp::EPOCH;
                of.resident_passes = Timestamp::EPOCH;
            }
        }
    }

    /// Its slices of waiting or of buried jobs with something in the cold tier.
    pub(super) fn cold_slices(&self, buried: bool) -> impl Iterator<Item = (Slice, &ColdSlice)> {
        let wanted = self.slices.iter().filter(move |((_, lane), _)| (*lane == Lane::BURIED) == buried);
        wanted.map(|(&(line, lane), of)| (Slice { topic: self.id, line, lane }, &**of))
    }

    /// How many waiting or buried jobs are in the cold tier only.
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
    /// Notes places that cannot be read. They are found once, and known from then on.
    pub(super) fn note_bad(&mut self, places: Vec<BadPlace>) {
        let known = self.cold.bad.len();
        self.cold.bad.extend(places.into_iter().take(MAX_DAMAGED_PARTS.saturating_sub(known)));
        self.cold.unsaved |= self.cold.bad.len() > known;
    }

    /// The copy in the cold tier of a job that is as it is there.
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

    /// A copy has become stale. The slot is not clean any more, or is no more.
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

    /// Drops a job from memory that is in the cold tier as it is.
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

    /// Takes a job from the cold tier into memory, unless it is there already or its copy is stale.
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

    /// A job that is in the cold tier, or soon will be, is in memory too.
    pub(super) fn note_resident(&mut self, index: Index) {
        let passes = self.passage_at(index).unwrap_or(Timestamp::MAX);
        let slot = self.slots.get(index);
        let topic = self.topics.get_mut(&slot.topic).expect("every job has a topic");
        topic.count_clean(&slot.meta, |of| {
            of.resident_passes = if of.near <= 1 { passes } else { of.resident_passes.min(passes) };
        });
    }

    /// Makes sure that a topic is looked at when something of it that is in the cold tier is soon due.
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

    /// Something of a topic that is in the cold tier is due, or soon will be.
    pub(super) fn wake_cold_tier(&mut self, id: TopicId) {
        let Some(topic) = self.topics.get_mut(&id) else { return };
        topic.cold_timer = None;
        self.prefetch_topic(id);
        self.note_pushing(id);
        self.waiters.mark(id);
        self.wake_for_cold_tier(id);
    }

    /// Queries through slices where time has done something to a job.
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

    /// Does to a few jobs of a slice what time has done to them; the rest of the slice comes later.
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

    /// Whether slices of a topic are being looked through because time has done something to jobs there; then what is
    /// asked of the whole topic has to wait.
    pub(super) fn is_passing(&mut self, id: TopicId) -> bool {
        self.pass_in_cold_tier(id);
        let first = Slice { topic: id, line: Line::PULL, lane: Lane::FIRST };
        let of_topic = self.cold.passing.range_mut(first..).take_while(|(slice, _)| slice.topic == id);
        of_topic.map(|(_, passing)| passing.try_again()).count() > 0
    }

    /// Asks again for what of slices the disk did not give.
    pub(super) fn retry_passages(&mut self) {
        self.cold.passing.values_mut().for_each(Passing::try_again);
    }

    /// Whether what is known of a job's slot is that it waits: not handed out, and in no other's hands.
    pub(super) fn rests(&self, index: Index) -> bool {
        matches!(self.slots.get(index).indexed, Indexed::Delayed | Indexed::Ready(_) | Indexed::Buried)
    }
}
