//! Ours. A step is one `advance` within the budget.

use std::hint::black_box;

use timing_wheel::{Key, Progress, TimingWheel};

use super::{Timers, Value};

pub(crate) struct Ours {
    wheel: TimingWheel<Value>,
    budget: usize,
}

impl Ours {
    pub(crate) fn new(budget: usize) -> Self {
        Self { wheel: TimingWheel::new(0), budget }
    }
}

impl Timers for Ours {
    type Key = Key;

    fn insert(&mut self, deadline: u64, value: Value) -> Key {
        self.wheel.insert(deadline, value)
    }

    fn cancel(&mut self, key: Key) -> bool {
        self.wheel.cancel(key).is_some()
    }

    fn step(&mut self, end: u64) -> Option<usize> {
        let mut count = 0;
        let progress = self.wheel.advance(end, self.budget, |entry| {
            black_box(entry.value);
            count += 1;
        });
        (progress == Progress::More || count > 0).then_some(count)
    }
}
