//! A cold tier that the disk does not give: whoever needs it is told so, and once the disk gives it, everything is there.

use std::sync::Arc;

use dwell_core::{Body, Delay, Lookup, NewJob, Options, State, Store, StoreError, Ttl, When};
use dwell_store_embedded::{Config, EmbeddedStore};
use dwell_store_testkit::TestClock;

use crate::faulty::Faulty;
use crate::subject::StoreClock;
use crate::world::{config, new_job, topic};

const HOUR: u64 = 3_600_000;
const JOBS: u64 = 100;

/// A store whose jobs are in the cold tier, due in an hour and worthless half an hour later.
async fn with_cold_tier(storage: &Faulty, clock: &Arc<StoreClock>) -> EmbeddedStore {
    let base = Config { clock: Arc::<StoreClock>::clone(clock), ..config(Arc::new(storage.clone())) };
    let tiny = Config { cold_tier: true, tail: 16 << 10, block: 512, segment: 16 << 10, ..base };
    let store = EmbeddedStore::open(&tiny).unwrap();
    for number in 0..JOBS {
        let (when, body) = (When::In(Delay::from_millis(HOUR).unwrap()), Body::Bytes(Arc::from(vec![7; 1 << 10])));
        let options = Options { ttl: Some(Ttl::from_millis(HOUR / 2).unwrap()), ..Options::default() };
        let new = NewJob { when, body, options, ..new_job(&number.to_string()) };
        store.put(vec![new]).await.unwrap().remove(0).unwrap();
    }
    store.close().await.unwrap();
    // Its threads have ended then: one that still merges would write into the files of the next.
    drop(store);
    EmbeddedStore::open(&tiny).unwrap()
}

/// Time has done something to jobs that cannot be read. Reads of them went on for ever, and nobody was answered.
#[tokio::test]
async fn who_asks_for_what_time_has_done_on_the_cold_tier_is_told_that_it_cannot_be_read() {
    let (storage, clock) = (Faulty::default(), StoreClock::frozen());
    let store = with_cold_tier(&storage, &clock).await;
    storage.fail_cold_reads(true);
    clock.fake.advance(2 * HOUR);
    let told = store.topic(topic()).await;
    assert!(matches!(told, Err(StoreError::Unreadable { .. })), "{told:?}");
    storage.fail_cold_reads(false);
    let info = store.topic(topic()).await.unwrap().unwrap();
    assert_eq!((info.counts[State::Buried], info.counts[State::Ready]), (JOBS, 0), "their ttl is over");
}

#[tokio::test]
async fn who_asks_for_the_next_ready_job_is_told_that_it_cannot_be_read() {
    let (storage, clock) = (Faulty::default(), StoreClock::frozen());
    let store = with_cold_tier(&storage, &clock).await;
    storage.fail_cold_reads(true);
    clock.fake.advance(HOUR + 1);
    let next = || vec![Lookup::Next(topic(), State::Ready)];
    let told = store.get(next()).await;
    assert!(matches!(told, Err(StoreError::Unreadable { .. })), "{told:?}");
    storage.fail_cold_reads(false);
    assert!(store.get(next()).await.unwrap()[0].is_some());
}
