//! Levels of slots, each slot a queue of entry indexes.
//!
//! Here an entry is a number. What it holds and when it is due is the wheel's business.

use crate::bitmap::Bitmap;
use crate::blocks::{Blocks, NIL, Run};
use crate::geometry::{LEVELS, SLOTS};
use crate::place::Place;

/// A queue of blocks. Empty when `head` is [`NIL`].
#[derive(Clone, Copy)]
struct Slot {
    head: u32,
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

    /// Appends an entry to a slot, and says where it stands.
    pub(crate) fn push(&mut self, level: usize, slot: usize, index: u32, deadline: u64) -> Place {
        let Level { occupied, slots } = self.all[level].get_or_insert_with(Level::new);
        let queue = &mut slots[slot];
        queue.earliest = queue.earliest.min(deadline);
        if queue.tail == NIL {
            queue.tail = self.blocks.allocate(NIL);
            queue.head = queue.tail;
            occupied.set(slot);
            self.occupied |= 1 << level;
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
        let left = self.blocks.remove(place.block(), place.offset());
        if left == 0 {
            self.drop_block(place.level(), slot, place.block());
        }
    }

    /// Removes the first entry of a slot that has one.
    pub(crate) fn pop_front(&mut self, level: usize, slot: usize) -> u32 {
        let head = self.queue(level, slot).head;
        let (index, left) = self.blocks.pop_front(head);
        if left == 0 {
            self.drop_block(level, slot, head);
        }
        index
    }

    /// Removes up to `max` entries from the front of a slot, as many as lie together; nothing
    /// when the slot is empty.
    pub(crate) fn take_front(&mut self, level: usize, slot: usize, max: usize) -> Option<Run> {
        let head = self.queue(level, slot).head;
        if head == NIL {
            return None;
        }
        let (run, left) = self.blocks.take_front(head, max);
        if left == 0 {
            self.drop_block(level, slot, head);
        }
        Some(run)
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
