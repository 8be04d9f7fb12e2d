//! What a store says of itself, and how it stops.

use dwell_core::{LeaseRequest, StoreError, TopicPolicy};

use crate::suite::bench::{Bench, job, secs, soon, topic};

pub(super) async fn tells_the_time(bench: Bench) {
    let before = bench.store.status().await.expect("status answers");
    assert!(!before.store.is_empty() && !before.promise.is_empty(), "{before:?}");
    assert_eq!((&before.failed, before.troubles.len()), (&None, 0), "nothing is wrong with it");
    bench.advance(secs(100));
    assert!(bench.now().await >= before.now.plus(100_000));
}

pub(super) async fn closing_answers_those_who_wait(bench: Bench) {
    bench.policy(TopicPolicy::default()).await;
    let waiting = bench.spawn_lease(LeaseRequest::of(topic("t")));
    bench.until_waiting("t", 1).await;
    bench.store.close().await.expect("close answers");
    assert!(soon(waiting).await.is_empty());
    assert_eq!(bench.store.put(vec![job("a")]).await, Err(StoreError::Closed));
    assert_eq!(bench.store.lease(LeaseRequest::of(topic("t"))).await, Err(StoreError::Closed));
}
