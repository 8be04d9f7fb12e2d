//! Access to jobs (open, packed, as a view), and arena compaction: packed jobs are moved together when gaps grow.

use std::borrow::Cow;

use dwell_core::{Job, JobView, Rules};

use super::Engine;
use super::slots::Index;

/// How many jobs one turn flushes, drops and moves when there is nothing else to do: so few that nobody notices. With
/// every record that is logged meanwhile it is a few more, so that it gets done however busy the store is.
const JOBS_A_TURN: usize = 32;
const JOBS_A_RECORD: usize = 2;

/// How many slots are looked at in the time that one job takes.
pub(super) const SLOTS_A_JOB: usize = 16;

/// Bytes that are moved in that time.
const BYTES_A_JOB: usize = 1 << 10;

/// How far the moving of packed jobs has come.
#[derive(Default)]
pub(super) struct Moving {
    /// The next slot to look at, if it is under way.
    next: Option<Index>,
    /// The last sequence at the last turn.
    logged: u64,
}

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

    /// How many jobs this turn flushes, drops and moves.
    pub(super) fn jobs_a_turn(&mut self) -> usize {
        let logged = self.batch.last_sequence();
        let since = usize::try_from(logged.saturating_sub(self.moving.logged)).unwrap_or(usize::MAX);
        self.moving.logged = logged;
        JOBS_A_TURN.saturating_add(since.saturating_mul(JOBS_A_RECORD))
    }

    /// Moves a few packed jobs if there is much between them that could be given back.
    pub(super) fn move_step(&mut self, jobs: usize) {
        let from = match self.moving.next {
            Some(from) => from,
            None if self.slots.wants_moving(self.is_full()) => {
                self.slots.begin_moving(self.is_full());
                0
            }
            None => return,
        };
        let end = self.slots.end();
        let (slots, bytes) = (jobs.saturating_mul(SLOTS_A_JOB), jobs.saturating_mul(BYTES_A_JOB));
        let last = end.min(from.saturating_add(Index::try_from(slots).unwrap_or(Index::MAX)));
        let mut next = from;
        let mut moved = 0;
        while next < last && moved < bytes {
            moved += self.slots.move_packed(next);
            next += 1;
        }
        self.moving.next = Some(next).filter(|next| *next < end);
    }

    /// Moves all there is to move.
    pub(super) fn move_all(&mut self) {
        self.move_step(usize::MAX);
        while self.is_moving() {
            self.move_step(usize::MAX);
        }
    }

    /// Whether packed jobs are being moved.
    pub(super) fn is_moving(&self) -> bool {
        self.moving.next.is_some()
    }
}
