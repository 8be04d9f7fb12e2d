//! Measures the embedded store beside a bare loop that appends to a file and syncs it, in one run on one disk.

#![expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "figures are for people to read")]

mod churn;
mod cycle;
mod disk;
mod far;
mod figure;
mod herd;
mod lateness;
mod load;
mod parallel;
mod put;
mod raw;
mod restart;
mod stalled;
mod world;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use figure::Figure;
use world::World;

/// As in the server.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Measure the embedded store: durable puts, whole cycles, lateness, a herd, a restart.
///
/// Prints Markdown tables to standard output, with what is asked and whether it is met. Without a command it measures everything, which takes some minutes and
/// 2 GiB of memory; try `--jobs 100000` first.
#[derive(Parser)]
#[command(name = "embedded")]
struct Args {
    /// How many jobs the large measurements use
    #[arg(long, global = true, default_value_t = 1_000_000)]
    jobs: usize,

    /// Bytes of a body
    #[arg(long, global = true, default_value_t = 256)]
    body: usize,

    /// Mebibytes of memory that jobs may take; the rest goes to the cold tier
    #[arg(long, global = true, default_value_t = 256)]
    memory: usize,

    /// Where to put the files; a directory of its own is made in it and removed afterwards
    #[arg(long, global = true, default_value = ".")]
    directory: PathBuf,

    /// Print one JSON object a line instead of tables
    #[arg(long, global = true)]
    json: bool,

    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Clone, Copy, Subcommand)]
enum What {
    /// Durable puts in batches, beside the bare loop
    Put,
    /// Put, lease and ack, beside the bare loop
    Cycle,
    /// How late jobs are handed over while many others wait
    Lateness,
    /// Very many jobs due in the same millisecond, and what another topic feels of it
    Herd,
    /// Starting again after a kill, and memory a waiting job
    Restart,
    /// Very many jobs that wait for long: putting, memory, disk, starting again, look-ups; not part of everything
    Far(far::Args),
    /// Very many overdue jobs that nobody consumes, and what other topics feel of it; not part of everything
    Stalled(stalled::Args),
    /// As many jobs come as go, for long: what the disk holds then; not part of everything
    Churn(churn::Args),
    /// Fill a directory and be killed, which is how `restart` calls this program
    #[command(hide = true)]
    Fill,
    /// The same for `far`
    #[command(hide = true)]
    FillFar(far::Args),
}

fn main() -> ExitCode {
    let args = Args::parse();
    let all = [What::Put, What::Cycle, What::Lateness, What::Herd, What::Restart];
    let chosen = args.what.map_or_else(|| all.to_vec(), |what| vec![what]);
    for what in chosen {
        let world = match World::new(&args.directory, args.jobs, args.body, args.memory << 20) {
            Ok(world) => world,
            Err(error) => {
                eprintln_line(&format!("error: {}: {error}", args.directory.display()));
                return ExitCode::FAILURE;
            }
        };
        let figures = match what {
            What::Put => put::measure(&world),
            What::Cycle => cycle::measure(&world),
            What::Lateness => lateness::measure(&world),
            What::Herd => herd::measure(&world),
            What::Restart => restart::measure(&world),
            What::Far(far) => far::measure(&world, far),
            What::Stalled(stalled) => stalled::measure(&world, stalled),
            What::Churn(churn) => churn::measure(&world, churn),
            What::Fill => restart::fill(&world, &args.directory),
            What::FillFar(far) => far::fill(&world, &args.directory, far),
        };
        print_figures(&figures, args.json);
    }
    ExitCode::SUCCESS
}

#[expect(clippy::print_stdout, reason = "this is what the program is for")]
fn print_figures(figures: &[Figure], json: bool) {
    if json {
        for figure in figures {
            println!("{}", figure.json());
        }
    } else {
        println!("\n| measure | value | asked |\n|---|---|---|");
        for figure in figures {
            println!("{}", figure.row());
        }
    }
}

#[expect(clippy::print_stderr, reason = "errors are for people")]
fn eprintln_line(text: &str) {
    eprintln!("{text}");
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn arguments_may_come_before_and_after_the_command() {
        Args::command().debug_assert();
        let parse = |args: &[&str]| Args::try_parse_from(args).unwrap_or_else(|error| panic!("{error}"));
        let args = parse(&["embedded", "--jobs", "5", "far", "--topics", "3", "--body", "64"]);
        assert_eq!((args.jobs, args.body, args.memory), (5, 64, 256));
        assert!(matches!(args.what, Some(What::Far(_))));
        let args = parse(&["embedded", "churn", "--rounds", "7", "--memory", "32", "--json"]);
        assert!(args.json && args.memory == 32 && matches!(args.what, Some(What::Churn(_))));
        assert!(Args::try_parse_from(["embedded", "stalled", "--rounds", "0"]).is_err());
        assert!(Args::try_parse_from(["embedded", "put", "--topics", "3"]).is_err());
    }
}
