//! The peer: one script that sets a hash field and a sorted-set score, as the well-known recipe has it.

use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use dwell_bench::Outcome;
use dwell_bench::server::Process;

use crate::Args;

const SCRIPT: &str = "redis.call('HSET', KEYS[2], ARGV[1], ARGV[3]); \
                      return redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])";

/// Calls of the script a second.
pub(crate) fn measure(args: &Args) -> Outcome<f64> {
    let directory = tempfile::tempdir_in(&args.directory)?;
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port().to_string();
    let server = Command::new("redis-server")
        .args(["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes", "--appendfsync", "always"])
        .arg("--dir")
        .arg(directory.path())
        .stdout(Stdio::null())
        .spawn()
        .map_err(|error| format!("redis-server: {error}; on Debian: apt-get install redis-server"))?;
    let server = Process(server);
    let script = load_script(&port)?;
    let body = "x".repeat(args.body);
    let output = Command::new("redis-benchmark")
        .args(["-h", "127.0.0.1", "-p", &port, "-c", &args.connections.to_string(), "-P", "1"])
        .args(["-n", &args.single.to_string(), "-r", "1000000000", "--csv"])
        .args(["EVALSHA", &script, "2", "due", "jobs", "order-__rand_int__", "__rand_int__", &body])
        .output()?;
    drop(server);
    let text = String::from_utf8(output.stdout)?;
    // The last line is `"<command>","<calls a second>",…`; the command has no comma in it.
    let figure =
        text.lines().last().and_then(|line| line.split("\",\"").nth(1)).ok_or("redis-benchmark said no figure")?;
    Ok(figure.parse()?)
}

fn load_script(port: &str) -> Outcome<String> {
    for _ in 0..100 {
        let output = Command::new("redis-cli").args(["-p", port, "SCRIPT", "LOAD", SCRIPT]).output()?;
        let text = String::from_utf8(output.stdout)?;
        if output.status.success() && text.trim().len() == 40 {
            return Ok(text.trim().to_owned());
        }
        wait();
    }
    Err("redis-server does not answer".into())
}

#[expect(clippy::disallowed_methods, reason = "redis-server gives no signal when it is up")]
fn wait() {
    thread::sleep(Duration::from_millis(50));
}
