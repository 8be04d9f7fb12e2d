//! Very many jobs that wait for long: putting them, what they take, starting again, finding them.

mod calls;
mod fill;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use dwell_bench::memory;
use dwell_core::{JobId, JobRef, Store, TopicName, TopicsQuery};

use self::calls::{Call, Round};
pub(crate) use self::fill::fill;
use super::disk;
use super::figure::Figure;
use super::restart;
use super::world::{MEBI, World, now, percentile, topic};

/// No sooner than in an hour.
const SOONEST: u64 = 3_600_000;

/// What is asked: of memory, of a call by few, of calls by many, and how much of the bare loop is kept up to the end.
const MEMORY: f64 = 1_024.0;
const FEW_P99: f64 = 2.0;
const MANY: f64 = 5_000.0;
const SUSTAINED: f64 = 7.5;

#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Args {
    /// Over how many topics the jobs are spread
    #[arg(long, default_value_t = 1)]
    topics: u64,
}

impl Args {
    /// Where a job is, and what it is called: nobody has to remember that.
    fn place(self, job: u64) -> TopicName {
        topic(&format!("far-{:06}", job % self.topics.max(1)))
    }

    fn key(self, job: u64) -> JobRef {
        JobRef::Named(self.place(job), JobId::new(&format!("job-{job:012}")).expect("a good id"))
    }
}

pub(crate) fn measure(world: &World, args: Args) -> Vec<Figure> {
    let path = world.path("far");
    let told = restart::run_apart(world, &path, &["fill-far", "--topics", &args.topics.to_string()]);
    let mut figures = filled(world, args, &told);
    let path = store_in(&path);
    let before = disk::Disk::of(&path);
    let begun = now();
    let store = world.open(&path);
    let opened = begun.elapsed();
    world.runtime.block_on(store.topics(TopicsQuery::default())).expect("topics answers");
    let ready = begun.elapsed();
    let live = disk::live(world.jobs as u64, world.body.len()) as f64;
    let soon = if world.jobs > 10_000_000 { 2_000.0 } else { 1_000.0 };
    figures.extend([
        Figure::new("disk at the kill", before.all() as f64 / MEBI, "MiB"),
        Figure::new("of that segments", before.segments as f64 / MEBI, "MiB"),
        Figure::new("jobs themselves", live / MEBI, "MiB"),
        Figure::new("disk without segments : jobs themselves", before.rest as f64 / live, "").at_most(2.0),
        Figure::new("open after a kill", opened.as_secs_f64() * 1_000.0, "ms"),
        Figure::new("first answer after a kill", ready.as_secs_f64() * 1_000.0, "ms").at_most(soon),
        Figure::new("memory after the start", memory::resident_bytes() as f64 / MEBI, "MiB").at_most(MEMORY),
    ]);
    assert_eq!(world.runtime.block_on(count(&*store)), world.jobs as u64, "nothing acknowledged is lost");
    figures.extend(world.runtime.block_on(called(&store, world.jobs as u64, args)));
    figures.push(
        Figure::new("memory, at most after the start", memory::peak_bytes() as f64 / MEBI, "MiB").at_most(MEMORY),
    );
    figures
}

/// What the filling was like.
fn filled(world: &World, args: Args, told: &restart::Told) -> Vec<Figure> {
    let rates: Vec<f64> = (1..=10).map(|tenth| told.of(&fill::tenth(tenth))).collect();
    let slowest = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let (before, after) = (told.of(fill::RAW_BEFORE), told.of(fill::RAW_AFTER));
    let raw = f64::midpoint(before, after);
    let mut figures = vec![
        Figure::new("jobs waiting", world.jobs as f64, "jobs"),
        Figure::new("topics", args.topics as f64, "topics"),
    ];
    figures.extend((1..=10).zip(&rates).map(|(tenth, rate)| Figure::new(fill::tenth(tenth), *rate, "jobs/s")));
    figures.extend([
        Figure::new(fill::RAW_BEFORE, before, "jobs/s"),
        Figure::new(fill::RAW_AFTER, after, "jobs/s"),
        Figure::new("first tenth : the bare loop before", rates[0] / before * 100.0, "%").at_least(SUSTAINED),
        Figure::new("last tenth : the bare loop after", rates[9] / after * 100.0, "%").at_least(SUSTAINED),
        Figure::new("slowest tenth : the bare loop", slowest / raw * 100.0, "%").at_least(SUSTAINED),
        Figure::new("memory, at most while filling", told.of(fill::PEAK) / MEBI, "MiB").at_most(MEMORY),
    ]);
    figures
}

/// All jobs of all topics.
async fn count(store: &dyn Store) -> u64 {
    let mut query = TopicsQuery { limit: 1_000, ..TopicsQuery::default() };
    let mut live = 0;
    loop {
        let page = store.topics(query.clone()).await.expect("topics answers");
        live += page.iter().map(|topic| topic.counts.live()).sum::<u64>();
        let Some(last) = page.last() else { return live };
        query.after = Some(last.name.clone());
    }
}

/// Many callers for how much goes through, few for how long one takes. What is read for the first time comes from the
/// disk; few are asked about jobs that were looked up just before.
async fn called(store: &Arc<dyn Store>, jobs: u64, args: Args) -> Vec<Figure> {
    let mut figures = Vec::new();
    let many = |class| Round { callers: 64, calls: 1_000, class };
    for (what, class, how) in
        [(Call::Get, 0, "cold"), (Call::Get, 0, "again"), (Call::Move, 1, "cold"), (Call::Cancel, 2, "cold")]
    {
        let (rate, mut took) = calls::round(store, what, many(class), jobs, args).await;
        let name = |of: &str| format!("{} of 64 callers, {how}: {of}", what.name());
        figures.push(Figure::new(name("calls"), rate, "calls/s").at_least(MANY));
        figures.push(Figure::new(name("p50"), percentile(&mut took, 0.5), "ms"));
        figures.push(Figure::new(name("p99"), percentile(&mut took, 0.99), "ms"));
    }
    for (callers, class) in [(1, 3), (4, 4)] {
        let round = Round { callers, calls: 4_000 / callers, class };
        calls::round(store, Call::Get, round, jobs, args).await;
        for what in [Call::Get, Call::Cancel] {
            let (_, mut took) = calls::round(store, what, round, jobs, args).await;
            let name = |of: &str| format!("{} of {callers} callers, warm: {of}", what.name());
            figures.push(Figure::new(name("p50"), percentile(&mut took, 0.5), "ms"));
            figures.push(Figure::new(name("p99"), percentile(&mut took, 0.99), "ms").at_most(FEW_P99));
        }
    }
    figures
}

/// Where the child of this measurement has its store.
fn store_in(directory: &Path) -> PathBuf {
    directory.join("store")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_spread_evenly_and_found_by_their_number() {
        let args = Args { topics: 3 };
        let mut topics: Vec<TopicName> = (0..9).map(|job| args.place(job)).collect();
        topics.sort();
        topics.dedup_by_key(|name| name.clone());
        assert_eq!(topics.len(), 3);
        assert_eq!(args.key(4), JobRef::Named(topic("far-000001"), JobId::new("job-000000000004").unwrap()));
    }
}
