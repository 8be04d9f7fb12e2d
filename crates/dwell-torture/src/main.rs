//! Tortures a real Dwell server over HTTP, and says whether it kept its promises.
//!
//! - [`fleet`]: clients that put, cancel, move, lease and settle, and write a [`history`].
//! - [`nemesis`]: what is done to the server meanwhile, one file each: kills, power cuts, failing calls, dead and full
//!   disks, clock steps, freezes, damage. `corruptions` alone needs no server: it opens damaged directories by itself.
//! - [`checker`]: reads the history and finds what was lost, came back, came early, came twice or got stuck.
//! - [`peers`]: the same power cuts for other queues.
//! - [`server`], [`disk`]: a process and a file system that end with this program, whatever ends it.
//!
//! What a job is to go through follows from its name ([`job`]). Rounds are drained and judged one after the other.

#![expect(clippy::print_stdout, reason = "a command-line tool talks on standard output")]

mod checker;
mod clock;
mod disk;
mod fleet;
mod history;
mod job;
mod nemesis;
mod peers;
mod run;
mod server;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use self::nemesis::Nemesis;
use self::run::Options;

/// What may fail here fails for people to read.
type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Torture a Dwell server and check what its clients saw.
///
/// Exits with 0 if every promise was kept. What needs root, loop devices or a program that is not there is skipped, and
/// says so.
#[derive(Parser)]
#[command(name = "dwell-torture")]
struct Args {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    options: Options,
}

#[derive(Subcommand)]
enum What {
    #[command(flatten)]
    Nemesis(Nemesis),
    /// Power cuts and dead disks for beanstalkd and Redis, as they are by default and as safe as they can be
    Peers(peers::Args),
    /// What runs with every change: 20 kills, 10 power cuts, failing calls up to the 30th, and that it can fail
    Ci,
    /// Read a history again
    Check {
        /// The history
        file: PathBuf,
    },
}

fn main() -> ExitCode {
    let args = Args::parse();
    disk::go_inside();
    // The main thread starts all processes: they end with it.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let ended = runtime.map_err(Into::into).and_then(|runtime| runtime.block_on(until_told(args)));
    match ended {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            drop(writeln!(std::io::stderr(), "error: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Runs it, unless someone ends it first; servers and disks go with it either way.
async fn until_told(args: Args) -> Outcome<bool> {
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    tokio::select! {
        ended = run(args) => ended,
        _ = tokio::signal::ctrl_c() => Err("interrupted".into()),
        _ = terminate.recv() => Err("told to end".into()),
    }
}

async fn run(args: Args) -> Outcome<bool> {
    match args.what {
        What::Nemesis(nemesis) => nemesis.run(&args.options).await,
        What::Peers(peers) => peers::run(&peers, &args.options).await,
        What::Ci => nemesis::all_in_short(&args.options).await,
        What::Check { file } => {
            let report = checker::check(&file)?;
            println!("{report}");
            Ok(report.is_clean())
        }
    }
}
