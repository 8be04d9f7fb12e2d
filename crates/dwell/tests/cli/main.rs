//! The verbs of the command line against a real server: what they print, and the numbers they end with. And the client
//! that they use, where they do not use all of it.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

mod bash;
mod world;

mod bench;
mod client;
mod consuming;
mod doctor;
mod exit_codes;
mod export_import;
mod guides;
mod help;
mod jobs;
mod output;
mod put;
mod tail;
mod topics;
mod transcripts;
mod try_it;
mod worker;
