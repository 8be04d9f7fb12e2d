//! Durable puts in batches.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::figure::Figure;
use super::raw;
use super::world::{World, now, rate, taken, topic};

/// Thirty days: due times are spread over them.
const HORIZON: u64 = 30 * 86_400_000;

/// Bytes a job takes in the journal beside its body.
pub(crate) const OVERHEAD: usize = 56;

pub(crate) fn measure(world: &World) -> Vec<Figure> {
    let mut figures = Vec::new();
    for (batch, callers) in [(1, 64), (32, 8), (512, 4)] {
        let jobs = (world.jobs / 4).min(batch * 20_000);
        // A sync of the store carries what all its callers sent while the last one lasted.
        let raw = raw::measure(world, batch * callers / 2, world.body.len() + OVERHEAD);
        let store = puts(world, batch, callers, jobs);
        let name = |what: &str| format!("{callers} callers × batches of {batch}: {what}");
        figures.push(Figure::new(name("durable puts"), store, "jobs/s"));
        figures.push(Figure::new(name("the bare loop"), raw.rate, "jobs/s"));
        figures.push(Figure::new(name("its sync, p50"), raw.p50, "ms"));
        figures.push(Figure::new(name("its sync, p99"), raw.p99, "ms"));
        figures.push(Figure::new(name("ratio"), store / raw.rate * 100.0, "%").at_least(15.0));
    }
    figures
}

fn puts(world: &World, batch: usize, callers: usize, jobs: usize) -> f64 {
    let store = world.store(&format!("put-{batch}"));
    let next = Arc::new(AtomicU64::new(0));
    let end = jobs as u64;
    let begun = now();
    world.runtime.block_on(async {
        let tasks: Vec<_> = (0..callers)
            .map(|_| {
                let (store, next, body) = (Arc::clone(&store), Arc::clone(&next), world.body.clone());
                tokio::spawn(async move {
                    let topic = topic("put");
                    loop {
                        let first = next.fetch_add(batch as u64, Ordering::Relaxed);
                        if first >= end {
                            return;
                        }
                        let jobs = (first..first + batch as u64)
                            .map(|id| super::world::job(&topic, id, spread(id), &body))
                            .collect();
                        let answers = store.put(jobs).await.expect("put answers");
                        taken(&answers);
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("no caller panics");
        }
    });
    rate(jobs, begun.elapsed())
}

/// A due time that looks random.
pub(crate) fn spread(id: u64) -> u64 {
    id.wrapping_mul(0x9e37_79b9_7f4a_7c15) % HORIZON
}
