//! What becomes of a fold once the shelf's thread has it: written, named by a manifest, dropped from memory.

use std::sync::Arc;

use super::{Collected, Engine, PATIENCE, SHORT_PATIENCE, Step, USELESS};
use crate::engine::index::Indexed;
use crate::engine::shelf::Saving;
use crate::engine::slots::SHELF;
use crate::engine::slots::SHELVING;
use crate::format::key::Stale;
use crate::planted::{self, Bug};
use crate::shelf::fold::Purged;
use crate::shelf::shelver::Outcome;

impl Engine {
    /// The shelf's thread has done something.
    pub(crate) fn shelf_did(&mut self, outcome: Outcome) {
        if self.failed.is_some() {
            return;
        }
        let (view, obsolete, purged) = match outcome {
            Outcome::Trouble(trouble) => {
                self.shelf.trouble = Some(trouble);
                return;
            }
            Outcome::Bad(places) => return self.note_bad(places),
            Outcome::Unfolded(trouble) => {
                self.shelf.trouble = Some(trouble);
                return self.unfold();
            }
            Outcome::Merged { view, obsolete } => (view, obsolete, None),
            Outcome::Folded { view, purged, obsolete, bad } => {
                self.note_bad(bad);
                (view, obsolete, Some(purged))
            }
        };
        self.shelf.trouble = None;
        self.shelf.next = Some(view);
        self.shelf.unsaved = true;
        self.shelf.obsolete.extend(obsolete);
        if let Some(purged) = purged {
            self.folded(purged);
        }
    }

    /// What was collected is written. It is on the shelf once a manifest says so.
    fn folded(&mut self, purged: Purged) {
        let Step::Shelf(sequence, target) = self.folding.step else { unreachable!("one fold at a time") };
        self.folding.step = Step::Sync(sequence, target);
        self.folding.failures = 0;
        self.folding.lands = true;
        for (minute, jobs) in purged {
            self.shelf.minutes.remove_many(minute, jobs);
        }
        for topic in std::mem::take(&mut self.folding.cleared) {
            self.shelf.gone.remove(&topic);
        }
    }

    /// A manifest is durable.
    pub(crate) fn saved(&mut self) {
        let Some(Saving { view, lands }) = self.shelf.saving.pop_front().flatten() else { return };
        if let Some(view) = view {
            // What was merged away is not there any more to be read.
            self.shelf.bad.retain(|place| view.runs.iter().any(|shelved| shelved.run.number == place.run));
            self.shelf.view = Arc::new(view);
            self.shelf.generation += 1;
        }
        if lands {
            self.land();
        }
        self.retry_for_fold();
    }

    /// What was folded is on the shelf.
    fn land(&mut self) {
        for slice in std::mem::take(&mut self.folding.noted) {
            if let Some(of) = self.slice_mut(slice) {
                of.stale.landed();
            }
        }
        for Stale { key, version, .. } in std::mem::take(&mut self.folding.flown) {
            if let Some(of) = self.slice_mut(key.slice) {
                of.stale.insert(key.place(), version);
            }
        }
        for Collected { index, number, .. } in std::mem::take(&mut self.folding.collected) {
            let Some(slot) = self.slots.peek(index) else { continue };
            if slot.brief.number != number || (slot.home != SHELVING && !planted::is(Bug::ChangedLandsToo)) {
                continue;
            }
            let slot = self.slots.get_mut(index);
            slot.home = SHELF;
            if matches!(slot.indexed, Indexed::Ready(_)) {
                let topic = self.topics.get_mut(&slot.topic).expect("every job has a topic");
                topic.count_clean(&slot.brief, |of| of.ready += 1);
            }
            self.folding.dropping.push((index, number));
        }
    }

    /// What was collected could not be put onto the shelf: it is as if it had never been collected.
    fn unfold(&mut self) {
        self.folding.step = Step::Rest;
        let waited_for = self.room.is_short && self.folding.failures < USELESS;
        self.folding.not_before = self.now.real + if waited_for { SHORT_PATIENCE } else { PATIENCE };
        self.folding.failures = self.folding.failures.saturating_add(1);
        for slice in std::mem::take(&mut self.folding.noted) {
            if let Some(of) = self.slice_mut(slice) {
                of.stale.failed();
            }
        }
        self.folding.cleared.clear();
        self.folding.flown.clear();
        for Collected { index, number, home } in std::mem::take(&mut self.folding.collected) {
            let Some(slot) = self.slots.peek(index) else { continue };
            if slot.brief.number != number || slot.home != SHELVING {
                continue;
            }
            let (brief, id, indexed) = (slot.brief, slot.topic, slot.indexed);
            let topic = self.topics.get_mut(&id).expect("every job has a topic");
            topic.count_clean(&brief, |of| {
                of.copies -= 1;
                of.near -= 1;
            });
            if indexed != Indexed::Buried {
                topic.minutes.add(brief.due_at, 1);
                self.minutes.add(brief.due_at, 1);
                self.shelf.minutes.remove(brief.due_at);
            }
            self.slots.get_mut(index).home = if planted::is(Bug::UnfoldedTwice) { 0 } else { home };
        }
        self.retry_for_fold();
    }
}
