//! Chance from a seed: the same seed, the same numbers (splitmix64).

use std::ops::Range;

/// A generator of random numbers.
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// The numbers of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in a range that is not empty.
    pub fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.roll() % (range.end - range.start)
    }

    /// True that many times in a hundred.
    pub fn percent(&mut self, share: u64) -> bool {
        self.within(0..100) < share
    }

    /// A number from 0 that is mostly small: half of the time 0, a quarter 1, …, below `end`.
    pub fn skewed(&mut self, end: u64) -> u64 {
        u64::from(self.roll().trailing_ones()).min(end - 1)
    }

    /// One of these.
    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::try_from(self.within(0..choices.len() as u64)).unwrap_or(0)]
    }
}
