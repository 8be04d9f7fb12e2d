//! Compares `timing-wheel` with what else can keep timers, and prints the table of its README.
//!
//! Each number is measured in a process of its own, so that no structure finds memory that
//! another one has warmed or scattered. Rounds go over all structures in turn; the best round
//! counts, as whatever else the machine does only ever adds time. The worst of the single calls is
//! the one that is slowest even in the best of several passes.

mod measure;
mod report;
mod subjects;

use std::process::{Command, ExitCode, Stdio};

use clap::{Parser, ValueEnum};

use measure::{Figures, Spread, Task};
use report::Row;
use subjects::Subject;

/// Compare timing-wheel with a B-tree, a heap, tokio-util's delay queue and another wheel.
///
/// Prints a Markdown table to standard output, progress to standard error. The full run takes
/// about a quarter of an hour and 3 GiB; try `--entries 100000 --rounds 1` first.
#[derive(Parser)]
#[command(name = "wheel")]
struct Args {
    /// How many entries to measure with; several numbers make several tables.
    #[arg(long, value_delimiter = ',', default_values_t = [1_000_000, 10_000_000])]
    entries: Vec<usize>,

    /// How often to measure everything; the best round counts.
    #[arg(long, default_value_t = 3)]
    rounds: usize,

    /// The budget of one `advance` of timing-wheel.
    #[arg(long, default_value_t = 20)]
    budget: usize,

    /// Measure these structures only.
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Subject>,

    /// Measure with deadlines spread this way only.
    #[arg(long, value_enum)]
    spread: Option<Spread>,

    /// Print one JSON object a line instead of tables.
    #[arg(long)]
    json: bool,

    /// Do one measurement in this process, which is how the program calls itself.
    #[arg(long, hide = true, value_enum)]
    task: Option<Task>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    if let (Some(task), Some(&subject), Some(spread), Some(&entries)) =
        (args.task, args.only.first(), args.spread, args.entries.first())
    {
        say(&measure::run(subject, task, spread, entries, args.budget).to_line());
        return ExitCode::SUCCESS;
    }
    match compare(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            progress(&format!("error: {error}\n"));
            ExitCode::FAILURE
        }
    }
}

fn compare(args: &Args) -> Result<(), String> {
    let only = |subject: &Subject| args.only.is_empty() || args.only.contains(subject);
    let subjects = Subject::value_variants().iter().copied().filter(only);
    let subjects: Vec<Subject> = subjects.collect();
    let spreads = Spread::value_variants().iter().copied();
    for spread in spreads.filter(|spread| args.spread.is_none_or(|only| only == *spread)) {
        for &entries in &args.entries {
            let rows = measure_all(args, &subjects, spread, entries)?;
            if args.json {
                for row in &rows {
                    say(&report::json(row, spread, entries, args.budget));
                }
            } else {
                say(&report::table(&rows, spread, entries, args.budget));
            }
        }
    }
    Ok(())
}

fn measure_all(args: &Args, subjects: &[Subject], spread: Spread, entries: usize) -> Result<Vec<Row>, String> {
    let mut rows: Vec<Row> = subjects.iter().map(|&subject| Row::new(subject)).collect();
    for round in 1..=args.rounds {
        for row in &mut rows {
            for task in Task::value_variants().iter().copied() {
                let is_moot = match task {
                    Task::Expire => false,
                    Task::Cancel => !row.subject.can_cancel(),
                    // It repeats itself.
                    Task::Worst => round > 1,
                };
                if is_moot {
                    continue;
                }
                let what = format!("{entries} {spread} {} {task}", row.subject);
                progress(&format!("round {round}/{}: {what}\n", args.rounds));
                let figures = in_a_process_of_its_own(args, row.subject, task, spread, entries);
                row.figures.take_best(&figures.map_err(|error| format!("{what}: {error}"))?);
            }
        }
    }
    Ok(rows)
}

fn in_a_process_of_its_own(
    args: &Args,
    subject: Subject,
    task: Task,
    spread: Spread,
    entries: usize,
) -> Result<Figures, String> {
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new(this)
        .args(["--task", &task.to_string(), "--only", &subject.to_string()])
        .args(["--spread", &spread.to_string(), "--entries", &entries.to_string()])
        .args(["--budget", &args.budget.to_string()])
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(output.status.to_string());
    }
    Figures::from_line(&String::from_utf8_lossy(&output.stdout))
}

#[expect(clippy::print_stdout, reason = "the result goes to standard output")]
fn say(text: &str) {
    println!("{text}");
}

#[expect(clippy::print_stderr, reason = "progress goes to standard error")]
fn progress(text: &str) {
    eprint!("{text}");
}
