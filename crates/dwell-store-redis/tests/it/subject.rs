//! Stores under test, on a clock that the test moves.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dwell_store_redis::{Address, Clock, Config, RedisStore};
use dwell_store_testkit::{Setup, Subject, TestClock};

/// The test's hand on a store's clock.
struct Hand(Arc<Clock>);

impl TestClock for Hand {
    fn advance(&self, millis: u64) {
        self.0.advance(millis);
    }

    fn is_frozen(&self) -> bool {
        self.0.is_frozen()
    }
}

/// Where clocks that stand still begin: 2026-01-01T00:00:00Z.
const START: u64 = 1_767_225_600_000;

pub(crate) fn standing() -> Clock {
    Clock::standing(START)
}

/// A prefix that no other store has.
pub(crate) fn prefix() -> String {
    static STORES: AtomicU64 = AtomicU64::new(0);
    format!("test{}", STORES.fetch_add(1, Ordering::Relaxed))
}

/// A fresh store under test. It cannot be restarted: a server keeps nothing, so nothing comes of ending it, and leases
/// get no grace; that servers may end is what other tests are about.
pub(crate) async fn subject(url: &str, partitions: u16, clock: Clock, setup: Setup) -> Subject {
    let clock = Arc::new(clock);
    let config = Config {
        prefix: prefix(),
        partitions,
        defaults: setup.defaults,
        max_topics: setup.max_topics,
        clock: Arc::clone(&clock),
        ..Config::new(Address::parse(url).unwrap())
    };
    let store = RedisStore::open(&config).await.unwrap();
    Subject { store: Arc::new(store), clock: Arc::new(Hand(clock)), restart: None }
}
