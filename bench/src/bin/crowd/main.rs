//! Measures how a client that behaves is served while many others wait and some misbehave: the same client on the same
//! server, alone and then in the crowd.

#![expect(clippy::cast_precision_loss, reason = "figures are for people to read")]

mod broken;
mod client;
mod others;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use dwell_bench::Outcome;
use dwell_bench::server::{self, Server};
use tokio::runtime::Builder;

use self::client::Client;
use self::others::Others;

/// Measure a well-behaved client alone, and among parked consumers and broken clients.
///
/// Builds and starts `dwell serve` and prints a Markdown table. Needs two file handles a client: `ulimit -n 65536`.
#[derive(Parser)]
#[command(name = "crowd")]
struct Args {
    /// Consumers parked in a lease call, one connection each
    #[arg(long, default_value_t = 10_000)]
    parked: usize,

    /// Clients that are slow or broken
    #[arg(long, default_value_t = 1_000)]
    broken: usize,

    /// Turns of the well-behaved client, each of a put, a lease and an ack
    #[arg(long, default_value_t = 3_000)]
    turns: usize,

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
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            drop(writeln!(std::io::stderr(), "error: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Outcome<()> {
    let binary = match &args.dwell {
        Some(binary) => binary.clone(),
        None => server::build()?,
    };
    print("| round | | p50, ms | p99, ms | max, ms | p99, ratio | server, MiB |\n|---|---|---|---|---|---|---|")?;
    for round in 1..=args.rounds {
        let directory = tempfile::tempdir_in(&args.directory)?;
        let server = Server::start(&binary, directory.path(), &["--log", "error"])?;
        compare(args, round, &server)?;
        server.stop()?;
    }
    Ok(())
}

/// The client that behaves has this thread and its runtime for itself.
fn compare(args: &Args, round: usize, server: &Server) -> Outcome<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let mut client = runtime.block_on(Client::open(&server.address))?;
    // Files, threads and buffers are made by the first.
    runtime.block_on(client.turns(args.turns / 10))?;
    let alone = runtime.block_on(client.turns(args.turns))?;
    let before = server.memory()? >> 10;
    let others = Others::start(&server.address, args.parked, args.broken)?;
    runtime.block_on(async { tokio::time::sleep(Duration::from_secs(2)).await });
    let among = runtime.block_on(client.turns(args.turns))?;
    let after = server.memory()? >> 10;
    drop(others);
    let row = |name: &str, took: &[f64], memory: u64| {
        let (p50, p99, max) = (at(took, 0.5), at(took, 0.99), at(took, 1.0));
        let ratio = p99 / at(&alone, 0.99);
        print(&format!("| {round} | {name} | {p50:.2} | {p99:.2} | {max:.2} | {ratio:.2} | {memory} |"))
    };
    row("alone", &alone, before)?;
    row(&format!("{} parked, {} broken", args.parked, args.broken), &among, after)
}

/// The value that this share of all does not exceed; they are in order.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a length is an index")]
fn at(sorted: &[f64], share: f64) -> f64 {
    let index = ((sorted.len() as f64 * share).ceil() as usize).max(1) - 1;
    sorted.get(index).copied().unwrap_or(f64::NAN)
}

fn print(line: &str) -> Outcome<()> {
    writeln!(std::io::stdout(), "{line}")?;
    Ok(())
}
