//! A hash table from id hashes to slots: open addressing with linear probing and backward-shift deletion.
//!
//! An entry is a hash and a slot, at the position of its hash or soon after it. All entries are in one array, so nearly every
//! lookup costs one cache miss. Deletion moves later entries back, so the table needs no tombstones. Hashes may collide; the
//! caller compares ids.

use std::hint::black_box;

use super::pages::Index;

/// Entries of the smallest table.
const MIN_ENTRIES: usize = 16;

/// The table. Several slots may have one hash; the caller says which is meant.
#[derive(Default)]
pub(super) struct ProbeTable {
    /// A power of two, or none. Never full.
    row: Vec<Entry>,
    len: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    /// Kept, so that the table can grow without reading the ids.
    hash: u32,
    index: Index,
}

/// The hash of an empty entry.
pub(super) const NO_HASH: u32 = 0;

const FREE_ENTRY: Entry = Entry { hash: NO_HASH, index: 0 };

impl ProbeTable {
    /// With capacity for this many entries.
    pub(super) fn with_capacity(len: usize) -> Self {
        let mut table = Self::default();
        table.resize(len);
        table
    }

    /// How many fit before it grows.
    pub(super) fn capacity(&self) -> usize {
        self.row.len() / 4 * 3
    }

    /// Bytes of memory it takes.
    pub(super) fn size(&self) -> usize {
        self.row.len() * size_of::<Entry>()
    }

    /// Adds a slot that is not there. The hash is not [`NO_HASH`].
    pub(super) fn insert(&mut self, hash: u32, index: Index) {
        debug_assert_ne!(hash, NO_HASH);
        if self.len >= self.capacity() {
            self.resize((self.len + 1).max(2 * self.capacity()));
        }
        let place = self.free_from(hash);
        self.row[place] = Entry { hash, index };
        self.len += 1;
    }

    /// The slot with this hash that is meant.
    pub(super) fn find(&self, hash: u32, is_meant: impl Fn(Index) -> bool) -> Option<Index> {
        self.place_of(hash, is_meant).map(|place| self.row[place].index)
    }

    /// Takes a slot out.
    pub(super) fn remove(&mut self, hash: u32, index: Index) {
        let Some(mut gap) = self.place_of(hash, |of| of == index) else { return };
        let mut next = self.after(gap);
        while self.row[next].hash != NO_HASH {
            // It may be drawn into the gap unless that is before where its hash says.
            if self.distance(self.home(self.row[next].hash), next) >= self.distance(gap, next) {
                self.row[gap] = self.row[next];
                gap = next;
            }
            next = self.after(next);
        }
        self.row[gap] = FREE_ENTRY;
        self.len -= 1;
    }

    /// Makes it smaller if it has room for many more than so many.
    pub(super) fn shrink_to(&mut self, len: usize) {
        self.resize(len.max(self.len));
    }

    /// Touches the entries of these hashes, so that their cache misses overlap. A caller that used them one after the other would
    /// wait for each.
    pub(super) fn prefetch_hashes(&self, hashes: impl IntoIterator<Item = u32>) {
        if !self.row.is_empty() {
            black_box(hashes.into_iter().fold(0, |all, hash| all ^ self.row[self.home(hash)].hash));
        }
    }

    fn resize(&mut self, len: usize) {
        let places = (len * 4).div_ceil(3).next_power_of_two().max(MIN_ENTRIES);
        if places == self.row.len() {
            return;
        }
        for entry in std::mem::replace(&mut self.row, vec![FREE_ENTRY; places]) {
            if entry.hash != NO_HASH {
                let place = self.free_from(entry.hash);
                self.row[place] = entry;
            }
        }
    }

    fn place_of(&self, hash: u32, is_meant: impl Fn(Index) -> bool) -> Option<usize> {
        if self.row.is_empty() {
            return None;
        }
        let mut place = self.home(hash);
        while self.row[place].hash != NO_HASH {
            if self.row[place].hash == hash && is_meant(self.row[place].index) {
                return Some(place);
            }
            place = self.after(place);
        }
        None
    }

    fn free_from(&self, hash: u32) -> usize {
        let mut place = self.home(hash);
        while self.row[place].hash != NO_HASH {
            place = self.after(place);
        }
        place
    }

    fn home(&self, hash: u32) -> usize {
        hash as usize & (self.row.len() - 1)
    }

    fn after(&self, place: usize) -> usize {
        (place + 1) & (self.row.len() - 1)
    }

    /// How far it is from one place on to another.
    fn distance(&self, from: usize, to: usize) -> usize {
        to.wrapping_sub(from) & (self.row.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        /// So many slots from this one on, all with hashes of this few.
        Insert(u32, u32, u32),
        Remove(u32, u32, u32),
        Shrink,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let many = || (0..500_u32, 1..200_u32, prop_oneof![Just(1_u32), Just(3), Just(50), Just(u32::MAX)]);
        let step = prop_oneof![
            3 => many().prop_map(|(from, count, hashes)| Step::Insert(from, count, hashes)),
            3 => many().prop_map(|(from, count, hashes)| Step::Remove(from, count, hashes)),
            1 => Just(Step::Shrink),
        ];
        proptest::collection::vec(step, 1..30)
    }

    /// Some lie at the end of the row, so that those that do not fit there begin it.
    fn hash(index: u32, hashes: u32) -> u32 {
        (index.wrapping_mul(0x9e37_79b9) % hashes).wrapping_sub(hashes / 2).max(1)
    }

    fn assert_same(table: &ProbeTable, plain: &BTreeSet<(u32, Index)>) {
        assert_eq!(table.len, plain.len());
        assert_eq!(table.row.iter().filter(|entry| entry.hash != NO_HASH).count(), plain.len());
        assert!(table.len <= table.capacity());
        for &(hash, index) in plain {
            assert_eq!(table.find(hash, |of| of == index), Some(index));
            assert_eq!(table.find(hash, |_| false), None);
        }
    }

    proptest! {
        #[test]
        fn it_is_a_set(steps in steps()) {
            let (mut table, mut plain) = (ProbeTable::default(), BTreeSet::new());
            assert_same(&table, &plain);
            for step in steps {
                match step {
                    Step::Insert(from, count, hashes) => {
                        for index in from..from + count {
                            if plain.insert((hash(index, hashes), index)) {
                                table.insert(hash(index, hashes), index);
                            }
                        }
                    }
                    Step::Remove(from, count, hashes) => {
                        for index in from..from + count {
                            plain.remove(&(hash(index, hashes), index));
                            table.remove(hash(index, hashes), index);
                        }
                    }
                    Step::Shrink => table.shrink_to(0),
                }
                table.prefetch_hashes(plain.iter().map(|(hash, _)| *hash));
                assert_same(&table, &plain);
            }
        }
    }

    #[test]
    fn it_grows_by_itself_and_is_made_smaller() {
        let mut table = ProbeTable::with_capacity(1_000);
        let held = table.size();
        assert!(table.capacity() >= 1_000);
        (1..=1_000).for_each(|index| table.insert(index, index));
        assert_eq!(table.size(), held);
        (1_001..=10_000).for_each(|index| table.insert(index, index));
        assert_eq!((held, table.size()), (2_048 * size_of::<Entry>(), 16_384 * size_of::<Entry>()));
        (11..=10_000).for_each(|index| table.remove(index, index));
        table.shrink_to(20);
        assert_eq!(table.size(), 32 * size_of::<Entry>());
        assert!((1..=10_000).all(|index| table.find(index, |_| true).is_some() == (index <= 10)));
    }
}
