//! The verbs of the command line against a real server: what they print, and the numbers they end with.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

mod world;

mod consuming;
mod exit_codes;
mod help;
mod jobs;
mod output;
mod put;
mod tail;
mod topics;
mod try_it;
