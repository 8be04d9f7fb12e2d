//! Levels of slots, each slot a queue of entry indexes.
//!
//! Here an entry is a number. What it holds and when it is due is the wheel's business.

use crate::bitmap::Bitmap;
use crate::blocks::{Blocks, NIL, Run};
use crate::geometry::{LEVELS, SLOTS};
use crate::place::Place;

/// The `tail` of a slot with one entry, which needs no block.
const ONE: u32 = NIL - 1;

/// A queue of entries: none, one, or blocks of them.
#[derive(Clone, Copy)]
struct Slot {
    /// The first block; if `tail` is [`ONE`], the index of the entry.
    head: u32,
    /// The last block, or [`ONE`]; [`NIL`] when the slot is empty.
    tail: u32,
    /// Not later than any deadline in the slot; the earliest one exactly unless that entry has
    /// left the slot.
    earliest: u64,
}

impl Slot {
    const EMPTY: Self = Self { head: NIL, tail: NIL, earliest: u64::MAX };
}

/// 32 KiB of slots, made when the first entry arrives on the level.
struct Level {
    occupied: Bitmap,
    slots: Box<[Slot; SLOTS]>,
}

impl Level {
    fn new() -> Self {
        let slots = vec![Slot::EMPTY; SLOTS].into_boxed_slice();
        let Ok(slots) = slots.try_into() else { unreachable!("made with this length") };
        Self { occupied: Bitmap::new(), slots }
    }
}

/// All levels of a wheel and the blocks their queues are made of.
pub(crate) struct Levels {
    all: [Option<Level>; LEVELS],
    /// One bit for each level that holds an entry.
    occupied: u32,
    blocks: Blocks,
}

impl Levels {
    pub(crate) const fn new() -> Self {
        Self { all: [const { None }; LEVELS], occupied: 0, blocks: Blocks::new() }
    }

    /// The lowest slot that holds an entry on the lowest level that does.
    pub(crate) fn first(&self) -> Option<(usize, usize)> {
        if self.occupied == 0 {
            return None;
        }
        let level = self.occupied.trailing_zeros() as usize;
        let slot = self.all[level].as_ref()?.occupied.first()?;
        Some((level, slot))
    }

    /// A lower bound on the deadlines in a slot; see [`Slot::earliest`].
    pub(crate) fn earliest(&self, level: usize, slot: usize) -> Option<u64> {
        Some(self.all[level].as_ref()?.slots[slot].earliest)
    }

    /// Whether a slot holds nothing.
    pub(crate) fn is_empty(&self, level: usize, slot: usize) -> bool {
        self.all[level].as_ref().is_none_or(|level| level.slots[slot].tail == NIL)
    }

    /// Appends an entry to a slot, and says where it stands.
    pub(crate) fn push(&mut self, level: usize, slot: usize, index: u32, deadline: u64) -> Place {
        let Level { occupied, slots } = self.all[level].get_or_insert_with(Level::new);
        let queue = &mut slots[slot];
        queue.earliest = queue.earliest.min(deadline);
        if queue.tail == NIL {
            (queue.head, queue.tail) = (index, ONE);
            occupied.set(slot);
            self.occupied |= 1 << level;
            return Place::first(level);
        }
        if queue.tail == ONE {
            queue.tail = self.blocks.allocate(NIL);
            self.blocks.push_back(queue.tail, queue.head);
            queue.head = queue.tail;
        }
        let offset = self.blocks.push_back(queue.tail, index).or_else(|| {
            let full = queue.tail;
            queue.tail = self.blocks.allocate(full);
            self.blocks.link(full, queue.tail);
            self.blocks.push_back(queue.tail, index)
        });
        Place::new(level, queue.tail, offset.expect("an empty block has room"))
    }

    /// Removes the entry at `place`, which is in `slot`. The gap that this leaves in its block
    /// stays until the block is empty.
    pub(crate) fn remove(&mut self, slot: usize, place: Place) {
        let (mut block, mut offset) = (place.block(), place.offset());
        if place.is_first() {
            let queue = self.queue(place.level(), slot);
            if queue.tail == ONE {
                return self.set_empty(place.level(), slot);
            }
            // Nothing has been in front of it, and its block is there as long as it is.
            (block, offset) = (queue.head, 0);
        }
        let left = self.blocks.remove(block, offset);
        if left == 0 {
            self.drop_block(place.level(), slot, block);
        }
    }

    /// Removes the first entry of a slot that has one.
    pub(crate) fn pop_front(&mut self, level: usize, slot: usize) -> u32 {
        let Slot { head, tail, .. } = *self.queue(level, slot);
        if tail == ONE {
            self.set_empty(level, slot);
            return head;
        }
        let (index, left) = self.blocks.pop_front(head);
        if left == 0 {
            self.drop_block(level, slot, head);
        }
        index
    }

    /// Removes up to `max` entries from the front of a slot that has one, as many as lie together.
    pub(crate) fn take_front(&mut self, level: usize, slot: usize, max: usize) -> Run {
        let Slot { head, tail, .. } = *self.queue(level, slot);
        if tail == ONE {
            self.set_empty(level, slot);
            return Run::one(head);
        }
        let (run, left) = self.blocks.take_front(head, max);
        if left == 0 {
            self.drop_block(level, slot, head);
        }
        run
    }

    fn drop_block(&mut self, level: usize, slot: usize, block: u32) {
        match self.blocks.free(block) {
            (NIL, NIL) => self.set_empty(level, slot),
            (NIL, next) => self.queue(level, slot).head = next,
            (prev, NIL) => self.queue(level, slot).tail = prev,
            _ => {}
        }
    }

    fn set_empty(&mut self, level: usize, slot: usize) {
        let Level { occupied, slots } = self.level(level);
        slots[slot] = Slot::EMPTY;
        occupied.clear(slot);
        if occupied.is_empty() {
            self.occupied &= !(1 << level);
        }
    }

    fn queue(&mut self, level: usize, slot: usize) -> &mut Slot {
        &mut self.level(level).slots[slot]
    }

    fn level(&mut self, level: usize) -> &mut Level {
        self.all[level].as_mut().expect("a level that an entry stands on")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first entry keeps its place when a block is made for it and others.
    #[test]
    fn the_first_of_a_slot_is_found_whether_it_is_alone_or_not() {
        for others in [0, 1, 30] {
            let mut levels = Levels::new();
            let first = levels.push(1, 7, 100, 5_000);
            assert!(first.is_first());
            for index in 0..others {
                assert!(!levels.push(1, 7, index, 5_000).is_first());
            }
            levels.remove(7, first);
            let left: Vec<u32> = (0..others).map(|_| levels.pop_front(1, 7)).collect();
            assert!(left.into_iter().eq(0..others));
            assert_eq!(levels.first(), None);
            assert!(levels.push(1, 7, 101, 5_000).is_first());
        }
    }
}
