//! Step `tests`: everything that `cargo test` finds in the workspace.

use super::cargo_test;
use super::packages;
use super::tally::Tally;
use crate::workspace::Workspace;

pub(crate) fn run(workspace: &Workspace, tally: &mut Tally) -> anyhow::Result<()> {
    // The README's first minute is run as it is printed.
    packages::need("curl", "curl")?;
    packages::need("bash", "bash")?;
    cargo_test::stream(workspace, &["--workspace"], tally)
}
