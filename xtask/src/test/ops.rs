//! Step `ops`: the alert rules of `ops/`, read and tried by Prometheus' own tool.

use std::process::Command;

use super::packages;
use super::tally::Tally;
use crate::workspace::Workspace;

pub(crate) fn run(workspace: &Workspace, _tally: &mut Tally) -> anyhow::Result<()> {
    packages::need_all(&[("promtool", "prometheus")])?;
    let rules = workspace.root().join("ops/prometheus");
    packages::succeed(Command::new("promtool").args(["check", "rules", "alerts.yml"]).current_dir(&rules))?;
    packages::succeed(Command::new("promtool").args(["test", "rules", "alerts_test.yml"]).current_dir(&rules))
}
