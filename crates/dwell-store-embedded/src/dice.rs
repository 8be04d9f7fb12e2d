//! Chance.

use std::hash::{BuildHasher, RandomState};

/// Random numbers nobody can foretell from one another: a keyed hash of a counter. With a seed, always the same ones.
pub(crate) struct Dice {
    key: Option<RandomState>,
    rolls: u64,
}

impl Dice {
    /// Dice of this seed; without one, of the system's own chance.
    pub(crate) fn new(seed: Option<u64>) -> Self {
        Self { key: seed.is_none().then(RandomState::new), rolls: seed.unwrap_or(0) }
    }

    /// A number, uniform over all of `u64`.
    pub(crate) fn roll(&mut self) -> u64 {
        self.rolls = self.rolls.wrapping_add(0x9e37_79b9_7f4a_7c15);
        match &self.key {
            Some(key) => key.hash_one(self.rolls),
            None => mix(self.rolls),
        }
    }
}

/// The last step of splitmix64.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
