//! A Redis of our own, and what it does by itself.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

use crate::Outcome;
use crate::server::Process;

/// A running `redis-server` on a free port. Needs `redis-server`, `redis-cli` and `redis-benchmark`.
#[derive(Debug)]
pub struct Redis {
    process: Process,
    port: String,
    _directory: TempDir,
}

impl Redis {
    /// Starts one with its files in a directory of its own, and these flags.
    pub fn start(directory: &Path, flags: &[&str]) -> Outcome<Self> {
        let directory = tempfile::tempdir_in(directory)?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port().to_string();
        let server = Command::new("redis-server")
            .args(["--port", &port, "--bind", "127.0.0.1", "--save", ""])
            .args(flags)
            .arg("--dir")
            .arg(directory.path())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| format!("redis-server: {error}; on Debian: apt-get install redis-server"))?;
        let redis = Self { process: Process(server), port, _directory: directory };
        for _ in 0..200 {
            if redis.ask(&["PING"])? == "PONG" {
                return Ok(redis);
            }
            wait();
        }
        Err("redis-server does not answer".into())
    }

    /// Its port.
    pub fn port(&self) -> &str {
        &self.port
    }

    /// Its address, as `--store` takes it.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// What it answers to a command.
    pub fn ask(&self, command: &[&str]) -> Outcome<String> {
        let output = Command::new("redis-cli").args(["-p", &self.port]).args(command).output()?;
        Ok(String::from_utf8(output.stdout)?.replace('\r', "").trim_end().to_owned())
    }

    /// A number that `INFO` tells.
    pub fn info(&self, section: &str, field: &str) -> Outcome<f64> {
        let info = self.ask(&["INFO", section])?;
        let line = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        Ok(line.ok_or_else(|| format!("Redis does not tell {field}"))?.parse()?)
    }

    /// Seconds of processor time that it has used.
    pub fn cpu(&self) -> Outcome<f64> {
        self.process.cpu()
    }

    /// Calls of a script a second, by `redis-benchmark` without pipelines; `arguments` are those of `EVALSHA`.
    pub fn script_rate(&self, script: &str, connections: usize, calls: usize, arguments: &[&str]) -> Outcome<f64> {
        let hash = self.ask(&["SCRIPT", "LOAD", script])?;
        if hash.len() != 40 {
            return Err(format!("the script was not loaded: {hash}").into());
        }
        let output = Command::new("redis-benchmark")
            .args(["-h", "127.0.0.1", "-p", &self.port, "-c", &connections.to_string(), "-P", "1"])
            .args(["-n", &calls.to_string(), "-r", "1000000000", "--csv", "EVALSHA", &hash])
            .args(arguments)
            .output()?;
        let text = String::from_utf8(output.stdout)?;
        if text.contains("ERR") {
            return Err(format!("the script failed: {text}").into());
        }
        // The last line is `"<command>","<calls a second>",…`; the command has no comma in it.
        let figure =
            text.lines().last().and_then(|line| line.split("\",\"").nth(1)).ok_or("redis-benchmark said no figure")?;
        Ok(figure.parse()?)
    }
}

#[expect(clippy::disallowed_methods, reason = "redis-server gives no signal when it is up")]
fn wait() {
    thread::sleep(Duration::from_millis(50));
}
