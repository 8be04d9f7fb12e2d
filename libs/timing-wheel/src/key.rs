//! The handle to an entry, and the wheel's proof that it is still the same entry.

use std::fmt;
use std::num::NonZeroU32;

/// Names one entry of one wheel, from [`insert`](crate::TimingWheel::insert) until the entry is
/// handed out or cancelled.
///
/// A key is never used twice: once its entry is gone it is *stale*, every operation recognises
/// that, and no later entry answers to it. It means nothing to another wheel.
///
/// Eight bytes; `Option<Key>` is eight bytes too.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub(crate) index: u32,
    /// How many entries this place of the slab has held, counting from one.
    pub(crate) generation: NonZeroU32,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({}v{})", self.index, self.generation)
    }
}
