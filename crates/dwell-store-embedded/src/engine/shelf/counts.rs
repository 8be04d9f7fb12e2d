//! What of the shelf is counted and what is there: for a simulator to compare.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::engine::Engine;
use crate::format::key::Slice;
use crate::shelf::View;

impl Engine {
    /// The runs, and for each slice how many of their jobs are to be there, whether true or stale; with it, how many of
    /// them are in memory, as counted and as found. Nothing while jobs are on their way.
    pub(crate) fn shelf_counts(&self) -> Option<(Arc<View>, Vec<SliceCounts>)> {
        if self.folding.is_flying() {
            return None;
        }
        let mut near: BTreeMap<Slice, u64> = BTreeMap::new();
        for slot in (0..self.slots.end()).filter_map(|index| self.slots.peek(index)).filter(|slot| slot.is_clean()) {
            let lane = self.topics[&slot.topic].lane(slot.brief.priority, slot.brief.phase);
            *near.entry(Slice { topic: slot.topic, line: slot.brief.line, lane }).or_default() += 1;
        }
        let slices = self.topics.values().flat_map(|topic| topic.shelved(false).chain(topic.shelved(true)));
        let counts = slices.map(|(slice, of)| SliceCounts {
            slice,
            copies: of.copies + of.stale.len() as u64,
            near: of.near,
            found: near.get(&slice).copied().unwrap_or(0),
        });
        Some((Arc::clone(&self.shelf.view), counts.collect()))
    }
}

/// See [`Engine::shelf_counts`].
pub(crate) struct SliceCounts {
    pub(crate) slice: Slice,
    pub(crate) copies: u64,
    pub(crate) near: u64,
    pub(crate) found: u64,
}
