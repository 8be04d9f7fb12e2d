//! Where an entry stands, in 32 bits: 24 for the block, 3 for the level, 5 for the offset.
//!
//! The first entry of a slot has no block as long as it is alone there. That others come does not
//! change its place, or each such arrival would have to look for the first entry in memory: its
//! place says no more than that it is the first.

const OFFSET_BITS: u32 = 5;
const LEVEL_BITS: u32 = 3;

/// The offset that stands for the first entry of a slot. No block has it.
const FIRST: usize = (1 << OFFSET_BITS) - 1;

/// Blocks that a place can name. At 30 entries a block that is room for 503 million entries.
pub(crate) const MAX_BLOCKS: u32 = 1 << (u32::BITS - OFFSET_BITS - LEVEL_BITS);

const _: () = assert!(crate::blocks::ITEMS <= FIRST);
const _: () = assert!(crate::geometry::LEVELS <= 1 << LEVEL_BITS);

/// The level of an entry and where, in which block of its slot, the entry's index is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place(u32);

impl Place {
    /// Of an entry that has not been placed yet.
    pub(crate) const NOWHERE: Self = Self(u32::MAX);

    #[expect(clippy::cast_possible_truncation, reason = "the assertions above")]
    pub(crate) fn new(level: usize, block: u32, offset: usize) -> Self {
        let low = (level as u32) << OFFSET_BITS | offset as u32;
        Self(block << (OFFSET_BITS + LEVEL_BITS) | low)
    }

    /// Of the entry that came to a slot when it was empty.
    pub(crate) fn first(level: usize) -> Self {
        Self::new(level, 0, FIRST)
    }

    pub(crate) fn is_first(self) -> bool {
        self.offset() == FIRST
    }

    pub(crate) fn level(self) -> usize {
        (self.0 >> OFFSET_BITS) as usize & ((1 << LEVEL_BITS) - 1)
    }

    pub(crate) fn block(self) -> u32 {
        self.0 >> (OFFSET_BITS + LEVEL_BITS)
    }

    pub(crate) fn offset(self) -> usize {
        self.0 as usize & ((1 << OFFSET_BITS) - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_parts_do_not_touch() {
        let block = MAX_BLOCKS - 1;
        for (level, block, offset) in [(5, 0, 0), (0, block, 0), (0, 0, 29), (5, block, 29)] {
            let place = Place::new(level, block, offset);
            assert_eq!((place.level(), place.block(), place.offset()), (level, block, offset));
            assert!(!place.is_first());
        }
        assert!(Place::first(5).is_first());
        assert_eq!(Place::first(5).level(), 5);
    }
}
