//! The pool of blocks of which the slots' queues are made.
//!
//! A block is two cache lines with room for 30 entries' indexes. Compared with a list threaded
//! through the entries themselves, adding to a queue touches a line that is already warm instead
//! of a neighbour somewhere in memory, and reading a queue knows the next thirty addresses at
//! once instead of one after the other. At 10 M entries that is most of the cost. Blocks of one
//! line, 14 entries, waste less where most entries are cancelled, and are slower in everything.
//!
//! Which places of a block are taken is not written in the block but in a mask beside it. The
//! masks of 10 M entries fit the second-level cache, so that cancelling does not wait for the
//! block.

use crate::chunked::Chunked;
use crate::place::MAX_BLOCKS;

/// Entries to a block, so that a block is 128 bytes.
pub(crate) const ITEMS: usize = 30;

/// No block.
pub(crate) const NIL: u32 = u32::MAX;

/// A piece of a slot's queue, or a link of the free list (through `next`).
#[repr(align(128))]
struct Block {
    items: [u32; ITEMS],
    next: u32,
    prev: u32,
}

/// One bit for each item of a block that holds an entry. Entries are in the order of their bits.
#[derive(Clone, Copy)]
struct Mask(u32);

impl Mask {
    const EMPTY: Self = Self(0);

    /// The place behind the last entry, if there is one.
    fn push_back(&mut self) -> Option<usize> {
        let offset = (u32::BITS - self.0.leading_zeros()) as usize;
        if offset == ITEMS {
            return None;
        }
        self.0 |= 1 << offset;
        Some(offset)
    }

    fn pop_front(&mut self) -> Option<usize> {
        let offset = self.0.trailing_zeros() as usize;
        self.0 &= self.0.wrapping_sub(1);
        (offset < ITEMS).then_some(offset)
    }

    fn clear(&mut self, offset: usize) {
        self.0 &= !(1 << offset);
    }

    fn len(self) -> usize {
        self.0.count_ones() as usize
    }
}

/// Some entries that were removed from the front of a block together.
pub(crate) struct Run {
    items: [u32; ITEMS],
    len: usize,
}

impl Run {
    /// One entry that was in no block.
    pub(crate) fn one(index: u32) -> Self {
        let mut items = [0; ITEMS];
        items[0] = index;
        Self { items, len: 1 }
    }

    pub(crate) fn as_slice(&self) -> &[u32] {
        &self.items[..self.len]
    }
}

/// All blocks of a wheel. Those given back are used again before new ones are made.
pub(crate) struct Blocks {
    lines: Chunked<Block>,
    /// By the same number.
    masks: Chunked<Mask>,
    first_free: u32,
}

impl Blocks {
    pub(crate) const fn new() -> Self {
        Self { lines: Chunked::new(), masks: Chunked::new(), first_free: NIL }
    }

    /// An empty block that stands behind `prev`, which may be [`NIL`].
    pub(crate) fn allocate(&mut self, prev: u32) -> u32 {
        let block = self.first_free;
        if block == NIL {
            return self.grow(prev);
        }
        let free = &mut self.lines[block];
        self.first_free = free.next;
        (free.next, free.prev) = (NIL, prev);
        block
    }

    /// Takes an empty block out of its queue and gives it back. Says what stood on either side.
    pub(crate) fn free(&mut self, block: u32) -> (u32, u32) {
        let free = &mut self.lines[block];
        let (prev, next) = (free.prev, free.next);
        free.next = self.first_free;
        self.first_free = block;
        if prev != NIL {
            self.lines[prev].next = next;
        }
        if next != NIL {
            self.lines[next].prev = prev;
        }
        (prev, next)
    }

    /// Lets `next` follow `block`.
    pub(crate) fn link(&mut self, block: u32, next: u32) {
        self.lines[block].next = next;
    }

    /// Appends an entry, and says at which offset; `None` if the block is full.
    pub(crate) fn push_back(&mut self, block: u32, index: u32) -> Option<usize> {
        let offset = self.masks[block].push_back()?;
        self.lines[block].items[offset] = index;
        Some(offset)
    }

    /// Removes an entry, and says how many are left.
    pub(crate) fn remove(&mut self, block: u32, offset: usize) -> usize {
        let mask = &mut self.masks[block];
        mask.clear(offset);
        mask.len()
    }

    /// Removes the first entry of a block that has one, and says how many are left.
    pub(crate) fn pop_front(&mut self, block: u32) -> (u32, usize) {
        let mask = &mut self.masks[block];
        let offset = mask.pop_front().expect("a block is given back when it is empty");
        (self.lines[block].items[offset], mask.len())
    }

    /// Removes up to `max` entries from the front, and says how many are left.
    pub(crate) fn take_front(&mut self, block: u32, max: usize) -> (Run, usize) {
        let mask = &mut self.masks[block];
        let items = &self.lines[block].items;
        let mut run = Run { items: [0; ITEMS], len: 0 };
        for taken in run.items.iter_mut().take(max) {
            let Some(offset) = mask.pop_front() else { break };
            *taken = items[offset];
            run.len += 1;
        }
        (run, mask.len())
    }

    fn grow(&mut self, prev: u32) -> u32 {
        let block = self.lines.push(Block { items: [0; ITEMS], next: NIL, prev });
        self.masks.push(Mask::EMPTY);
        let block = u32::try_from(block).unwrap_or(NIL);
        assert!(block < MAX_BLOCKS, "a timing wheel holds at most 503 million entries");
        block
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_two_cache_lines() {
        assert_eq!(size_of::<Block>(), 128);
        assert_eq!(align_of::<Block>(), 128);
    }

    #[test]
    fn entries_stay_in_order_around_the_gaps() {
        let mut blocks = Blocks::new();
        let block = blocks.allocate(NIL);
        let offsets: Vec<_> = (0..40).map_while(|index| blocks.push_back(block, index)).collect();
        assert!(offsets.into_iter().eq(0..ITEMS));
        for offset in [0, 5, 7, ITEMS - 1] {
            blocks.remove(block, offset);
        }
        assert_eq!(blocks.push_back(block, 99), Some(ITEMS - 1));
        assert_eq!(blocks.push_back(block, 100), None);
        let (run, left) = blocks.take_front(block, 5);
        assert_eq!((run.as_slice(), left), ([1, 2, 3, 4, 6].as_slice(), 22));
        let (run, left) = blocks.take_front(block, 50);
        assert!(run.as_slice().iter().copied().eq((8..29).chain([99])));
        assert_eq!(left, 0);
    }

    #[test]
    fn freed_blocks_leave_their_queue_and_are_used_again() {
        let mut blocks = Blocks::new();
        let first = blocks.allocate(NIL);
        let second = blocks.allocate(first);
        blocks.link(first, second);
        let third = blocks.allocate(second);
        blocks.link(second, third);
        assert_eq!(blocks.free(second), (first, third));
        assert_eq!(blocks.free(first), (NIL, third));
        assert_eq!(blocks.free(third), (NIL, NIL));
        assert_eq!([(); 3].map(|()| blocks.allocate(NIL)), [third, first, second]);
    }
}
