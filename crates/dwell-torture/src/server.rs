//! The server under torture: a process of its own.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use dwell_client::Client;
use rustix::process::{Pid, Signal, kill_process};

use crate::Outcome;

/// How long a start may take.
const PATIENCE: Duration = Duration::from_mins(1);

/// How a server is started.
#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    pub(crate) program: PathBuf,
    /// Where jobs are kept.
    pub(crate) data: PathBuf,
    /// What it says goes here.
    pub(crate) log: PathBuf,
    pub(crate) flags: Vec<String>,
    /// What it is run by, such as `strace` and its arguments.
    pub(crate) wrapper: Vec<String>,
    pub(crate) environment: Vec<(String, String)>,
}

/// A process that ends with us, whatever becomes of us.
#[derive(Debug)]
pub(crate) struct Process(pub(crate) Child);

/// A server that runs.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) process: Process,
    pub(crate) client: Client,
}

/// A server that did not start.
#[derive(Debug)]
pub(crate) struct NotStarted {
    pub(crate) status: ExitStatus,
    /// What it said last.
    pub(crate) said: String,
}

impl Recipe {
    /// Starts it: a server, or why there is none.
    pub(crate) fn start(&self) -> Outcome<Result<Server, NotStarted>> {
        let log = File::options().create(true).append(true).open(&self.log)?;
        let before = log.metadata()?.len();
        let mut words: Vec<OsString> = self.wrapper.iter().map(OsString::from).collect();
        words.push(self.program.clone().into());
        let mut command = bound_to_us(&words);
        command.args(["serve", "--listen", "127.0.0.1:0", "--log", "warn", "--data-dir"]).arg(&self.data);
        command.args(&self.flags).envs(self.environment.iter().cloned());
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn()?;
        let output = child.stdout.take().ok_or("its output is piped")?;
        let mut process = Process(child);
        match address(output) {
            Some(url) => Ok(Ok(Server { process, client: Client::new(&url, None)? })),
            None if process.has_ended()?.is_none() => Err("the server neither started nor ended in time".into()),
            None => {
                let status = process.0.wait()?;
                let said = std::fs::read(&self.log)?;
                let said = said.get(usize::try_from(before)?..).unwrap_or_default();
                Ok(Err(NotStarted { status, said: String::from_utf8_lossy(said).trim().to_owned() }))
            }
        }
    }
}

/// A command whose process is killed when this one ends. It must be started by the main thread.
pub(crate) fn bound_to_us(words: &[OsString]) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).args(words);
    command
}

/// Waits until a server says where it is; `None` if it ended or took too long. What else it says is read and dropped.
fn address(output: impl std::io::Read + Send + 'static) -> Option<String> {
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            // Nobody listens any more: read on, so that the server can write.
            drop(sender.send(line));
        }
    });
    let mut url = None;
    loop {
        match lines.recv_timeout(PATIENCE) {
            Ok(line) => {
                let mut words = line.split_whitespace();
                match (words.next(), words.next()) {
                    (Some("address"), Some(address)) => url = Some(address.to_owned()),
                    (Some("try"), _) => return url,
                    _ => {}
                }
            }
            Err(RecvTimeoutError::Disconnected | RecvTimeoutError::Timeout) => return None,
        }
    }
}

impl Process {
    pub(crate) fn signal(&self, signal: Signal) -> Outcome<()> {
        let pid = Pid::from_raw(i32::try_from(self.0.id())?).ok_or("a process has a number")?;
        Ok(kill_process(pid, signal)?)
    }

    /// Its status, if it has ended.
    pub(crate) fn has_ended(&mut self) -> Outcome<Option<ExitStatus>> {
        // Whoever closes its output may take a moment to end.
        for _ in 0..100 {
            if let Some(status) = self.0.try_wait()? {
                return Ok(Some(status));
            }
            pause();
        }
        Ok(None)
    }

    /// Whether it runs.
    pub(crate) fn runs(&mut self) -> Outcome<bool> {
        Ok(self.0.try_wait()?.is_none())
    }

    /// Ends it as a crash would.
    pub(crate) fn kill(&mut self) -> Outcome<()> {
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

#[expect(clippy::disallowed_methods, reason = "another process gives no signal")]
pub(crate) fn pause() {
    thread::sleep(Duration::from_millis(20));
}

/// Runs a program that must succeed.
pub(crate) fn succeed(program: &str, arguments: &[&str]) -> Outcome<String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("cannot start {program}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(format!("{program} {}: {}: {said}", arguments.join(" "), output.status).into())
}

/// A directory as an argument.
pub(crate) fn text(path: &Path) -> Outcome<&str> {
    path.to_str().ok_or_else(|| format!("{} is not text", path.display()).into())
}
