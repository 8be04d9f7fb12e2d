//! Back-pressure: which commands wait, or are refused, while memory or the disk is being freed.

use std::time::Duration;

use super::{Engine, FRUITLESS_FLUSHES};
use crate::disk_space::FLUSH_SPARES;
use crate::engine::Command;
use crate::format::record;

/// Bytes of unwritten records at which commands wait for the journal.
const FULL_BATCH: usize = 32 << 20;

/// A batch has at most this share of the memory for jobs: unwritten jobs cannot be evicted.
const BATCH_SHARE_OF_MEMORY: usize = 8;

/// On a full disk a batch has at most this share of a segment, so that spare segments are counted before the next one.
const BATCH_SHARE_OF_SEGMENT: u64 = 4;

/// Whether a command runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It runs.
    Now,
    /// It waits until memory or segments have been freed.
    Later,
    /// It is refused: there is no segment for it, and none can be freed.
    Never,
}

impl Engine {
    /// Whether the batch is full: commands wait for the journal.
    pub(crate) fn has_full_batch(&self) -> bool {
        let share = if self.is_simulated() { usize::MAX } else { self.settings.memory / BATCH_SHARE_OF_MEMORY };
        let short = if self.room.is_short { self.settings.segment / BATCH_SHARE_OF_SEGMENT } else { u64::MAX };
        self.batch.len() >= FULL_BATCH.min(share).min(usize::try_from(short).unwrap_or(usize::MAX))
    }

    /// Whether a command runs now.
    pub(crate) fn admission_of(&self, command: &Command) -> Admission {
        if matches!(command, Command::Put { .. }) {
            // On a full disk it is refused, and logs nothing.
            return if self.puts_wait() { Admission::Later } else { Admission::Now };
        }
        if !command.logs() || !self.all_wait() {
            return Admission::Now;
        }
        match self.flush.failures {
            0..=FRUITLESS_FLUSHES => Admission::Later,
            _ if self.room.spares < self.batch.segments_after(self.room.begun) => Admission::Never,
            _ => Admission::Now,
        }
    }

    /// Whether puts wait: memory or the journal is over its limit, and a flush that is under way or wanted will help.
    pub(crate) fn puts_wait(&self) -> bool {
        // Something is on its way that makes room.
        let flush = self.flush.is_under_way()
            || !self.flush.evicting.is_empty()
            || self.cold.is_saving()
            || self.is_moving()
            || self.wants_flush().is_some();
        !self.is_simulated()
            && flush
            && self.cold.trouble.is_none()
            && self.failed.is_none()
            && !self.closing
            && !self.room.is_short
            && (self.is_behind() || (self.is_full() && self.flush.unrelieved <= FRUITLESS_FLUSHES))
    }

    /// Whether every command that logs waits: on a full disk, if it would take the segments that a flush needs.
    pub(crate) fn all_wait(&self) -> bool {
        let frees = self.flush.is_under_way()
            || self.cold.is_saving()
            || self.flushes_again_at().is_some()
            || self.wants_flush().is_some();
        let healthy = self.failed.is_none() && !self.closing;
        !self.is_simulated() && self.room.is_short && healthy && frees && (self.is_low() || self.is_behind())
    }

    /// Whether the disk is full and so few spare segments are left that a flush must free some before the journal goes on.
    pub(super) fn is_low(&self) -> bool {
        self.room.is_short && self.room.spares < FLUSH_SPARES + self.batch.segments_after(self.room.begun)
    }

    /// When a flush that has failed is tried again.
    pub(crate) fn flushes_again_at(&self) -> Option<Duration> {
        let at = self.flush.not_before;
        (at > self.now.real && self.batch.segment() > self.flush.first).then_some(at)
    }

    /// A simulator has no back-pressure: it decides itself when calls are taken.
    fn is_simulated(&self) -> bool {
        self.settings.seed.is_some()
    }

    fn is_behind(&self) -> bool {
        let most = if self.room.is_short { self.tail() } else { 2 * self.tail() + 2 };
        self.settings.cold_tier && self.batch.segment() - self.flush.first > most
    }

    /// Whether jobs take so much memory that some should leave it.
    pub(super) fn is_heavy(&self) -> bool {
        self.weight() > self.settings.memory / 2 && self.now.real >= self.flush.idle_until
    }

    /// A start with more jobs than fit into memory may refuse every put, and a flush needs a segment that has begun: a record
    /// that changes nothing begins it.
    pub(super) fn begin_segment_for_flush(&mut self) {
        let is_stuck = self.settings.cold_tier && self.is_heavy() && !self.batch.has_begun_segment();
        if is_stuck && self.batch.segment() > self.flush.first && self.batch.is_idle() {
            self.batch.log(record::encode_no_op);
        }
    }
}
