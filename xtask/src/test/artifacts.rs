//! Building what steps run, with the whole workspace and as the tests do, so that nothing is built twice.

use std::io::BufReader;
use std::process::Stdio;

use anyhow::{Context, ensure};
use cargo_metadata::{Artifact, Message};

use crate::workspace::{PROFILE, Workspace};

/// What is built beside the examples.
const PROGRAMS: [&str; 8] = ["--bin", "dwell", "--bin", "dwell-sim", "--bin", "dwell-torture", "--bin", "embedded"];

/// Builds every example, the server, the simulation, the torture and a benchmark; answers all that can be run.
pub(crate) fn build(workspace: &Workspace) -> anyhow::Result<Vec<Artifact>> {
    let mut cargo = workspace
        .cargo("build")
        .args(["--workspace", "--examples"])
        .args(PROGRAMS)
        .args(["--profile", PROFILE])
        .arg("--message-format=json-render-diagnostics")
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start cargo")?;
    let output = cargo.stdout.take().context("cargo has no standard output")?;
    let mut built = Vec::new();
    for message in Message::parse_stream(BufReader::new(output)) {
        match message? {
            Message::CompilerArtifact(artifact) if artifact.executable.is_some() => built.push(artifact),
            _ => {}
        }
    }
    let status = cargo.wait()?;
    ensure!(status.success(), "cargo build --examples --bins: {status}");
    built.sort_by(|a, b| a.target.name.cmp(&b.target.name));
    Ok(built)
}
