//! The server under test.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use dwell_bench::server::{Outcome, Process};

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
        self.process.memory()
    }

    /// Ends it.
    pub(crate) fn stop(mut self) -> Outcome<()> {
        self.process.kill()
    }
}
