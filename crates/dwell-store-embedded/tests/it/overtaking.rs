//! Consumers whose jobs are still in the cold tier: nobody who comes later goes before them.

use std::sync::Arc;

use dwell_core::{Body, Delay, LeaseRequest, LeasedJob, NewJob, Priority, Store, When};
use dwell_store_embedded::{Config, EmbeddedStore};
use dwell_store_testkit::TestClock;

use crate::faulty::Faulty;
use crate::subject::StoreClock;
use crate::world::{config, new_job, topic};

const HOUR: u64 = 3_600_000;

/// A store with one urgent job in memory and many others behind it that are due too, on a cold tier that cannot be read.
async fn with_cold_tier(storage: &Faulty) -> Arc<EmbeddedStore> {
    let clock = StoreClock::frozen();
    let base = Config { clock: Arc::<StoreClock>::clone(&clock), ..config(Arc::new(storage.clone())) };
    let tiny = Config { cold_tier: true, tail: 16 << 10, block: 512, segment: 16 << 10, ..base };
    let store = EmbeddedStore::open(&tiny).unwrap();
    for number in 0..100 {
        let (when, body) = (When::In(Delay::from_millis(HOUR).unwrap()), Body::Bytes(Arc::from(vec![7; 1 << 10])));
        store.put(vec![NewJob { when, body, ..new_job(&number.to_string()) }]).await.unwrap().remove(0).unwrap();
    }
    store.close().await.unwrap();
    // Its threads have ended then: one that still merges would write into the files of the next.
    drop(store);
    let store = Arc::new(EmbeddedStore::open(&tiny).unwrap());
    clock.fake.advance(HOUR);
    let urgent = NewJob { priority: Priority(0), ..new_job("urgent") };
    store.put(vec![urgent]).await.unwrap().remove(0).unwrap();
    storage.hang_cold_reads(true);
    store
}

fn lease(store: &Arc<EmbeddedStore>, max: u32) -> tokio::task::JoinHandle<Vec<String>> {
    let (store, request) = (Arc::clone(store), LeaseRequest::of(topic()).up_to(max));
    let name = |job: LeasedJob| job.view.job.id.as_str().to_owned();
    tokio::spawn(async move { store.lease(request).await.unwrap().into_iter().map(name).collect() })
}

#[tokio::test]
async fn who_asks_for_less_does_not_go_before_who_asked_for_more() {
    let storage = Faulty::default();
    let store = with_cold_tier(&storage).await;
    let many = lease(&store, 5);
    storage.until_reading().await;
    let one = lease(&store, 1);
    // What the second one needs is in memory.
    for _ in 0..100 {
        store.status().await.unwrap();
    }
    storage.hang_cold_reads(false);
    let (many, one) = (many.await.unwrap(), one.await.unwrap());
    assert_eq!((many.len(), many[0].as_str()), (5, "urgent"));
    assert_eq!(one.len(), 1);
}
