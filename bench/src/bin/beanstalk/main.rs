//! Measures the beanstalk protocol: beanstalkd in memory, with its binlog as it comes, with every write synced, and Dwell,
//! which syncs before it answers. All on one machine and one disk, in one run.

#![expect(clippy::cast_precision_loss, reason = "figures are for people to read")]

mod load;
mod memory;
mod peers;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use dwell_bench::Outcome;
use dwell_bench::program::{self, print};

use self::load::Load;
use self::peers::{PEERS, Peer};

/// Measure the beanstalk protocol, beside beanstalkd.
///
/// Builds and starts `dwell serve` and starts `beanstalkd`, each alone while it is measured, and prints Markdown tables.
/// Needs `beanstalkd` (Debian: `apt-get install beanstalkd`).
#[derive(Parser)]
#[command(name = "beanstalk")]
struct Args {
    /// Commands of a pipeline
    #[arg(long, default_value_t = 100)]
    pipeline: usize,

    /// Seconds that each figure is measured for
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,

    /// Numbers of connections
    #[arg(long, value_delimiter = ',', default_value = "1,16,64")]
    connections: Vec<usize>,

    /// Bytes of a body
    #[arg(long, default_value_t = 256)]
    body: usize,

    /// Delayed jobs to see what memory and a restart cost; 0 leaves that out
    #[arg(long, default_value_t = 1_000_000)]
    delayed: usize,

    /// Times the whole comparison is run
    #[arg(long, default_value_t = 3)]
    rounds: usize,

    /// Only rows that have this in their name
    #[arg(long, default_value = "")]
    only: String,

    /// Only peers that have this in their name
    #[arg(long, default_value = "")]
    peer: String,

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
    let peers: Vec<&Peer> = PEERS.iter().filter(|peer| peer.name.contains(&args.peer)).collect();
    let names: Vec<&str> = peers.iter().map(|peer| peer.name).collect();
    print(&format!("| round | jobs/s | {} | Dwell : `-b` | Dwell : `-b -f0` | a sync, ms |", names.join(" | ")))?;
    print(&format!("|---|---|{}--:|--:|--:|", "--:|".repeat(peers.len())))?;
    for round in 1..=args.rounds {
        for load in Load::all(args) {
            if load.to_string().contains(&args.only) {
                row(args, &binary, &peers, round, &load)?;
            }
        }
    }
    if args.delayed > 0 {
        memory::measure(args, &binary, &peers)?;
    }
    Ok(())
}

fn row(args: &Args, binary: &Path, peers: &[&Peer], round: usize, load: &Load) -> Outcome<()> {
    let sync = sync_time(&args.directory)?;
    let mut figures = Vec::new();
    for peer in peers {
        let directory = tempfile::tempdir_in(&args.directory)?;
        let server = peer.start(binary, directory.path())?;
        figures.push((peer.name, load.run(args, &server.address)?));
    }
    let of = |name: &str| figures.iter().find(|(peer, _)| *peer == name).map_or(f64::NAN, |(_, figure)| *figure);
    let (lossy, synced) = (of(peers::DWELL) / of(peers::BINLOG), of(peers::DWELL) / of(peers::SYNCED));
    let shown: Vec<String> = figures.iter().map(|(_, figure)| format!("{figure:.0}")).collect();
    print(&format!("| {round} | {load} | {} | {lossy:.2} | {synced:.2} | {sync:.2} |", shown.join(" | ")))
}

/// What the disk takes for a page just now, in milliseconds: the median of some.
fn sync_time(directory: &Path) -> Outcome<f64> {
    let mut file = tempfile::tempfile_in(directory)?;
    let mut times = Vec::new();
    for _ in 0..31 {
        file.write_all(&[7; 4_096])?;
        let start = now();
        file.sync_data()?;
        times.push(start.elapsed().as_secs_f64() * 1_000.0);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

#[expect(clippy::disallowed_methods, reason = "measuring is about time")]
fn now() -> Instant {
    Instant::now()
}
