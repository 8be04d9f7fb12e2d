//! Chance.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// Random numbers nobody can foretell from one another: a keyed hash of a counter.
pub(crate) struct Dice {
    keys: [RandomState; 2],
    rolls: AtomicU64,
}

impl Dice {
    pub(crate) fn new() -> Self {
        Self { keys: [RandomState::new(), RandomState::new()], rolls: AtomicU64::new(0) }
    }

    /// A number, uniform over all of `u64`.
    pub(crate) fn roll(&self) -> u64 {
        let roll = self.rolls.fetch_add(1, Ordering::Relaxed);
        self.keys[0].hash_one(roll) ^ self.keys[1].hash_one(roll).rotate_left(32)
    }
}
