//! A steady state that goes on for long: as many jobs come as go, and the disk must not grow.
//!
//! A round puts a tenth as many jobs as there are, moves as many others, cancels half as many of the oldest and makes the
//! other half due, which are leased and acked.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dwell_bench::memory;
use dwell_bench::program::progress;
use dwell_core::{
    Body, CancelItem, Change, ChangeItem, Delay, JobId, JobRef, LeaseRequest, Lookup, Store, TopicName, When,
};

use super::disk::{self, Disk};
use super::figure::Figure;
use super::put::spread;
use super::world::{MEBI, World, job, now, taken, topic};
use super::{load, parallel};

const BATCH: u64 = 512;

/// Nothing is due before it is made so.
const SOONEST: u64 = 86_400_000;

#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Args {
    /// How many rounds, of each a tenth of the jobs is new
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

pub(crate) fn measure(world: &World, args: Args) -> Vec<Figure> {
    let all = world.jobs as u64;
    assert!(all >= 20, "a round takes a twentieth of the jobs");
    let churn = Churn {
        store: world.store("churn"),
        path: world.path("churn"),
        topic: topic("churn"),
        body: world.body.clone(),
        most: Arc::default(),
    };
    world.runtime.block_on(churn.put(0..all));
    let begun = now();
    for number in 0..args.rounds {
        progress(&format!("round {number}, {:.0} MiB on disk at most", churn.most() as f64 / MEBI));
        world.runtime.block_on(churn.round(&Round::new(all, u64::from(number))));
    }
    let took = begun.elapsed();
    let rested = world.runtime.block_on(disk::rest(&*churn.store, &churn.path));
    let left = Round::new(all, u64::from(args.rounds)).live();
    world.runtime.block_on(churn.check(left));
    let verbs = u64::from(args.rounds) * Round::new(all, 0).verbs();
    report(world, args, &churn, (verbs as f64 / took.as_secs_f64(), rested))
}

fn report(world: &World, args: Args, churn: &Churn, (verbs, rested): (f64, Duration)) -> Vec<Figure> {
    let disk = Disk::of(&churn.path);
    let live = disk::live(world.jobs as u64, world.body.len());
    let mebi = |bytes: u64| bytes as f64 / MEBI;
    vec![
        Figure::new("jobs that live", world.jobs as f64, "jobs"),
        Figure::new("rounds", f64::from(args.rounds), "rounds"),
        Figure::new("puts, moves, cancels, leases and acks", verbs, "jobs/s"),
        Figure::new("at rest after", rested.as_secs_f64(), "s"),
        Figure::new("memory, at most", mebi(memory::peak_bytes()), "MiB"),
        Figure::new("jobs themselves", mebi(live), "MiB"),
        Figure::new("segments", mebi(disk.segments), "MiB"),
        Figure::new("disk at the end", mebi(disk.all()), "MiB").at_most(mebi(2 * live + disk.segments)),
        Figure::new("disk without segments : jobs themselves", disk.rest as f64 / live as f64, "").at_most(2.0),
        // A merge has its old runs beside it until it is done: once more what lives.
        Figure::new("disk without segments, at most", mebi(churn.most()), "MiB").at_most(mebi(3 * live)),
    ]
}

/// Which jobs a round does what to. Jobs are numbered as they come.
struct Round {
    put: Range<u64>,
    moved: Range<u64>,
    cancelled: Range<u64>,
    acked: Range<u64>,
}

impl Round {
    fn new(all: u64, number: u64) -> Self {
        let half = all / 20;
        let oldest = number * 2 * half;
        let newest = oldest + all;
        let (cancelled, acked) = (oldest..oldest + half, oldest + half..oldest + 2 * half);
        // Of those that stay, another part each time.
        let stay = all - 2 * half;
        let parts = (stay / (2 * half)).max(1);
        let first = acked.end + number % parts * 2 * half;
        let moved = first..(first + 2 * half).min(newest);
        Self { put: newest..newest + 2 * half, moved, cancelled, acked }
    }

    /// All that live before this round.
    fn live(&self) -> Range<u64> {
        self.cancelled.start..self.put.start
    }

    /// How often something is done to a job: one that is acked is moved and leased before.
    fn verbs(&self) -> u64 {
        let count = |range: &Range<u64>| range.end - range.start;
        count(&self.put) + count(&self.moved) + count(&self.cancelled) + 3 * count(&self.acked)
    }
}

#[derive(Clone)]
struct Churn {
    store: Arc<dyn Store>,
    path: PathBuf,
    topic: TopicName,
    body: Body,
    /// The most bytes on disk so far beside segments.
    most: Arc<AtomicU64>,
}

impl Churn {
    async fn round(&self, round: &Round) {
        self.put(round.put.clone()).await;
        self.move_to(round.moved.clone(), SOONEST * 2).await;
        self.cancel(round.cancelled.clone()).await;
        self.move_to(round.acked.clone(), 0).await;
        self.consume(round.acked.end - round.acked.start).await;
    }

    fn key(&self, id: u64) -> JobRef {
        JobRef::Named(self.topic.clone(), JobId::new(&format!("job-{id:012}")).expect("a good id"))
    }

    fn most(&self) -> u64 {
        self.most.load(Ordering::Relaxed)
    }

    /// Looks how much is on disk.
    fn look(&self) {
        self.most.fetch_max(Disk::of(&self.path).rest, Ordering::Relaxed);
    }

    async fn put(&self, range: Range<u64>) {
        let churn = self.clone();
        parallel::batches(range, BATCH, move |batch| {
            let churn = churn.clone();
            async move {
                let jobs = batch.map(|id| job(&churn.topic, id, SOONEST + spread(id), &churn.body)).collect();
                let answers = churn.store.put(jobs).await.expect("put answers");
                taken(&answers);
                churn.look();
            }
        })
        .await;
    }

    async fn move_to(&self, range: Range<u64>, delay: u64) {
        let churn = self.clone();
        parallel::batches(range, BATCH, move |batch| {
            let churn = churn.clone();
            async move {
                let when = When::In(Delay::from_millis(delay).expect("within ten years"));
                let change = || Change { when: Some(when), ..Change::default() };
                let items = batch.map(|id| ChangeItem::new(churn.key(id), change())).collect();
                let answers = churn.store.change(items).await.expect("change answers");
                assert!(answers.iter().all(Result::is_ok), "every job is moved");
                churn.look();
            }
        })
        .await;
    }

    async fn cancel(&self, range: Range<u64>) {
        let churn = self.clone();
        parallel::batches(range, BATCH, move |batch| {
            let churn = churn.clone();
            async move {
                let items = batch.map(|id| CancelItem::new(churn.key(id))).collect();
                let answers = churn.store.cancel(items).await.expect("cancel answers");
                assert!(answers.iter().all(Result::is_ok), "every job is cancelled");
                churn.look();
            }
        })
        .await;
    }

    /// Leases and acks so many.
    async fn consume(&self, jobs: u64) {
        let mut left = jobs;
        while left > 0 {
            let request = LeaseRequest::of(self.topic.clone()).up_to(BATCH as u32).waiting(Duration::from_secs(20));
            let held = self.store.lease(request).await.expect("lease answers");
            assert!(!held.is_empty() && held.len() as u64 <= left, "what was made due is handed out, and nothing else");
            load::ack(&*self.store, &held).await;
            left -= held.len() as u64;
            self.look();
        }
    }

    /// Whether exactly these live: by their count, and by one of every thousand and the neighbours of both ends.
    async fn check(&self, live: Range<u64>) {
        let counts = self.store.topic(self.topic.clone()).await.expect("topic answers").expect("there is one").counts;
        assert_eq!(counts.live(), live.end - live.start, "as many came as went");
        let (before, after) = (live.start.saturating_sub(100)..live.start, live.end..live.end + 100);
        let sample = before.chain(live.clone().step_by(1_000)).chain([live.start, live.end - 1]).chain(after);
        for id in sample {
            let found = self.store.get(vec![Lookup::Job(self.key(id))]).await.expect("get answers").remove(0);
            assert_eq!(found.is_some(), live.contains(&id), "job {id}, where {live:?} live");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_come_as_go_and_only_those_that_live_are_touched() {
        for all in [20, 21, 39, 1_000, 1_007] {
            let mut live = 0..all;
            for number in 0..60 {
                let round = Round::new(all, number);
                assert_eq!(round.live(), live);
                assert!(round.moved.start >= round.acked.end && round.moved.end <= live.end, "{all}, {number}");
                assert!(!round.moved.is_empty() && !round.cancelled.is_empty() && !round.acked.is_empty());
                assert_eq!((round.cancelled.start, round.cancelled.end), (live.start, round.acked.start));
                live = round.acked.end..round.put.end;
                assert_eq!(live.end - live.start, all);
            }
        }
    }
}
