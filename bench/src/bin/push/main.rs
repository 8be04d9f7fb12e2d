//! Measures push delivery: how many deliveries a second, how late, and what bad targets do to good ones. Server and
//! receivers share one machine.

#![expect(clippy::cast_precision_loss, reason = "figures are for people to read")]

mod api;
mod isolation;
mod lateness;
mod rate;
mod receivers;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use dwell_bench::Outcome;
use dwell_bench::program::{self, now, print, share};
use dwell_bench::server::Server;

/// Measure push delivery to receivers on this machine.
///
/// Builds and starts `dwell serve` for each part and prints Markdown tables.
#[derive(Clone, Parser)]
#[command(name = "push")]
struct Args {
    /// Jobs pushed as fast as they go
    #[arg(long, default_value_t = 100_000)]
    jobs: usize,

    /// Jobs that wait beside when lateness is measured
    #[arg(long, default_value_t = 1_000_000)]
    waiting: usize,

    /// Targets of which some are bad
    #[arg(long, default_value_t = 1_000)]
    targets: usize,

    /// Jobs a second that fall due where lateness is measured
    #[arg(long, default_value_t = 500)]
    pace: usize,

    /// Seconds for which that is done
    #[arg(long, default_value_t = 30)]
    seconds: usize,

    /// Only this part: rate, lateness or isolation
    #[arg(long)]
    only: Option<String>,

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

/// One part of the whole.
type Part = fn(&Args, &Path) -> Outcome<()>;

fn run(args: &Args) -> Outcome<()> {
    let binary = program::binary(args.dwell.as_deref())?;
    let parts: [(&str, Part); 3] =
        [("rate", rate::measure), ("lateness", lateness::measure), ("isolation", isolation::measure)];
    for (name, part) in parts {
        if args.only.as_ref().is_none_or(|only| only == name) {
            part(args, &binary)?;
        }
    }
    Ok(())
}

/// A server that may push to this machine, and the directory that it needs.
fn server(args: &Args, binary: &Path) -> Outcome<(Server, tempfile::TempDir)> {
    let directory = tempfile::tempdir_in(&args.directory)?;
    let flags = ["--allow-private-targets", "--log", "error"];
    Ok((Server::start(binary, directory.path(), &flags)?, directory))
}
