//! The structures under comparison, each as its own documentation says to use it.

pub(crate) mod btree;
pub(crate) mod delay_queue;
pub(crate) mod hash_wheel;
pub(crate) mod heap;
pub(crate) mod timing_wheel;

use std::fmt;

use clap::ValueEnum;

/// The value that each entry carries, and by which it is known.
pub(crate) type Value = u64;

/// What a structure must do to take part.
pub(crate) trait Timers {
    type Key;

    fn insert(&mut self, deadline: u64, value: Value) -> Self::Key;

    /// Whether there was something to cancel.
    fn cancel(&mut self, key: Self::Key) -> bool;

    /// Tells a structure that has a clock of its own that it is `end` now.
    fn jump(&mut self, _end: u64) {}

    /// The smallest piece of expiring that the structure offers: how many entries it took out,
    /// `None` when there was none left up to `end`.
    fn step(&mut self, end: u64) -> Option<usize>;
}

/// A structure by name.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Subject {
    /// This repository's wheel.
    TimingWheel,
    /// The standard library's map, by deadline and id.
    BtreeMap,
    /// The standard library's heap. It cannot cancel.
    BinaryHeap,
    /// `tokio_util::time::DelayQueue` under a paused clock.
    DelayQueue,
    /// `hierarchical_hash_wheel_timer`, the variant that can cancel.
    HashWheel,
}

impl Subject {
    pub(crate) fn can_cancel(self) -> bool {
        self != Self::BinaryHeap
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::TimingWheel => "**timing-wheel**",
            Self::BtreeMap => "`BTreeMap<(deadline, id), V>`",
            Self::BinaryHeap => "`BinaryHeap`",
            Self::DelayQueue => "tokio-util `DelayQueue`",
            Self::HashWheel => "hierarchical_hash_wheel_timer",
        }
    }
}

/// The name on the command line.
impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&name(self))
    }
}

/// The name of a choice on the command line.
pub(crate) fn name(choice: &impl ValueEnum) -> String {
    choice.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}
