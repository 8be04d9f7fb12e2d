//! Who is measured.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use dwell_bench::Outcome;
use dwell_bench::server::Process;

/// A server that speaks the protocol.
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    /// Its flags, beside those that all have. `None`: it is Dwell.
    flags: Option<&'static [&'static str]>,
}

/// beanstalkd with its binlog as it comes.
pub(crate) const BINLOG: &str = "`beanstalkd -b`";
/// beanstalkd with every write of its binlog synced.
pub(crate) const SYNCED: &str = "`beanstalkd -b -f0`";
/// Dwell.
pub(crate) const DWELL: &str = "Dwell";

/// All of them.
pub(crate) const PEERS: [Peer; 4] = [
    Peer { name: "`beanstalkd`", flags: Some(&[]) },
    Peer { name: BINLOG, flags: Some(&["-b", "."]) },
    Peer { name: SYNCED, flags: Some(&["-b", ".", "-f0"]) },
    Peer { name: DWELL, flags: None },
];

/// A running server.
pub(crate) struct Server {
    pub(crate) process: Process,
    pub(crate) address: String,
}

impl Peer {
    /// Whether it keeps jobs over a restart.
    pub(crate) fn keeps_jobs(&self) -> bool {
        self.flags.is_none_or(|flags| !flags.is_empty())
    }

    /// Starts it on a free port, with its jobs in `directory`.
    pub(crate) fn start(&self, binary: &Path, directory: &Path) -> Outcome<Server> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let port = address.port().to_string();
        let mut command = if let Some(flags) = self.flags {
            let mut command = Command::new("beanstalkd");
            command.args(["-l", "127.0.0.1", "-p", &port]).args(flags);
            command
        } else {
            let mut command = Command::new(binary);
            command.args(["serve", "--listen", "127.0.0.1:0", "--memory", "8GiB", "--data-dir", "data"]);
            command.args(["--beanstalk", &address.to_string()]);
            command
        };
        let started = command.current_dir(directory).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let started =
            started.map_err(|error| format!("{}: {error}; on Debian: apt-get install beanstalkd", self.name))?;
        let server = Server { process: Process(started), address: address.to_string() };
        for _ in 0..60_000 {
            if TcpStream::connect(&server.address).is_ok() {
                return Ok(server);
            }
            wait();
        }
        Err(format!("{} does not answer", self.name).into())
    }
}

#[expect(clippy::disallowed_methods, reason = "beanstalkd gives no signal when it is up")]
fn wait() {
    thread::sleep(Duration::from_millis(1));
}
