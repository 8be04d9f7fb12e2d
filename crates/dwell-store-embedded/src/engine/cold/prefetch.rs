//! Prefetch: loads rows that are due soon before a waiting consumer needs them.

use dwell_core::{LeaseFrom, Line, Timestamp};

use super::PREFETCH_MILLIS;
use crate::cold::reader::{Row, Shown};
use crate::engine::Engine;
use crate::engine::cold_reads::READY_WINDOW;
use crate::engine::slots::{Index, PREFETCH_BATCH};
use crate::engine::topic::Topic;
use crate::format::key::{Place, Slice, after_place, after_time};
use crate::format::record::TopicId;

impl Engine {
    /// Prefetches the rows of a topic that are soon due, if a consumer waits.
    pub(in crate::engine) fn prefetch_topic(&mut self, id: TopicId) {
        let Some(topic) = self.topics.get(&id) else { return };
        if topic.slices.is_empty() || !self.is_asked_for(topic) {
            return;
        }
        let wanted = self.prefetch_candidates(topic);
        self.cold.wanted.extend(wanted);
    }

    /// The slices of a topic with jobs that are soon due and not in memory, unless enough are there that come before: those
    /// that wait for their turn find out themselves what they miss.
    pub(in crate::engine) fn prefetch_candidates(&self, topic: &Topic) -> Vec<Slice> {
        if !self.has_room_to_prefetch() {
            return Vec::new();
        }
        let soon = self.now.at.plus(PREFETCH_MILLIS);
        let behind = topic.cold_slices(false).filter(|(_, of)| of.away() > 0 && of.first <= soon);
        behind
            .filter(|(slice, of)| self.near_before(topic, *slice, of.next()) < READY_WINDOW)
            .map(|(slice, _)| slice)
            .collect()
    }

    /// Whether memory has room for prefetched rows: above what may stay resident, and below the limit where flushes begin.
    pub(in crate::engine) fn has_room_to_prefetch(&self) -> bool {
        self.weight() <= self.settings.memory / 8 * 3
    }

    /// How many jobs in memory, ready or soon due, come before what is at this place of a slice; counted as far as needed.
    fn near_before(&self, topic: &Topic, slice: Slice, next: Place) -> usize {
        let later = after_time(self.now.at);
        let delayed = if later < next { topic.waiting.count(later..next, READY_WINDOW) } else { 0 };
        let ready = topic.ready.get(&slice.line).map_or(0, |ready| match slice.lane.place() {
            Some(place) => ready.range(..(topic.lanes[place], next.0, next.1)).take(READY_WINDOW).count(),
            None => ready.len(),
        });
        delayed.max(ready)
    }

    /// Prefetches for a consumer that begins to wait.
    pub(in crate::engine) fn prefetch_for(&mut self, from: &LeaseFrom) {
        if self.cold.view.runs.is_empty() {
            return;
        }
        let topics: Vec<TopicId> = match from {
            LeaseFrom::Pull(topics) => topics.iter().filter_map(|name| self.names.get(name).copied()).collect(),
            LeaseFrom::Push(_) => self.topics.values().filter(|topic| !topic.slices.is_empty()).map(|t| t.id).collect(),
            LeaseFrom::Number(_) => Vec::new(),
        };
        for topic in topics {
            self.prefetch_topic(topic);
            self.wake_for_cold_tier(topic);
        }
    }

    /// Whether a consumer or courier waits for jobs of a topic.
    pub(in crate::engine) fn is_asked_for(&self, topic: &Topic) -> bool {
        let pushed = topic.policy.deliver_to.is_some() || topic.slices.keys().any(|(line, _)| *line != Line::PULL);
        self.waiters.is_waited_for(&topic.name) || (pushed && self.waiters.has_couriers())
    }

    /// Rows of a slice were read. The next batch can be requested before these are loaded.
    pub(in crate::engine) fn row_is_here(&mut self, slice: Slice, from: Place, row: &Row, until: Timestamp) {
        let Some(topic) = self.topics.get_mut(&slice.topic) else { return };
        let Some(of) = topic.slices.get_mut(&(slice.line, slice.lane)) else { return };
        of.asked = false;
        // What was dropped meanwhile from before is not in this answer.
        if of.reached >= from {
            let through = row.through.map_or_else(|| after_time(until), after_place);
            of.reached = of.reached.max(through);
            of.first = row.next.unwrap_or(Timestamp::MAX);
        }
        self.prefetch_topic(slice.topic);
    }

    /// Loads rows of a slice that were read.
    pub(in crate::engine) fn load_row(&mut self, slice: Slice, jobs: Vec<Shown>) {
        self.load_all(jobs);
        if self.topics.contains_key(&slice.topic) {
            self.note_pushing(slice.topic);
            self.waiters.mark(slice.topic);
            self.wake_for_cold_tier(slice.topic);
        }
    }

    /// Loads many rows. The cache lines of their slots are prefetched in batches.
    fn load_all(&mut self, jobs: Vec<Shown>) {
        let mut jobs = jobs.into_iter();
        while jobs.len() > 0 {
            self.slots.prefetch_ids(jobs.as_slice().iter().take(PREFETCH_BATCH).filter_map(Shown::id_hash));
            let next = jobs.by_ref().take(PREFETCH_BATCH);
            let loaded: Vec<Index> = next.filter_map(|job| self.load_unindexed(job)).collect();
            for index in loaded {
                self.index(index);
                self.note_resident(index);
            }
        }
    }
}
