//! Step `otlp`: what only a build with the feature `otlp` has: its lints, its unit tests, and a real server whose spans
//! a collector reads. Everything else is the same in both builds, and is tested in the one without.

use anyhow::ensure;

use super::cargo_test;
use super::tally::Tally;
use crate::workspace::{PROFILE, Workspace};

const BUILD: [&str; 4] = ["--package", "dwell", "--features", "otlp"];

pub(crate) fn run(workspace: &Workspace, tally: &mut Tally) -> anyhow::Result<()> {
    let mut clippy = workspace.cargo("clippy");
    clippy.args(["--profile", PROFILE]).args(BUILD).args(["--bins", "--test", "otlp", "--", "-D", "warnings"]);
    let status = clippy.status()?;
    ensure!(status.success(), "cargo clippy --features otlp: {status}");
    cargo_test::stream(workspace, &[&BUILD[..], &["--bin", "dwell", "--test", "otlp"]].concat(), tally)
}
