//! beanstalkd with a log: by default it is synced every 50 ms, with `-f0` at every write.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use super::{Connection, HOUR, words};
use crate::Outcome;
use crate::run::Options;
use crate::server::text;

pub(super) fn default(_: &Options, data: &Path, port: u16) -> Outcome<Vec<OsString>> {
    Ok(words(&["beanstalkd", "-l", "127.0.0.1", "-p", &port.to_string(), "-b", text(data)?]))
}

pub(super) fn always(options: &Options, data: &Path, port: u16) -> Outcome<Vec<OsString>> {
    let mut command = default(options, data, port)?;
    command.push("-f0".into());
    Ok(command)
}

pub(super) fn connect(port: u16) -> Outcome<Box<dyn Connection>> {
    let stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    Ok(Box::new(Client(BufReader::new(stream))))
}

struct Client(BufReader<TcpStream>);

impl Client {
    fn line(&mut self) -> Outcome<String> {
        let mut line = String::new();
        if self.0.read_line(&mut line)? == 0 {
            return Err("it hung up".into());
        }
        Ok(line.trim_end().to_owned())
    }
}

impl Connection for Client {
    fn put(&mut self, first: u64, count: u64) -> Outcome<Vec<u64>> {
        let mut commands = String::new();
        for number in first..first + count {
            let body = format!("job-{number}");
            write!(commands, "put 1024 {HOUR} 60 {}\r\n{body}\r\n", body.len())?;
        }
        self.0.get_mut().write_all(commands.as_bytes())?;
        let mut names = Vec::new();
        for _ in 0..count {
            // A pipeline that breaks off was acknowledged up to there.
            let Ok(line) = self.line() else { break };
            names.extend(line.strip_prefix("INSERTED ").and_then(|name| name.parse::<u64>().ok()));
        }
        Ok(names)
    }

    fn count(&mut self, names: &[u64]) -> Outcome<u64> {
        let mut commands = String::new();
        for name in names {
            write!(commands, "peek {name}\r\n")?;
        }
        self.0.get_mut().write_all(commands.as_bytes())?;
        let mut found = 0;
        for _ in names {
            let line = self.line()?;
            if let Some(size) = line.strip_prefix("FOUND ").and_then(|rest| rest.split(' ').nth(1)) {
                let mut body = vec![0; size.parse::<usize>()? + 2];
                self.0.read_exact(&mut body)?;
                found += 1;
            }
        }
        Ok(found)
    }
}
