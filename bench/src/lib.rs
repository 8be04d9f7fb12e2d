//! Measurements: ratios against peers from the same run.
//!
//! Each program in `src/bin/` compares one thing and prints a table for its README. What they
//! share is here.

pub mod calls;
pub mod http;
pub mod memory;
pub mod program;
pub mod random;
pub mod redis;
pub mod server;

/// What can go wrong: the message is all that is needed.
pub type Outcome<T> = Result<T, Box<dyn std::error::Error>>;
