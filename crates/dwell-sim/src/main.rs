//! `dwell-sim`: lives many seeds, on all cores, and says what went wrong.

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use dwell_sim::event::life;
use dwell_sim::planted::find;
use dwell_sim::shrink::shrink;
use dwell_sim::world::{Tally, WITH_COLD_TIER, World, Wrong};
use dwell_store_embedded::Bug;

/// Lives in which a planted bug must be found.
const MOST_LIVES: u64 = 5_000;

/// Simulate the embedded store: one seed is one life with crashes, faults and clock steps.
///
/// Ends with the number of lives and what they amounted to, or with the shortest list of events found that goes wrong.
#[derive(Parser)]
#[command(name = "dwell-sim")]
struct Args {
    /// Lives
    #[arg(long, default_value_t = 10_000)]
    seeds: u64,

    /// The first seed
    #[arg(long, default_value_t = 0)]
    from: u64,

    /// Live with a cold tier: other seeds, of stores whose jobs leave memory while they wait
    #[arg(long)]
    cold: bool,

    /// Go on for so many minutes instead of a number of lives
    #[arg(long)]
    minutes: Option<f64>,

    /// Live this seed alone and print everything that happens
    #[arg(long)]
    seed: Option<u64>,

    /// Plant each known bug and say how many lives it takes to find it
    #[arg(long)]
    planted: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let passed = match args.seed {
        Some(seed) => tell(seed),
        None if args.planted => find_planted(),
        None => search(&args),
    };
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn say(line: &str) {
    // Nobody may be listening.
    drop(writeln!(std::io::stdout(), "{line}"));
}

/// Lives one seed aloud.
fn tell(seed: u64) -> bool {
    let outcome = World::new(seed).and_then(|mut world| {
        world.log = Some(Vec::new());
        let outcome = world.run(&life(seed));
        for line in world.log.iter().flatten() {
            say(line);
        }
        outcome.map(|()| world.tally())
    });
    match outcome {
        Ok(tally) => {
            say(&format!("seed {seed}: fine; {tally:?}"));
            true
        }
        Err(Wrong(what)) => {
            say(&format!("seed {seed}: {what}"));
            false
        }
    }
}

/// Finds every planted bug.
fn find_planted() -> bool {
    // Bugs panic, too, and that is nothing to read.
    std::panic::set_hook(Box::new(|_| {}));
    let (next, missed) = (AtomicU64::new(0), AtomicBool::new(false));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while let Some(bug) =
                    Bug::ALL.get(usize::try_from(next.fetch_add(1, Ordering::Relaxed)).unwrap_or(usize::MAX))
                {
                    say(&found_in(*bug, &missed));
                }
            });
        }
    });
    !missed.load(Ordering::Relaxed)
}

/// Says how many lives it took to find a bug, and what gave it away.
fn found_in(bug: Bug, missed: &AtomicBool) -> String {
    let name = format!("{bug:?}");
    if let Some((lives, Wrong(what))) = find(bug, MOST_LIVES) {
        let what: String = what.chars().filter(|c| *c != '\n').take(100).collect();
        return format!("{name:<22} {lives:>5}   {what}");
    }
    missed.store(true, Ordering::Relaxed);
    format!("{name:<22} not found in {MOST_LIVES} lives")
}

/// Lives many seeds on all cores.
fn search(args: &Args) -> bool {
    let start = now();
    let from = if args.cold { args.from | WITH_COLD_TIER } else { args.from };
    let end = args.minutes.map(|minutes| start + Duration::from_secs_f64(minutes * 60.0));
    let (next, stop) = (AtomicU64::new(from), AtomicBool::new(false));
    let total = Mutex::new((0_u64, Tally::default()));
    let failed: Mutex<Vec<(u64, String)>> = Mutex::default();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let over = end.map_or(seed >= from + args.seeds, |end| now() >= end);
                    if over || stop.load(Ordering::Relaxed) {
                        return;
                    }
                    match dwell_sim::world::live_caught(seed, &life(seed)) {
                        Ok(tally) => add(&total, &tally),
                        Err(Wrong(what)) => {
                            stop.store(true, Ordering::Relaxed);
                            failed.lock().expect("no thread panics here").push((seed, what));
                        }
                    }
                }
            });
        }
    });
    let (lives, tally) = *total.lock().expect("no thread panics here");
    let seconds = start.elapsed().as_secs_f64();
    say(&summary(lives, &tally, seconds));
    let mut failed = failed.into_inner().expect("no thread panics here");
    failed.sort();
    let Some((seed, what)) = failed.first() else { return true };
    say(&format!("\nseed {seed}: {what}"));
    if let Some((events, Wrong(what))) = shrink(*seed, life(*seed)) {
        say(&format!("\n{} events are enough:", events.len()));
        for event in &events {
            say(&format!("    {event:?},"));
        }
        say(&format!("{what}\n\nreplay: cargo xtask sim --seed {seed}"));
    }
    false
}

fn add(total: &Mutex<(u64, Tally)>, tally: &Tally) {
    let mut total = total.lock().expect("no thread panics here");
    total.0 += 1;
    let sum = &mut total.1;
    sum.events += tally.events;
    sum.answers += tally.answers;
    sum.starts += tally.starts;
    sum.images += tally.images;
    sum.unreadable += tally.unreadable;
    sum.time += tally.time;
    // The same in whatever order lives end.
    sum.trace = sum.trace.wrapping_add(tally.trace);
    sum.disk.writes += tally.disk.writes;
    sum.disk.syncs += tally.disk.syncs;
    sum.disk.faults += tally.disk.faults;
    sum.disk.cuts += tally.disk.cuts;
}

#[expect(clippy::cast_precision_loss, reason = "figures are for people to read")]
fn summary(lives: u64, tally: &Tally, seconds: f64) -> String {
    format!(
        "{lives} lives in {seconds:.0} s ({:.0} a second): {} events, {} answers, {} starts, {} power cuts, \
         {} images, {} failed disk calls, {} calls told that the cold tier cannot be read, {:.1} days of simulated time; \
         digest of all answers {:016x}",
        lives as f64 / seconds,
        tally.events,
        tally.answers,
        tally.starts,
        tally.disk.cuts,
        tally.images,
        tally.disk.faults,
        tally.unreadable,
        tally.time as f64 / 86_400_000.0,
        tally.trace
    )
}

#[expect(clippy::disallowed_methods, reason = "how long a search goes on is real time")]
fn now() -> Instant {
    Instant::now()
}
