//! Measures durable puts over HTTP beside what people use today for the same: a sorted set and a hash in Redis, changed
//! by one script, with `appendfsync always`. All on one machine and one disk, in one run.

#![expect(clippy::cast_precision_loss, reason = "figures are for people to read")]

mod herd;
mod load;
mod parked;
mod redis;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use dwell_bench::Outcome;
use dwell_bench::program::{self, print};
use dwell_bench::server::Server;

/// Measure durable puts over HTTP, beside Redis with a sorted set and a hash.
///
/// Builds and starts `dwell serve` and starts `redis-server`, each alone while it is measured, and prints a Markdown
/// table. Needs `redis-server` and `redis-benchmark` (Debian: `apt-get install redis-server`).
#[derive(Parser)]
#[command(name = "http")]
struct Args {
    /// Single puts, and calls of the script
    #[arg(long, default_value_t = 300_000)]
    single: usize,

    /// Jobs put in batches
    #[arg(long, default_value_t = 2_000_000)]
    batched: usize,

    /// Jobs of a batch
    #[arg(long, default_value_t = 1_000)]
    batch: usize,

    /// Keep-alive connections of the single puts, and of Redis
    #[arg(long, default_value_t = 64)]
    connections: usize,

    /// Consumers parked in a lease call, one connection each, to see what one costs
    #[arg(long, default_value_t = 10_000)]
    parked: usize,

    /// Jobs due in the same millisecond, leased and acked in batches
    #[arg(long, default_value_t = 1_000_000)]
    herd: usize,

    /// Bytes of a body
    #[arg(long, default_value_t = 256)]
    body: usize,

    /// Times the whole comparison is run
    #[arg(long, default_value_t = 3)]
    rounds: usize,

    /// Where to put the files; directories of their own are made in it and removed afterwards
    #[arg(long, default_value = ".")]
    directory: PathBuf,

    /// A `dwell` that is already built; without it one is built now, in release
    #[arg(long)]
    dwell: Option<PathBuf>,
}

fn main() -> ExitCode {
    program::main(|| run(&Args::parse()))
}

fn run(args: &Args) -> Outcome<()> {
    let binary = program::binary(args.dwell.as_deref())?;
    print(
        "| round | Redis script, calls/s | single puts, jobs/s | ratio | batched puts, jobs/s | ratio |\n|---|---|---|---|---|---|",
    )?;
    for round in 1..=args.rounds {
        let redis = redis::measure(args)?;
        let single = on_fresh_server(args, &binary, |address| load::single(args, address))?;
        let batched = on_fresh_server(args, &binary, |address| load::batched(args, address))?;
        print(&format!(
            "| {round} | {redis:.0} | {single:.0} | {:.2} | {batched:.0} | {:.2} |",
            single / redis,
            batched / redis
        ))?;
    }
    if args.herd > 0 {
        herd::measure(args, &binary)?;
    }
    if args.parked > 0 {
        parked::measure(args, &binary)?;
    }
    Ok(())
}

fn on_fresh_server<T>(args: &Args, binary: &Path, measure: impl FnOnce(&str) -> Outcome<T>) -> Outcome<T> {
    let directory = tempfile::tempdir_in(&args.directory)?;
    let server = Server::start(binary, directory.path(), &[])?;
    let measured = measure(&server.address);
    server.stop()?;
    measured
}
