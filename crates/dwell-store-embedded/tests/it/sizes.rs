//! What the store says of its own size.

use std::sync::Arc;

use dwell_core::{Delay, NewJob, Sizes, Store, When};
use dwell_store_embedded::storage::{MemoryStorage, Storage};
use dwell_store_embedded::{Config, EmbeddedStore};

use crate::world::{config, new_job, topic, until};

const JOBS: u64 = 1_500;
const MEMORY: usize = 1 << 20;

fn open(storage: &MemoryStorage) -> EmbeddedStore {
    let base = config(Arc::new(storage.clone()));
    EmbeddedStore::open(&Config { cold_tier: true, tail: 128 << 10, block: 2 << 10, memory: MEMORY, ..base }).unwrap()
}

async fn sizes(store: &EmbeddedStore) -> Sizes {
    store.status().await.unwrap().measures.sizes.unwrap()
}

/// How many runs there are, and how many bytes they have.
fn runs(storage: &MemoryStorage) -> (u64, u64) {
    let names = storage.list().unwrap().into_iter().filter(|name| name.starts_with("run-"));
    names.fold((0, 0), |(runs, bytes), name| (runs + 1, bytes + storage.open(&name).unwrap().len().unwrap()))
}

#[tokio::test]
async fn sizes_are_those_of_memory_and_files() {
    let storage = MemoryStorage::default();
    let store = open(&storage);
    let empty = sizes(&store).await;
    let wanted = Sizes { near_bytes: empty.near_bytes, near_limit: MEMORY as u64, ..Sizes::default() };
    assert_eq!(Sizes { journal_segments: 0, ..empty }, wanted, "nothing is there, and memory has no disk");
    let job = |number: u64| {
        let when = When::In(Delay::from_millis(3_600_000 + number).unwrap());
        NewJob { when, ..new_job(&format!("{number} {}", "x".repeat(200))) }
    };
    for first in (0..JOBS).step_by(50) {
        let put = store.put((first..first + 50).map(job).collect()).await.unwrap();
        assert!(put.iter().all(Result::is_ok));
    }
    store.close().await.unwrap();
    drop(store);

    let store = open(&storage);
    // What is being written is a file, too, and not counted before it is there.
    let of_files = |is: Sizes| (is.shelf_runs, is.shelf_bytes) == runs(&storage);
    until(|| async { of_files(sizes(&store).await) }).await;
    let is = sizes(&store).await;
    assert!(is.shelf_runs > 0, "nothing is in the cold tier: {is:?}");
    assert!((1..=JOBS).contains(&is.shelf_jobs) && is.near_jobs <= JOBS, "{is:?}");
    assert!(is.near_jobs + is.shelf_jobs >= JOBS, "each is in one of them: {is:?}");
    assert!(is.near_bytes > empty.near_bytes && is.journal_segments >= 1, "{is:?}");
    let counted = store.topic(topic()).await.unwrap().unwrap().counts.live();
    assert_eq!(counted, JOBS);
}
