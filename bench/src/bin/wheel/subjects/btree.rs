//! A sorted map. The caller keeps deadline and id to cancel by, so no second map is needed,
//! which is the best case for the tree. A step takes out one entry.

use std::collections::BTreeMap;
use std::hint::black_box;

use super::{Timers, Value};

pub(crate) struct ByDeadline {
    map: BTreeMap<(u64, u64), Value>,
}

impl ByDeadline {
    pub(crate) fn new() -> Self {
        Self { map: BTreeMap::new() }
    }
}

impl Timers for ByDeadline {
    type Key = (u64, u64);

    fn insert(&mut self, deadline: u64, value: Value) -> (u64, u64) {
        let key = (deadline, value);
        self.map.insert(key, value);
        key
    }

    fn cancel(&mut self, key: (u64, u64)) -> bool {
        self.map.remove(&key).is_some()
    }

    fn step(&mut self, end: u64) -> Option<usize> {
        let first = self.map.first_entry()?;
        if first.key().0 > end {
            return None;
        }
        black_box(first.remove());
        Some(1)
    }
}
