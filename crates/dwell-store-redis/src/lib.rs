//! The Redis store: many stateless servers on Redis, Sentinel or Redis Cluster.
//!
//! All that there is is in Redis; a server keeps nothing but who waits for what. Each step that must be atomic is one
//! script in one slot; what the scripts compare and move is worked out here, by `dwell-core`'s rules, from what was read.
//!
//! Read it in this order.

mod address;
mod config;

mod keys;
mod record;
mod reply;
mod script;

mod clock;
mod dice;
mod gather;
mod link;
mod status;

mod inner;
mod verbs;
mod waiters;

mod store;

pub use address::{Address, AddressError};
pub use clock::Clock;
pub use config::{Config, DEFAULT_PARTITIONS, OpenError};
pub use keys::MAX_PARTITIONS;
pub use store::RedisStore;
