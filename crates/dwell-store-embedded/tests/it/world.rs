//! The few phrases these tests are made of.

use std::sync::Arc;
use std::time::Duration;

use dwell_core::{
    Body, Found, IfExists, JobId, JobRef, JobView, LeaseRequest, LeasedJob, Lookup, NewJob, PutOutcome, Receipt,
    Settle, Store, StoreError, TopicName, Verdict, When,
};
use dwell_store_embedded::storage::Storage;
use dwell_store_embedded::{Config, Durability, EmbeddedStore, OpenError, Place};

pub(crate) fn topic() -> TopicName {
    TopicName::new("t").expect("a good topic")
}

pub(crate) fn new_job(name: &str) -> NewJob {
    let id = JobId::new(name).expect("a good id");
    let body = Body::Bytes(Arc::from(name.as_bytes()));
    NewJob { body, if_exists: IfExists::Replace, ..NewJob::new(topic(), id, When::NOW) }
}

/// Everything synced, segments of a few pages.
pub(crate) fn config(storage: Arc<dyn Storage>) -> Config {
    let place = Place::Storage(storage);
    Config { place, durability: Durability::Sync, segment: 64 << 10, ..Config::in_memory() }
}

pub(crate) fn open(storage: Arc<dyn Storage>) -> Result<EmbeddedStore, OpenError> {
    EmbeddedStore::open(&config(storage))
}

pub(crate) async fn put(store: &dyn Store, name: &str) -> Result<Receipt, StoreError> {
    let answer = store.put(vec![new_job(name)]).await?.remove(0);
    match answer.expect("nothing is in its way") {
        PutOutcome::Created(receipt) | PutOutcome::Replaced(receipt) => Ok(receipt),
        PutOutcome::Kept(kept) => panic!("nothing is kept: {kept:?}"),
    }
}

pub(crate) async fn lease(store: &dyn Store) -> LeasedJob {
    let jobs = store.lease(LeaseRequest::of(topic())).await.expect("lease answers");
    jobs.into_iter().next().expect("a job is ready")
}

pub(crate) async fn settle(store: &dyn Store, job: &LeasedJob, verdict: Verdict) {
    let item = Settle::new(job.token.expect("a lease has a token"), verdict);
    assert_eq!(store.settle(vec![item]).await, Ok(vec![Ok(())]));
}

pub(crate) async fn find(store: &dyn Store, name: &str) -> Option<JobView> {
    let job = JobRef::Named(topic(), JobId::new(name).expect("a good id"));
    let found = store.get(vec![Lookup::Job(job)]).await.expect("get answers").remove(0);
    found.and_then(Found::live)
}

/// Waits for something that nobody tells of: the store does it by itself, and looks every second whether it is time.
pub(crate) async fn until<F: Future<Output = bool>>(mut so: impl FnMut() -> F) {
    let again = async {
        while !so().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), again).await.expect("it looks every second");
}
