//! The arena: records of packed jobs, one after the other, in chunks of memory.
//!
//! A chunk is filled from front to back, or it is a whole segment as a start has read it. A record that is freed leaves a
//! gap; a chunk without records is freed at once. When gaps are a third of all bytes, chunks with many gaps are marked, and
//! arena compaction moves their remaining records elsewhere ([`Arena::moved`]). So the arena holds at most about one and a
//! half times the bytes in use.

/// Bytes of a chunk that is filled here.
const CHUNK_BYTES: usize = 1 << 20;

/// From this size on a record has a chunk to itself, so that the ends of chunks are not left empty.
const OWN_CHUNK_ABOVE: usize = CHUNK_BYTES / 8;

/// Gaps that never matter, where memory is plenty.
const SLACK_BYTES: usize = 4 << 20;

/// A record that lies in an arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packed {
    chunk: u32,
    at: u32,
    length: u32,
}

impl Packed {
    /// Bytes of the record.
    pub(super) fn len(self) -> usize {
        self.length as usize
    }
}

/// All chunks.
#[derive(Default)]
pub(super) struct Arena {
    chunks: Vec<Option<Chunk>>,
    /// Places of chunks that were given back.
    free: Vec<u32>,
    /// The chunk that is being filled.
    filling: Option<u32>,
    /// Bytes of all chunks, as far as they are filled.
    held: usize,
    /// Bytes of all records.
    used: usize,
}

struct Chunk {
    bytes: Vec<u8>,
    /// Bytes of the records in it that have not been let go.
    used: usize,
    /// Whether it is yet to be loaded.
    expected: bool,
    /// Whether what is left in it is to be moved elsewhere.
    leaves: bool,
}

impl Chunk {
    fn new(capacity: usize) -> Self {
        Self { bytes: Vec::with_capacity(capacity), used: 0, expected: false, leaves: false }
    }
}

impl Arena {
    /// Keeps a copy of a record.
    pub(super) fn add(&mut self, record: &[u8]) -> Packed {
        let place = self.filling.filter(|_| record.len() < OWN_CHUNK_ABOVE);
        let fits = |chunk: &Chunk| chunk.bytes.len() + record.len() <= chunk.bytes.capacity();
        let place = match place.filter(|place| self.chunk(*place).is_some_and(fits)) {
            Some(place) => place,
            None => self.begin_chunk(record.len()),
        };
        let chunk = self.chunks[place as usize].as_mut().expect("it was looked at or made just now");
        let at = chunk.bytes.len();
        chunk.bytes.extend_from_slice(record);
        self.held += record.len();
        self.hold(place, at, record.len())
    }

    fn begin_chunk(&mut self, length: usize) -> u32 {
        let place = self.take_place();
        let capacity = if length < OWN_CHUNK_ABOVE { CHUNK_BYTES } else { length };
        self.chunks[place as usize] = Some(Chunk::new(capacity));
        if length < OWN_CHUNK_ABOVE {
            let full = self.filling.replace(place);
            // Everything in it may have been let go while it was being filled.
            if let Some(full) = full {
                self.give_back_if_empty(full);
            }
        }
        place
    }

    fn take_place(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.chunks.push(None);
            u32::try_from(self.chunks.len() - 1).expect("memory ends before 2^32 chunks")
        })
    }

    /// A place for a chunk that is loaded later, with [`Arena::load`]. Until then records in it can be kept and let
    /// go, but not read.
    pub(super) fn expect_chunk(&mut self) -> u32 {
        let place = self.take_place();
        self.chunks[place as usize] = Some(Chunk { expected: true, ..Chunk::new(0) });
        place
    }

    /// Keeps the record that is at this place of an expected chunk.
    pub(super) fn hold(&mut self, chunk: u32, at: usize, length: usize) -> Packed {
        let short = |number: usize| u32::try_from(number).expect("chunks are below 4 GiB");
        let packed = Packed { chunk, at: short(at), length: short(length) };
        self.used += length;
        self.chunks[chunk as usize].as_mut().expect("it was made or is expected").used += length;
        packed
    }

    /// Brings an expected chunk. One of which nothing was kept is given back at once.
    pub(super) fn load(&mut self, place: u32, mut bytes: Vec<u8>) {
        bytes.shrink_to_fit();
        let chunk = self.chunks[place as usize].as_mut().expect("it is expected");
        self.held += bytes.len();
        chunk.bytes = bytes;
        chunk.expected = false;
        self.give_back_if_empty(place);
    }

    /// The record itself.
    pub(super) fn get(&self, packed: Packed) -> &[u8] {
        let chunk = self.chunk(packed.chunk).expect("a record keeps its chunk");
        &chunk.bytes[packed.at as usize..][..packed.len()]
    }

    /// Lets go of a record.
    pub(super) fn remove(&mut self, packed: Packed) {
        self.used -= packed.len();
        self.chunks[packed.chunk as usize].as_mut().expect("a record keeps its chunk").used -= packed.len();
        self.give_back_if_empty(packed.chunk);
    }

    fn give_back_if_empty(&mut self, place: u32) {
        let empty = |chunk: &Chunk| chunk.used == 0 && !chunk.expected;
        if self.filling != Some(place) && self.chunk(place).is_some_and(empty) {
            let chunk = self.chunks[place as usize].take().expect("looked at just now");
            self.held -= chunk.bytes.len();
            self.free.push(place);
        }
    }

    fn chunk(&self, place: u32) -> Option<&Chunk> {
        self.chunks[place as usize].as_ref()
    }

    /// Bytes of memory all chunks take, gaps included.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// Bytes of all records.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// Whether there are so many gaps that chunks should be emptied: more than a third of all; where memory is `short`,
    /// more than an eighth.
    pub(super) fn wants_moving(&self, short: bool) -> bool {
        let gaps = self.held - self.used;
        if short { gaps > self.held / 8 } else { gaps > self.used / 2 + SLACK_BYTES }
    }

    /// Marks chunks that should be emptied.
    pub(super) fn begin_moving(&mut self, short: bool) {
        self.filling = None;
        for place in 0..u32::try_from(self.chunks.len()).expect("memory ends before 2^32 chunks") {
            self.give_back_if_empty(place);
        }
        let share = if short { 8 } else { 4 };
        for chunk in self.chunks.iter_mut().flatten() {
            chunk.leaves = (chunk.bytes.len() - chunk.used) * share > chunk.bytes.len();
        }
    }

    /// Where the record is from now on, if it was in a chunk that is to be emptied.
    pub(super) fn moved(&mut self, packed: Packed) -> Option<Packed> {
        if !self.chunk(packed.chunk)?.leaves {
            return None;
        }
        // A chunk that leaves is not being filled: it can be taken out while its record is copied.
        let old = self.chunks[packed.chunk as usize].take().expect("looked at just now");
        let new = self.add(&old.bytes[packed.at as usize..][..packed.len()]);
        self.chunks[packed.chunk as usize] = Some(old);
        self.remove(packed);
        Some(new)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Add(usize),
        Remove(prop::sample::Index),
        Bring(Vec<(usize, bool)>),
        Move(bool),
    }

    fn step() -> impl Strategy<Value = Step> {
        let length = || prop_oneof![8 => 1..400_usize, 1 => 100_000..300_000_usize];
        prop_oneof![
            6 => length().prop_map(Step::Add),
            5 => any::<prop::sample::Index>().prop_map(Step::Remove),
            1 => prop::collection::vec((length(), any::<bool>()), 0..20).prop_map(Step::Bring),
            1 => any::<bool>().prop_map(Step::Move),
        ]
    }

    /// What a record of this length is made of, so that no two look alike.
    fn record(length: usize, seed: u8) -> Vec<u8> {
        (0..length).map(|k| u8::try_from(k % 251).unwrap() ^ seed).collect()
    }

    /// A segment in which some records are kept, with gaps between them.
    fn load(arena: &mut Arena, parts: &[(usize, bool)], seed: u8) -> Vec<(Packed, Vec<u8>)> {
        let place = arena.expect_chunk();
        let (mut bytes, mut kept) = (Vec::new(), Vec::new());
        for (length, keep) in parts {
            let part = record(*length, seed);
            if *keep {
                kept.push((arena.hold(place, bytes.len(), *length), part.clone()));
            }
            bytes.extend_from_slice(&part);
        }
        arena.load(place, bytes);
        kept
    }

    fn move_all(arena: &mut Arena, kept: &mut [(Packed, Vec<u8>)], short: bool) {
        arena.begin_moving(short);
        for (packed, _) in kept {
            *packed = arena.moved(*packed).unwrap_or(*packed);
        }
    }

    proptest! {
        #[test]
        fn records_stay_what_they_are_and_gaps_stay_bounded(steps in prop::collection::vec(step(), 1..120)) {
            let mut arena = Arena::default();
            let mut kept: Vec<(Packed, Vec<u8>)> = Vec::new();
            for (step, seed) in steps.into_iter().zip(0..) {
                match step {
                    Step::Add(length) => {
                        let bytes = record(length, seed);
                        kept.push((arena.add(&bytes), bytes));
                    }
                    Step::Remove(_) if kept.is_empty() => {}
                    Step::Remove(which) => arena.remove(kept.swap_remove(which.index(kept.len())).0),
                    Step::Bring(parts) => kept.extend(load(&mut arena, &parts, seed)),
                    Step::Move(short) => {
                        move_all(&mut arena, &mut kept, short);
                        prop_assert!(!arena.wants_moving(short), "{} held, {} used", arena.held(), arena.used());
                    }
                }
                prop_assert_eq!(arena.used(), kept.iter().map(|(_, bytes)| bytes.len()).sum::<usize>());
                let held = arena.chunks.iter().flatten().map(|chunk| chunk.bytes.len()).sum::<usize>();
                prop_assert_eq!(arena.held(), held);
                for (packed, bytes) in &kept {
                    prop_assert_eq!(arena.get(*packed), &bytes[..]);
                }
            }
            for (packed, _) in kept.drain(..) {
                arena.remove(packed);
            }
            arena.begin_moving(false);
            prop_assert_eq!((arena.held(), arena.used()), (0, 0), "nothing is left");
            prop_assert_eq!(arena.chunks.len(), arena.free.len());
        }
    }

    #[test]
    fn a_third_of_gaps_is_enough_to_move_and_an_eighth_where_memory_is_short() {
        let mut arena = Arena::default();
        let mut kept: Vec<Packed> = (0..100_000).map(|_| arena.add(&[7; 300])).collect();
        let mut remove =
            |share: usize, arena: &mut Arena| kept.drain(..share * 1_000).for_each(|gone| arena.remove(gone));
        // Only from within chunks: a chunk that is empty is no gap.
        assert_eq!((arena.wants_moving(false), arena.wants_moving(true)), (false, false));
        remove(1, &mut arena);
        assert!(!arena.wants_moving(true));
        for chunk in arena.chunks.iter_mut().flatten() {
            chunk.used -= chunk.bytes.len() / 7;
            arena.used -= chunk.bytes.len() / 7;
        }
        assert_eq!((arena.wants_moving(false), arena.wants_moving(true)), (false, true));
        for chunk in arena.chunks.iter_mut().flatten() {
            chunk.used -= chunk.bytes.len() / 3;
            arena.used -= chunk.bytes.len() / 3;
        }
        assert!(arena.wants_moving(false));
    }
}
