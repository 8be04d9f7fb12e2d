//! Freeing the oldest segments: what in them is still true goes onto the shelf, or is logged again if it is needed soon,
//! so that nobody needs them any more.
//!
//! Segments are freed oldest first and nothing else: what ended a job is always in the same segment as its beginning or
//! in a later one, so a job that has ended can never come back. A segment is only freed once everything that replaces it
//! is durable, and the topics, which any later record may name, are in a file of their own. A manifest that names a run
//! also lets go of the segments it was made from: no job is in both.
//!
//! Without a shelf everything is logged again, one segment at a time.

mod landing;
mod pressure;

use std::time::Duration;

use dwell_core::Timestamp;

use super::Engine;
use super::asking::WINDOW;
use super::index::Indexed;
use super::rest::SLOTS_A_JOB;
use super::shelf::{COLLECTING, OnShelf};
use super::slots::{Index, SHELF, SHELVING};
use crate::format::key::{Key, Slice, Stale, after_time, first_place};
use crate::format::record::{self, Brief, TopicId};
use crate::planted::{self, Bug};
use crate::shelf::View;
use crate::shelf::fold::{Fold, Stretch};

pub(crate) use pressure::Turn;

/// Bytes that wait to be written, at which cleaning waits too.
const ENOUGH: usize = 4 << 20;

/// What is due within this time, and somebody waits for it, is not worth a place on the shelf.
const AT_ONCE: u64 = 10_000;

/// What is due within this time stays in memory too, if there is room.
const SOON: u64 = 30_000;

/// Somebody who has asked for jobs within this time may ask for more.
const LATELY: Duration = Duration::from_secs(10);

/// Without a shelf: segments that are kept however little is live.
const KEPT: u64 = 4;

/// Without a shelf: bytes a job counts for beside its record. To free a segment takes a walk over all jobs and several
/// syncs, so it must be worth it where jobs are small, or are drained faster than that.
const BESIDE: usize = 512;

/// After so many folds that made no room in memory, what is there has to be there.
const USELESS: u32 = 3;

/// A fold that takes less than this part of the memory for jobs out of it relieves nothing.
const RELIEF: usize = 32;

/// How long after a failure it is tried again; with less where there was no room, since everything waits for it.
const PATIENCE: Duration = Duration::from_secs(1);
const SHORT_PATIENCE: Duration = Duration::from_millis(20);

/// How far the freeing of the oldest segments has come.
pub(super) struct Folding {
    /// The oldest segment that is needed.
    first: u64,
    pub(super) step: Step,
    /// What is collected for the shelf.
    fold: Fold,
    /// The slots of what is collected.
    collected: Vec<Collected>,
    /// The slices whose stale copies are noted on the shelf with this fold.
    noted: Vec<Slice>,
    /// Topics that were deleted and are cleared away with this fold.
    cleared: Vec<TopicId>,
    /// Slots on the shelf that are to be dropped.
    dropping: Vec<(Index, dwell_core::Number)>,
    /// Copies that have become stale while they were on their way.
    pub(super) flown: Vec<Stale>,
    /// What is to be handed to the shelf's thread.
    ready: Option<Box<Fold>>,
    /// After a failure: not before this.
    not_before: Duration,
    /// How many folds have failed since one did not.
    failures: u32,
    /// What was collected is written, and not yet in a manifest.
    pub(super) lands: bool,
    /// Bytes that this fold has logged again.
    again: usize,
    /// Somebody waits for a fold.
    soon: bool,
    /// How many folds have begun since there was room in memory.
    unrelieved: u32,
    /// Bytes of jobs that are to be dropped, of those that were on the shelf before this fold.
    relief: usize,
    /// After a fold that relieved memory of next to nothing: none for memory's sake before this.
    idle_until: Duration,
    /// Everything up to this sequence that was true of jobs on the shelf is there.
    folded: u64,
}

/// A job on its way to the shelf.
struct Collected {
    index: Index,
    number: dwell_core::Number,
    /// Where it is if it does not get there: what of the journal is freed next time need not reach as far.
    home: u64,
}

pub(super) enum Step {
    /// Nothing to do.
    Rest,
    /// Looking at slots from here on; segments before the other one are to be free.
    Slots(Index, u64),
    /// The shelf's thread is at work. Then everything up to this sequence must be durable.
    Shelf(u64, u64),
    /// All is logged again or on the shelf; segments before the other one are free once everything up to this sequence is
    /// durable.
    Sync(u64, u64),
}

impl Folding {
    pub(super) fn new(first: u64, folded: u64) -> Self {
        Self {
            first,
            step: Step::Rest,
            fold: Fold::default(),
            collected: Vec::new(),
            noted: Vec::new(),
            cleared: Vec::new(),
            dropping: Vec::new(),
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
            folded,
        }
    }

    pub(super) fn first_segment(&self) -> u64 {
        self.first
    }

    /// Everything up to this sequence that was true of jobs on the shelf is there.
    pub(super) fn folded_through(&self) -> u64 {
        self.folded
    }

    /// What [`Folding::folded_through`] will be once what is on its way has arrived.
    pub(super) fn through(&self) -> u64 {
        match self.step {
            Step::Shelf(sequence, _) | Step::Sync(sequence, _) => sequence,
            Step::Slots(..) => COLLECTING,
            Step::Rest => self.folded,
        }
    }

    /// Whether a fold has begun and is not in a manifest yet.
    pub(super) fn is_under_way(&self) -> bool {
        !matches!(self.step, Step::Rest) || self.is_flying()
    }

    /// Whether jobs are on their way to the shelf, and counted as if they were there.
    pub(super) fn is_flying(&self) -> bool {
        !self.collected.is_empty()
    }
}

impl Engine {
    /// Does a little of what there is to free.
    pub(super) fn fold_step(&mut self, jobs: usize) {
        self.drop_step(jobs);
        if !self.is_full() {
            self.folding.unrelieved = 0;
        }
        match self.folding.step {
            Step::Rest => {
                if let Some(target) = self.wants_folding() {
                    self.folding.unrelieved += 1;
                    self.folding.soon = false;
                    self.folding.again = 0;
                    self.folding.step = Step::Slots(0, target);
                    self.make_room_to_collect();
                }
            }
            Step::Slots(from, target) => self.fold_slots(from, target, jobs),
            Step::Sync(sequence, target) if self.batch.durable() >= sequence => {
                self.folding.first = target;
                self.batch.forget_before(target);
                self.folding.folded = sequence;
                self.folding.step = Step::Rest;
                self.shelf.unsaved = true;
            }
            Step::Shelf(..) | Step::Sync(..) => {}
        }
    }

    /// Takes the room that all jobs would need, of which the system gives only what is used: what is collected is never
    /// moved for want of room, which would hold everything else up.
    fn make_room_to_collect(&mut self) {
        if self.settings.shelves {
            let (jobs, bytes) = (self.slots.len(), self.slots.live());
            self.folding.fold.jobs.reserve(jobs);
            self.folding.fold.records.reserve(bytes);
            self.folding.collected.reserve(jobs);
        }
    }

    /// Whether there is something of this kind to do at once.
    pub(crate) fn is_cleaning(&self) -> bool {
        let cleans = match self.folding.step {
            Step::Rest => self.wants_folding().is_some(),
            Step::Slots(..) => self.batch.len() < ENOUGH,
            Step::Shelf(..) => false,
            Step::Sync(sequence, _) => self.batch.durable() >= sequence,
        };
        let drops = !self.folding.dropping.is_empty();
        self.failed.is_none() && (cleans || drops || self.is_moving())
    }

    /// Segments of journal that are enough: one beside the newest where the disk is full. What was put just before that
    /// takes more room on the shelf than calls that go on meanwhile would leave.
    fn tail(&self) -> u64 {
        if self.room.is_short {
            return 1;
        }
        (self.settings.tail.min(self.settings.memory as u64 / 4) / self.settings.segment).max(1)
    }

    /// Before which segment all are to be freed, if any.
    fn wants_folding(&self) -> Option<u64> {
        let busy = self.shelf.is_saving() || self.folding.is_flying();
        if busy || self.now.real < self.folding.not_before {
            return None;
        }
        let segments = self.batch.segment() - self.folding.first;
        if self.settings.shelves {
            let is_heavy = self.weight() > self.settings.memory / 2 && self.now.real >= self.folding.idle_until;
            let is_large = segments > self.tail() || is_heavy;
            let wanted =
                ((is_large || self.is_low()) && segments > 0 && self.batch.has_begun_segment()) || self.folding.soon;
            // A segment that is not there yet cannot be where the journal begins.
            let last = if self.batch.has_begun_segment() { self.batch.segment() } else { self.folding.first };
            // Where there is little room, no more of it is used at a time than one segment gives back.
            let target = if self.folds_sparingly() { last.min(self.folding.first + 1) } else { last };
            return (wanted && self.folding.dropping.is_empty()).then_some(target);
        }
        let live = self.slots.live() + self.slots.len() * BESIDE + self.done.weight();
        let many = segments > KEPT + 2 * (live as u64 / self.settings.segment);
        many.then_some(self.folding.first + 1)
    }

    /// Whether there is little room, or was too little for the last fold.
    fn folds_sparingly(&self) -> bool {
        self.room.is_short || self.folding.failures > 0
    }

    /// Somebody waits for a fold.
    pub(super) fn fold_soon(&mut self) {
        self.folding.soon = true;
    }

    fn fold_slots(&mut self, from: Index, target: u64, jobs: usize) {
        let mut end = self.slots.end();
        let stays = self.batch.first_sequence(target);
        let mut effort = 0;
        for index in from..end {
            if self.batch.len() >= ENOUGH || effort >= jobs * SLOTS_A_JOB {
                end = index;
                break;
            }
            effort += 1;
            let Some(slot) = self.slots.peek(index) else { continue };
            if slot.home < stays && !planted::is(Bug::FreedTooEarly) {
                effort += SLOTS_A_JOB;
                if self.goes_to_shelf(index) {
                    self.collect(index);
                } else {
                    self.log_again(index);
                }
            } else if slot.home == SHELF && self.leaves_memory(index) {
                self.folding.relief += self.slots.bytes(index);
                self.folding.dropping.push((index, self.slots.get(index).brief.number));
            }
        }
        if end < self.slots.end() {
            self.folding.step = Step::Slots(end, target);
            return;
        }
        self.fold_done(target);
        self.note_relief();
        let shares = planted::is(Bug::FoldsShareSequence) || planted::is(Bug::TopicsShareName);
        // Records name a fold by its sequence: two folds with one could not be told apart by a start.
        if self.batch.last_sequence() <= self.folding.folded && !shares {
            self.batch.log(record::encode_no_op);
        }
        let sequence = self.batch.last_sequence();
        self.collect_stale();
        let mut fold = std::mem::take(&mut self.folding.fold);
        if planted::is(Bug::DeathsNotNoted) {
            fold.deaths.clear();
        }
        if fold.jobs.is_empty() && fold.deaths.is_empty() && fold.purges.is_empty() {
            self.folding.step = Step::Sync(sequence, target);
            self.retry_for_fold();
            return;
        }
        fold.may_spend = self.folds_sparingly();
        self.folding.ready = Some(Box::new(fold));
        self.folding.step = Step::Shelf(sequence, target);
    }

    /// A fold that finds next to nothing to take out of memory is not followed at once by another one: what is there is
    /// leased, or soon needed, and all that would come of it is that it is logged again and again.
    fn note_relief(&mut self) {
        let relief = std::mem::take(&mut self.folding.relief) + self.folding.fold.records.len();
        if relief < self.settings.memory / RELIEF {
            self.folding.idle_until = self.now.real + PATIENCE;
        }
    }

    /// Whether a job goes onto the shelf, or is logged again: where somebody waits for it and it is soon due, unless there
    /// are too many of them.
    fn goes_to_shelf(&self, index: Index) -> bool {
        let many = self.folding.again as u64 > self.tail() * self.settings.segment / 2;
        let needed =
            || self.is_due_within(index, AT_ONCE) && self.is_asked_for(&self.topics[&self.slots.get(index).topic]);
        self.settings.shelves && self.rests(index) && (many || !needed())
    }

    /// Whether a job that is on the shelf is dropped from memory.
    fn leaves_memory(&self, index: Index) -> bool {
        let stays = self.is_light() && self.is_due_within(index, SOON) && !self.is_surplus(index);
        self.rests(index) && !stays
    }

    /// Whether a job is ready in a topic that nobody has consumed of late, behind enough others: it would be in the way of
    /// those that are needed.
    fn is_surplus(&self, index: Index) -> bool {
        let slot = self.slots.get(index);
        let topic = &self.topics[&slot.topic];
        let idle = || topic.asked.is_none_or(|asked| asked + LATELY <= self.now.real) && !self.is_asked_for(topic);
        matches!(slot.indexed, Indexed::Ready(_)) && topic.ready_count > WINDOW as u64 && idle()
    }

    /// Whether there is room in memory for what is on the shelf and soon needed: well below where folding begins, so that
    /// one fold does not lead to the next.
    pub(super) fn is_light(&self) -> bool {
        self.weight() <= self.settings.memory / 4
    }

    fn is_due_within(&self, index: Index, millis: u64) -> bool {
        let slot = self.slots.get(index);
        slot.indexed != Indexed::Buried && slot.brief.due_at <= self.now.at.plus(millis)
    }

    fn log_again(&mut self, index: Index) {
        let before = self.batch.len();
        self.slots.get_mut(index).home = self.batch.next_sequence();
        self.batch.log(|out| self.slots.encode_again(index, out));
        self.folding.again += self.batch.len() - before;
    }

    /// Takes a job up for the shelf. From now on it counts as being there.
    fn collect(&mut self, index: Index) {
        let slot = self.slots.get(index);
        let (brief, id, indexed) = (slot.brief, slot.topic, slot.indexed);
        let topic = self.topics.get_mut(&id).expect("every job has a topic");
        let lane = topic.make_lane(brief.priority, brief.phase, self.settings.lanes);
        let of = topic.slices.entry((brief.line, lane)).or_insert_with(|| Box::new(OnShelf::new(0, Timestamp::MAX)));
        of.copies += 1;
        of.near += 1;
        if indexed != Indexed::Buried {
            topic.minutes.remove(brief.due_at);
            self.minutes.remove(brief.due_at);
            self.shelf.minutes.add(brief.due_at, 1);
        }
        let begin = self.folding.fold.records.len();
        self.slots.encode_again(index, &mut self.folding.fold.records);
        let slice = Slice { topic: id, line: brief.line, lane };
        let range = begin..self.folding.fold.records.len();
        self.folding.fold.jobs.push((Key::new(slice, brief.place()), range));
        let home = std::mem::replace(&mut self.slots.get_mut(index).home, SHELVING);
        self.folding.collected.push(Collected { index, number: brief.number, home });
        self.note_near(index);
    }

    fn fold_done(&mut self, target: u64) {
        self.forget_done();
        let end = self.batch.first_sequence(target);
        for (topic, done, home) in self.done.at_home_before(end) {
            *home = self.batch.next_sequence();
            self.batch.log(|out| record::encode_done(out, topic, done));
        }
    }

    /// All copies that are stale, and will not be known to be so on the shelf once what is on its way has arrived.
    pub(super) fn unnoted(&self) -> impl Iterator<Item = Stale> {
        let live = self.topics.iter().map(|(id, topic)| (*id, &topic.slices));
        let gone = self.shelf.gone.iter().map(|(id, slices)| (*id, slices));
        let slices = live.chain(gone).flat_map(|(topic, slices)| {
            slices.iter().map(move |(&(line, lane), of)| (Slice { topic, line, lane }, of))
        });
        let new = slices.flat_map(|(slice, of)| {
            let stale = move |&(place, version)| Stale { key: Key::new(slice, place), version, since: 0 };
            of.stale.new_ones().map(stale)
        });
        new.chain(self.folding.flown.iter().copied())
    }

    /// What the shelf does not know yet: stale copies, deleted topics, purges.
    fn collect_stale(&mut self) {
        let Folding { fold, noted, cleared, flown, .. } = &mut self.folding;
        fold.deaths.extend(flown.drain(..).map(|stale| (stale.key.number, stale.version)));
        let live = self.topics.iter_mut().map(|(id, topic)| (*id, &mut topic.slices));
        let gone = self.shelf.gone.iter_mut().map(|(id, slices)| (*id, slices));
        for (topic, slices) in live.chain(gone) {
            for (&(line, lane), of) in slices.iter_mut().filter(|(_, of)| !of.stale.is_empty()) {
                noted.push(Slice { topic, line, lane });
                fold.deaths.extend(of.stale.take_up().map(|&((_, number), version)| (number, version)));
            }
        }
        for (topic, slices) in &self.shelf.gone {
            cleared.push(*topic);
            for &(line, lane) in slices.keys() {
                let slice = Slice { topic: *topic, line, lane };
                fold.purges.push(Stretch { slice, from: first_place(), end: after_time(Timestamp::MAX) });
            }
        }
    }

    /// Jobs of a topic that wait and are on their way to the shelf: counted as being there, and not there yet.
    pub(super) fn flying(&self, topic: TopicId) -> impl Iterator<Item = &Brief> {
        let slots = self.folding.collected.iter().filter_map(|collected| {
            let slot = self.slots.peek(collected.index)?;
            (slot.brief.number == collected.number && slot.home == SHELVING).then_some(slot)
        });
        slots.filter(move |slot| slot.topic == topic && slot.indexed != Indexed::Buried).map(|slot| &slot.brief)
    }

    /// What is to be folded next.
    pub(crate) fn take_fold(&mut self) -> Option<Box<Fold>> {
        self.folding.ready.take()
    }

    pub(super) fn slice_mut(&mut self, slice: Slice) -> Option<&mut OnShelf> {
        let slices = match self.topics.get_mut(&slice.topic) {
            Some(topic) => &mut topic.slices,
            None => self.shelf.gone.get_mut(&slice.topic)?,
        };
        slices.get_mut(&(slice.line, slice.lane)).map(|of| &mut **of)
    }

    /// Drops a few jobs from memory that are on the shelf.
    fn drop_step(&mut self, jobs: usize) {
        if self.folding.dropping.is_empty() {
            return;
        }
        self.shelf.dropped += 1;
        for _ in 0..jobs {
            let Some((index, number)) = self.folding.dropping.pop() else { break };
            let slot = self.slots.peek(index);
            if slot.is_some_and(|slot| slot.brief.number == number && slot.home == SHELF) && self.leaves_memory(index) {
                self.drop_near(index);
            }
        }
    }

    /// The shelf as it is now.
    pub(crate) fn shelf_view(&self) -> View {
        View::clone(&self.shelf.view)
    }

    /// A manifest is under way that says nothing new of the shelf.
    pub(crate) fn saves_nothing(&mut self) {
        self.shelf.saving.push_back(None);
    }

    /// What is not at its best.
    pub(crate) fn troubles(&self) -> Vec<String> {
        let bad = self.shelf.bad.iter().map(|place| &place.told);
        bad.chain(&self.shelf.trouble).cloned().collect()
    }

    /// Everything up to this sequence that was true of jobs on the shelf is there.
    pub(crate) fn folded_through(&self) -> u64 {
        self.folding.folded
    }
}
