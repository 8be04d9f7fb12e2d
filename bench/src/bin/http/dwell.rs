//! The server under test.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{Outcome, Process};

/// Builds the server in release and says where it is.
pub(crate) fn build() -> Outcome<PathBuf> {
    let status = Command::new(env!("CARGO")).args(["build", "--release", "--package", "dwell"]).status()?;
    if !status.success() {
        return Err("the server does not build".into());
    }
    let here = std::env::current_exe()?;
    Ok(here.parent().ok_or("a program is in a directory")?.join("dwell"))
}

/// A running server.
pub(crate) struct Server {
    process: Process,
    /// Host and port.
    pub(crate) address: String,
}

impl Server {
    /// Starts a server on a free port with its jobs in `directory`.
    pub(crate) fn start(binary: &Path, directory: &Path) -> Outcome<Self> {
        let data = directory.join("data");
        let mut process = Command::new(binary)
            .args(["serve", "--listen", "127.0.0.1:0", "--memory", "8GiB", "--data-dir"])
            .arg(data)
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout = process.stdout.take().ok_or("its output is piped")?;
        let process = Process(process);
        for line in BufReader::new(stdout).lines() {
            if let Some(address) = line?.split("http://").nth(1).and_then(|rest| rest.split_whitespace().next()) {
                return Ok(Self { process, address: address.to_owned() });
            }
        }
        Err("the server said no address".into())
    }

    /// Kibibytes of memory that it holds.
    pub(crate) fn memory(&self) -> Outcome<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.0.id()))?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).ok_or("every process has a size")?;
        Ok(line.split_whitespace().nth(1).ok_or("the size is a number")?.parse()?)
    }

    /// Ends it.
    pub(crate) fn stop(self) -> Outcome<()> {
        let mut process = self.process;
        process.0.kill()?;
        process.0.wait()?;
        Ok(())
    }
}
