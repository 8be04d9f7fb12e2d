//! A server for a step.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail};
use cargo_metadata::TargetKind;

use super::artifacts;
use crate::workspace::Workspace;

/// A server in memory. It ends with this value.
pub(crate) struct Server {
    pub(crate) process: Child,
    /// Where HTTP is.
    pub(crate) url: String,
    /// Where the beanstalk protocol is, if it is.
    pub(crate) beanstalk: String,
}

impl Server {
    /// Starts the server, built as the tests build it, with some more flags.
    pub(crate) fn start(workspace: &Workspace, flags: &[&str]) -> anyhow::Result<Self> {
        let mut command = Command::new(program(workspace)?);
        command.args(["serve", "--listen", "127.0.0.1:0", "--store", "memory:", "--log", "warn"]).args(flags);
        let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("cannot start dwell")?;
        let output = process.stdout.take().context("dwell has no standard output")?;
        let mut server = Self { process, url: String::new(), beanstalk: String::new() };
        for line in BufReader::new(output).lines() {
            let line = line?;
            let mut words = line.split_whitespace();
            match (words.next(), words.next()) {
                (Some("address"), Some(url)) => url.clone_into(&mut server.url),
                (Some("beanstalk"), Some(address)) => address.clone_into(&mut server.beanstalk),
                (Some("try"), _) => return Ok(server),
                _ => {}
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

/// The server, built as the tests build it.
pub(crate) fn program(workspace: &Workspace) -> anyhow::Result<PathBuf> {
    let built = artifacts::build(workspace)?;
    let is_server = |kinds: &[TargetKind], name: &str| kinds.contains(&TargetKind::Bin) && name == "dwell";
    let server = built.into_iter().find(|artifact| is_server(&artifact.target.kind, &artifact.target.name));
    let program = server.and_then(|artifact| artifact.executable).context("cargo built no server")?;
    Ok(program.into_std_path_buf())
}
