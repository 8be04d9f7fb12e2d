//! Servers under test: building Dwell's, and processes that end with whoever started them.

use std::error::Error;
use std::path::PathBuf;
use std::process::{Child, Command};

/// What can go wrong: the message is all that is needed.
pub type Outcome<T> = Result<T, Box<dyn Error>>;

/// Builds `dwell` in release and says where it is.
pub fn build() -> Outcome<PathBuf> {
    let status = Command::new(env!("CARGO")).args(["build", "--release", "--package", "dwell"]).status()?;
    if !status.success() {
        return Err("the server does not build".into());
    }
    let here = std::env::current_exe()?;
    Ok(here.parent().ok_or("a program is in a directory")?.join("dwell"))
}

/// A process that is ended when it is no longer needed.
pub struct Process(pub Child);

impl Process {
    /// Kibibytes of memory that it holds.
    pub fn memory(&self) -> Outcome<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id()))?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).ok_or("every process has a size")?;
        Ok(line.split_whitespace().nth(1).ok_or("the size is a number")?.parse()?)
    }

    /// Ends it as a crash would.
    pub fn kill(&mut self) -> Outcome<()> {
        self.0.kill()?;
        self.0.wait()?;
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.kill());
    }
}
