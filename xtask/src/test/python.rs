//! Programs from the Python Package Index, each in a virtual environment of its own under `target/`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use super::packages::{self, succeed};

/// What to do where there is no Python.
const NEEDS_PYTHON: &str = "this step needs Python 3.10 or later with its venv module; on Debian and Ubuntu: \
    apt-get install python3 python3-venv";

/// The virtual environment with a package in it, made if it is not there.
pub(crate) fn environment(target: &Path, package: &str, version: &str) -> anyhow::Result<PathBuf> {
    let environment = target.join(format!("{package}-{version}"));
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
    let package = format!("{package}=={version}");
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
