//! Step `simulation`: lives seeds of the embedded store for three minutes, two of them with a cold tier, and finds every bug
//! that is planted.
//!
//! Seeds are not tests and are not counted as such; one that goes wrong makes the step fail. The lives begin at a seed
//! that differs from day to day, so that every run tries something new; what it finds is printed with its seed.

use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, ensure};

use super::artifacts;
use super::tally::Tally;
use crate::workspace::Workspace;

/// How long it goes on without a cold tier, and with one.
const MINUTES: [&[&str]; 2] = [&["--minutes", "1"], &["--minutes", "2", "--cold"]];

pub(crate) fn run(workspace: &Workspace, _tally: &mut Tally) -> anyhow::Result<()> {
    let built = artifacts::build(workspace)?;
    let program = built.into_iter().find(|artifact| artifact.target.name == "dwell-sim");
    let program = program.and_then(|artifact| artifact.executable).context("dwell-sim was not built")?;
    let planted = Command::new(&program).arg("--planted").status().context("cannot start dwell-sim")?;
    ensure!(planted.success(), "a planted bug was not found");
    let from = first_seed().to_string();
    for minutes in MINUTES {
        let lived = Command::new(&program).args(minutes).args(["--from", &from]).status()?;
        ensure!(lived.success(), "a life went wrong");
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "every day has its own seeds")]
fn first_seed() -> u64 {
    const DAY: u64 = 86_400;
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    seconds / DAY * 1_000_000
}
