//! A binary heap: the yardstick for those who never cancel. A step takes out one entry.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hint::black_box;

use super::{Timers, Value};

pub(crate) struct Heap {
    heap: BinaryHeap<Reverse<(u64, Value)>>,
}

impl Heap {
    pub(crate) fn new() -> Self {
        Self { heap: BinaryHeap::new() }
    }
}

impl Timers for Heap {
    type Key = ();

    fn insert(&mut self, deadline: u64, value: Value) {
        self.heap.push(Reverse((deadline, value)));
    }

    fn cancel(&mut self, (): ()) -> bool {
        false
    }

    fn step(&mut self, end: u64) -> Option<usize> {
        self.heap.peek().filter(|Reverse((deadline, _))| *deadline <= end)?;
        black_box(self.heap.pop());
        Some(1)
    }
}
