//! Real Redis servers, on free ports of this machine, that go when the test lets go.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, ChildStdout, Command, Stdio};

use tempfile::TempDir;

/// A Redis server in a directory of its own.
pub(crate) struct Server {
    pub(crate) port: u16,
    child: Child,
    directory: TempDir,
    arguments: Vec<String>,
}

impl Server {
    /// A server that writes to disk every second, as the documentation advises.
    pub(crate) fn start() -> Self {
        Self::with(&["--appendonly", "yes", "--appendfsync", "everysec"])
    }

    pub(crate) fn with(arguments: &[&str]) -> Self {
        Self::on(free_port, arguments)
    }

    /// A node of a cluster, whose bus needs the port 10,000 above, too.
    #[allow(dead_code, reason = "not every test that includes this file has a cluster")]
    pub(crate) fn with_bus(arguments: &[&str]) -> Self {
        let port = || loop {
            let port = free_port();
            if port < 55_000 && TcpListener::bind((Ipv4Addr::LOCALHOST, port + 10_000)).is_ok() {
                return port;
            }
        };
        Self::on(port, arguments)
    }

    fn on(port: impl Fn() -> u16, arguments: &[&str]) -> Self {
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        let directory = tempfile::tempdir().unwrap();
        // Another program may take the port between our letting go of it and the server's start: then the next one.
        for _ in 0..20 {
            let port = port();
            if let Some(child) = launch(port, &directory, &arguments) {
                return Self { port, child, directory, arguments };
            }
        }
        panic!("redis-server does not start; is it installed?");
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// What it answers to a command.
    #[allow(dead_code, reason = "not every test that includes this file asks")]
    pub(crate) fn ask(&self, command: &[&str]) -> String {
        ask(self.port, command)
    }

    /// Stops it in the midst of what it does, or lets it go on.
    #[allow(dead_code, reason = "not every test that includes this file stops it")]
    pub(crate) fn freeze(&self, freeze: bool) {
        let signal = if freeze { "-STOP" } else { "-CONT" };
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Ends it without a word.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again on what it left.
    pub(crate) fn start_again(&mut self) {
        self.child = launch(self.port, &self.directory, &self.arguments).expect("its port is still free");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// What the server on a port answers to a command; nothing if it does not.
#[allow(dead_code, reason = "not every test that includes this file asks")]
pub(crate) fn ask(port: u16, command: &[&str]) -> String {
    let output = Command::new("redis-cli").args(["-p", &port.to_string()]).args(command).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).replace('\r', "")).unwrap_or_default()
}

/// Waits until something holds of servers, which give no signal.
#[allow(dead_code, reason = "not every test that includes this file waits")]
#[expect(clippy::disallowed_methods, reason = "other processes are watched")]
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..600 {
        if holds() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("still not so after 30 s: {what}");
}

pub(crate) fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

/// Starts a server and waits until it says that it is ready; `None` if it ended instead.
fn launch(port: u16, directory: &TempDir, arguments: &[String]) -> Option<Child> {
    let mut child = Command::new("redis-server")
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--daemonize", "no"])
        .arg("--dir")
        .arg(directory.path())
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("redis-server is installed (on Debian: apt-get install redis-server)");
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped"));
    if says(&mut lines, "Ready to accept connections") {
        // Its log must go somewhere, or it waits for a reader.
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        return Some(child);
    }
    child.wait().ok();
    None
}

fn says(lines: &mut BufReader<ChildStdout>, words: &str) -> bool {
    let mut line = String::new();
    while lines.read_line(&mut line).is_ok_and(|length| length > 0) {
        if line.contains(words) {
            return true;
        }
        line.clear();
    }
    false
}
