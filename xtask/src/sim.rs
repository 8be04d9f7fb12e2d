//! `cargo xtask sim`: lives many seeds of the embedded store, in release; passes its arguments on.

use anyhow::Context;

use crate::workspace::Workspace;

/// Arguments of `cargo xtask sim`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// What `dwell-sim` takes: `--seeds N`, `--minutes M`, `--seed S`, `--planted`; `--help` tells more
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

/// Runs it; true if nothing went wrong.
pub(crate) fn run(args: &Args, workspace: &Workspace) -> anyhow::Result<bool> {
    let mut cargo = workspace.cargo("run");
    cargo.args(["--release", "--quiet", "--package", "dwell-sim", "--"]).args(&args.rest);
    Ok(cargo.status().context("cannot start cargo")?.success())
}
