//! Which level and which slot a deadline belongs to: arithmetic on the bits of a time.
//!
//! A time is read as a number in base [`SLOTS`]. Level 0 is its lowest digit.

/// Bits of a time that one level resolves. Of 6 to 12, measured with 1 M and 10 M entries, 11 and 12
/// expire the quickest, as each entry is moved less often. 12 gains a few per cent over 11, but a slot
/// of its level 2 is four times as long, and so is what must be cascaded before its first entry.
pub(crate) const BITS: u32 = 11;

/// Slots of one level.
pub(crate) const SLOTS: usize = 1 << BITS;

/// Levels that it takes to cover all 64 bits.
pub(crate) const LEVELS: usize = 64_usize.div_ceil(BITS as usize);

const DIGIT: u64 = SLOTS as u64 - 1;

/// The level of the highest digit in which the two times differ; 0 when they are the same.
pub(crate) fn level_of(at: u64, now: u64) -> usize {
    let highest_bit = ((at ^ now) | 1).ilog2();
    (highest_bit / BITS) as usize
}

/// The digit of `at` on `level`.
pub(crate) fn slot_of(at: u64, level: usize) -> usize {
    ((at >> shift(level)) & DIGIT) as usize
}

/// The first millisecond of `slot` on `level`, the higher digits being those of `now`.
pub(crate) fn slot_start(now: u64, level: usize, slot: usize) -> u64 {
    let above = shift(level) + BITS;
    let higher_digits = if above < u64::BITS { now >> above << above } else { 0 };
    higher_digits | (slot as u64) << shift(level)
}

#[expect(clippy::cast_possible_truncation, reason = "there are six levels")]
fn shift(level: usize) -> u32 {
    level as u32 * BITS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_starts_at_or_before_each_time_in_it() {
        let now = 0x0123_4567_89AB_CDEF;
        for bit in 0..u64::BITS {
            let at = now | (1 << bit);
            let level = level_of(at, now);
            let start = slot_start(now, level, slot_of(at, level));
            assert!(start <= at, "bit {bit}");
            assert_eq!(slot_of(start, level), slot_of(at, level), "bit {bit}");
            assert_eq!(level_of(start, at), level_of(start, at).min(level), "bit {bit}");
        }
    }

    #[test]
    fn the_last_millisecond_is_on_the_highest_level() {
        assert_eq!(level_of(u64::MAX, 0), LEVELS - 1);
        assert_eq!(level_of(u64::MAX, u64::MAX), 0);
        let slot = slot_of(u64::MAX, LEVELS - 1);
        assert!(slot_start(0, LEVELS - 1, slot) > u64::MAX / 2);
    }
}
