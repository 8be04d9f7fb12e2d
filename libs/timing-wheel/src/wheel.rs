//! The wheel: entries placed by deadline, moved down as time passes, handed out when due.

use std::fmt;

use crate::blocks::ITEMS;
use crate::geometry::{level_of, slot_of, slot_start};
use crate::key::Key;
use crate::levels::Levels;
use crate::slab::Slab;

/// Values that wait for their deadlines. The [crate documentation](crate) explains how.
///
/// Deadlines and times are milliseconds since an origin of the caller's choice. They span all of
/// `u64`.
pub struct TimingWheel<V> {
    /// No entry counts as due before this.
    now: u64,
    /// The level whose slot at `now` is being moved down; 0 when none is.
    cascading: usize,
    levels: Levels,
    slab: Slab<V>,
}

/// An entry whose deadline has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expired<V> {
    /// The key it had. Stale by now, good for looking things up in tables of your own.
    pub key: Key,
    /// The deadline it was given.
    pub deadline: u64,
    /// The value it carried.
    pub value: V,
}

/// Whether [`TimingWheel::advance`] reached the time that it was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "entries that are due stay in the wheel when the budget runs out"]
pub enum Progress {
    /// Everything due has been handed out.
    Done,
    /// The budget ran out first. Call again, at once or after something more urgent.
    More,
}

/// What [`TimingWheel::pop`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "it may hold an entry"]
pub enum Pop<V> {
    /// The earliest entry, which is due.
    Expired(Expired<V>),
    /// Nothing is due.
    Nothing,
    /// The budget ran out before the wheel could tell.
    OutOfBudget,
}

impl<V> TimingWheel<V> {
    /// An empty wheel that stands at `now`. It allocates nothing yet.
    pub const fn new(now: u64) -> Self {
        Self { now, cascading: 0, levels: Levels::new(), slab: Slab::new() }
    }

    /// Adds an entry, due when `deadline` comes; at once if that has passed. O(1).
    pub fn insert(&mut self, deadline: u64, value: V) -> Key {
        let key = self.slab.insert(deadline, value);
        self.place(key.index, deadline);
        key
    }

    /// Removes an entry before it is due. `None` if the key is stale. O(1).
    pub fn cancel(&mut self, key: Key) -> Option<V> {
        self.lift(key)?;
        Some(self.slab.remove(key.index).value)
    }

    /// Gives an entry another deadline, earlier or later. Its key stays good. `false` if the key
    /// is stale. O(1).
    pub fn reschedule(&mut self, key: Key, deadline: u64) -> bool {
        if self.lift(key).is_none() {
            return false;
        }
        if let Some(entry) = self.slab.get_mut(key) {
            entry.deadline = deadline;
        }
        self.place(key.index, deadline);
        true
    }

    /// The value of an entry, unless the key is stale.
    pub fn get(&self, key: Key) -> Option<&V> {
        self.slab.get(key).map(|entry| &entry.value)
    }

    /// The value of an entry, unless the key is stale.
    pub fn get_mut(&mut self, key: Key) -> Option<&mut V> {
        self.slab.get_mut(key).map(|entry| &mut entry.value)
    }

    /// The deadline that an entry was last given, unless the key is stale.
    pub fn deadline(&self, key: Key) -> Option<u64> {
        self.slab.get(key).map(|entry| entry.deadline)
    }

    /// How many entries wait.
    pub fn len(&self) -> usize {
        self.slab.len()
    }

    /// Whether no entry waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The time the wheel has come to: the `now` of the last [`advance`](Self::advance) that was
    /// [`Done`](Progress::Done), or a time before it where the budget ran out.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// All entries with their keys and deadlines, in no particular order. O(the most entries
    /// there ever were).
    pub fn iter(&self) -> impl Iterator<Item = (Key, u64, &V)> {
        self.slab.iter().map(|(key, entry)| (key, entry.deadline, &entry.value))
    }

    /// The time until which [`advance`](Self::advance) has nothing to do; `None` when the wheel
    /// is empty. O(1).
    ///
    /// * It is never later than the earliest deadline, or than [`now`](Self::now) if that is
    ///   later still because the entry was late when it came. Whoever sleeps until it does not
    ///   oversleep.
    /// * It is the earliest deadline exactly, unless the entry that had it was cancelled or
    ///   rescheduled: until the wheel gets there, that deadline may still be reported.
    /// * After an `advance(now, …)` that was [`Done`](Progress::Done), it is later than `now`.
    ///   Whoever sleeps until it does not spin.
    pub fn next_deadline(&self) -> Option<u64> {
        if self.cascading != 0 && !self.is_empty() {
            return Some(self.now);
        }
        let (level, slot) = self.levels.first()?;
        let earliest = self.levels.earliest(level, slot)?;
        Some(earliest.max(self.now))
    }

    /// Moves the wheel on to `now` and hands each entry that is due to `expire`, earliest
    /// deadline first.
    ///
    /// `budget` bounds the work: one unit for each entry handed out, for each entry moved down a
    /// level and for each slot opened to do that. When it is used up the wheel stands where it
    /// is, ready for any operation, and the next call goes on from there.
    ///
    /// No entry is handed out before its deadline. An entry that was late when it came counts as
    /// due at the time the wheel had then reached.
    ///
    /// Entries of the same millisecond come in the order in which they were inserted, or last
    /// rescheduled. The one exception is an entry inserted between two calls of which the first
    /// ran out of budget: it may come before older ones of its millisecond.
    ///
    /// A `now` before the wheel's own does nothing and is `Done`.
    pub fn advance(&mut self, now: u64, mut budget: usize, mut expire: impl FnMut(Expired<V>)) -> Progress {
        loop {
            match self.pop(now, &mut budget) {
                Pop::Expired(entry) => expire(entry),
                Pop::Nothing => return Progress::Done,
                Pop::OutOfBudget => return Progress::More,
            }
        }
    }

    /// [`advance`](Self::advance), stopping at the first entry that is due. What is spent is
    /// taken off `budget`.
    pub fn pop(&mut self, now: u64, budget: &mut usize) -> Pop<V> {
        if now < self.now {
            return Pop::Nothing;
        }
        loop {
            if self.cascading != 0 && !self.cascade(budget) {
                return Pop::OutOfBudget;
            }
            let first = self.levels.first();
            let first = first.map(|(level, slot)| (level, slot, slot_start(self.now, level, slot)));
            let Some((level, slot, start)) = first.filter(|&(_, _, start)| start <= now) else {
                self.now = now;
                return Pop::Nothing;
            };
            if *budget == 0 {
                return Pop::OutOfBudget;
            }
            *budget -= 1;
            self.now = start;
            if level == 0 {
                return Pop::Expired(self.expire_first(slot));
            }
            self.cascading = level;
        }
    }

    fn expire_first(&mut self, slot: usize) -> Expired<V> {
        let index = self.levels.pop_front(0, slot);
        let entry = self.slab.remove(index);
        Expired { key: entry.key(index), deadline: entry.deadline, value: entry.value }
    }

    /// Moves entries of the slot at `now` to lower levels. Whether all of them have been moved.
    fn cascade(&mut self, budget: &mut usize) -> bool {
        let slot = slot_of(self.now, self.cascading);
        while !self.levels.is_empty(self.cascading, slot) {
            if *budget == 0 {
                return false;
            }
            let run = self.levels.take_front(self.cascading, slot, *budget);
            let indexes = run.as_slice();
            *budget -= indexes.len();
            // All deadlines first: the processor fetches them side by side.
            let mut deadlines = [0; ITEMS];
            for (deadline, &index) in deadlines.iter_mut().zip(indexes) {
                *deadline = self.slab.deadline(index);
            }
            for (&deadline, &index) in deadlines.iter().zip(indexes) {
                self.place(index, deadline);
            }
        }
        self.cascading = 0;
        true
    }

    /// Puts an entry that stands nowhere into the slot of its deadline.
    fn place(&mut self, index: u32, deadline: u64) {
        let at = deadline.max(self.now);
        let level = level_of(at, self.now);
        let place = self.levels.push(level, slot_of(at, level), index, at);
        self.slab.set_place(index, place);
    }

    /// Takes an entry out of its slot, unless the key is stale.
    fn lift(&mut self, key: Key) -> Option<()> {
        let entry = self.slab.get(key)?;
        let place = entry.place;
        // The slot follows from the deadline: the entry has been on its level since a time from
        // which only lower digits of `now` have changed.
        let slot = slot_of(entry.deadline.max(self.now), place.level());
        self.levels.remove(slot, place);
        Some(())
    }
}

impl<V> fmt::Debug for TimingWheel<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimingWheel").field("now", &self.now).field("len", &self.len()).finish_non_exhaustive()
    }
}
