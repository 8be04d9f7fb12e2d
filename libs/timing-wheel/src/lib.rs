//! A hierarchical timing wheel: millions of timers, each inserted, cancelled or rescheduled in
//! constant time.
//!
//! It is a plain data structure. It reads no clock, starts no thread, depends on nothing: the caller
//! says what time it is and gets what is due.
//!
//! ```
//! use timing_wheel::{Progress, TimingWheel};
//!
//! let mut wheel = TimingWheel::new(0);
//! let tea = wheel.insert(180_000, "tea");
//! wheel.insert(60_000, "egg");
//! let oven = wheel.insert(600_000, "oven");
//! wheel.reschedule(tea, 240_000);
//! assert_eq!(wheel.cancel(oven), Some("oven"));
//!
//! assert_eq!(wheel.next_deadline(), Some(60_000));
//! let mut due = Vec::new();
//! let progress = wheel.advance(300_000, 1_000, |entry| due.push((entry.deadline, entry.value)));
//! assert_eq!(progress, Progress::Done);
//! assert_eq!(due, [(60_000, "egg"), (240_000, "tea")]);
//! ```
//!
//! # How it works
//!
//! Think of a car's odometer that counts milliseconds, each of its digits running from 0 to 2,047.
//! For each digit there is a *level*: an array of 2,048 *slots*, one for each value of the digit. A
//! slot of level 0 is one millisecond long, of level 1 two seconds, of level 2 seventy minutes, of
//! level 3 ninety-nine days; six levels span all of `u64`.
//!
//! An entry stands on the level of **the highest digit in which its deadline differs from now**, in
//! the slot that this digit of its deadline names. So the entries of a level share all higher digits
//! with now, and come after everything on the levels below. To find what is next, look at the lowest
//! level that holds anything, and there at the lowest slot; a bitmap finds both at once, however
//! long the empty stretch before it.
//!
//! If that slot is on level 0, its entries are due when its millisecond comes. If it is on a higher
//! level, then when its first millisecond comes the digit of now becomes that of the slot, and each
//! entry in it differs from now in a lower digit only: the slot is *cascaded*, its entries are placed
//! again, further down. In a lifetime an entry is moved at most once a level, and mostly twice.
//!
//! ## An example on three levels
//!
//! It is 0. Entries are due at 7, at 2,500 and at 5,000,000. In digits, highest first:
//!
//! | deadline  | level 2 | level 1 | level 0 | stands in       |
//! |----------:|--------:|--------:|--------:|-----------------|
//! | 7         | 0       | 0       | **7**   | level 0 slot 7  |
//! | 2,500     | 0       | **1**   | 452     | level 1 slot 1  |
//! | 5,000,000 | **1**   | 393     | 832     | level 2 slot 1  |
//!
//! Now `advance(2_500, …)`:
//!
//! * Level 0 is the lowest level that holds anything. Its slot 7 is the millisecond 7. Now is 7, and
//!   the first entry is handed out.
//! * Level 0 is empty. Slot 1 of level 1 begins at 1 × 2,048. Now is 2,048. The slot is cascaded: 2,500
//!   differs from 2,048 in the lowest digit, so the entry moves to level 0 slot 452.
//! * That slot is the millisecond 2,048 + 452. Now is 2,500, and the second entry is handed out.
//! * Slot 1 of level 2 begins at 2,048 × 2,048 = 4,194,304. That is later than 2,500: done.
//!
//! And `advance(5_000_000, …)`: now is 4,194,304 and the last entry moves from level 2 to level 1, slot
//! 393. That slot begins at 4,194,304 + 393 × 2,048 = 4,999,168; there the entry moves to level 0, slot
//! 832, the millisecond 5,000,000, and is handed out. Five million milliseconds took three stops.
//!
//! ## In pieces
//!
//! A slot of a high level may hold millions. A call does as much as its budget allows and leaves the
//! rest of the slot where it is. Nothing is out of order meanwhile: now is already the slot's first
//! millisecond, so whatever is inserted goes below it; what is left in the slot can be cancelled or
//! rescheduled like everything else; and nothing is handed out until the slot is empty.
//!
//! The budget bounds a call, not how late the first entry behind a large cascade is. To keep that
//! short too, call `advance` now and then, not only at [`next_deadline`](TimingWheel::next_deadline):
//! a slot is cascaded at the first call after it begins, which is usually well before its first
//! deadline.
//!
//! ## In memory
//!
//! An entry takes 16 bytes beside its value, in a slab that grows by chunks and never moves. A slot
//! with one entry holds its number; that is what most slots of level 0 look like. A slot with more is
//! a queue of blocks, each two cache lines with the numbers of thirty entries, which adds less than
//! five bytes an entry. Cancelling leaves a gap in the block, and the block is given back when its
//! last entry goes: at worst, when all the others of a block are cancelled, an entry has 128 bytes to
//! itself. Memory is not returned before the wheel is dropped, but used again.

mod bitmap;
mod blocks;
mod chunked;
mod geometry;
mod key;
mod levels;
mod place;
mod slab;
mod wheel;

pub use key::Key;
pub use wheel::{Expired, Pop, Progress, TimingWheel};

/// The examples of the README, which are tested with those of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
