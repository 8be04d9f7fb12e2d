//! Slots by due time and number: a sorted map that sorts a leaf only when it is read.
//!
//! A flood of jobs arrives in no order, and most of them go to the cold tier before anybody reads the first. In a B-tree with
//! small nodes nearly every step down is a cache miss. Here entries lie unsorted in leaves of up to [`LEAF_ENTRIES`], under
//! a tree that is small enough to stay in cache: an insert touches the end of a leaf, a removal searches one leaf. A reader
//! gets each leaf sorted as it comes to it. A few entries are one short leaf and no tree.

use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds};

use super::pages::Index;
use super::topic::Place;

/// Entries of a leaf at the most.
const LEAF_ENTRIES: usize = 256;

/// Entries of a leaf that is made of entries in order: there is room for more between them.
const FILLED_ENTRIES: usize = LEAF_ENTRIES * 3 / 4;

/// Entries that are looked through at a time.
const SEARCH_LANES: usize = 32;

/// Slots by their places, of which no two are the same.
#[derive(Debug, Default)]
pub(super) struct DueIndex {
    /// The first leaf; empty only if there is nothing.
    head: Leaf,
    /// The others, none of them empty. What is in a leaf is at its place or after it, and before the next leaf's.
    tail: BTreeMap<Place, Leaf>,
    len: usize,
}

/// Entries in no order: one's place and its slot are at the same position.
#[derive(Debug, Default)]
struct Leaf {
    places: Vec<Place>,
    slots: Vec<Index>,
}

impl Leaf {
    fn len(&self) -> usize {
        self.slots.len()
    }

    fn add(&mut self, place: Place, slot: Index) {
        self.places.push(place);
        self.slots.push(slot);
    }

    fn take(&mut self, place: Place, slot: Index) -> bool {
        let Some(at) = position(&self.slots, slot).filter(|at| self.places[*at] == place) else { return false };
        self.places.swap_remove(at);
        self.slots.swap_remove(at);
        if self.len() * 4 <= self.slots.capacity() && self.slots.capacity() > 16 {
            self.places.shrink_to(self.len() * 2);
            self.slots.shrink_to(self.len() * 2);
        }
        true
    }

    fn sorted(&self) -> Vec<(Place, Index)> {
        let mut entries: Vec<_> = self.places.iter().copied().zip(self.slots.iter().copied()).collect();
        entries.sort_unstable();
        entries
    }

    /// Makes room for one at this place: the other half, and where it begins. Where entries come in order it is empty, and
    /// this leaf stays full.
    fn split(&mut self, place: Place) -> (Place, Self) {
        if self.places.is_sorted() && self.places.last().is_some_and(|last| *last < place) {
            return (place, Self::default());
        }
        let mut entries = self.sorted();
        let later = entries.split_off(entries.len() / 2);
        self.places.clear();
        self.slots.clear();
        for (place, slot) in entries {
            self.add(place, slot);
        }
        (later[0].0, later.as_slice().into())
    }
}

impl From<&[(Place, Index)]> for Leaf {
    fn from(entries: &[(Place, Index)]) -> Self {
        Self {
            places: entries.iter().map(|(place, _)| *place).collect(),
            slots: entries.iter().map(|(_, slot)| *slot).collect(),
        }
    }
}

impl DueIndex {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The leaf that has this place, or would have it; where it begins, if it is not the first.
    fn leaf_of(&mut self, place: Place) -> (Option<Place>, &mut Leaf) {
        match self.tail.range_mut(..=place).next_back() {
            Some((begin, leaf)) => (Some(*begin), leaf),
            None => (None, &mut self.head),
        }
    }

    pub(super) fn insert(&mut self, place: Place, slot: Index) {
        self.len += 1;
        let (_, leaf) = self.leaf_of(place);
        if leaf.len() < LEAF_ENTRIES {
            return leaf.add(place, slot);
        }
        let (begin, later) = leaf.split(place);
        self.tail.insert(begin, later);
        self.leaf_of(place).1.add(place, slot);
    }

    /// Takes a slot out that is at this place.
    pub(super) fn remove(&mut self, place: Place, slot: Index) {
        let (begin, leaf) = self.leaf_of(place);
        let was_there = leaf.take(place, slot);
        debug_assert!(was_there, "what is taken out was put in");
        if leaf.len() == 0 {
            match begin {
                Some(begin) => drop(self.tail.remove(&begin)),
                None => self.head = self.tail.pop_first().map(|(_, leaf)| leaf).unwrap_or_default(),
            }
        }
        self.len -= usize::from(was_there);
    }

    pub(super) fn first(&self) -> Option<(Place, Index)> {
        self.head.places.iter().copied().zip(self.head.slots.iter().copied()).min()
    }

    /// What lies in this range, in order.
    pub(super) fn range(&self, range: impl RangeBounds<Place>) -> impl Iterator<Item = (Place, Index)> {
        let bounds = (range.start_bound().cloned(), range.end_bound().cloned());
        let entries = self.leaves(bounds).flat_map(Leaf::sorted);
        entries
            .skip_while(move |(place, _)| is_before(*place, bounds.0))
            .take_while(move |(place, _)| ends_after(*place, bounds.1))
    }

    /// How many lie in this range, counted up to `most`.
    pub(super) fn count(&self, range: impl RangeBounds<Place>, most: usize) -> usize {
        let bounds = (range.start_bound().cloned(), range.end_bound().cloned());
        let mut count = 0;
        for leaf in self.leaves(bounds) {
            let within = |place: &&Place| !is_before(**place, bounds.0) && ends_after(**place, bounds.1);
            count += leaf.places.iter().filter(within).count();
            if count >= most {
                return most;
            }
        }
        count
    }

    /// The leaves that may have something in this range.
    fn leaves(&self, (start, end): (Bound<Place>, Bound<Place>)) -> impl Iterator<Item = &Leaf> {
        let first = match start {
            Bound::Unbounded => None,
            Bound::Included(place) | Bound::Excluded(place) => self.tail.range(..=place).next_back().map(|(at, _)| *at),
        };
        let head = first.is_none().then_some(&self.head);
        let tail = self.tail.range((first.map_or(Bound::Unbounded, Bound::Included), Bound::Unbounded));
        let tail = tail.take_while(move |(begin, _)| ends_after(**begin, end) || Some(**begin) == first);
        head.into_iter().chain(tail.map(|(_, leaf)| leaf))
    }

    /// All slots, in order.
    pub(super) fn slots(&self) -> impl Iterator<Item = Index> {
        self.range(..).map(|(_, slot)| slot)
    }

    /// Adds many, which come in order.
    pub(super) fn extend_sorted(&mut self, entries: &[(Place, Index)]) {
        let last = self.tail.last_key_value().map_or(&self.head, |(_, leaf)| leaf).places.iter().max();
        if last.zip(entries.first()).is_some_and(|(last, (first, _))| last >= first) {
            return entries.iter().for_each(|(place, slot)| self.insert(*place, *slot));
        }
        let mut leaves = entries.chunks(FILLED_ENTRIES);
        if self.is_empty() {
            self.head = leaves.next().unwrap_or_default().into();
        }
        self.tail.extend(leaves.map(|leaf| (leaf[0].0, leaf.into())));
        self.len += entries.len();
    }
}

/// Where in a row a slot is. A search in parts compares several at a time, which one that may end at each of them does not.
fn position(slots: &[Index], slot: Index) -> Option<usize> {
    let (parts, _) = slots.as_chunks::<SEARCH_LANES>();
    let begin = parts.iter().position(|part| part.contains(&slot)).unwrap_or(parts.len()) * SEARCH_LANES;
    slots[begin..].iter().position(|of| *of == slot).map(|at| begin + at)
}

fn is_before(place: Place, start: Bound<Place>) -> bool {
    match start {
        Bound::Unbounded => false,
        Bound::Included(start) => place < start,
        Bound::Excluded(start) => place <= start,
    }
}

/// Whether a range ends only after this place.
fn ends_after(place: Place, end: Bound<Place>) -> bool {
    match end {
        Bound::Unbounded => true,
        Bound::Included(end) => place <= end,
        Bound::Excluded(end) => place < end,
    }
}

#[cfg(test)]
mod tests {
    use dwell_core::{Number, Timestamp};
    use proptest::prelude::*;

    use super::*;

    fn place(key: u16) -> Place {
        let due_at = Timestamp::from_millis(u64::from(key >> 4)).unwrap();
        (due_at, Number::new(u64::from(key & 15)).unwrap())
    }

    fn assert_same(order: &DueIndex, plain: &BTreeMap<Place, Index>) {
        assert_eq!(order.range(..).collect::<Vec<_>>(), plain.iter().map(|(k, v)| (*k, *v)).collect::<Vec<_>>());
        assert_eq!(order.slots().collect::<Vec<_>>(), plain.values().copied().collect::<Vec<_>>());
        assert_eq!((order.len(), order.is_empty()), (plain.len(), plain.is_empty()));
        assert_eq!(order.first(), plain.first_key_value().map(|(k, v)| (*k, *v)));
        assert!(
            order.head.len() <= LEAF_ENTRIES
                && order.tail.values().all(|leaf| (1..=LEAF_ENTRIES).contains(&leaf.len()))
        );
    }

    fn assert_same_range(order: &DueIndex, plain: &BTreeMap<Place, Index>, range: (Bound<Place>, Bound<Place>)) {
        let expected: Vec<_> = plain.range(range).map(|(k, v)| (*k, *v)).collect();
        assert_eq!(order.range(range).collect::<Vec<_>>(), expected, "{range:?}");
        for most in [1, 100, usize::MAX] {
            assert_eq!(order.count(range, most), expected.len().min(most), "{range:?}");
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        /// So many, from here on, that far apart.
        Insert(u16, u16, u16),
        Remove(u16, u16, u16),
        Range(u16, u16),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let many = || (any::<u16>(), 1..600_u16, prop_oneof![Just(1_u16), Just(7), Just(25_717), Just(u16::MAX)]);
        let step = prop_oneof![
            4 => many().prop_map(|(from, count, apart)| Step::Insert(from, count, apart)),
            3 => many().prop_map(|(from, count, apart)| Step::Remove(from, count, apart)),
            2 => (any::<u16>(), any::<u16>()).prop_map(|(a, b)| Step::Range(a.min(b), a.max(b))),
        ];
        proptest::collection::vec(step, 1..30)
    }

    fn keys(from: u16, count: u16, apart: u16) -> impl Iterator<Item = u16> {
        (0..count).map(move |n| from.wrapping_add(n.wrapping_mul(apart)))
    }

    fn do_step(step: &Step, order: &mut DueIndex, plain: &mut BTreeMap<Place, Index>) {
        match *step {
            Step::Insert(from, count, apart) => {
                for key in keys(from, count, apart) {
                    if plain.insert(place(key), key.into()).is_none() {
                        order.insert(place(key), key.into());
                    }
                }
            }
            Step::Remove(from, count, apart) => {
                for key in keys(from, count, apart) {
                    if let Some(slot) = plain.remove(&place(key)) {
                        order.remove(place(key), slot);
                    }
                }
            }
            Step::Range(from, end) => {
                let (from, end) = (place(from), place(end));
                assert_same_range(order, plain, (Bound::Included(from), Bound::Excluded(end)));
                assert_same_range(order, plain, (Bound::Included(from), Bound::Included(end)));
                assert_same_range(order, plain, (Bound::Unbounded, Bound::Excluded(end)));
                assert_same_range(order, plain, (Bound::Excluded(from), Bound::Unbounded));
            }
        }
    }

    proptest! {
        #[test]
        fn it_is_a_sorted_map(steps in steps(), sorted in proptest::collection::btree_set(any::<u16>(), 0..1_000)) {
            let entries = |keys: &[u16]| keys.iter().map(|key| (place(*key), (*key).into())).collect::<Vec<_>>();
            let mut order = DueIndex::default();
            let (most, some): (Vec<u16>, Vec<u16>) = sorted.iter().partition(|key| *key % 3 > 0);
            let (early, late) = most.split_at(most.len() / 2);
            for keys in [early, late, &some] {
                order.extend_sorted(&entries(keys));
            }
            let mut plain = entries(&[early, late, &some].concat()).into_iter().collect();
            assert_same(&order, &plain);
            for step in steps {
                do_step(&step, &mut order, &mut plain);
                assert_same(&order, &plain);
            }
        }
    }

    #[test]
    fn what_comes_in_order_fills_leaves_and_what_goes_gives_them_back() {
        let mut order = DueIndex::default();
        (0..10_000).for_each(|key| order.insert(place(key), key.into()));
        assert_eq!(order.tail.len(), 10_000 / LEAF_ENTRIES, "full leaves and the last one");
        for key in (0..10_000).filter(|key| key % 100 > 0) {
            order.remove(place(key), key.into());
        }
        let held = order.head.places.capacity() + order.tail.values().map(|leaf| leaf.places.capacity()).sum::<usize>();
        assert!(held <= 100 * 16, "{held} for {}", order.len());
        for key in (0..10_000).step_by(100) {
            assert_eq!(order.first(), Some((place(key), key.into())), "whichever leaf has it");
            order.remove(place(key), key.into());
        }
        assert!(order.is_empty() && order.tail.is_empty() && order.first().is_none());
    }
}
