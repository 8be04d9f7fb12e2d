//! Measures servers that keep their jobs in Redis: beside what Redis itself does with scripts, and beside `BullMQ`. One Redis,
//! one run.

#![expect(clippy::cast_precision_loss, reason = "figures are for people to read")]

mod bullmq;
mod dwell;
mod herd;
mod raw;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use dwell_bench::Outcome;
use dwell_bench::program::{self, print};
use dwell_bench::redis::Redis;

use self::bullmq::Bullmq;

/// Measure servers on one Redis, beside bare scripts and `BullMQ`.
///
/// Builds `dwell`, starts one `redis-server` (appendfsync everysec), installs `BullMQ` by `npm` into a directory of its own, and
/// prints Markdown tables. Needs `redis-server`, `redis-benchmark`, `node` and `npm`.
#[derive(Parser)]
#[command(name = "redis")]
struct Args {
    /// Jobs of each row with single calls
    #[arg(long, default_value_t = 60_000)]
    single: usize,

    /// Jobs of each row with batches
    #[arg(long, default_value_t = 300_000)]
    batched: usize,

    /// Jobs of a batch
    #[arg(long, default_value_t = 1_000)]
    batch: usize,

    /// Connections of single calls
    #[arg(long, default_value_t = 64)]
    connections: usize,

    /// Connections of batches
    #[arg(long, default_value_t = 8)]
    batch_connections: usize,

    /// Bytes of a body, which is a text in quotes
    #[arg(long, default_value_t = 256)]
    body: usize,

    /// Jobs a second that fall due where lateness is measured, for 10 seconds
    #[arg(long, default_value_t = 500)]
    pace: usize,

    /// Jobs due at once, to see how long a call keeps Redis busy; 0 leaves that out
    #[arg(long, default_value_t = 1_000_000)]
    herd: usize,

    /// Leave `BullMQ` out
    #[arg(long)]
    no_bullmq: bool,

    /// Where to put the files; directories of their own are made in it and removed afterwards
    #[arg(long, default_value = ".")]
    directory: PathBuf,

    /// A `dwell` that is already built; without it one is built now, in release
    #[arg(long)]
    dwell: Option<PathBuf>,
}

/// What a row came to.
#[derive(Clone, Copy, Debug)]
struct Figure {
    /// Jobs a second.
    rate: f64,
    /// Microseconds of processor time a job, of Redis and of who uses it.
    redis: f64,
    user: f64,
}

/// How jobs are handled in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Single,
    Batched,
}

impl Way {
    const ALL: [Self; 2] = [Self::Single, Self::Batched];

    fn jobs(self, args: &Args) -> usize {
        if self == Self::Single { args.single } else { args.batched }
    }

    fn name(self, args: &Args) -> String {
        match self {
            Self::Single => format!("single, {} connections", args.connections),
            Self::Batched => format!("batches of {}, {} connections", args.batch, args.batch_connections),
        }
    }
}

/// What is done to jobs in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    /// Put, due in an hour.
    Put,
    /// Put, due in a millisecond; handed out; acked.
    Cycle,
}

impl Work {
    const ALL: [Self; 2] = [Self::Put, Self::Cycle];

    fn name(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Cycle => "put + lease + ack",
        }
    }
}

fn main() -> ExitCode {
    program::main(|| run(&Args::parse()))
}

fn run(args: &Args) -> Outcome<()> {
    let binary = program::binary(args.dwell.as_deref())?;
    let redis = Redis::start(&args.directory, &["--appendonly", "yes", "--appendfsync", "everysec"])?;
    let bullmq = if args.no_bullmq { None } else { Some(Bullmq::install(&args.directory)?) };
    rates(args, &binary, &redis, bullmq.as_ref())?;
    print("\n| | lateness p50, ms | p99, ms | bytes of Redis a waiting job |\n|---|--:|--:|--:|")?;
    let ([p50, p99], bytes) = (dwell::lateness(args, &binary, &redis)?, dwell::bytes(args, &binary, &redis)?);
    print(&format!("| Dwell | {p50:.1} | {p99:.1} | {bytes:.0} |"))?;
    if let Some(bullmq) = &bullmq {
        let ([p50, p99], bytes) = (bullmq.lateness(args, &redis)?, bullmq.bytes(args, &redis)?);
        print(&format!("| BullMQ | {p50:.1} | {p99:.1} | {bytes:.0} |"))?;
    }
    if args.herd > 0 {
        herd::measure(args, &binary, &redis)?;
    }
    Ok(())
}

fn rates(args: &Args, binary: &Path, redis: &Redis, bullmq: Option<&Bullmq>) -> Outcome<()> {
    print("| | bare script, jobs/s | Redis, CPU µs a job | our put script, jobs/s | Redis, CPU µs a job |")?;
    print("|---|--:|--:|--:|--:|")?;
    let mut bare = Vec::new();
    for way in Way::ALL {
        let rates = raw::measure(args, binary, redis, way)?;
        let [plain, ours] = [rates.plain, rates.ours].map(|bare| format!("{:.0} | {:.0}", bare.rate, bare.redis));
        print(&format!("| {} | {plain} | {ours} |", raw::name(args, way)))?;
        bare.push(rates);
    }
    print(
        "\n| | servers | jobs/s | calls a job | CPU µs a job: servers | Redis | BullMQ, jobs/s | CPU µs a job: node | Redis | \
         Dwell : BullMQ | of our script | of the bare script |",
    )?;
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|")?;
    for work in Work::ALL {
        for (way, bare) in Way::ALL.into_iter().zip(&bare) {
            let peer = bullmq.map(|bullmq| bullmq.measure(args, redis, way, work)).transpose()?;
            for servers in [1, 2] {
                let (ours, calls) = dwell::measure(args, binary, redis, servers, way, work)?;
                let theirs = peer.map_or("– | – | –".to_owned(), |peer| {
                    format!("{:.0} | {:.0} | {:.0}", peer.rate, peer.user, peer.redis)
                });
                let ahead = peer.map_or("–".to_owned(), |peer| format!("{:.2}", ours.rate / peer.rate));
                let share = |of: f64| {
                    if work == Work::Put { format!("{:.0} %", 100.0 * ours.rate / of) } else { "–".to_owned() }
                };
                print(&format!(
                    "| {}, {} | {servers} | {:.0} | {calls:.3} | {:.0} | {:.0} | {theirs} | {ahead} | {} | {} |",
                    work.name(),
                    way.name(args),
                    ours.rate,
                    ours.user,
                    ours.redis,
                    share(bare.ours.rate),
                    share(bare.plain.rate),
                ))?;
            }
        }
    }
    Ok(())
}
