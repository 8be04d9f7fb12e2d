//! How late jobs are handed over while many others wait.

use std::sync::Arc;
use std::time::Duration;

use dwell_core::{LeaseRequest, Settle, Store, TopicName, Verdict};

use super::figure::Figure;
use super::put::spread;
use super::raw;
use super::world::{World, now, percentile, rate, taken, topic};

/// Due jobs a second, and for how many seconds.
const RATE: u64 = 5_000;
const SECONDS: u64 = 10;

pub(crate) fn measure(world: &World) -> Vec<Figure> {
    let raw = raw::measure(world, 64, world.body.len());
    let store = world.store("lateness");
    let (mut late, handed, took) = world.runtime.block_on(async {
        let crowd = topic("crowd");
        put_all(world, &*store, &crowd, world.jobs, |id| 3_600_000 + spread(id)).await;
        let due = topic("due");
        // Due from three seconds on, evenly, so that all of them are there before the first is due.
        put_all(world, &*store, &due, (RATE * SECONDS) as usize, |id| 3_000 + id * 1_000 / RATE).await;
        consume(&store, &due).await
    });
    let p99 = percentile(&mut late, 0.99);
    let bound = 2.0 * raw.p99 + 5.0;
    vec![
        Figure::new("jobs waiting beside", world.jobs as f64, "jobs"),
        Figure::new("handed over", rate(handed, took), "jobs/s"),
        Figure::new("lateness, p50", percentile(&mut late, 0.5), "ms"),
        Figure::new("lateness, p99", p99, "ms"),
        Figure::new("lateness, worst", percentile(&mut late, 1.0), "ms"),
        Figure::new("sync of the bare loop, p99", raw.p99, "ms"),
        Figure::new("share of 2 × sync p99 + 5 ms", p99 / bound * 100.0, "%").at_most(100.0),
    ]
}

/// Leases what is due, again and again; others settle it meanwhile, as workers do.
async fn consume(store: &Arc<dyn Store>, due: &TopicName) -> (Vec<Duration>, usize, Duration) {
    let mut late = Vec::new();
    let all = (RATE * SECONDS) as usize;
    let mut begun = None;
    let mut acks_under_way = Vec::new();
    while late.len() < all {
        let request = LeaseRequest::of(due.clone()).up_to(1_000).waiting(Duration::from_secs(20));
        let held = store.lease(request).await.expect("lease answers");
        let at = store.status().await.expect("status answers").now;
        begun.get_or_insert_with(now);
        late.extend(held.iter().map(|job| Duration::from_millis(at.since(job.view.job.due_at))));
        let acks = held.iter().filter_map(|job| job.token).map(|token| Settle::new(token, Verdict::Ack)).collect();
        let settling = Arc::clone(store);
        acks_under_way.push(tokio::spawn(async move { settling.settle(acks).await.expect("settle answers") }));
    }
    let took = begun.map_or(Duration::ZERO, |begun| begun.elapsed());
    for ack in acks_under_way {
        ack.await.expect("no worker panics");
    }
    (late, all, took)
}

/// Puts so many jobs in batches, due as `delay` says.
pub(crate) async fn put_all(
    world: &World,
    store: &dyn Store,
    topic: &TopicName,
    jobs: usize,
    delay: impl Fn(u64) -> u64,
) {
    for first in (0..jobs).step_by(1_000) {
        let batch = first..(first + 1_000).min(jobs);
        let batch = batch.map(|id| world.job(topic, id as u64, delay(id as u64))).collect();
        let answers = store.put(batch).await.expect("put answers");
        taken(&answers);
    }
}
