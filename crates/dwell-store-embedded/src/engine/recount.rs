//! Counting the cold tier anew at a start, where what was written of it is not what is there.
//!
//! The topics file says how many rows each slice has; the journal has the tombstones since. Builds of 17 and 18 November 2026
//! could write the two such that they did not fit: two flushes could have one sequence, and a topics file the name of the
//! one that the manifest named. Then a slice counts too few rows, and its last ones are never loaded, or too many. Rows
//! themselves were never lost, so all of them can be counted again.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use dwell_core::{Priority, Timestamp};

use super::Engine;
use super::cold::{ColdSlice, ColdSlices};
use crate::cold::View;
use crate::format::key::{Key, Lane, Slice};
use crate::format::record::{RecordHeader, TopicId};
use crate::repair::fill_lanes;

/// What is believed of the cold tier, as far as it is cheap to see whether it is so.
pub(crate) struct Believed {
    pub(crate) view: Arc<View>,
    /// Rows that are not marked as dead: true copies and stale ones.
    pub(crate) rows: u64,
    /// The numbers of stale copies, in order, each with how many it has.
    pub(crate) stale: Vec<(u64, u64)>,
}

/// A count under way.
#[derive(Default)]
pub(crate) struct Recount {
    stale: HashSet<(u64, u64)>,
    slices: BTreeMap<TopicId, ColdSlices>,
    minutes: BTreeMap<u64, u64>,
    lanes: BTreeMap<TopicId, BTreeMap<usize, Priority>>,
}

/// What a count has set right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Recounted {
    /// Jobs that no order had.
    pub(crate) found: u64,
    /// Jobs that were counted and are not there.
    pub(crate) absent: u64,
}

impl Engine {
    /// What is believed of the cold tier.
    pub(crate) fn believed(&self) -> Believed {
        let slices = self.topics.values().map(|topic| &topic.slices).chain(self.cold.gone.values());
        let (mut rows, mut stale) = (0, BTreeMap::new());
        for of in slices.flat_map(BTreeMap::values) {
            rows += of.copies + of.stale.len() as u64;
            for ((_, number), _) in of.stale.iter() {
                *stale.entry(number.get()).or_default() += 1;
            }
        }
        Believed { view: Arc::clone(&self.cold.view), rows, stale: stale.into_iter().collect() }
    }

    /// Begins to count anew.
    pub(crate) fn begin_recount(&mut self) -> Recount {
        let slices = self.topics.values().map(|topic| &topic.slices).chain(self.cold.gone.values());
        let known = slices.flat_map(BTreeMap::values).flat_map(|of| of.stale.iter());
        let known = known.map(|((_, number), version)| (number.get(), version.get()));
        let passed_over = self.replaying.passed_over.drain(..);
        let passed_over = passed_over.map(|stale| (stale.key.number.get(), stale.version.get()));
        Recount { stale: known.chain(passed_over).collect(), ..Recount::default() }
    }

    /// Counts one row that is not marked as dead.
    pub(crate) fn recount(&self, recount: &mut Recount, key: &Key, seen: &RecordHeader<'_>) {
        let Slice { topic, line, lane } = key.slice;
        let slices = recount.slices.entry(topic).or_default();
        let of = slices.entry((line, lane)).or_insert_with(|| Box::new(ColdSlice::new(0, Timestamp::MAX)));
        of.passes = Timestamp::EPOCH;
        if let Some(place) = lane.place() {
            recount.lanes.entry(topic).or_default().insert(place, seen.meta.priority);
        }
        let is_stale = recount.stale.contains(&(key.number.get(), seen.version.get()));
        // Whatever the journal has of a job is newer.
        if is_stale || self.slots.by_number(key.number).is_some() {
            of.stale.insert(key.place(), seen.version);
            return;
        }
        of.copies += 1;
        of.first = of.first.min(key.due_at);
        if lane != Lane::BURIED {
            *recount.minutes.entry(super::minute(key.due_at)).or_default() += 1;
        }
    }

    /// All rows have been counted: from now on that is what is there.
    pub(crate) fn recounted(&mut self, recount: Recount) -> Recounted {
        let Recount { mut slices, minutes, lanes, .. } = recount;
        let mut changed = Recounted::default();
        for (id, topic) in &mut self.topics {
            let new = slices.remove(id).unwrap_or_default();
            changed.compare(&topic.slices, &new);
            topic.slices = new;
            if let Some(found) = lanes.get(id) {
                fill_lanes(&mut topic.lanes, found);
            }
        }
        self.cold.gone = slices;
        self.cold.minutes = minutes.into_iter().collect();
        changed
    }

    /// What was counted anew is to be in the next manifest.
    pub(crate) fn save_recount(&mut self) {
        self.cold.unsaved = true;
    }
}

impl Recounted {
    fn compare(&mut self, old: &ColdSlices, new: &ColdSlices) {
        let copies = |slices: &ColdSlices, name| slices.get(name).map_or(0, |of| of.copies);
        for name in old.keys().chain(new.keys().filter(|name| !old.contains_key(*name))) {
            let (old, new) = (copies(old, name), copies(new, name));
            self.found += new.saturating_sub(old);
            self.absent += old.saturating_sub(new);
        }
    }
}
