//! The wheel as its users see it.

mod advance;
mod keys;
mod model;
mod next_deadline;
