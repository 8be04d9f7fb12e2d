//! What the engine knows of the shelf: how many jobs of each slice are there, how far they have been brought, which
//! copies are stale. Files are read by others; see [`super::asking`].
//!
//! A job's newest copy is in the journal or on the shelf. One that is on the shelf may be in memory too, as it is there;
//! then its slot is clean. A clean slot can be dropped at any time, and the first change to it is logged whole, with a
//! note that the copy is stale. Until the next fold that note is all that keeps the copy from coming back: so every job
//! that comes from the shelf is looked up among the stale ones first.

mod ahead;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use dwell_core::{Line, Priority, Timestamp, TopicPolicy, limits};

use super::Engine;
use super::index::Indexed;
use super::minutes::Minutes;
use super::slots::{Index, SHELF};
use super::stale::StaleCopies;
use super::timers::Timer;
use super::topic::{Rank, Topic};
use crate::format::key::{Key, Lane, Place, Slice, Stale, after_place, after_time, first_place};
use crate::format::record::{Brief, PhaseKind, TopicId};
use crate::planted::{self, Bug};
use crate::shelf::read::{Form, Row, Shown};
use crate::shelf::{BadPlace, View};

/// How long before they are due jobs are brought into memory, where somebody waits for them.
pub(super) const AHEAD: u64 = 2_000;

/// Places that cannot be read are told of, up to so many.
const BAD_NOTED: usize = 100;

/// Rows of a slice that can be looked through at any time.
const SMALL: u64 = 8;

/// Not yet known.
pub(super) const COLLECTING: u64 = u64::MAX;

/// What of each slice of a topic is on the shelf. Most topics have one slice: boxed, since a map takes room for many at once.
pub(super) type Slices = BTreeMap<(Line, Lane), Box<OnShelf>>;

/// What of one slice is on the shelf.
#[derive(Debug)]
pub(super) struct OnShelf {
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
    pub(super) near_passes: Timestamp,
    /// Copies that are stale, and not yet known to be so on the shelf.
    pub(super) stale: StaleCopies,
    /// Whether more of it has been asked for.
    pub(super) asked: bool,
}

impl OnShelf {
    pub(super) fn new(copies: u64, first: Timestamp) -> Self {
        let never = Timestamp::MAX;
        Self {
            copies,
            near: 0,
            ready: 0,
            reached: first_place(),
            first,
            passes: never,
            near_passes: never,
            stale: StaleCopies::default(),
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
    pub(super) fn stale_until(&self, at: Timestamp) -> u64 {
        self.stale.before(after_time(at)) as u64
    }
}

/// The copy of a job that is on the shelf, or on its way there.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShelfCopy {
    stale: Stale,
    has_landed: bool,
}

impl ShelfCopy {
    /// What is to be logged when it becomes stale: nothing, while it is still being collected.
    pub(super) fn record(self) -> Option<Stale> {
        (self.stale.since != COLLECTING).then_some(self.stale)
    }
}

/// The shelf, as the engine knows it.
#[derive(Default)]
pub(super) struct Shelf {
    pub(super) view: Arc<View>,
    /// Counts the views; an answer of an older one is asked for again.
    pub(super) generation: u64,
    /// Counts what has been dropped from memory other than by itself: what was found to be there may not be any more.
    pub(super) dropped: u64,
    /// When waiting copies are due, stale ones not counted.
    pub(super) minutes: Minutes,
    /// Slices of topics that were deleted.
    pub(super) gone: BTreeMap<TopicId, Slices>,
    /// What more is to be brought of, for somebody who waits.
    pub(super) wanted: BTreeSet<Slice>,
    /// Slices that are looked through because time has done something to a job there.
    pub(super) passing: BTreeMap<Slice, Passing>,
    /// What the shelf will be once a manifest names it.
    pub(super) next: Option<View>,
    /// For each manifest under way, what the shelf is from then on, if that changes.
    pub(super) saving: VecDeque<Option<Saving>>,
    /// Files that are not needed once a manifest names the view.
    pub(super) obsolete: Vec<String>,
    /// Whether what is to be on the shelf, or what is free of the journal, is not yet in a manifest.
    pub(super) unsaved: bool,
    /// As of which sequence the topics were written last.
    pub(super) stamp: Option<u64>,
    /// What could not be read, since whenever: every manifest says it again.
    pub(super) bad: BTreeSet<BadPlace>,
    /// What could not be written, until it could.
    pub(super) trouble: Option<String>,
}

impl Shelf {
    /// Whether what the shelf is has changed, and no manifest that says so is durable yet.
    pub(super) fn is_saving(&self) -> bool {
        self.unsaved || self.saving.iter().any(Option::is_some)
    }
}

/// What the shelf is once a manifest is durable.
pub(super) struct Saving {
    pub(super) view: Option<View>,
    /// Whether what was folded has arrived then.
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

    /// Counts something about a job that is on the shelf as it is.
    pub(super) fn count_clean(&mut self, brief: &Brief, count: impl FnOnce(&mut OnShelf)) {
        let lane = self.lane(brief.priority, brief.phase);
        count(self.slices.get_mut(&(brief.line, lane)).expect("a clean job is counted"));
    }

    /// Time means something else to jobs under another policy: those on the shelf are to be looked at again.
    pub(super) fn retime_shelf(&mut self, policy: &TopicPolicy) {
        if (self.policy.ttl, self.policy.keep_buried) != (policy.ttl, policy.keep_buried) {
            for of in self.slices.values_mut() {
                of.passes = Timestamp::EPOCH;
                of.near_passes = Timestamp::EPOCH;
            }
        }
    }

    /// Its slices of waiting or of buried jobs with something on the shelf.
    pub(super) fn shelved(&self, buried: bool) -> impl Iterator<Item = (Slice, &OnShelf)> {
        let wanted = self.slices.iter().filter(move |((_, lane), _)| (*lane == Lane::BURIED) == buried);
        wanted.map(|(&(line, lane), of)| (Slice { topic: self.id, line, lane }, &**of))
    }

    /// How many waiting or buried jobs are on the shelf only.
    pub(super) fn away(&self, buried: bool) -> u64 {
        if self.slices.is_empty() { 0 } else { self.shelved(buried).map(|(_, of)| of.away()).sum() }
    }

    /// The slices of a line with jobs that are on the shelf only and due, each with the best rank one of them may have;
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
        let known = self.shelf.bad.len();
        self.shelf.bad.extend(places.into_iter().take(BAD_NOTED.saturating_sub(known)));
        self.shelf.unsaved |= self.shelf.bad.len() > known;
    }

    /// The copy on the shelf of a job that is as it is there.
    pub(super) fn copy_of(&self, index: Index) -> Option<ShelfCopy> {
        let slot = self.slots.get(index);
        if !slot.is_clean() {
            return None;
        }
        let topic = &self.topics[&slot.topic];
        let lane = topic.lane(slot.brief.priority, slot.brief.phase);
        let slice = Slice { topic: slot.topic, line: slot.brief.line, lane };
        let has_landed = slot.home == SHELF;
        let since = if has_landed { 0 } else { self.folding.through() };
        let stale = Stale { key: Key::new(slice, slot.brief.place()), version: self.job(index).version, since };
        Some(ShelfCopy { stale, has_landed })
    }

    /// A copy has become stale. The slot is not clean any more, or is no more.
    pub(super) fn note_stale(&mut self, copy: Option<ShelfCopy>) {
        let Some(ShelfCopy { stale, has_landed }) = copy else { return };
        let Stale { key, version, .. } = stale;
        let topic = self.topics.get_mut(&key.slice.topic).expect("every job has a topic");
        let of = topic.slices.get_mut(&(key.slice.line, key.slice.lane)).expect("a clean job is counted");
        of.copies -= 1;
        of.near -= 1;
        if has_landed {
            of.stale.insert(key.place(), version);
        } else {
            self.folding.flown.push(stale);
        }
        if key.slice.lane != Lane::BURIED {
            self.shelf.minutes.remove(key.due_at);
        }
    }

    /// Drops a job from memory that is on the shelf as it is.
    pub(super) fn drop_near(&mut self, index: Index) {
        debug_assert_eq!(self.slots.get(index).home, SHELF);
        let passes = self.passage_at(index).unwrap_or(Timestamp::MAX);
        let slot = self.remove(index);
        let topic = self.topics.get_mut(&slot.topic).expect("every job has a topic");
        let place = slot.brief.place();
        topic.count_clean(&slot.brief, |of| {
            of.near -= 1;
            if planted::is(Bug::DroppedIsThere) {
                return;
            }
            of.reached = of.reached.min(place);
            of.first = of.first.min(place.0);
            of.passes = of.passes.min(passes);
        });
        self.wake_for_shelf(slot.topic);
        self.note_pushing(slot.topic);
        self.waiters.mark(slot.topic);
    }

    /// Takes a job from the shelf into memory, unless it is there already or its copy is stale.
    pub(super) fn bring(&mut self, job: Shown) -> Option<Index> {
        let index = self.bring_unindexed(job)?;
        self.index(index);
        self.note_near(index);
        Some(index)
    }

    fn bring_unindexed(&mut self, job: Shown) -> Option<Index> {
        let topic = self.topics.get_mut(&job.topic)?;
        if self.slots.by_number(job.brief.number).is_some() {
            return None;
        }
        let lane = topic.lane(job.brief.priority, job.brief.phase);
        let of = topic.slices.get_mut(&(job.brief.line, lane))?;
        let is_stale = of.stale.contains(job.brief.place(), job.version);
        if (is_stale && !planted::is(Bug::StaleCopyBrought)) || of.away() == 0 {
            return None;
        }
        of.near += 1;
        let index = match job.form {
            Form::Open(open, id) => self.slots.insert_open(job.topic, open, id, SHELF),
            Form::Record(ref record, _) => self.slots.insert_packed(job.topic, job.brief, job.id(), record, SHELF),
        };
        Some(index)
    }

    /// A job that is on the shelf, or soon will be, is in memory too.
    pub(super) fn note_near(&mut self, index: Index) {
        let passes = self.passage_at(index).unwrap_or(Timestamp::MAX);
        let slot = self.slots.get(index);
        let topic = self.topics.get_mut(&slot.topic).expect("every job has a topic");
        topic.count_clean(&slot.brief, |of| {
            of.near_passes = if of.near <= 1 { passes } else { of.near_passes.min(passes) };
        });
    }

    /// Makes sure that a topic is looked at when something of it that is on the shelf is soon due.
    pub(super) fn wake_for_shelf(&mut self, id: TopicId) {
        if self.topics[&id].slices.is_empty() {
            return;
        }
        self.pass_on_shelf(id);
        let topic = self.topics.get_mut(&id).expect("it is there");
        let now = self.now.at.as_millis();
        let due = topic.shelved(false).filter(|(_, of)| of.away() > 0).flat_map(|(_, of)| {
            // Once for bringing it, once for saying that it is due.
            let first = of.first.as_millis();
            [first.saturating_sub(AHEAD), first]
        });
        let passes = topic.slices.values().filter(|of| of.away() > 0).map(|of| of.passes.as_millis());
        let Some(at) = due.filter(|at| *at > now).chain(passes).min() else { return };
        match topic.shelf_timer {
            Some((earlier, _)) if earlier <= at => {}
            Some((_, key)) => {
                self.wheel.reschedule(key, at);
                topic.shelf_timer = Some((at, key));
            }
            None => topic.shelf_timer = Some((at, self.wheel.insert(at, Timer::Shelf(id)))),
        }
    }

    /// Something of a topic that is on the shelf is due, or soon will be.
    pub(super) fn wake_shelf(&mut self, id: TopicId) {
        let Some(topic) = self.topics.get_mut(&id) else { return };
        topic.shelf_timer = None;
        self.bring_ahead(id);
        self.note_pushing(id);
        self.waiters.mark(id);
        self.wake_for_shelf(id);
    }

    /// Looks through slices where time has done something to a job.
    fn pass_on_shelf(&mut self, id: TopicId) {
        let topic = self.topics.get_mut(&id).expect("it is there");
        for (&(line, lane), of) in &mut topic.slices {
            if of.away() > 0 && of.passes <= self.now.at {
                of.passes = Timestamp::MAX;
                let passing = Passing { from: first_place(), asked: false, failed: false, rows: 0 };
                self.shelf.passing.insert(Slice { topic: id, line, lane }, passing);
            }
        }
    }

    /// Does to a few jobs of a slice what time has done to them; the rest of the slice comes later.
    pub(super) fn pass_row(&mut self, slice: Slice, row: Row) {
        for job in row.jobs {
            let number = job.brief.number;
            let Some(index) = self.bring(job) else {
                // Somebody else has brought it, before anyone looked at what time has done to it.
                self.slots.by_number(number).map(|index| self.refresh(index));
                continue;
            };
            if self.refresh(index) && self.slots.get(index).home == SHELF && self.rests(index) {
                self.drop_near(index);
            }
        }
        self.shelf.dropped += 1;
        let Some(passing) = self.shelf.passing.get_mut(&slice) else { return };
        passing.rows += 1;
        passing.asked = false;
        if let Some(through) = row.through {
            passing.from = after_place(through);
            return;
        }
        // A large slice is not looked through again and again: what it costs is bounded by the time between.
        let rest = if passing.rows > SMALL { passing.rows * limits::SECOND } else { 0 };
        let not_before = self.now.at.plus(rest);
        self.shelf.passing.remove(&slice);
        if let Some(of) = self.slice_mut(slice) {
            of.passes = of.passes.max(not_before);
        }
        self.wake_if_there(slice.topic);
    }

    fn wake_if_there(&mut self, id: TopicId) {
        if self.topics.contains_key(&id) {
            self.wake_for_shelf(id);
        }
    }

    /// Whether slices of a topic are being looked through because time has done something to jobs there; then what is
    /// asked of the whole topic has to wait.
    pub(super) fn is_passing(&mut self, id: TopicId) -> bool {
        self.pass_on_shelf(id);
        let first = Slice { topic: id, line: Line::PULL, lane: Lane::FIRST };
        let of_topic = self.shelf.passing.range_mut(first..).take_while(|(slice, _)| slice.topic == id);
        of_topic.map(|(_, passing)| passing.try_again()).count() > 0
    }

    /// Asks again for what of slices the disk did not give.
    pub(super) fn retry_passages(&mut self) {
        self.shelf.passing.values_mut().for_each(Passing::try_again);
    }

    /// Whether what is known of a job's slot is that it waits: not handed out, and in no other's hands.
    pub(super) fn rests(&self, index: Index) -> bool {
        matches!(self.slots.get(index).indexed, Indexed::Delayed | Indexed::Ready(_) | Indexed::Buried)
    }
}
