//! Copies of one slice that are on the shelf and not true any more, until the shelf knows it.

use std::collections::BTreeSet;

use dwell_core::Version;

use crate::format::key::Place;

type Copy = (Place, Version);

/// Stale copies. A fold takes them up; until it has landed they count as before.
#[derive(Debug, Default)]
pub(super) struct StaleCopies {
    new: BTreeSet<Copy>,
    /// Those that a fold has taken up.
    taken: BTreeSet<Copy>,
}

impl StaleCopies {
    pub(super) fn insert(&mut self, place: Place, version: Version) {
        self.new.insert((place, version));
    }

    pub(super) fn contains(&self, place: Place, version: Version) -> bool {
        let copy = (place, version);
        // Most jobs that are brought come after all of these.
        let has = |copies: &BTreeSet<Copy>| copies.last().is_some_and(|last| *last >= copy) && copies.contains(&copy);
        has(&self.new) || has(&self.taken)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.new.is_empty() && self.taken.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.new.len() + self.taken.len()
    }

    /// How many there are before a place.
    pub(super) fn before(&self, end: Place) -> usize {
        let count = |copies: &BTreeSet<Copy>| copies.iter().take_while(|(place, _)| *place < end).count();
        count(&self.new) + count(&self.taken)
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Copy> {
        self.new.iter().chain(&self.taken)
    }

    /// Those that no fold has taken up.
    pub(super) fn new_ones(&self) -> impl Iterator<Item = &Copy> {
        self.new.iter()
    }

    /// A fold takes up what there is.
    pub(super) fn take_up(&mut self) -> impl Iterator<Item = &Copy> {
        self.taken.append(&mut self.new);
        self.taken.iter()
    }

    /// The fold has landed: the shelf knows of what it has taken up.
    pub(super) fn landed(&mut self) {
        self.taken.clear();
    }

    /// The fold has failed: the next one takes it up again.
    pub(super) fn failed(&mut self) {
        self.new.append(&mut self.taken);
    }
}
