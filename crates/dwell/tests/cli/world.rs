//! A server of its own for each test, and the command line to ask it with.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

const DWELL: &str = env!("CARGO_BIN_EXE_dwell");

/// How often something is looked for before it is given up; each look takes a process.
const LOOKS: usize = 2_000;

/// A server that ends with the test.
pub(crate) struct Server {
    child: Child,
    pub(crate) url: String,
}

/// How a command ended, and what it said.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// The program, without what the environment of the tests says to it.
pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = Command::new(DWELL);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.env_remove("DWELL_URL").env_remove("DWELL_TOKEN");
    command
}

pub(crate) fn run(command: &mut Command) -> Ran {
    ended(command.spawn().unwrap())
}

/// Waits for the end.
pub(crate) fn ended(child: Child) -> Ran {
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
}

impl Ran {
    /// What it said, after it went well.
    #[track_caller]
    pub(crate) fn good(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (0, ""), "{self:?}");
        self.out
    }

    /// What it complained of, after it ended with that number.
    #[track_caller]
    pub(crate) fn bad(self, code: i32) -> String {
        assert_eq!((self.code, self.out.as_str()), (code, ""), "{self:?}");
        self.err
    }

    /// The one object that it printed.
    #[track_caller]
    pub(crate) fn object(self) -> Value {
        let mut objects = self.objects();
        assert_eq!(objects.len(), 1, "{objects:?}");
        objects.remove(0)
    }

    /// The objects that it printed, one a line.
    #[track_caller]
    pub(crate) fn objects(self) -> Vec<Value> {
        self.good().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    pub(crate) fn start_with(args: &[&str]) -> Self {
        let mut serve = command(&["serve", "--listen", "127.0.0.1:0", "--store", "memory:"]);
        let mut child = serve.args(args).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let address = lines.find_map(|line| line.unwrap().trim().strip_prefix("address").map(str::to_owned)).unwrap();
        let url = address.split_whitespace().next().unwrap().to_owned();
        Self { child, url }
    }

    /// The program, told to ask this server.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = command(args);
        command.env("DWELL_URL", &self.url);
        command
    }

    /// Asks this server.
    pub(crate) fn dwell(&self, args: &[&str]) -> Ran {
        run(&mut self.command(args))
    }

    /// Asks this server for JSON.
    pub(crate) fn json(&self, args: &[&str]) -> Ran {
        run(self.command(args).arg("--json"))
    }

    /// Asks this server, with something on standard input.
    pub(crate) fn dwell_with_input(&self, args: &[&str], input: &[u8]) -> Ran {
        let mut child = self.command(args).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        ended(child)
    }

    /// Leases the one job that is due, and gives its token.
    pub(crate) fn token(&self, topic: &str) -> String {
        self.json(&["lease", topic]).object()["token"].as_str().unwrap().to_owned()
    }

    /// Makes a topic, and starts a command that leases from it; returns when that waits.
    pub(crate) fn parked(&self, topic: &str, args: &[&str]) -> Child {
        self.dwell(&["pause", topic]).good();
        self.dwell(&["resume", topic]).good();
        let child = self.command(args).spawn().unwrap();
        let waiting = || self.json(&["topics", "--prefix", topic]).object()["waiting"] == 1;
        assert!((0..LOOKS).any(|_| waiting()), "nobody waits on {topic}");
        child
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Reads one line of what a command prints, while it goes on.
pub(crate) fn next_line(child: &mut Child) -> String {
    let mut line = Vec::new();
    let out = child.stdout.as_mut().unwrap();
    let mut byte = [0];
    while out.read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
        line.push(byte[0]);
    }
    String::from_utf8(line).unwrap()
}

/// Tells a command to stop.
pub(crate) fn interrupt(child: &Child) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
}

/// Whether a line ends with how far away an instant is; on a slow machine some of the time has passed.
pub(crate) fn ends_in(line: &str, at_once: &str, soon: &str) -> bool {
    [at_once, soon].iter().any(|away| line.ends_with(&format!("Z (in {away})\n")))
}
