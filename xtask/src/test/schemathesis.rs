//! Step `schemathesis`: a server against its own OpenAPI document, with requests that nobody thought of.
//!
//! [Schemathesis](https://schemathesis.io) comes from the Python Package Index into a virtual environment under `target/`. What is asked of
//! the server is in `schemathesis/schemathesis.toml`; requests differ from run to run, and a failure prints the request
//! that shows it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail, ensure};
use cargo_metadata::TargetKind;

use super::artifacts;
use super::packages::{self, succeed};
use super::tally::Tally;
use crate::workspace::Workspace;

const VERSION: &str = "4.32.5";

/// Requests generated per call and phase. Together with those that a schema leads to by itself: a minute or two.
const EXAMPLES: &str = "80";

/// What to do where there is no Python.
const NEEDS_PYTHON: &str = "this step needs Python 3.10 or later with its venv module; on Debian and Ubuntu: \
    apt-get install python3 python3-venv";

pub(crate) fn run(workspace: &Workspace, _tally: &mut Tally) -> anyhow::Result<()> {
    let target = workspace.metadata.target_directory.clone().into_std_path_buf();
    let environment = environment(&target)?;
    let mut server = Server::start(&program(workspace)?)?;
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

/// The server, built as the tests build it.
fn program(workspace: &Workspace) -> anyhow::Result<PathBuf> {
    let built = artifacts::build(workspace)?;
    let is_server = |kinds: &[TargetKind], name: &str| kinds.contains(&TargetKind::Bin) && name == "dwell";
    let server = built.into_iter().find(|artifact| is_server(&artifact.target.kind, &artifact.target.name));
    let program = server.and_then(|artifact| artifact.executable).context("cargo built no server")?;
    Ok(program.into_std_path_buf())
}

/// A server in memory, whose clock can be moved. It ends with this value.
struct Server {
    process: Child,
    url: String,
}

impl Server {
    fn start(program: &Path) -> anyhow::Result<Self> {
        let mut command = Command::new(program);
        command.args(["serve", "--listen", "127.0.0.1:0", "--store", "memory:", "--dev-clock", "--log", "warn"]);
        let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("cannot start dwell")?;
        let output = process.stdout.take().context("dwell has no standard output")?;
        let mut server = Self { process, url: String::new() };
        for line in BufReader::new(output).lines() {
            if let Some(address) = line?.trim().strip_prefix("address") {
                address.split_whitespace().next().unwrap_or_default().clone_into(&mut server.url);
                return Ok(server);
            }
        }
        bail!("dwell did not say where it listens")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// The virtual environment with Schemathesis in it, made if it is not there.
fn environment(target: &Path) -> anyhow::Result<PathBuf> {
    let environment = target.join(format!("schemathesis-{VERSION}"));
    let installed = environment.join("installed");
    if installed.exists() {
        return Ok(environment);
    }
    if !make(&environment) {
        // Debian parts Python into packages, and machines that build rarely have all of them.
        packages::install(&["python3", "python3-venv"]).context(NEEDS_PYTHON)?;
        ensure!(make(&environment), "cannot make a virtual environment: {NEEDS_PYTHON}");
    }
    let pip = environment.join("bin/pip");
    let package = format!("schemathesis=={VERSION}");
    succeed(Command::new(pip).args(["install", "--quiet", "--disable-pip-version-check", &package]))?;
    std::fs::write(installed, "")?;
    Ok(environment)
}

/// Makes an empty environment; false if there is no Python, or none with all its parts.
fn make(environment: &Path) -> bool {
    let mut python = Command::new("python3");
    python.args(["-m", "venv", "--clear"]).arg(environment);
    python.status().is_ok_and(|status| status.success())
}
