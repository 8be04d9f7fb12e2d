//! Files that are not as they were written, many thousand times: torn, cut short, with bits flipped, swapped, missing.
//!
//! A directory with jobs is made once ([`prepared`]). Each try works on a copy of it: runs never change, so they are
//! linked, and only what is damaged or written in place is copied. The store is opened in this process, by the code that
//! the server runs, and asked for every job ([`look`]); what it may and may not do is in [`verdict`]. Then the copy
//! is repaired and asked again. Seeds give equal damage in equal directories; where
//! flushes fall while one is made is up to the threads.

mod damage;
mod look;
mod prepared;
mod verdict;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use self::damage::Damage;
use self::look::Start;
use self::prepared::Prepared;
use self::verdict::{Broken, Table};
use crate::Outcome;
use crate::clock::Clock;
use crate::run::Options;

/// A try that takes longer than this hangs.
const PATIENCE: Duration = Duration::from_mins(2);

/// Tries between two lines that say how far it has come.
const PROGRESS: u64 = 500;

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// How many
    #[arg(long, default_value_t = 10_000)]
    pub(crate) count: u64,
    /// The first seed
    #[arg(long, default_value_t = 0)]
    pub(crate) from: u64,
    /// Jobs in the directory
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(100..))]
    pub(crate) jobs: u64,
    /// Every so many damaged directories one is also repaired, and asked for every job again
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) repair_every: u64,
}

impl Args {
    /// What runs with every change.
    pub(super) fn short() -> Self {
        Self { count: 50, from: 0, jobs: 20_000, repair_every: 10 }
    }
}

pub(crate) async fn run(args: &Args, options: &Options) -> Outcome<bool> {
    println!("{} corruptions of {} jobs, from seed {}", args.count, args.jobs, args.from);
    let place = tempfile::Builder::new().prefix("dwell-torture-").tempdir_in(options.place())?;
    let clock = Clock::start();
    let prepared = Arc::new(prepare(place.path(), args.jobs).await?);
    println!("  made in {} s: {}", clock.elapsed().as_secs(), prepared.described());
    let panics = count_panics();
    let mut table = Table::default();
    let clock = Clock::start();
    for seed in args.from..args.from + args.count {
        let tried = Arc::clone(&prepared);
        let repairs = (seed - args.from).is_multiple_of(args.repair_every);
        let before = panics.load(Ordering::SeqCst);
        let outcome = apart(move || try_one(&tried, seed, repairs)).await?;
        let hangs = outcome.is_none();
        let mut tried = outcome.unwrap_or_else(|| Tried::hung(seed));
        if panics.load(Ordering::SeqCst) > before {
            tried.start = Start::Panicked;
        }
        judge(&mut table, &prepared, &tried);
        if hangs {
            break;
        }
        if (seed + 1 - args.from).is_multiple_of(PROGRESS) {
            let (done, seconds) = (seed + 1 - args.from, clock.elapsed().as_secs());
            println!("  {done} done in {seconds} s, {} went wrong", table.went_wrong());
        }
    }
    if !prepared.is_as_made()? {
        table.broken(Broken::Odd, "a run that was linked has been written to".to_owned());
    }
    println!("{table}");
    let tried = table.tried().max(1);
    println!("  {} s, {} ms each", clock.elapsed().as_secs(), clock.elapsed().as_millis() / u128::from(tried));
    println!("  corruptions: {}", if table.is_clean() { "ok" } else { "FAILED" });
    Ok(table.is_clean())
}

/// What became of one damaged directory.
struct Tried {
    what: String,
    kind: &'static str,
    /// Files of which one must be named.
    files: Vec<String>,
    start: Start,
    repaired: Option<look::Repaired>,
}

impl Tried {
    fn hung(seed: u64) -> Self {
        let what = format!("seed {seed}");
        Self { what, kind: "unknown", files: Vec::new(), start: Start::Hung, repaired: None }
    }
}

/// Damages a copy, repairs it elsewhere, opens it.
fn try_one(prepared: &Prepared, seed: u64, repairs: bool) -> Outcome<Tried> {
    let copy = prepared.copy(seed)?;
    let damage = Damage::of(prepared, seed)?;
    damage.apply(prepared, copy.path())?;
    let repaired = repairs.then(|| look::repair(copy.path(), prepared)).transpose()?;
    let start = look::start(copy.path(), prepared);
    let (what, kind) = (format!("seed {seed}: {damage}"), damage.kind());
    Ok(Tried { what, kind, files: damage.files(&prepared.files), start, repaired })
}

fn judge(table: &mut Table, prepared: &Prepared, tried: &Tried) {
    match verdict::of_start(&tried.start, &tried.files) {
        Ok(class) => table.count(tried.kind, class),
        Err((broken, why)) => table.broken(broken, format!("{}: {why}", tried.what)),
    }
    match tried.repaired.as_ref().map(|repaired| verdict::of_repair(repaired, prepared.live())) {
        None => {}
        Some(Ok(class)) => table.count_repair(class),
        Some(Err((broken, why))) => table.broken(broken, format!("{}: repaired: {why}", tried.what)),
    }
}

async fn prepare(place: &Path, jobs: u64) -> Outcome<Prepared> {
    let place = place.to_owned();
    apart(move || Prepared::make(&place, jobs)).await?.ok_or_else(|| "making the directory takes too long".into())
}

/// Does it on a thread of its own, which nobody waits for if it hangs; none if it does, or panics.
async fn apart<T: Send + 'static>(work: impl FnOnce() -> Outcome<T> + Send + 'static) -> Outcome<Option<T>> {
    let (done, result) = oneshot::channel();
    std::thread::spawn(move || drop(done.send(work())));
    match timeout(PATIENCE, result).await {
        Ok(Ok(result)) => result.map(Some),
        Ok(Err(_)) | Err(_) => Ok(None),
    }
}

/// From now on panics of all threads are counted.
fn count_panics() -> Arc<AtomicU64> {
    let count = Arc::new(AtomicU64::new(0));
    let counting = Arc::clone(&count);
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        counting.fetch_add(1, Ordering::SeqCst);
        usual(info);
    }));
    count
}

#[cfg(test)]
mod tests;
