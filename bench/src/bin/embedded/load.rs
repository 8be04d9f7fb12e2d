//! The same load again and again, to be compared with itself: whole cycles, then jobs that fall due one after the other.

use std::sync::Arc;
use std::time::Duration;

use dwell_bench::program;
use dwell_core::{LeaseRequest, LeasedJob, Settle, Store, Verdict};

use super::cycle;
use super::lateness::put_all;
use super::world::{World, now, percentile, rate, topic};

/// How long cycles go on, and how many jobs fall due a second for how many seconds.
const CYCLES: Duration = Duration::from_secs(3);
const DUE: u64 = 5_000;
const SECONDS: u64 = 3;

/// So far ahead the first is due, so that all are there before it.
const AHEAD: u64 = 2_000;

/// What a round of it gave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Jobs that were put, leased and acked, a second.
    pub(crate) cycles: f64,
    /// Milliseconds.
    pub(crate) late_p99: f64,
}

pub(crate) fn round(world: &World, store: &Arc<dyn Store>) -> Load {
    world.runtime.block_on(async {
        let cycles = cycles(world, store).await;
        let mut late = lateness(world, store).await;
        Load { cycles, late_p99: percentile(&mut late, 0.99) }
    })
}

/// Each caller in a topic of its own; jobs a second.
async fn cycles(world: &World, store: &Arc<dyn Store>) -> f64 {
    let begun = now();
    let callers: Vec<_> = (0..cycle::CALLERS)
        .map(|caller| {
            let (store, body) = (Arc::clone(store), world.body.clone());
            tokio::spawn(async move {
                let topic = topic(&format!("busy-{caller}"));
                let mut done = 0;
                while begun.elapsed() < CYCLES {
                    cycle::cycle(&*store, &topic, done, &body).await;
                    done += cycle::BATCH;
                }
                done
            })
        })
        .collect();
    let mut done = 0;
    for caller in callers {
        done += caller.await.expect("no caller panics");
    }
    rate(done, begun.elapsed())
}

/// How late each job was handed over by the wall clock, which the store's own follows: that one has whole milliseconds.
async fn lateness(world: &World, store: &Arc<dyn Store>) -> Vec<Duration> {
    let due = topic("due");
    let all = (DUE * SECONDS) as usize;
    put_all(world, &**store, &due, all, |id| AHEAD + id * 1_000 / DUE).await;
    let mut late = Vec::new();
    let mut acks = Vec::new();
    while late.len() < all {
        let request = LeaseRequest::of(due.clone()).up_to(1_000).waiting(Duration::from_secs(20));
        let held = store.lease(request).await.expect("lease answers");
        let at = program::now();
        late.extend(held.iter().map(|job| lateness_of(job.view.job.due_at.as_millis(), at)));
        let settling = Arc::clone(store);
        acks.push(tokio::spawn(async move { ack(&*settling, &held).await }));
    }
    for ack in acks {
        ack.await.expect("no worker panics");
    }
    late
}

fn lateness_of(due: u64, at: f64) -> Duration {
    Duration::from_secs_f64((at - due as f64).max(0.0) / 1_000.0)
}

/// Acks everything that is held.
pub(crate) async fn ack(store: &dyn Store, held: &[LeasedJob]) {
    let acks = held.iter().filter_map(|job| job.token).map(|token| Settle::new(token, Verdict::Ack)).collect();
    let answers = store.settle(acks).await.expect("settle answers");
    assert!(answers.iter().all(Result::is_ok), "every lease is live");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lateness_is_finer_than_a_millisecond_and_never_below_none() {
        assert_eq!(lateness_of(1_000, 1_001.25), Duration::from_micros(1_250));
        assert_eq!(lateness_of(1_000, 999.5), Duration::ZERO);
    }
}
