//! Step `torture`: what `dwell-torture ci` does to a real server, built as the tests build it.
//!
//! Rounds are not tests and are not counted as such; a promise that is broken makes the step fail. Power cuts need root
//! and loop devices; without them they are left out, and say so.

use std::process::Command;

use anyhow::{Context, ensure};

use super::tally::Tally;
use super::{artifacts, packages};
use crate::workspace::Workspace;

/// It ends after this many seconds, whatever happens.
const LIMIT: &str = "480";

pub(crate) fn run(workspace: &Workspace, _tally: &mut Tally) -> anyhow::Result<()> {
    packages::need_all(&[("strace", "strace"), ("perl", "perl-base"), ("setpriv", "util-linux")])?;
    let built = artifacts::build(workspace)?;
    let program = built.into_iter().find(|artifact| artifact.target.name == "dwell-torture");
    let program = program.and_then(|artifact| artifact.executable).context("dwell-torture was not built")?;
    // It is told to end, and cleans up, before it is made to.
    let mut command = Command::new("timeout");
    let status = command.args(["--kill-after=30", LIMIT]).arg(program).arg("ci").status().context("cannot start it")?;
    ensure!(status.success(), "a promise was broken: {status}");
    Ok(())
}
