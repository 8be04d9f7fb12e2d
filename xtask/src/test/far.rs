//! Step `far`: a million jobs that wait for long, nearly all of them in the cold tier. They are put, the process is killed,
//! another one opens the directory, and jobs are looked up, moved and cancelled there.
//!
//! How fast that goes is printed and asks nothing of the machine; a job that is not found makes the step fail.

use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use cargo_metadata::TargetKind;

use super::tally::Tally;
use super::{artifacts, examples};
use crate::workspace::Workspace;

/// It ends after this, whatever happens.
const TIME_LIMIT: Duration = Duration::from_mins(5);

/// Little memory, so that the cold tier has much to do.
const WHAT: [&str; 7] = ["far", "--jobs", "1000000", "--body", "64", "--memory", "128"];

pub(crate) fn run(workspace: &Workspace, _tally: &mut Tally) -> anyhow::Result<()> {
    let mut built = artifacts::build(workspace)?.into_iter();
    let program =
        built.find(|artifact| artifact.target.name == "embedded" && artifact.target.kind == [TargetKind::Bin]);
    let program = program.and_then(|artifact| artifact.executable).context("the benchmark was not built")?;
    let place = &workspace.metadata.target_directory;
    examples::run_within(Command::new(program).args(WHAT).arg("--directory").arg(place), TIME_LIMIT)
}
