//! The queue as its users see it.
//!
//! Time is paused wherever the runtime allows that, so that nothing here waits for a real clock
//! longer than a few milliseconds.

mod closing;
mod consumer;
mod crowds;
mod dropping;
mod keys;
mod timing;
mod wakes;
