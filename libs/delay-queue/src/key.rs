//! The handle to a value in the queue.

/// Names one value of one queue, from when it is pushed until it is popped or cancelled. Later it
/// is stale: it does nothing, and no other value answers to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub(crate) timing_wheel::Key);
