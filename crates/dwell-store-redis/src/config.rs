//! How a store is set up, and why it may not open.

use std::sync::Arc;

use dwell_core::{Defaults, limits};

use crate::address::Address;
use crate::clock::Clock;
use crate::keys::MAX_PARTITIONS;

/// Partitions unless said otherwise: a cluster can spread a store over as many masters.
pub const DEFAULT_PARTITIONS: u16 = 64;

/// How a store is set up.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where the engine is.
    pub address: Address,
    /// What all keys begin with.
    pub prefix: String,
    /// How many parts the store has; fixed when it is first opened.
    pub partitions: u16,
    /// How many replicas must confirm a change before it is answered.
    pub wait: u32,
    /// What holds where neither job nor topic says.
    pub defaults: Defaults,
    /// How many topics there may be.
    pub max_topics: usize,
    /// The store's time.
    pub clock: Arc<Clock>,
}

impl Config {
    /// A store at `address`, everything else as usual.
    pub fn new(address: Address) -> Self {
        Self {
            address,
            prefix: "dwell".to_owned(),
            partitions: DEFAULT_PARTITIONS,
            wait: 0,
            defaults: Defaults::default(),
            max_topics: limits::DEFAULT_MAX_TOPICS,
            clock: Arc::new(Clock::engine()),
        }
    }
}

/// Why a store did not open.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The engine does not answer, or refuses.
    #[error("cannot reach {place}: {error}")]
    Unreachable {
        /// Where it should be.
        place: String,
        /// What was said.
        error: redis::RedisError,
    },
    /// It refuses to be examined.
    #[error("cannot ask Redis about itself: {0}")]
    Refused(#[from] redis::RedisError),
    /// Jobs would vanish.
    #[error(
        "Redis throws keys away when memory is full (maxmemory-policy {policy}): jobs would vanish; set noeviction"
    )]
    Evicts {
        /// Its policy.
        policy: String,
    },
    /// It is too old.
    #[error("Redis is too old: sharded pub/sub came with version 7.0")]
    TooOld,
    /// Another version, or another number of partitions, has written it.
    #[error(
        "the keys under {prefix:?} have the layout {found:?}, this server writes {wanted:?}: choose another prefix, or let \
         the release that wrote it work off or export what is there"
    )]
    Layout {
        /// The prefix.
        prefix: String,
        /// What is there.
        found: String,
        /// What would be written.
        wanted: String,
    },
    /// A prefix with a tag of its own would put all keys into one slot, or tear them apart.
    #[error("the key prefix may have neither '{{' nor '}}' in it, and is not empty")]
    Prefix,
    /// Out of range.
    #[error("the number of partitions is from 1 to {MAX_PARTITIONS}")]
    Partitions,
}
