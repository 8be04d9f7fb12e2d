//! Which slots of a level hold something: one bit a slot, one summary bit for each 64 slots.

use crate::geometry::SLOTS;

const WORDS: usize = SLOTS / 64;

// The summary is a single word.
const _: () = assert!(WORDS <= 64 && SLOTS.is_multiple_of(64));

/// A set of slots that finds its lowest member in two instructions, however sparse it is.
pub(crate) struct Bitmap {
    summary: u64,
    words: [u64; WORDS],
}

impl Bitmap {
    pub(crate) const fn new() -> Self {
        Self { summary: 0, words: [0; WORDS] }
    }

    pub(crate) fn set(&mut self, slot: usize) {
        self.words[slot / 64] |= 1 << (slot % 64);
        self.summary |= 1 << (slot / 64);
    }

    pub(crate) fn clear(&mut self, slot: usize) {
        let word = &mut self.words[slot / 64];
        *word &= !(1 << (slot % 64));
        // Not a branch: it would go either way, unforeseeably.
        self.summary &= !(u64::from(*word == 0) << (slot / 64));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.summary == 0
    }

    /// The lowest slot in the set.
    pub(crate) fn first(&self) -> Option<usize> {
        if self.summary == 0 {
            return None;
        }
        let word = self.summary.trailing_zeros() as usize;
        Some(word * 64 + self.words[word].trailing_zeros() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_lowest_slot_whatever_else_is_set() {
        let mut bitmap = Bitmap::new();
        assert_eq!(bitmap.first(), None);
        let slots = [SLOTS - 1, 64, 63, 0, 65];
        for slot in slots {
            bitmap.set(slot);
        }
        for expected in [0, 63, 64, 65, SLOTS - 1] {
            assert_eq!(bitmap.first(), Some(expected));
            bitmap.clear(expected);
        }
        assert!(bitmap.is_empty());
    }
}
