//! Measures push delivery: how many deliveries a second, how late, and what bad targets do to good ones. Server and
//! receivers share one machine.

#![expect(clippy::cast_precision_loss, reason = "figures are for people to read")]

mod api;
mod isolation;
mod lateness;
mod rate;
mod receivers;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Parser;
use dwell_bench::Outcome;
use dwell_bench::server::{Server, build};

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
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            drop(writeln!(std::io::stderr(), "error: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// One part of the whole.
type Part = fn(&Args, &Path) -> Outcome<()>;

fn run(args: &Args) -> Outcome<()> {
    let binary = match &args.dwell {
        Some(binary) => binary.clone(),
        None => build()?,
    };
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

fn print(line: &str) -> Outcome<()> {
    writeln!(std::io::stdout(), "{line}")?;
    Ok(())
}

/// Milliseconds since 1970, and a part of one.
#[expect(clippy::disallowed_methods, reason = "measuring is about time")]
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64() * 1_000.0)
}

/// The value that so much of all is not above.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index")]
fn share(sorted: &[f64], share: f64) -> f64 {
    let index = ((sorted.len() as f64 * share).ceil() as usize).clamp(1, sorted.len().max(1));
    sorted.get(index - 1).copied().unwrap_or(f64::NAN)
}
