//! The well-known recipe on Redis: a sorted set by due time and a hash of bodies, changed by one script.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use super::{HOUR, words};
use crate::Outcome;
use crate::run::Options;
use crate::server::text;

const SCRIPT: &str = "redis.call('HSET', KEYS[2], ARGV[1], ARGV[3]) \
                      return redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])";

fn command(data: &Path, port: u16, sync: &str) -> Outcome<Vec<OsString>> {
    let port = port.to_string();
    let flags = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "yes", "--appendfsync", sync];
    Ok([words(&["redis-server", "--port", &port, "--dir", text(data)?]), words(&flags)].concat())
}

pub(super) fn every_second(_: &Options, data: &Path, port: u16) -> Outcome<Vec<OsString>> {
    command(data, port, "everysec")
}

pub(super) fn always(_: &Options, data: &Path, port: u16) -> Outcome<Vec<OsString>> {
    command(data, port, "always")
}

pub(super) fn connect(port: u16) -> Outcome<Box<dyn super::Connection>> {
    let client = redis::Client::open(format!("redis://127.0.0.1:{port}"))?;
    let connection = client.get_connection_with_timeout(Duration::from_secs(2))?;
    connection.set_read_timeout(Some(Duration::from_secs(10)))?;
    Ok(Box::new(Client(connection)))
}

struct Client(redis::Connection);

impl super::Connection for Client {
    fn put(&mut self, first: u64, count: u64) -> Outcome<Vec<u64>> {
        let mut pipe = redis::pipe();
        for number in first..first + count {
            pipe.cmd("EVAL")
                .arg(SCRIPT)
                .arg(2)
                .arg("due")
                .arg("jobs")
                .arg(number)
                .arg(HOUR)
                .arg(format!("job-{number}"));
        }
        let _added: Vec<u64> = pipe.query(&mut self.0)?;
        Ok((first..first + count).collect())
    }

    fn count(&mut self, names: &[u64]) -> Outcome<u64> {
        let mut pipe = redis::pipe();
        for name in names {
            pipe.cmd("ZSCORE").arg("due").arg(*name);
        }
        let scores: Vec<Option<f64>> = pipe.query(&mut self.0)?;
        Ok(scores.iter().flatten().count() as u64)
    }
}
