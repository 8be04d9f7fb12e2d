//! Freeing the oldest segment: what in it is still true is logged again, so that nobody needs it any more.
//!
//! Segments are freed oldest first and nothing else: what ended a job is always in the same segment as its beginning or
//! in a later one, so a job that has ended can never come back. A segment is only freed once the records that replace it
//! are durable, and the topics, which any later record may name, are in a file of their own.

use super::Engine;
use super::slots::Index;
use crate::format::record;
use crate::format::topics;
use crate::planted::{self, Bug};

/// Bytes that wait to be written, at which cleaning waits too.
const ENOUGH: usize = 4 << 20;

/// How many slots one turn looks at.
const SLOTS_A_TURN: Index = 2_048;

/// How far the cleaning of the oldest segment has come.
pub(super) struct Cleaning {
    /// The oldest segment that is needed.
    first: u64,
    step: Step,
}

enum Step {
    /// Nothing to do.
    Rest,
    /// Looking at slots from here on.
    Slots(Index),
    /// All is logged again; the segment is free once everything up to this sequence is durable.
    Sync(u64),
}

impl Cleaning {
    pub(super) fn new(first: u64) -> Self {
        Self { first, step: Step::Rest }
    }

    pub(super) fn first_segment(&self) -> u64 {
        self.first
    }
}

impl Engine {
    /// Does a little of what there is to clean.
    pub(super) fn clean_step(&mut self) {
        match self.cleaning.step {
            Step::Rest if self.wants_cleaning() => self.cleaning.step = Step::Slots(0),
            Step::Slots(from) => self.clean_slots(from),
            Step::Sync(sequence) if self.batch.durable() >= sequence => {
                self.cleaning.first += 1;
                self.cleaning.step = Step::Rest;
            }
            Step::Rest | Step::Sync(_) => {}
        }
    }

    /// Whether there is cleaning or moving to do at once.
    pub(crate) fn is_cleaning(&self) -> bool {
        let cleans = matches!(self.cleaning.step, Step::Slots(_)) && self.batch.len() < ENOUGH;
        self.failed.is_none() && (cleans || self.is_moving())
    }

    /// More than twice as much journal as there are live jobs, and a little: then most of it is history.
    fn wants_cleaning(&self) -> bool {
        /// Segments that are kept however little is live.
        const KEPT: u64 = 4;
        /// Bytes a job counts for beside its record: to free a segment takes a walk over all jobs and several syncs, so
        /// it must be worth it where jobs are small, or are drained faster than that.
        const BESIDE: usize = 512;
        let segments = self.batch.segment() - self.cleaning.first;
        let live = self.slots.live() + self.slots.len() * BESIDE + self.done.weight();
        segments > KEPT + 2 * (live as u64 / self.settings.segment)
    }

    fn clean_slots(&mut self, from: Index) {
        let oldest = self.cleaning.first;
        let mut end = self.slots.end().min(from.saturating_add(SLOTS_A_TURN));
        for index in from..end {
            if self.batch.len() >= ENOUGH {
                end = index;
                break;
            }
            if self.slots.peek(index).is_some_and(|slot| slot.home <= oldest) && !planted::is(Bug::FreedTooEarly) {
                self.log_again(index);
            }
        }
        if end < self.slots.end() {
            self.cleaning.step = Step::Slots(end);
            return;
        }
        self.clean_done(oldest);
        self.cleaning.step = Step::Sync(self.batch.last_sequence());
    }

    fn log_again(&mut self, index: Index) {
        self.slots.get_mut(index).home = self.batch.segment();
        self.batch.log(|out| self.slots.encode_again(index, out));
    }

    fn clean_done(&mut self, oldest: u64) {
        self.forget_done();
        let segment = self.batch.segment();
        for (topic, done, home) in self.done.at_home(oldest) {
            *home = segment;
            self.batch.log(|out| record::encode_done(out, topic, done));
        }
    }

    /// All topics as they are now: what goes beside a manifest that lets go of segments.
    pub(crate) fn topics_file(&self) -> Vec<u8> {
        let mut file = topics::room();
        for topic in self.topics.values() {
            record::encode_topic(
                &mut file,
                topic.id,
                &topic.name,
                &topic.policy,
                topic.pause,
                &topic.totals,
                topic.forgotten,
            );
        }
        let count = u32::try_from(self.topics.len()).expect("fewer than 2^32 topics");
        topics::seal(&mut file, self.batch.last_sequence(), count);
        file
    }
}
