//! `cargo test` with its output shown and its tests counted.

use anyhow::ensure;

use super::stream;
use super::tally::Tally;
use crate::workspace::{PROFILE, Workspace};

/// Runs `cargo test <args>`. Fails if it fails, and also if it executed no test.
pub(crate) fn stream(workspace: &Workspace, args: &[&str], tally: &mut Tally) -> anyhow::Result<()> {
    let mut command = workspace.cargo("test");
    command.args(["--profile", PROFILE, "--no-fail-fast"]).args(args);
    let status = stream::run(&mut command, |line| tally.read_line(line))?;
    ensure!(status.success(), "cargo test {}: {status}", args.join(" "));
    tally.require_some()
}
