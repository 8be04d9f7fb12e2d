//! The server as its users meet it: the real binary, over real sockets, against what its API promises.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

mod access;
mod authority;
mod batches;
mod beanstalk;
mod bodies;
mod change;
mod client;
mod configuration;
mod connections;
mod conventions;
mod dead_letters;
mod files;
mod lease;
mod lists;
mod names;
mod operating;
mod ops_files;
mod policy;
mod process;
mod push;
mod put;
mod readme;
mod redis;
#[path = "../../../dwell-store-redis/tests/it/server.rs"]
mod redis_server;
mod retry;
mod scopes;
mod server;
mod settle;
mod sizes;
mod strictness;
mod timeline;
mod times;
mod tls;
mod topics;
mod waiting;
mod watched;
