//! The project's own chores: `cargo xtask test`, `tidy`, `sim` and `torture`. One module a verb.

#![expect(clippy::print_stdout, reason = "a command-line tool talks on standard output")]

mod sim;
mod test;
mod tidy;
mod torture;
mod workspace;

use std::process::ExitCode;

use clap::Parser;

/// Chores of the Dwell workspace.
#[derive(Parser)]
#[command(bin_name = "cargo xtask")]
enum Chore {
    /// Run every test of the project, and print one summary.
    ///
    /// Needs Rust and a C compiler; installs and starts whatever else the tests need. Exits with 0
    /// if everything passed; the last line is `N passed, M failed, K skipped`.
    Test(test::Args),
    /// Check what the compiler does not: layering, sizes, empty assertions, the map, links.
    ///
    /// Prints each finding as `path:line: what is wrong; what would be right`. Exits with 0 if
    /// there are none.
    Tidy(tidy::Args),
    /// Simulate the embedded store from seeds: crashes, faults, clock steps.
    ///
    /// `--seeds N` or `--minutes M` of lives on all cores, `--seed S` to read one, `--planted` to see that bugs are
    /// found.
    Sim(sim::Args),
    /// Torture the real server: kills, power cuts, failing calls, dead and full disks, clock steps, damage.
    ///
    /// `kills --count 1000`, `power-cuts --load full`, `clocks`, `peers`, …; `--help` tells more. What needs root and
    /// loop devices is skipped without them.
    Torture(torture::Args),
}

fn main() -> anyhow::Result<ExitCode> {
    let chore = Chore::parse();
    let workspace = workspace::Workspace::load()?;
    let clean = match chore {
        Chore::Test(args) => test::run(&args, &workspace),
        Chore::Tidy(args) => tidy::run(&args, &workspace)?,
        Chore::Sim(args) => sim::run(&args, &workspace)?,
        Chore::Torture(args) => torture::run(&args, &workspace)?,
    };
    Ok(if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
