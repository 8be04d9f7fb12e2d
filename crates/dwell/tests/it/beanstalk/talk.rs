//! A client that says exactly what it is told, and shows exactly what it got.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::server::Server;

/// Nothing that a test waits for takes longer, unless something is broken.
const PATIENCE: Duration = Duration::from_mins(1);

trait Stream: Read + Write + Send {
    /// A read that takes longer fails.
    fn give_up_after(&self, time: Duration) -> io::Result<()>;
}

impl Stream for TcpStream {
    fn give_up_after(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time))
    }
}

impl Stream for UnixStream {
    fn give_up_after(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time))
    }
}

/// One connection.
pub(super) struct Talk {
    stream: Box<dyn Stream>,
    tcp: Option<TcpStream>,
    received: Vec<u8>,
}

/// Where a server serves the protocol, as its banner says.
pub(super) fn address(banner: &str) -> String {
    let line = banner.lines().find_map(|line| line.strip_prefix("  beanstalk   "));
    line.unwrap_or_else(|| panic!("no beanstalk: {banner}")).to_owned()
}

impl Talk {
    pub(super) fn to(server: &Server) -> Self {
        Self::at(&address(&server.banner))
    }

    pub(super) fn at(address: &str) -> Self {
        if let Some(path) = address.strip_prefix("unix:") {
            let stream = UnixStream::connect(path).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            return Self { stream: Box::new(stream), tcp: None, received: Vec::new() };
        }
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { tcp: Some(stream.try_clone().unwrap()), stream: Box::new(stream), received: Vec::new() }
    }

    pub(super) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    /// The next reply, without its last line end: a body, if it has one, is the second line.
    #[track_caller]
    pub(super) fn reply(&mut self) -> String {
        let line = self.line();
        let size = match line.split(' ').collect::<Vec<_>>()[..] {
            ["RESERVED" | "FOUND", _, size] | ["OK", size] => size.parse::<usize>().unwrap(),
            _ => return line,
        };
        while self.received.len() < size + 2 {
            assert!(self.receive(), "closed in the middle of a body after {line}");
        }
        let body: Vec<u8> = self.received.drain(..size + 2).collect();
        assert!(body.ends_with(b"\r\n"), "{line}: {body:?}");
        format!("{line}\n{}", String::from_utf8_lossy(&body[..size]))
    }

    /// Whether anything comes within a time.
    pub(super) fn hears_within(&mut self, time: Duration) -> bool {
        let mut bytes = [0; 8 << 10];
        self.stream.give_up_after(time).unwrap();
        let read = self.stream.read(&mut bytes);
        self.stream.give_up_after(PATIENCE).unwrap();
        match read {
            Ok(count) => self.received.extend_from_slice(&bytes[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
            Err(error) => panic!("{error}"),
        }
        true
    }

    /// Says a line and reads the reply.
    #[track_caller]
    pub(super) fn ask(&mut self, line: &str) -> String {
        self.send(format!("{line}\r\n"));
        self.reply()
    }

    /// Puts a job, which goes well, and answers its id.
    #[track_caller]
    pub(super) fn put(&mut self, numbers: &str, body: &str) -> u64 {
        self.send(format!("put {numbers} {}\r\n{body}\r\n", body.len()));
        let reply = self.reply();
        let id = reply.strip_prefix("INSERTED ").unwrap_or_else(|| panic!("{reply}"));
        id.parse().unwrap()
    }

    /// The values of a document, by key.
    #[track_caller]
    pub(super) fn document(&mut self, line: &str) -> BTreeMap<String, String> {
        let reply = self.ask(line);
        let (_, text) = reply.split_once("\n---\n").unwrap_or_else(|| panic!("{line}: {reply}"));
        let pair = |line: &str| line.split_once(": ").map(|(key, value)| (key.to_owned(), value.to_owned()));
        text.lines().map(|line| pair(line).unwrap_or_else(|| panic!("{line}"))).collect()
    }

    /// Whether the server has closed the connection, with nothing left to read.
    pub(super) fn is_closed(&mut self) -> bool {
        self.received.is_empty() && !self.receive()
    }

    /// The same connection, to send with while someone else reads.
    pub(super) fn clone_tcp(&self) -> TcpStream {
        self.tcp.as_ref().unwrap().try_clone().unwrap()
    }

    /// Says no more, and listens on.
    pub(super) fn say_no_more(&self) {
        self.tcp.as_ref().unwrap().shutdown(Shutdown::Write).unwrap();
    }

    fn line(&mut self) -> String {
        loop {
            if let Some(end) = self.received.windows(2).position(|pair| pair == b"\r\n") {
                let line = self.received.drain(..end + 2).take(end).collect();
                return String::from_utf8(line).unwrap();
            }
            assert!(self.receive(), "closed in the middle of a line: {:?}", String::from_utf8_lossy(&self.received));
        }
    }

    /// Reads some more; `false` at the end.
    fn receive(&mut self) -> bool {
        let mut bytes = [0; 8 << 10];
        match self.stream.read(&mut bytes) {
            Ok(count) => {
                self.received.extend_from_slice(&bytes[..count]);
                count > 0
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => false,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Runs a conversation. Each line is `A> what A says` or `A< what A gets`; more letters are more connections. Bodies are
/// lines of their own, in both directions. `{x}` stands for a number: whichever it is at first, the same from then on.
#[track_caller]
pub(super) fn converse(server: &Server, script: &str) {
    let mut talks: BTreeMap<char, Talk> = BTreeMap::new();
    let mut numbers: BTreeMap<String, String> = BTreeMap::new();
    let mut expected =
        script.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).peekable();
    while let Some(line) = expected.next() {
        let (who, rest) = line.split_at(1);
        let who = who.chars().next().unwrap();
        let talk = talks.entry(who).or_insert_with(|| Talk::to(server));
        let text = rest[1..].trim_start();
        if rest.starts_with('>') {
            talk.send(format!("{}\r\n", fill(text, &numbers)));
            continue;
        }
        let mut wanted = text.to_owned();
        if ["RESERVED ", "FOUND "].iter().any(|word| text.starts_with(word)) {
            let body = expected.next().unwrap_or_default();
            wanted = format!("{text}\n{}", body[2..].trim_start());
        }
        let got = talk.reply();
        learn(&wanted, &got, &mut numbers);
        assert_eq!(got, fill(&wanted, &numbers), "at: {line}");
    }
}

/// Puts numbers that are known in their places.
fn fill(text: &str, numbers: &BTreeMap<String, String>) -> String {
    let known = |text: String, (name, number): (&String, &String)| text.replace(&format!("{{{name}}}"), number);
    numbers.iter().fold(text.to_owned(), known)
}

/// Learns the numbers that are not known yet.
fn learn(wanted: &str, got: &str, numbers: &mut BTreeMap<String, String>) {
    for (wanted, got) in wanted.split_whitespace().zip(got.split_whitespace()) {
        if let Some(name) = wanted.strip_prefix('{').and_then(|name| name.strip_suffix('}')) {
            assert!(got.parse::<u64>().is_ok(), "a number: {got}");
            numbers.entry(name.to_owned()).or_insert_with(|| got.to_owned());
        }
    }
}
