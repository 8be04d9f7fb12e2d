//! Stores under test, on a clock that the test moves.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use dwell_core::Timestamp;
use dwell_store_embedded::clock::Clock;
use dwell_store_embedded::{Config, EmbeddedStore, Place};
use dwell_store_testkit::{FakeClock, Setup, Subject, TestClock};
use tokio::time::Instant;

/// A made-up clock, as the store reads it.
pub(crate) struct StoreClock {
    pub(crate) fake: FakeClock,
    begun: Instant,
}

impl StoreClock {
    pub(crate) fn frozen() -> Arc<Self> {
        Arc::new(Self { fake: FakeClock::frozen(), begun: Instant::now() })
    }
}

impl Clock for StoreClock {
    fn wall(&self) -> Timestamp {
        self.fake.now()
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.fake.now().as_millis())
    }

    fn real(&self) -> Duration {
        self.begun.elapsed()
    }
}

/// The test's hand on it.
pub(crate) struct Hand(Arc<StoreClock>);

impl TestClock for Hand {
    fn advance(&self, millis: u64) {
        self.0.fake.advance(millis);
    }

    fn is_frozen(&self) -> bool {
        true
    }
}

/// A small store in memory.
pub(crate) fn in_memory(setup: &Setup) -> Subject {
    subject(Config::in_memory(), setup)
}

/// A store in a directory of its own, which is removed when the process ends.
pub(crate) fn in_directory(setup: &Setup) -> Subject {
    subject(Config::in_directory(fresh_directory()), setup)
}

/// The same with segments of a few pages, so that they are freed and used again all the time.
pub(crate) fn with_tiny_segments(setup: &Setup) -> Subject {
    subject(Config { segment: 16 << 10, ..Config::in_memory() }, setup)
}

pub(crate) fn subject(config: Config, setup: &Setup) -> Subject {
    let clock = StoreClock::frozen();
    let config = Config {
        defaults: setup.defaults.clone(),
        max_topics: setup.max_topics,
        segment: config.segment.min(1 << 20),
        clock: Arc::<StoreClock>::clone(&clock),
        ..config
    };
    assert!(matches!(config.place, Place::Directory(_) | Place::Storage(_)));
    let store = EmbeddedStore::open(&config).expect("a fresh store opens");
    Subject { store: Arc::new(store), clock: Arc::new(Hand(clock)) }
}

pub(crate) fn fresh_directory() -> PathBuf {
    tempfile::tempdir().expect("a temporary directory can be made").keep()
}
