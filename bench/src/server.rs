//! Servers under test: building Dwell's, and processes that end with whoever started them.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::{Outcome, memory};

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
#[derive(Debug)]
pub struct Process(pub Child);

impl Process {
    /// Kibibytes of memory that it holds.
    pub fn memory(&self) -> Outcome<u64> {
        self.size("VmRSS:")
    }

    /// The most that it ever held.
    pub fn peak_memory(&self) -> Outcome<u64> {
        self.size("VmHWM:")
    }

    fn size(&self, name: &str) -> Outcome<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id()))?;
        let line = status.lines().find(|line| line.starts_with(name)).ok_or("every process has a size")?;
        Ok(line.split_whitespace().nth(1).ok_or("the size is a number")?.parse()?)
    }

    /// Seconds of processor time that it has used, to the hundredth.
    pub fn cpu(&self) -> Outcome<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id()))?;
        let fields = stat.rsplit(") ").next().ok_or("a name in brackets")?;
        let mut ticks = 0_u32;
        for field in fields.split(' ').skip(11).take(2) {
            ticks += field.parse::<u32>()?;
        }
        Ok(f64::from(ticks) / 100.0)
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

/// A running server.
#[derive(Debug)]
pub struct Server {
    process: Process,
    /// Host and port.
    pub address: String,
}

impl Server {
    /// Starts a server on a free port with its jobs in `directory` and these flags.
    pub fn start(binary: &Path, directory: &Path, flags: &[&str]) -> Outcome<Self> {
        let mut command = Command::new(binary);
        command.args(["serve", "--listen", "127.0.0.1:0", "--memory", "8GiB", "--data-dir"]);
        Self::launch(command.arg(directory.join("data")).args(flags))
    }

    /// The same with the memory for jobs that it takes by itself.
    pub fn start_as_it_comes(binary: &Path, directory: &Path) -> Outcome<Self> {
        let mut command = Command::new(binary);
        Self::launch(command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(directory.join("data")))
    }

    /// Starts a server on a free port with its jobs in the store at `url`.
    pub fn start_on(binary: &Path, url: &str) -> Outcome<Self> {
        Self::launch(Command::new(binary).args(["serve", "--listen", "127.0.0.1:0", "--store", url]))
    }

    fn launch(command: &mut Command) -> Outcome<Self> {
        let mut process = command.stdout(Stdio::piped()).spawn()?;
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
    pub fn memory(&self) -> Outcome<u64> {
        self.process.memory()
    }

    /// The most that it held since [`Server::forget_peak`], or ever.
    pub fn peak_memory(&self) -> Outcome<u64> {
        self.process.peak_memory()
    }

    /// What it held before does not count any more.
    pub fn forget_peak(&self) -> Outcome<()> {
        Ok(memory::forget_peak(self.process.0.id())?)
    }

    /// Seconds of processor time that it has used.
    pub fn cpu(&self) -> Outcome<f64> {
        self.process.cpu()
    }

    /// Ends it.
    pub fn stop(mut self) -> Outcome<()> {
        self.process.kill()
    }
}
