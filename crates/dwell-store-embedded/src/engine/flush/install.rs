//! The second half of a flush: the run is written, a manifest names it, its jobs become cold. Or it failed, and is undone.

use std::sync::Arc;

use super::{Collected, Engine, FRUITLESS_FLUSHES, RETRY_AFTER, RETRY_AFTER_ON_FULL_DISK, Step};
use crate::cold::compactor::Outcome;
use crate::cold::flush::Purged;
use crate::engine::cold::Saving;
use crate::engine::index::Indexed;
use crate::engine::slots::Home;
use crate::format::key::Tombstone;
use crate::sim_bugs::{self, Bug};

impl Engine {
    /// The compactor reports an outcome.
    pub(crate) fn compactor_did(&mut self, outcome: Outcome) {
        if self.failed.is_some() {
            return;
        }
        let (view, obsolete, purged) = match outcome {
            Outcome::Trouble(trouble) => {
                self.cold.trouble = Some(trouble);
                return;
            }
            Outcome::Bad(places) => return self.note_bad(places),
            Outcome::FlushFailed(trouble) => {
                self.cold.trouble = Some(trouble);
                return self.undo_flush();
            }
            Outcome::Merged { view, obsolete } => (view, obsolete, None),
            Outcome::Flushed { view, purged, obsolete, bad } => {
                self.note_bad(bad);
                (view, obsolete, Some(purged))
            }
        };
        self.cold.trouble = None;
        self.cold.next = Some(view);
        self.cold.unsaved = true;
        self.cold.obsolete.extend(obsolete);
        if let Some(purged) = purged {
            self.flushed(purged);
        }
    }

    /// The run is written. Its jobs are cold once a manifest names it.
    fn flushed(&mut self, purged: Purged) {
        let Step::Writing(sequence, target) = self.flush.step else { unreachable!("one flush at a time") };
        self.flush.step = Step::Syncing(sequence, target);
        self.flush.failures = 0;
        self.flush.lands = true;
        for (minute, jobs) in purged {
            self.cold.minutes.remove_many(minute, jobs);
        }
        for topic in std::mem::take(&mut self.flush.cleared) {
            self.cold.gone.remove(&topic);
        }
    }

    /// A manifest is durable.
    pub(crate) fn saved(&mut self) {
        let Some(Saving { view, lands }) = self.cold.saving.pop_front().flatten() else { return };
        if let Some(view) = view {
            // What was merged away is not there any more to be read.
            self.cold.bad.retain(|place| view.runs.iter().any(|live_run| live_run.run.number == place.run));
            self.cold.view = Arc::new(view);
            self.cold.generation += 1;
        }
        if lands {
            self.land();
        }
        self.retry_for_flush();
    }

    /// The flush is installed: its jobs are cold.
    fn land(&mut self) {
        for slice in std::mem::take(&mut self.flush.noted) {
            if let Some(of) = self.slice_mut(slice) {
                of.stale.landed();
            }
        }
        for Tombstone { key, version, .. } in std::mem::take(&mut self.flush.flown) {
            if let Some(of) = self.slice_mut(key.slice) {
                of.stale.insert(key.place(), version);
            }
        }
        for Collected { index, number, .. } in std::mem::take(&mut self.flush.collected) {
            let Some(slot) = self.slots.peek(index) else { continue };
            if slot.meta.number != number || (slot.home != Home::FLUSHING && !sim_bugs::is(Bug::ChangedLandsToo)) {
                continue;
            }
            let slot = self.slots.get_mut(index);
            slot.home = Home::COLD;
            if matches!(slot.indexed, Indexed::Ready(_)) {
                let topic = self.topics.get_mut(&slot.topic).expect("every job has a topic");
                topic.count_clean(&slot.meta, |of| of.ready += 1);
            }
            self.flush.evicting.push((index, number));
        }
    }

    /// The flush failed: it is undone, as if its jobs had never been collected.
    fn undo_flush(&mut self) {
        self.flush.step = Step::Idle;
        let waited_for = self.room.is_short && self.flush.failures < FRUITLESS_FLUSHES;
        self.flush.not_before = self.now.real + if waited_for { RETRY_AFTER_ON_FULL_DISK } else { RETRY_AFTER };
        self.flush.failures = self.flush.failures.saturating_add(1);
        for slice in std::mem::take(&mut self.flush.noted) {
            if let Some(of) = self.slice_mut(slice) {
                of.stale.failed();
            }
        }
        self.flush.cleared.clear();
        self.flush.flown.clear();
        for Collected { index, number, home } in std::mem::take(&mut self.flush.collected) {
            let Some(slot) = self.slots.peek(index) else { continue };
            if slot.meta.number != number || slot.home != Home::FLUSHING {
                continue;
            }
            let (meta, id, indexed) = (slot.meta, slot.topic, slot.indexed);
            let topic = self.topics.get_mut(&id).expect("every job has a topic");
            topic.count_clean(&meta, |of| {
                of.copies -= 1;
                of.near -= 1;
            });
            if indexed != Indexed::Buried {
                topic.minutes.add(meta.due_at, 1);
                self.minutes.add(meta.due_at, 1);
                self.cold.minutes.remove(meta.due_at);
            }
            self.slots.get_mut(index).home = if sim_bugs::is(Bug::FlushFailedTwice) { Home::journal(0) } else { home };
        }
        self.retry_for_flush();
    }
}
