//! What a store refuses: a directory someone else has, a format it does not know, more than fits.

use std::sync::Arc;

use dwell_core::{Body, NewJob, PutError, Store, Verdict};
use dwell_store_embedded::storage::{MemoryStorage, Storage};
use dwell_store_embedded::{Config, EmbeddedStore, OpenError};

use crate::subject::{StoreClock, fresh_directory};
use crate::world::{config, lease, new_job, open, put, settle};

#[tokio::test]
async fn a_directory_belongs_to_one_store_at_a_time() {
    let directory = fresh_directory();
    let config = Config { segment: 1 << 20, ..Config::in_directory(&directory) };
    let first = EmbeddedStore::open(&config).unwrap();
    let second = EmbeddedStore::open(&config).err().expect("it is taken");
    assert!(matches!(second, OpenError::Directory(_)), "{second}");
    assert!(second.to_string().contains("is in use by another Dwell process"), "{second}");
    drop(first);
    EmbeddedStore::open(&config).expect("it is free again");
    std::fs::remove_dir_all(directory).unwrap();
}

#[tokio::test]
async fn a_clock_far_behind_stops_the_start_unless_it_is_accepted() {
    use dwell_store_testkit::TestClock;
    let storage = MemoryStorage::default();
    let later = StoreClock::frozen();
    later.fake.advance(2 * 3_600_000);
    let at = |clock, accept_clock| Config { clock, accept_clock, ..config(Arc::new(storage.clone())) };
    drop(EmbeddedStore::open(&at(later, false)).unwrap());
    let refused = EmbeddedStore::open(&at(StoreClock::frozen(), false)).err().expect("two hours behind");
    assert!(matches!(refused, OpenError::Clock(_)), "{refused}");
    EmbeddedStore::open(&at(StoreClock::frozen(), true)).expect("accepted");
}

#[tokio::test]
async fn past_the_memory_budget_puts_are_refused_and_nothing_else() {
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::default());
    let store = EmbeddedStore::open(&Config { memory: 64 << 10, ..config(storage) }).unwrap();
    let big = |name: &str| NewJob { body: Body::Bytes(Arc::from(vec![7; 8 << 10])), ..new_job(name) };
    let mut taken = 0;
    while store.put(vec![big(&taken.to_string())]).await.unwrap()[0].is_ok() {
        taken += 1;
        assert!(taken < 100, "never full");
    }
    assert_eq!(store.put(vec![new_job("small")]).await.unwrap(), [Err(PutError::StorageFull)]);
    for _ in 0..2 {
        let held = lease(&store).await;
        settle(&store, &held, Verdict::Ack).await;
    }
    put(&store, "small").await.expect("there is room again");
}

#[tokio::test]
async fn closing_twice_and_calling_afterwards_is_fine() {
    let store = open(Arc::new(MemoryStorage::default())).unwrap();
    store.close().await.unwrap();
    store.close().await.unwrap();
    assert_eq!(put(&store, "a").await, Err(dwell_core::StoreError::Closed));
    assert!(store.status().await.unwrap().troubles.is_empty());
}
