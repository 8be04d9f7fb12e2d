//! Step `schemathesis`: a server against its own OpenAPI document, with requests that nobody thought of.
//!
//! [Schemathesis](https://schemathesis.io) comes from the Python Package Index into a virtual environment under `target/`. What is asked of
//! the server is in `schemathesis/schemathesis.toml`; requests differ from run to run, and a failure prints the request
//! that shows it.

use std::process::Command;

use anyhow::{Context, ensure};

use super::python;
use super::server::Server;
use super::tally::Tally;
use crate::workspace::Workspace;

const VERSION: &str = "4.32.5";

/// Requests generated per call and phase. Together with those that a schema leads to by itself: a minute or two.
const EXAMPLES: &str = "80";

pub(crate) fn run(workspace: &Workspace, _tally: &mut Tally) -> anyhow::Result<()> {
    let target = workspace.metadata.target_directory.clone().into_std_path_buf();
    let environment = python::environment(&target, "schemathesis", VERSION)?;
    // No port but one that nobody has: what is made up here is not called.
    let mut server = Server::start(workspace, &["--dev-clock", "--target-ports", "1"])?;
    let files = workspace.root().join("xtask/src/test/schemathesis");
    let place = target.join("schemathesis");
    std::fs::create_dir_all(&place)?;
    let status = Command::new(environment.join("bin/schemathesis"))
        .arg("--config-file")
        .arg(files.join("schemathesis.toml"))
        .args(["run", "--max-examples", EXAMPLES])
        .arg(format!("{}/openapi.json", server.url))
        .env("SCHEMATHESIS_HOOKS", files.join("hooks.py"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .current_dir(place)
        .status()
        .context("cannot start schemathesis")?;
    ensure!(server.process.try_wait()?.is_none(), "the server has ended");
    ensure!(status.success(), "schemathesis: {status}");
    Ok(())
}
