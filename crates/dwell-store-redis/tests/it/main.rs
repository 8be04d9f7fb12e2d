//! The Redis store against the suite that defines a store, on real servers that the tests start.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

mod cluster;
mod conformance;
mod herd;
mod repeats;
mod restarts;
mod sentinel;
mod server;
mod subject;
mod together;
