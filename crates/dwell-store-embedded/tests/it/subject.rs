//! Stores under test, on a clock that the test moves.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dwell_core::{Store, Timestamp};
use dwell_store_embedded::clock::Clock;
use dwell_store_embedded::storage::MemoryStorage;
use dwell_store_embedded::{Config, EmbeddedStore, Place, check, check_directory};
use dwell_store_testkit::{Ending, FakeClock, Restart, Setup, Subject, TestClock};
use tempfile::TempDir;
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

/// The test's hand on it, and on the directory, which goes when the test lets go.
pub(crate) struct Hand {
    clock: Arc<StoreClock>,
    _directory: Option<TempDir>,
}

impl TestClock for Hand {
    fn advance(&self, millis: u64) {
        self.clock.fake.advance(millis);
    }

    fn is_frozen(&self) -> bool {
        true
    }
}

/// A small store in memory.
pub(crate) fn in_memory(setup: &Setup) -> Subject {
    subject(Config::in_memory(), None, setup)
}

/// The same with segments of a few pages, so that they are freed and used again all the time.
pub(crate) fn with_tiny_segments(setup: &Setup) -> Subject {
    subject(Config { segment: 16 << 10, ..Config::in_memory() }, None, setup)
}

/// The same with a cold tier that takes everything that waits, in blocks of a few jobs.
pub(crate) fn with_a_tiny_cold_tier(setup: &Setup) -> Subject {
    let cold = Config { cold_tier: true, tail: 16 << 10, block: 512, ..Config::in_memory() };
    subject(Config { segment: 16 << 10, ..cold }, None, setup)
}

/// A store in a directory of its own.
pub(crate) fn in_directory(setup: &Setup) -> Subject {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    subject(Config::in_directory(directory.path()), Some(directory), setup)
}

/// A store under test that can be ended and started again.
fn subject(config: Config, directory: Option<TempDir>, setup: &Setup) -> Subject {
    let clock = StoreClock::frozen();
    let config = Config {
        defaults: setup.defaults.clone(),
        max_topics: setup.max_topics,
        segment: config.segment.min(1 << 20),
        clock: Arc::<StoreClock>::clone(&clock),
        ..config
    };
    let mut memory = MemoryStorage::new();
    let place = match &config.place {
        Place::Storage(_) => Place::Storage(Arc::new(memory.clone())),
        Place::Directory(directory) => Place::Directory(directory.clone()),
    };
    let config = Config { place, ..config };
    let store = open(&config);
    let running: Arc<Mutex<(Config, Arc<dyn Store>)>> = Arc::new(Mutex::new((config, Arc::clone(&store))));
    let images = Mutex::new(move || {
        memory = memory.image();
        Arc::new(memory.clone())
    });
    let images = Arc::new(images);
    let restart: Restart = Arc::new(move |ending| {
        let (running, images) = (Arc::clone(&running), Arc::clone(&images));
        Box::pin(async move {
            let (mut config, store) = running.lock().expect("nobody panics here").clone();
            if ending == Ending::Closed {
                store.close().await.expect("close answers");
            }
            config.place = match &config.place {
                Place::Storage(_) => Place::Storage((*images.lock().expect("nobody panics here"))()),
                // The store that was ended still has the lock of its directory: the next one gets a copy.
                Place::Directory(directory) => Place::Directory(copy(directory)),
            };
            assert_in_order(&config.place);
            let store = open(&config);
            *running.lock().expect("nobody panics here") = (config, Arc::clone(&store));
            store
        })
    });
    Subject { store, clock: Arc::new(Hand { clock, _directory: directory }), restart: Some(restart) }
}

/// Every job is in exactly one order, and counts are what is there, as a start will read it.
fn assert_in_order(place: &Place) {
    let checked = match place {
        Place::Storage(storage) => check(&**storage),
        Place::Directory(directory) => check_directory(directory),
    };
    let checked = checked.expect("what was stored can be read");
    assert!(checked.is_good(), "{checked:?}");
}

fn open(config: &Config) -> Arc<dyn Store> {
    Arc::new(EmbeddedStore::open(config).expect("the store opens"))
}

/// What is stored right now in a directory: a copy of its files beside them, which goes when the directory above goes.
fn copy(directory: &Path) -> PathBuf {
    let copy = directory.join("copy");
    std::fs::create_dir(&copy).unwrap();
    for entry in std::fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        // A spare may become a segment while we look.
        if is_file && entry.file_name() != "lock" && !entry.file_name().to_string_lossy().starts_with("spare") {
            std::fs::copy(entry.path(), copy.join(entry.file_name())).ok();
        }
    }
    copy
}

pub(crate) fn fresh_directory() -> PathBuf {
    tempfile::tempdir().expect("a temporary directory can be made").keep()
}
