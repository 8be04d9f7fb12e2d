//! Step `beanstalk`: clients of beanstalkd, in four languages, each written by others for beanstalkd, drive a server.
//!
//! The clients come from their registries into `target/`; the programs that use them are in `beanstalk_clients/`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context;

use super::examples::run_within;
use super::packages::{self, succeed};
use super::python;
use super::server::Server;
use super::tally::Tally;
use crate::workspace::Workspace;

/// A client that waits for ever has found something.
const TIME_LIMIT: Duration = Duration::from_mins(3);

const GREENSTALK: &str = "2.1.1";
const JACKD: &str = "2.2.2";

pub(crate) fn run(workspace: &Workspace, _tally: &mut Tally) -> anyhow::Result<()> {
    packages::need_all(&[
        ("node", "nodejs"),
        ("npm", "npm"),
        ("go", "golang-go"),
        ("javac", "default-jdk-headless"),
        ("mvn", "maven"),
    ])?;
    let target = workspace.metadata.target_directory.clone().into_std_path_buf();
    let files = workspace.root().join("xtask/src/test/beanstalk_clients");
    let place = target.join("beanstalk-clients");
    std::fs::create_dir_all(&place)?;
    let server = Server::start(workspace, &["--beanstalk", "127.0.0.1:0"])?;
    let address = &*server.beanstalk;
    python_client(&target, &files, address).context("greenstalk")?;
    node_client(&place, &files, address).context("jackd")?;
    go_client(&place, &files, address).context("go-beanstalk")?;
    java_client(&place, &files, address).context("JavaBeanstalkClient")?;
    Ok(())
}

fn python_client(target: &Path, files: &Path, address: &str) -> anyhow::Result<()> {
    let environment = python::environment(target, "greenstalk", GREENSTALK)?;
    drive(Command::new(environment.join("bin/python")).arg(files.join("client.py")).arg(address))
}

fn node_client(place: &Path, files: &Path, address: &str) -> anyhow::Result<()> {
    let package = format!("jackd@{JACKD}");
    let quiet = ["--no-save", "--no-audit", "--no-fund", "--loglevel=error"];
    succeed(Command::new("npm").arg("install").args(quiet).arg("--prefix").arg(place).arg(package))?;
    let client = files.join("client.js");
    drive(Command::new("node").arg(client).arg(address).env("NODE_PATH", place.join("node_modules")))
}

fn go_client(place: &Path, files: &Path, address: &str) -> anyhow::Result<()> {
    let place = copy(&files.join("go"), &place.join("go"), &["go.mod", "go.sum", "main.go"])?;
    drive(Command::new("go").args(["run", ".", address]).current_dir(place))
}

fn java_client(place: &Path, files: &Path, address: &str) -> anyhow::Result<()> {
    let place = copy(&files.join("java"), &place.join("java"), &["pom.xml", "Drive.java"])?;
    let fetch = ["-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"];
    succeed(Command::new("mvn").args(fetch).current_dir(&place))?;
    drive(Command::new("java").args(["-cp", "lib/*", "Drive.java", address]).current_dir(place))
}

/// Runs a client, which does not take long.
fn drive(client: &mut Command) -> anyhow::Result<()> {
    run_within(client, TIME_LIMIT)
}

/// Copies a program to a place where it may leave what it makes.
fn copy(from: &Path, to: &Path, files: &[&str]) -> anyhow::Result<PathBuf> {
    std::fs::create_dir_all(to)?;
    for file in files {
        std::fs::copy(from.join(file), to.join(file)).with_context(|| format!("cannot copy {file}"))?;
    }
    Ok(to.to_owned())
}
