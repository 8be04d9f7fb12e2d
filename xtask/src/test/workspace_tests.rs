//! Step `tests`: everything that `cargo test` finds in the workspace.

use super::cargo_test;
use super::packages;
use super::tally::Tally;
use crate::workspace::Workspace;

pub(crate) fn run(workspace: &Workspace, tally: &mut Tally) -> anyhow::Result<()> {
    // The README's first minute is run as it is printed; Dwell is held against beanstalkd, and runs on Redis.
    let programs = ["curl", "bash", "beanstalkd", "openssl", "redis-server"];
    packages::need_all(&programs.map(|program| (program, program)))?;
    cargo_test::stream(workspace, &["--workspace"], tally)
}
