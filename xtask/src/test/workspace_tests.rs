//! Step `tests`: everything that `cargo test` finds in the workspace.

use super::cargo_test;
use super::tally::Tally;
use crate::workspace::Workspace;

pub(crate) fn run(workspace: &Workspace, tally: &mut Tally) -> anyhow::Result<()> {
    cargo_test::stream(workspace, &["--workspace"], tally)
}
