//! Who waits for what is being freed.

use std::time::Duration;

use super::{Engine, Step, USELESS};

/// Bytes of records a batch may have before commands have to wait for the journal.
const FULL_BATCH: usize = 32 << 20;

/// A batch has at most one of so many parts of the memory for jobs: what is not written cannot leave it.
const SHARE: usize = 8;

impl Engine {
    /// Whether so much waits to be written that commands wait, too.
    pub(crate) fn has_full_batch(&self) -> bool {
        let share = if self.is_simulated() { usize::MAX } else { self.settings.memory / SHARE };
        self.batch.len() >= FULL_BATCH.min(share)
    }

    /// Whether puts should wait for what is being freed.
    pub(crate) fn is_pressed(&self) -> bool {
        // Something is on its way that makes room.
        let folding = !matches!(self.folding.step, Step::Rest)
            || self.folding.is_flying()
            || !self.folding.dropping.is_empty()
            || self.shelf.unsaved
            || self.is_moving()
            || self.shelf.saving.iter().any(Option::is_some)
            || self.wants_folding().is_some();
        !self.is_simulated()
            && folding
            && self.shelf.trouble.is_none()
            && self.failed.is_none()
            && !self.closing
            && !self.short
            && (self.is_behind() || (self.is_full() && self.folding.unrelieved <= USELESS))
    }

    /// Whether everything should wait for what is being freed: where there is little room, more segments than can be
    /// freed would take the last of it.
    pub(crate) fn is_held_up(&self) -> bool {
        let frees = !matches!(self.folding.step, Step::Rest)
            || self.folding.is_flying()
            || self.folds_again_at().is_some()
            || self.wants_folding().is_some();
        let healthy = self.folding.failures <= USELESS && self.failed.is_none() && !self.closing;
        !self.is_simulated() && self.short && healthy && frees && (self.low || self.is_behind())
    }

    /// When a fold that has failed is tried again.
    pub(crate) fn folds_again_at(&self) -> Option<Duration> {
        let at = self.folding.not_before;
        (at > self.now.real && self.batch.segment() > self.folding.first).then_some(at)
    }

    /// A simulator decides itself when calls are taken.
    fn is_simulated(&self) -> bool {
        self.settings.seed.is_some()
    }

    fn is_behind(&self) -> bool {
        self.settings.shelves && self.batch.segment() - self.folding.first > 2 * self.tail() + 2
    }
}
