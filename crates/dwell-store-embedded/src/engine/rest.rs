//! Jobs at rest: opened when they are used, packed when they are not, and moved together when there are gaps.

use std::borrow::Cow;

use dwell_core::{Job, JobView, Rules};

use super::Engine;
use super::slots::Index;

/// How many slots one turn looks at.
const SLOTS_A_TURN: Index = 2_048;

/// Bytes of jobs one turn moves.
const BYTES_A_TURN: usize = 1 << 20;

/// How far the moving of packed jobs has come, if it is under way: the next slot to look at.
#[derive(Default)]
pub(super) struct Moving(Option<Index>);

impl Engine {
    /// The job of a slot, to be looked at.
    pub(super) fn job(&self, index: Index) -> Cow<'_, Job> {
        let topic = &self.topics[&self.slots.get(index).topic];
        self.slots.job(index, &topic.name)
    }

    /// The job of a slot, to be changed. What was changed is told to the slots.
    pub(super) fn open(&mut self, index: Index) -> &mut Job {
        let topic = &self.topics[&self.slots.get(index).topic];
        self.slots.open(index, &topic.name)
    }

    /// What a read of the job shows.
    pub(super) fn view(&self, index: Index) -> JobView {
        let topic = &self.topics[&self.slots.get(index).topic];
        let rules = Rules { policy: &topic.policy, defaults: &self.settings.defaults };
        JobView::new(self.slots.job(index, &topic.name).into_owned(), self.now.at, &rules)
    }

    /// Moves a few packed jobs if there is much between them that could be given back.
    pub(super) fn move_step(&mut self) {
        let from = match self.moving.0 {
            Some(from) => from,
            None if self.slots.wants_moving(self.is_full()) => {
                self.slots.begin_moving(self.is_full());
                0
            }
            None => return,
        };
        let end = self.slots.end();
        let mut next = from;
        let mut moved = 0;
        while next < end.min(from.saturating_add(SLOTS_A_TURN)) && moved < BYTES_A_TURN {
            moved += self.slots.move_packed(next);
            next += 1;
        }
        self.moving.0 = Some(next).filter(|next| *next < end);
    }

    /// Moves all there is to move.
    pub(super) fn move_all(&mut self) {
        self.move_step();
        while self.moving.0.is_some() {
            self.move_step();
        }
    }

    /// Whether packed jobs are being moved.
    pub(super) fn is_moving(&self) -> bool {
        self.moving.0.is_some()
    }
}
