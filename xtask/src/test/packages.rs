//! Programs of the system that steps need: installed where they are missing and the system is Debian's kind.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

/// Makes sure that programs are there: each with the package that has it.
pub(crate) fn need_all(programs: &[(&str, &str)]) -> anyhow::Result<()> {
    let is_missing = |program: &str| {
        Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err()
    };
    let missing = programs.iter().filter(|(program, _)| is_missing(program));
    let missing: Vec<&str> = missing.map(|(_, package)| *package).collect();
    if missing.is_empty() { Ok(()) } else { install(&missing) }
}

/// Installs packages.
pub(crate) fn install(packages: &[&str]) -> anyhow::Result<()> {
    let names = packages.join(" ");
    ensure!(Path::new("/etc/debian_version").exists(), "please install {names}");
    println!("--- installing {names}");
    let apt =
        |arguments: &[&str]| succeed(Command::new("apt-get").args(arguments).env("DEBIAN_FRONTEND", "noninteractive"));
    apt(&["update"]).and_then(|()| apt(&[&["install", "-y", "--no-install-recommends"], packages].concat()))
}

/// Runs a command that must succeed.
pub(crate) fn succeed(command: &mut Command) -> anyhow::Result<()> {
    let name = command.get_program().display().to_string();
    let status = command.status().with_context(|| format!("cannot start {name}"))?;
    ensure!(status.success(), "{name}: {status}");
    Ok(())
}
