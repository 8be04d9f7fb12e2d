//! Pending tombstones of one slice: copies in the cold tier that are no longer true, until a flush writes that down.

use std::collections::BTreeSet;

use dwell_core::Version;

use crate::format::key::Place;

type Copy = (Place, Version);

/// Pending tombstones. A flush takes them up; until it is installed they count as before.
#[derive(Debug, Default)]
pub(super) struct PendingTombstones {
    new: Copies,
    /// Those that a flush has taken up.
    taken: Copies,
}

impl PendingTombstones {
    pub(super) fn insert(&mut self, place: Place, version: Version) {
        self.new.insert((place, version));
    }

    pub(super) fn contains(&self, place: Place, version: Version) -> bool {
        let copy = (place, version);
        self.new.contains(&copy) || self.taken.contains(&copy)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn len(&self) -> usize {
        self.new.len() + self.taken.len()
    }

    /// How many there are before a place.
    pub(super) fn before(&self, end: Place) -> usize {
        self.new.before(end) + self.taken.before(end)
    }

    /// All of them, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Copy> {
        self.new.iter().chain(self.taken.iter())
    }

    /// Those that no flush has taken up, in no order.
    pub(super) fn new_ones(&self) -> impl Iterator<Item = &Copy> {
        self.new.iter()
    }

    /// A flush takes up what there is.
    pub(super) fn take_up(&mut self) -> impl Iterator<Item = &Copy> {
        self.taken.append(&mut self.new);
        self.taken.iter()
    }

    /// The flush is installed: what it has taken up is in tombstone files.
    pub(super) fn landed(&mut self) {
        self.taken = Copies::default();
    }

    /// The flush has failed: the next one takes it up again.
    pub(super) fn failed(&mut self) {
        self.new.append(&mut self.taken);
    }
}

/// A set of copies. Leases take jobs in order, so most tombstones come after all others: those are in a sorted array.
#[derive(Debug, Default)]
struct Copies {
    /// In order.
    row: Vec<Copy>,
    /// Those that came when later ones were there.
    others: BTreeSet<Copy>,
}

impl Copies {
    fn insert(&mut self, copy: Copy) {
        if self.row.last().is_none_or(|last| *last < copy) {
            self.row.push(copy);
        } else if self.row.binary_search(&copy).is_err() {
            self.others.insert(copy);
        }
    }

    fn contains(&self, copy: &Copy) -> bool {
        // Most jobs that are loaded come after all of these.
        let in_row = self.row.last().is_some_and(|last| last >= copy) && self.row.binary_search(copy).is_ok();
        in_row || (self.others.last().is_some_and(|last| last >= copy) && self.others.contains(copy))
    }

    fn len(&self) -> usize {
        self.row.len() + self.others.len()
    }

    fn before(&self, end: Place) -> usize {
        let others = self.others.iter().take_while(|(place, _)| *place < end).count();
        self.row.partition_point(|(place, _)| *place < end) + others
    }

    fn iter(&self) -> impl Iterator<Item = &Copy> {
        self.row.iter().chain(&self.others)
    }

    /// Takes all of another set, which is empty then.
    fn append(&mut self, other: &mut Self) {
        if self.len() == 0 {
            return std::mem::swap(self, other);
        }
        for copy in std::mem::take(other).iter() {
            self.insert(*copy);
        }
    }
}

#[cfg(test)]
mod tests {
    use dwell_core::{Number, Timestamp};
    use proptest::prelude::*;

    use super::*;

    fn copy(key: u8) -> Copy {
        let due_at = Timestamp::from_millis(u64::from(key >> 3)).unwrap();
        ((due_at, Number::new(u64::from(key >> 1 & 3)).unwrap()), Version::new(u64::from(key & 1) + 1).unwrap())
    }

    #[derive(Clone, Debug)]
    enum Step {
        /// So many, one after the other.
        Insert(u8, u8),
        TakeUp,
        Landed,
        Failed,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            6 => (any::<u8>(), 1..20_u8).prop_map(|(from, count)| Step::Insert(from, count)),
            1 => Just(Step::TakeUp),
            1 => Just(Step::Landed),
            1 => Just(Step::Failed),
        ];
        proptest::collection::vec(step, 1..20)
    }

    fn assert_same(stale: &PendingTombstones, [new, taken]: [&BTreeSet<Copy>; 2]) {
        let sorted = |copies: &mut dyn Iterator<Item = &Copy>| copies.copied().collect::<BTreeSet<_>>();
        assert_eq!(sorted(&mut stale.iter()), new | taken);
        assert_eq!(sorted(&mut stale.new_ones()), *new);
        assert_eq!((stale.len(), stale.is_empty()), (new.len() + taken.len(), new.is_empty() && taken.is_empty()));
        for (place, version) in (0..=u8::MAX).map(copy) {
            let known = new.contains(&(place, version)) || taken.contains(&(place, version));
            assert_eq!(stale.contains(place, version), known);
            let before = |copies: &BTreeSet<Copy>| copies.iter().filter(|(of, _)| *of < place).count();
            assert_eq!(stale.before(place), before(new) + before(taken));
        }
    }

    proptest! {
        #[test]
        fn they_are_two_sets(steps in steps()) {
            let mut stale = PendingTombstones::default();
            let (mut new, mut taken) = (BTreeSet::new(), BTreeSet::new());
            for step in steps {
                match step {
                    Step::Insert(from, count) => {
                        // No copy becomes stale twice.
                        let all = (0..count).map(|n| copy(from.saturating_add(n))).filter(|copy| !taken.contains(copy));
                        for (place, version) in all {
                            stale.insert(place, version);
                            new.insert((place, version));
                        }
                    }
                    Step::TakeUp => {
                        taken.append(&mut new);
                        let taken_up: BTreeSet<Copy> = stale.take_up().copied().collect();
                        prop_assert_eq!(&taken_up, &taken);
                    }
                    Step::Landed => {
                        taken.clear();
                        stale.landed();
                    }
                    Step::Failed => {
                        new.append(&mut taken);
                        stale.failed();
                    }
                }
                assert_same(&stale, [&new, &taken]);
            }
        }
    }
}
