//! An in-process delay queue: push a value with a delay, pop it when it is due, cancel or move it
//! until then.
//!
//! For idle connections, request time-outs, retries: whatever is put off far more often than it
//! happens. Pushing, cancelling and moving take constant time, at ten entries and at ten million;
//! underneath is [`timing_wheel`].
//!
//! ```
//! use std::time::Duration;
//! use delay_queue::DelayQueue;
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! let queue = DelayQueue::new();
//! let greeting = queue.push("hello", Duration::from_secs(2));
//! queue.push("world", Duration::from_secs(3));
//! queue.reschedule(greeting, Duration::from_secs(5));
//!
//! assert_eq!(queue.pop().await, Some("world"));
//! assert_eq!(queue.cancel(greeting), Some("hello"));
//! # }
//! ```
//!
//! # What is promised
//!
//! * **Never early.** Delays are rounded up to the next millisecond of the queue's clock, which is
//!   [`tokio::time`]'s.
//! * **In order** of the deadlines, as far as one consumer can see; in order of pushing within a
//!   millisecond.
//! * **Once.** Each value goes to one `pop`, `try_pop` or `cancel`.
//! * **Nothing is lost to cancellation.** A [`Pop`] may be dropped at any time, for instance by
//!   `select!`: no value goes with it, and if others are waiting, one of them takes its place.
//!
//! # How consumers wait
//!
//! One of them, the *leader*, sleeps until the next deadline. The others are parked without a
//! timer. Whoever takes a value makes the consumer that has waited longest the next leader and
//! wakes it; whoever pushes a value that is due before all others wakes the leader, to sleep less
//! long. So a push or a value that comes due wakes one task, however many wait.

mod clock;
mod key;
mod pop;
mod queue;
mod state;

pub use key::Key;
pub use pop::Pop;
pub use queue::DelayQueue;

/// The examples of the README, which are tested with those of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// The guide's code, as printed.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/timers-in-process.md")]
struct Guide;
