//! `hierarchical_hash_wheel_timer`: four wheels of 256 slots and a hash map of what is not
//! cancelled. Cancelling leaves the entry in the wheel until its slot comes up. A step skips
//! what can be skipped and ticks once.

use std::hint::black_box;
use std::rc::Rc;
use std::time::Duration;

use hierarchical_hash_wheel_timer::wheels::Skip;
use hierarchical_hash_wheel_timer::wheels::cancellable::{CancellableTimerEntry, QuadWheelWithOverflow};

use super::{Timers, Value};

pub(crate) struct HashWheel {
    wheel: QuadWheelWithOverflow<Entry>,
}

#[derive(Debug)]
pub(crate) struct Entry(Value);

impl CancellableTimerEntry for Entry {
    type Id = Value;

    fn id(&self) -> &Value {
        &self.0
    }
}

impl HashWheel {
    pub(crate) fn new() -> Self {
        Self { wheel: QuadWheelWithOverflow::new() }
    }
}

impl Timers for HashWheel {
    type Key = Value;

    fn insert(&mut self, deadline: u64, value: Value) -> Value {
        let delay = Duration::from_millis(deadline);
        let inserted = self.wheel.insert_ref_with_delay(Rc::new(Entry(value)), delay);
        inserted.expect("a delay of at least one millisecond");
        value
    }

    fn cancel(&mut self, key: Value) -> bool {
        self.wheel.cancel(&key).is_ok()
    }

    fn step(&mut self, _end: u64) -> Option<usize> {
        match self.wheel.can_skip() {
            Skip::Empty => return None,
            Skip::Millis(empty) => self.wheel.skip(empty),
            Skip::None => {}
        }
        Some(black_box(self.wheel.tick()).len())
    }
}
