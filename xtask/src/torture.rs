//! `cargo xtask torture`: the server in release, as users have it, and what tortures it; passes its arguments on.

use std::process::Command;

use anyhow::{Context, ensure};

use crate::workspace::Workspace;

/// Arguments of `cargo xtask torture`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// What `dwell-torture` takes: `kills`, `power-cuts`, `calls`, `dead-disk`, `full-disk`, `freezes`, `clocks`,
    /// `damage`, `corruptions`, `peers`; `--help` tells more
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

/// Runs it; true if every promise was kept.
pub(crate) fn run(args: &Args, workspace: &Workspace) -> anyhow::Result<bool> {
    // One after the other: together with other crates the server would be built with bugs to plant.
    for package in ["dwell", "dwell-torture"] {
        let status = workspace.cargo("build").args(["--release", "--quiet", "--package", package]).status();
        ensure!(status.context("cannot start cargo")?.success(), "{package} does not build");
    }
    let program = workspace.metadata.target_directory.join("release/dwell-torture");
    let status = Command::new(&program).args(&args.rest).status().with_context(|| format!("cannot start {program}"))?;
    Ok(status.success())
}
