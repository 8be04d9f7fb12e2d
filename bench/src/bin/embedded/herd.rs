//! Very many jobs due in the same millisecond, and what another topic feels of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use dwell_bench::memory;
use dwell_core::{LeaseRequest, NewJob, Settle, Store, Timestamp, TopicName, Verdict, When};

use super::figure::Figure;
use super::world::{World, now, percentile, topic};

/// When the herd is due, after it has been put.
const AHEAD: u64 = 15_000;

pub(crate) fn measure(world: &World) -> Vec<Figure> {
    let store = world.store("herd");
    let herd = topic("herd");
    let (took, mut quiet, mut beside) = world.runtime.block_on(async {
        let due_at = store.status().await.expect("status answers").now.plus(AHEAD);
        for first in (0..world.jobs).step_by(1_000) {
            let batch = first..(first + 1_000).min(world.jobs);
            let at = |id: usize| NewJob { when: When::At(due_at), ..world.job(&herd, id as u64, 0) };
            store.put(batch.map(at).collect()).await.expect("put answers");
        }
        let put_by = store.status().await.expect("status answers").now;
        assert!(put_by < due_at, "the herd was put too slowly; use fewer jobs");
        let quiet = bystander(&store, due_at.since(put_by).saturating_sub(500), None).await;
        memory::forget_peak(std::process::id()).expect("Linux lets a process forget");
        let done = Arc::new(AtomicBool::new(false));
        let (watched, over) = (Arc::clone(&store), Arc::clone(&done));
        let beside = tokio::spawn(async move { bystander(&watched, 60_000, Some(&over)).await });
        let took = drain(&store, &herd, world.jobs, due_at).await;
        done.store(true, Ordering::SeqCst);
        (took, quiet, beside.await.expect("the bystander does not panic"))
    });
    vec![
        Figure::new("jobs due in one millisecond", world.jobs as f64, "jobs"),
        Figure::new("all leased and acked after", took.as_secs_f64(), "s").at_most(3.0),
        Figure::new("another topic's put + lease + ack before it, p99", percentile(&mut quiet, 0.99), "ms"),
        Figure::new("another topic's put + lease + ack during it, p99", percentile(&mut beside, 0.99), "ms")
            .at_most(50.0),
        Figure::new("another topic's put + lease + ack during it, worst", percentile(&mut beside, 1.0), "ms"),
        Figure::new("memory during it, consumers included, at most", (memory::peak_bytes() >> 20) as f64, "MiB"),
    ]
}

/// Leases and acks the whole herd with four consumers; how long after its due time that was done.
async fn drain(store: &Arc<dyn Store>, herd: &TopicName, jobs: usize, due_at: Timestamp) -> Duration {
    let left = Arc::new(AtomicUsize::new(jobs));
    let consumers: Vec<_> = (0..4)
        .map(|_| {
            let (store, herd, left) = (Arc::clone(store), herd.clone(), Arc::clone(&left));
            tokio::spawn(async move { consume(&*store, &herd, &left).await })
        })
        .collect();
    for consumer in consumers {
        consumer.await.expect("no consumer panics");
    }
    Duration::from_millis(store.status().await.expect("status answers").now.since(due_at))
}

async fn consume(store: &dyn Store, herd: &TopicName, left: &AtomicUsize) {
    while left.load(Ordering::SeqCst) > 0 {
        let request = LeaseRequest::of(herd.clone()).up_to(1_000).waiting(Duration::from_millis(50));
        let held = store.lease(request).await.expect("lease answers");
        let acks = held.iter().filter_map(|job| job.token).map(|token| Settle::new(token, Verdict::Ack)).collect();
        store.settle(acks).await.expect("settle answers");
        left.fetch_sub(held.len(), Ordering::SeqCst);
    }
}

/// One job after the other through another topic, for so long or until the herd is done.
async fn bystander(store: &Arc<dyn Store>, millis: u64, over: Option<&AtomicBool>) -> Vec<Duration> {
    let topic = topic("bystander");
    let begun = now();
    let mut took = Vec::new();
    while begun.elapsed() < Duration::from_millis(millis) && !over.is_some_and(|over| over.load(Ordering::SeqCst)) {
        let one = now();
        let new = super::world::job(&topic, 0, 0, &dwell_core::Body::default());
        store.put(vec![new]).await.expect("put answers");
        let held = store.lease(LeaseRequest::of(topic.clone())).await.expect("lease answers");
        let acks = held.iter().filter_map(|job| job.token).map(|token| Settle::new(token, Verdict::Ack)).collect();
        store.settle(acks).await.expect("settle answers");
        took.push(one.elapsed());
    }
    took
}
