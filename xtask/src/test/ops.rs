//! Step `ops`: the alert rules of `ops/`, read and tried by Prometheus' own tool, and the chart, rendered under several
//! sets of values by Go's templates and Sprig, which is what Helm renders with (`chart/`).

use std::process::{Command, Stdio};

use super::packages;
use super::tally::Tally;
use crate::workspace::Workspace;

pub(crate) fn run(workspace: &Workspace, _tally: &mut Tally) -> anyhow::Result<()> {
    packages::need_all(&[("promtool", "prometheus"), ("go", "golang-go")])?;
    let rules = workspace.root().join("ops/prometheus");
    packages::succeed(Command::new("promtool").args(["check", "rules", "alerts.yml"]).current_dir(&rules))?;
    packages::succeed(Command::new("promtool").args(["test", "rules", "alerts_test.yml"]).current_dir(&rules))?;
    let chart = workspace.root().join("ops/helm/dwell");
    let renderer = workspace.root().join("xtask/src/test/chart");
    packages::succeed(Command::new("go").args(["run", "."]).arg(&chart).current_dir(renderer))?;
    lint(&chart)
}

/// Building Helm takes minutes: its own lint is for machines that have it.
fn lint(chart: &std::path::Path) -> anyhow::Result<()> {
    let has_helm = Command::new("helm").arg("version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if has_helm {
        packages::succeed(Command::new("helm").args(["lint", "--strict"]).arg(chart))
    } else {
        println!("--- helm is not installed: its own lint is left out");
        Ok(())
    }
}
