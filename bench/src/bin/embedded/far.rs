//! Very many jobs that wait for long: putting them, what they take, starting again, finding them.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dwell_bench::memory;
use dwell_bench::random::SplitMix64;
use dwell_core::{CancelItem, Change, ChangeItem, Delay, JobId, JobRef, Lookup, Store, TopicName, TopicsQuery, When};

use super::put::spread;
use super::restart;
use super::world::{Figure, World, job, now, percentile, rate, topic};

/// Who puts, and how many at a time.
const PUTTING: usize = 4;
const BATCH: u64 = 512;

/// Who looks up, cancels, moves, and how often each.
const CALLERS: u64 = 64;
const CALLS: u64 = 1_000;

/// No sooner than in an hour.
const SOONEST: u64 = 3_600_000;

pub(crate) fn measure(world: &World) -> Vec<Figure> {
    let path = world.path("far");
    let told = restart::run_apart(world, &path, "fill-far");
    let mut figures: Vec<Figure> =
        told.into_iter().map(|(name, value)| Figure::new(name.clone(), value, unit(&name))).collect();
    let before = memory::resident_bytes();
    let begun = now();
    let store = world.open(&path.join("store"));
    let opened = begun.elapsed();
    let topics = world.runtime.block_on(store.topics(TopicsQuery::default())).expect("topics answers");
    let answered = begun.elapsed();
    let live: u64 = topics.iter().map(|topic| topic.counts.live()).sum();
    assert_eq!(live, world.jobs as u64, "nothing acknowledged is lost");
    figures.extend([
        Figure::new("jobs waiting", world.jobs as f64, "jobs"),
        Figure::new("open after a kill", opened.as_secs_f64() * 1_000.0, "ms"),
        Figure::new("first answer after a kill", answered.as_secs_f64() * 1_000.0, "ms"),
        Figure::new("memory after the start", (memory::resident_bytes() - before) as f64 / MEBI, "MiB"),
    ]);
    // What is read for the first time comes from the disk.
    for what in [Call::Get, Call::Get, Call::Move, Call::Cancel] {
        let (calls, mut took) = world.runtime.block_on(call(&store, what, world.jobs as u64));
        let name = |of: &str| format!("{} of 64 callers, {of}", what.name());
        figures.push(Figure::new(name("calls"), calls, "calls/s"));
        figures.push(Figure::new(name("p50"), percentile(&mut took, 0.5), "ms"));
        figures.push(Figure::new(name("p99"), percentile(&mut took, 0.99), "ms"));
    }
    figures.push(Figure::new("memory at the end", memory::resident_bytes() as f64 / MEBI, "MiB"));
    figures
}

const MEBI: f64 = 1_048_576.0;

fn unit(name: &str) -> &'static str {
    if name.contains("puts") {
        "jobs/s"
    } else if name.contains("a job") {
        "B"
    } else {
        "MiB"
    }
}

/// What callers do to jobs that wait.
#[derive(Clone, Copy)]
enum Call {
    Get,
    Move,
    Cancel,
}

impl Call {
    fn name(self) -> &'static str {
        match self {
            Self::Get => "look-ups",
            Self::Move => "moves",
            Self::Cancel => "cancels",
        }
    }
}

/// Sixty-four callers, each one call after the other, of jobs chosen at random; calls a second, and how long each took.
async fn call(store: &Arc<dyn Store>, what: Call, jobs: u64) -> (f64, Vec<Duration>) {
    let begun = now();
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let store = Arc::clone(store);
            tokio::spawn(async move {
                let mut random = SplitMix64::new(caller + 1_000 * what as u64);
                let mut took = Vec::new();
                for _ in 0..CALLS {
                    let id = random.below(jobs);
                    let one = now();
                    one_call(&*store, what, id).await;
                    took.push(one.elapsed());
                }
                took
            })
        })
        .collect();
    let mut took = Vec::new();
    for caller in callers {
        took.extend(caller.await.expect("no caller panics"));
    }
    (rate(took.len(), begun.elapsed()), took)
}

async fn one_call(store: &dyn Store, what: Call, id: u64) {
    let topic = topic("far");
    let id = JobId::new(&format!("job-{id:012}")).expect("a good id");
    let key = JobRef::Named(topic, id);
    match what {
        Call::Get => {
            let found = store.get(vec![Lookup::Job(key)]).await.expect("get answers");
            assert!(found.iter().all(Option::is_some), "every job is found");
        }
        Call::Move => {
            let when = When::In(Delay::from_millis(SOONEST * 2).expect("within ten years"));
            let change = Change { when: Some(when), ..Change::default() };
            let moved = store.change(vec![ChangeItem::new(key, change)]).await.expect("change answers");
            assert!(moved.iter().all(Result::is_ok), "every job is moved");
        }
        Call::Cancel => {
            // Some have been cancelled before.
            store.cancel(vec![CancelItem::new(key)]).await.expect("cancel answers");
        }
    }
}

/// Fills a directory, says what that took, and dies without a word.
pub(crate) fn fill(world: &World, directory: &Path) -> ! {
    let before = memory::resident_bytes();
    let path = directory.join("store");
    let store = world.open(&path);
    let name = topic("far");
    let tenth = (world.jobs as u64).div_ceil(10);
    let mut most = 0;
    for part in 0..10 {
        let begun = now();
        let range = part * tenth..((part + 1) * tenth).min(world.jobs as u64);
        let jobs = range.end.saturating_sub(range.start);
        world.runtime.block_on(put_range(world, &store, &name, range));
        most = most.max(memory::resident_bytes());
        restart::say(&format!("durable puts, tenth {}: {}", part + 1, rate(jobs as usize, begun.elapsed())));
    }
    restart::say(&format!("memory, at most: {}", (most - before) as f64 / MEBI));
    restart::say(&format!("disk a job: {}", disk(&path) as f64 / world.jobs as f64));
    std::process::abort();
}

async fn put_range(world: &World, store: &Arc<dyn Store>, topic: &TopicName, range: std::ops::Range<u64>) {
    let next = Arc::new(AtomicU64::new(range.start));
    let callers: Vec<_> = (0..PUTTING)
        .map(|_| {
            let (store, next, topic, body) = (Arc::clone(store), Arc::clone(&next), topic.clone(), world.body.clone());
            tokio::spawn(async move {
                loop {
                    let first = next.fetch_add(BATCH, Ordering::Relaxed);
                    if first >= range.end {
                        return;
                    }
                    let batch = first..(first + BATCH).min(range.end);
                    let jobs = batch.map(|id| job(&topic, id, SOONEST + spread(id), &body)).collect();
                    let answers = store.put(jobs).await.expect("put answers");
                    assert!(answers.iter().all(Result::is_ok), "every job is taken");
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.expect("no caller panics");
    }
}

/// Bytes that the files of a directory take.
pub(crate) fn disk(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let files = fs::read_dir(path).expect("the directory can be read");
    files.filter_map(|file| file.ok()?.metadata().ok()).map(|file| file.blocks() * 512).sum()
}
