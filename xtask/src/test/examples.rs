//! Step `examples`: builds every example of the workspace and runs those that end by themselves.
//!
//! An example is run unless its package says otherwise:
//!
//! ```toml
//! [package.metadata.xtask]
//! build-only-examples = ["serve_for_ever"]
//! ```
//!
//! Examples are not tests and are not counted as such; one that fails makes the step fail.

use std::io::ErrorKind;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use cargo_metadata::{Artifact, Package, TargetKind};

use super::artifacts;
use super::tally::Tally;
use crate::workspace::Workspace;

/// An example is something to watch; nobody watches for longer.
const TIME_LIMIT: Duration = Duration::from_secs(30);

pub(crate) fn run(workspace: &Workspace, _tally: &mut Tally) -> anyhow::Result<()> {
    let mut failed = Vec::new();
    for example in artifacts::build(workspace)?.into_iter().filter(is_example) {
        let name = &example.target.name;
        if build_only(&workspace.metadata.packages, &example) {
            println!("--- example {name}: built, not run");
            continue;
        }
        println!("--- example {name}");
        if let Err(error) = run_one(workspace, &example) {
            println!("--- example {name}: {error:#}");
            failed.push(name.clone());
        }
    }
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}

fn is_example(artifact: &Artifact) -> bool {
    artifact.target.kind.contains(&TargetKind::Example)
}

fn build_only(packages: &[Package], example: &Artifact) -> bool {
    let package = packages.iter().find(|package| package.id == example.package_id);
    package.is_some_and(|package| listed(package, &example.target.name))
}

fn listed(package: &Package, example: &str) -> bool {
    let list = &package.metadata["xtask"]["build-only-examples"];
    list.as_array().is_some_and(|names| names.iter().any(|name| name == example))
}

fn run_one(workspace: &Workspace, example: &Artifact) -> anyhow::Result<()> {
    let program = example.executable.as_ref().context("cargo built no executable")?;
    // In a place of its own: what an example leaves must not meet the next run, nor what a user has there.
    let place = workspace.metadata.target_directory.join("examples-run").join(&example.target.name);
    match std::fs::remove_dir_all(&place) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
        _ => std::fs::create_dir_all(&place)?,
    }
    let mut command = Command::new(program);
    command.current_dir(place).stdin(Stdio::null());
    run_within(&mut command, TIME_LIMIT)
}

/// Runs the command to its end; ends it if it takes longer than `limit`.
pub(crate) fn run_within(command: &mut Command, limit: Duration) -> anyhow::Result<()> {
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let ended = when_output_ends(&mut child)?;
    if ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
        child.kill()?;
        child.wait()?;
        bail!("still running after {limit:?}");
    }
    let status = child.wait()?;
    ensure!(status.success(), "{status}");
    Ok(())
}

/// Shows what the child prints; the channel hangs up when the child has closed its output.
fn when_output_ends(child: &mut Child) -> anyhow::Result<mpsc::Receiver<()>> {
    let mut output = child.stdout.take().context("the example has no standard output")?;
    let (alive, ended) = mpsc::channel();
    thread::spawn(move || {
        let copied = std::io::copy(&mut output, &mut std::io::stdout());
        drop(alive);
        copied
    });
    Ok(ended)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn an_example_that_ends_well_passes() {
        run_within(&mut sh("exit 0"), TIME_LIMIT).unwrap();
    }

    #[test]
    fn an_example_that_ends_badly_fails() {
        let error = run_within(&mut sh("exit 3"), TIME_LIMIT).unwrap_err();
        assert_eq!(error.to_string(), "exit status: 3");
    }

    #[test]
    fn an_example_that_does_not_end_fails() {
        let error = run_within(&mut sh("exec sleep 60"), Duration::from_millis(50)).unwrap_err();
        assert!(error.to_string().starts_with("still running after 50ms"), "{error}");
    }
}
