//! Put, lease and ack, all durable.

use std::sync::Arc;

use dwell_core::{Body, LeaseRequest, Store, TopicName};

use super::figure::Figure;
use super::load;
use super::raw;
use super::world::{World, job, now, rate, topic};

pub(crate) const BATCH: usize = 512;
pub(crate) const CALLERS: usize = 4;

pub(crate) fn measure(world: &World) -> Vec<Figure> {
    let raw = raw::measure(world, BATCH * CALLERS / 2, world.body.len() + 56);
    let store = world.store("cycle");
    let each = world.jobs / 4 / CALLERS;
    let begun = now();
    world.runtime.block_on(async {
        let tasks: Vec<_> = (0..CALLERS)
            .map(|caller| {
                let (store, body) = (Arc::clone(&store), world.body.clone());
                tokio::spawn(async move { cycles(&*store, caller, each, &body).await })
            })
            .collect();
        for task in tasks {
            task.await.expect("no caller panics");
        }
    });
    let cycles = rate(each / BATCH * BATCH * CALLERS, begun.elapsed());
    let name = |what: &str| format!("{CALLERS} callers × batches of {BATCH}: {what}");
    vec![
        Figure::new(name("put + lease + ack"), cycles, "jobs/s"),
        Figure::new(name("the bare loop"), raw.rate, "jobs/s"),
        Figure::new(name("its sync, p50"), raw.p50, "ms"),
        Figure::new(name("its sync, p99"), raw.p99, "ms"),
        Figure::new(name("ratio"), cycles / raw.rate * 100.0, "%").at_least(5.0),
    ]
}

async fn cycles(store: &dyn Store, caller: usize, jobs: usize, body: &Body) {
    let topic = topic(&format!("cycle-{caller}"));
    for first in (0..=jobs - BATCH).step_by(BATCH) {
        cycle(store, &topic, first, body).await;
    }
}

/// Puts, leases and acks a batch.
pub(crate) async fn cycle(store: &dyn Store, topic: &TopicName, first: usize, body: &Body) {
    let batch = (first..first + BATCH).map(|id| job(topic, id as u64, 0, body)).collect();
    store.put(batch).await.expect("put answers");
    let request = LeaseRequest::of(topic.clone()).up_to(BATCH as u32);
    let held = store.lease(request).await.expect("lease answers");
    assert_eq!(held.len(), BATCH, "everything put is ready");
    load::ack(store, &held).await;
}
