//! What comes next is read from the cold tier before anybody asks for it.

use std::sync::Arc;
use std::time::Duration;

use dwell_core::{Delay, LeaseRequest, NewJob, Store, When};
use dwell_store_embedded::{Config, EmbeddedStore};
use dwell_store_testkit::TestClock;

use crate::faulty::Faulty;
use crate::subject::StoreClock;
use crate::world::{config, new_job, topic, until};

const HOUR: u64 = 3_600_000;

/// More than are read at a time, and more than are kept ready.
const MANY: u64 = 5_000;

async fn put(store: &EmbeddedStore, name: &str, delay: u64) {
    let when = When::In(Delay::from_millis(delay).unwrap());
    for first in (0..MANY).step_by(100) {
        let jobs = (first..first + 100).map(|number| NewJob { when, ..new_job(&format!("{name} {number}")) });
        assert!(store.put(jobs.collect()).await.unwrap().iter().all(Result::is_ok));
    }
}

#[tokio::test]
async fn jobs_that_are_ready_in_memory_do_not_keep_earlier_ones_on_the_cold_tier() {
    let (storage, clock) = (Faulty::default(), StoreClock::frozen());
    let base = Config { clock: Arc::<StoreClock>::clone(&clock), ..config(Arc::new(storage.clone())) };
    let cold = Config { cold_tier: true, tail: 16 << 10, segment: 16 << 10, ..base };
    let store = EmbeddedStore::open(&cold).unwrap();
    put(&store, "first", HOUR).await;
    store.close().await.unwrap();
    drop(store);

    // From now on all that is put stays in memory.
    let store = EmbeddedStore::open(&Config { tail: 64 << 20, segment: 16 << 20, ..cold }).unwrap();
    let near = || async { store.status().await.unwrap().measures.sizes.unwrap().near_jobs };
    let begun_with = near().await;
    clock.fake.advance(HOUR);
    put(&store, "later", 0).await;
    let request = LeaseRequest::of(topic()).up_to(1_000).waiting(Duration::from_secs(20));
    let held = store.lease(request.clone()).await.unwrap();
    assert!(held.len() == 1_000 && held.iter().all(|job| job.view.job.id.as_str().starts_with("first ")));
    // It had to wait for one row of them; the next one followed by itself.
    until(|| async { near().await >= begun_with + MANY + 2_000 }).await;
    storage.hang_cold_reads(true);
    let held = store.lease(request).await.unwrap();
    storage.hang_cold_reads(false);
    assert!(held.len() == 1_000 && held.iter().all(|job| job.view.job.id.as_str().starts_with("first ")));
}
