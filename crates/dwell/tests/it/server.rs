//! A real server for a test: the binary, on a port and in a directory of its own.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::client::Client;
use crate::redis_server::Server as RedisServer;

/// Nothing that a test waits for takes longer, unless something is broken.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server under test. It is killed when the test ends.
pub(crate) struct Server {
    child: Child,
    extra: Vec<String>,
    stands_still: bool,
    directory: TempDir,
    redis: Option<RedisServer>,
    pub(crate) client: Client,
    pub(crate) address: SocketAddr,
    /// What it printed when it was up.
    pub(crate) banner: String,
}

impl Server {
    /// On files (or on Redis, if the tests are told so), with a clock that stands still until it is moved.
    pub(crate) fn new() -> Self {
        Self::with(&[])
    }

    /// On files, whatever the tests are told.
    pub(crate) fn on_files() -> Self {
        Self::with(&["--durability", "sync"])
    }

    /// The same with more flags.
    pub(crate) fn with(extra: &[&str]) -> Self {
        Self::start(extra, true)
    }

    /// On files (or on Redis, if the tests are told so), with more flags, on the machine's own time.
    pub(crate) fn in_real_time(extra: &[&str]) -> Self {
        Self::start(extra, false)
    }

    fn start(extra: &[&str], stands_still: bool) -> Self {
        let directory = temporary();
        let extra: Vec<_> = extra.iter().map(|&flag| flag.to_owned()).collect();
        let redis = runs_on_redis(&extra).then(RedisServer::start);
        let (child, address, banner) = spawn(&directory, &extra, stands_still, redis.as_ref());
        Self { child, extra, stands_still, directory, redis, client: Client::new(address), address, banner }
    }

    /// Kills it as a power cut would, and starts it again on the same files.
    pub(crate) fn crash_and_start(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.start_again();
    }

    /// Starts it again on the same files, once it has ended.
    pub(crate) fn start_again(&mut self) {
        (self.child, self.address, self.banner) =
            spawn(&self.directory, &self.extra, self.stands_still, self.redis.as_ref());
        self.client = Client::new(self.address);
    }

    /// The same with other flags than before.
    pub(crate) fn start_again_with(&mut self, extra: &[&str]) {
        self.extra = extra.iter().map(|&flag| flag.to_owned()).collect();
        self.start_again();
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    pub(crate) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// How it ended, which it does soon.
    pub(crate) fn end(&mut self) -> ExitStatus {
        let mut ended = None;
        until("the server ends", || {
            ended = self.child.try_wait().unwrap();
            ended.is_some()
        });
        ended.unwrap()
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap()
    }
}

impl std::ops::Deref for Server {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

pub(crate) fn temporary() -> TempDir {
    tempfile::Builder::new().prefix("dwell-it-").tempdir().unwrap()
}

/// The binary, told nothing by the environment of the test.
pub(crate) fn dwell(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dwell"));
    command.args(arguments).env_clear().stdin(Stdio::null());
    command
}

/// Whether a server that is not told where to keep its jobs keeps them in Redis: `DWELL_TEST_STORE=redis`.
fn runs_on_redis(extra: &[String]) -> bool {
    let told = ["--store", "--data-dir", "--durability", "--memory", "--accept-clock"];
    let is_told = extra.iter().any(|flag| told.contains(&flag.as_str()));
    !is_told && std::env::var("DWELL_TEST_STORE").is_ok_and(|store| store == "redis")
}

fn spawn(
    directory: &TempDir,
    extra: &[String],
    stands_still: bool,
    redis: Option<&RedisServer>,
) -> (Child, SocketAddr, String) {
    let mut command = dwell(&["serve", "--listen", "127.0.0.1:0"]);
    command.args(stands_still.then_some("--dev-clock"));
    if let Some(redis) = redis {
        command.args(["--store", &redis.url()]);
    } else if !extra.iter().any(|flag| flag == "--store") {
        command.arg("--data-dir").arg(directory.path().join("data"));
    }
    let log = File::options().create(true).append(true).open(directory.path().join("log")).unwrap();
    start(command.args(extra).current_dir(directory.path()).stderr(log))
}

/// Starts a command that serves HTTP; waits until it says where.
pub(crate) fn start(command: &mut Command) -> (Child, SocketAddr, String) {
    let (child, banner) = start_any(command);
    let address = banner.lines().find_map(|line| line.strip_prefix("  address     http")).unwrap();
    let address = address.trim_start_matches('s').trim_start_matches("://").split(' ').next().unwrap().parse().unwrap();
    (child, address, banner)
}

/// Starts a command that serves; waits until it is up.
pub(crate) fn start_any(command: &mut Command) -> (Child, String) {
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut banner = String::new();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    while !banner.lines().any(|line| line.starts_with("  try")) {
        assert_ne!(output.read_line(&mut banner).unwrap(), 0, "it ended: {:?}, {banner}", child.wait());
    }
    (child, banner)
}

/// What a command that does not serve said.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stderr: String,
}

/// Runs a command that ends by itself, soon.
pub(crate) fn run(command: &mut Command) -> Ended {
    let directory = temporary();
    let path = directory.path().join("stderr");
    let mut child = command.stdout(Stdio::null()).stderr(File::create(&path).unwrap()).spawn().unwrap();
    let mut ended = None;
    until("the command ends", || {
        ended = child.try_wait().unwrap();
        ended.is_some()
    });
    Ended { code: ended.unwrap().code(), stderr: std::fs::read_to_string(path).unwrap() }
}

/// Waits until something holds.
#[expect(clippy::disallowed_methods, reason = "another process is watched, which gives no signal")]
#[track_caller]
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "still not so after {PATIENCE:?}: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// How long something took.
#[expect(clippy::disallowed_methods, reason = "what waits in real time is measured in real time")]
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let done = work();
    (done, start.elapsed())
}
