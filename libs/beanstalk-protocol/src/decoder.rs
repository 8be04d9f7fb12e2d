//! What a server receives, command by command.

use crate::command::{Command, Mistake, Put};
use crate::{MAX_LINE, Reply};

/// Cuts what a client sends into commands. It keeps no bytes: the caller does, until they are consumed.
#[derive(Clone, Debug)]
pub struct Decoder {
    max_job: u32,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// At the beginning of a line.
    Line,
    /// In a body that is too big: so many bytes of it are still to come.
    TooBig(u64),
    /// In a line that is too long.
    LongLine,
}

/// What [`Decoder::decode`] found at the beginning of the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step<'a> {
    /// So many bytes of the buffer are dealt with, whether or not there is an event.
    pub consumed: usize,
    /// What they mean. `None`: more bytes are needed.
    pub event: Option<Event<'a>>,
}

/// What a client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A command that is a line alone.
    Command(Command<'a>),
    /// A whole job.
    Put {
        /// What it says of itself.
        put: Put,
        /// Its body, without its `\r\n`.
        body: &'a [u8],
    },
    /// Something that is to be answered with an error.
    Refused(Refusal),
    /// An HTTP request: someone is at the wrong door, or was made to knock. Close the connection.
    Http,
}

/// Why something was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No command begins like this.
    UnknownCommand,
    /// A line that is not well-formed, or too long.
    BadFormat,
    /// A body that does not end where it should. What follows is read as commands.
    ExpectedCrlf,
    /// A body that is too big; it was read and dropped.
    JobTooBig,
}

impl From<Refusal> for Reply<'static> {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::UnknownCommand => Self::UnknownCommand,
            Refusal::BadFormat => Self::BadFormat,
            Refusal::ExpectedCrlf => Self::ExpectedCrlf,
            Refusal::JobTooBig => Self::JobTooBig,
        }
    }
}

impl Decoder {
    /// A decoder for one connection; larger bodies than `max_job` bytes are too big.
    pub fn new(max_job: u32) -> Self {
        Self { max_job, state: State::Line }
    }

    /// Reads the next command. `buffer` is what has been received and was not consumed yet; what a step consumed must
    /// not be shown again.
    pub fn decode<'a>(&mut self, buffer: &'a [u8]) -> Step<'a> {
        match self.state {
            State::Line => self.line(buffer),
            State::TooBig(left) => self.skip(buffer, left),
            State::LongLine => self.long_line(buffer),
        }
    }

    /// How many bytes the buffer must have before [`Decoder::decode`] can go on, given what it has now: for callers who
    /// make room. 1 beyond what is there if only the end of the line will tell.
    pub fn needs(&self, buffer: &[u8]) -> usize {
        let whole = match self.state {
            State::Line => line_end(buffer).and_then(|end| match Command::read(&buffer[..end]) {
                Ok(Command::Put(put)) => Some(end + 2 + put.size as usize + 2),
                _ => None,
            }),
            State::TooBig(_) | State::LongLine => None,
        };
        whole.unwrap_or(buffer.len() + 1)
    }

    fn line<'a>(&mut self, buffer: &'a [u8]) -> Step<'a> {
        if looks_like_http(buffer) {
            return Step { consumed: buffer.len(), event: Some(Event::Http) };
        }
        let Some(end) = line_end(buffer) else {
            if buffer.len() >= MAX_LINE {
                self.state = State::LongLine;
                return self.long_line(buffer);
            }
            return Step { consumed: 0, event: None };
        };
        let event = match Command::read(&buffer[..end]) {
            Ok(Command::Put(put)) | Err(Mistake::AfterPut(put)) if put.size > self.max_job => {
                return self.too_big(buffer, end, put);
            }
            Ok(Command::Put(put)) => return put_with_body(buffer, end, put),
            Ok(command) => Event::Command(command),
            Err(Mistake::UnknownCommand) => Event::Refused(Refusal::UnknownCommand),
            Err(Mistake::BadFormat | Mistake::AfterPut(_)) => Event::Refused(Refusal::BadFormat),
        };
        Step { consumed: end + 2, event: Some(event) }
    }

    fn too_big<'a>(&mut self, buffer: &'a [u8], end: usize, put: Put) -> Step<'a> {
        let step = self.skip(&buffer[end + 2..], u64::from(put.size) + 2);
        Step { consumed: step.consumed + end + 2, ..step }
    }

    fn skip<'a>(&mut self, buffer: &'a [u8], left: u64) -> Step<'a> {
        let consumed = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let left = left - consumed as u64;
        if left > 0 {
            self.state = State::TooBig(left);
            return Step { consumed, event: None };
        }
        self.state = State::Line;
        Step { consumed, event: Some(Event::Refused(Refusal::JobTooBig)) }
    }

    fn long_line<'a>(&mut self, buffer: &'a [u8]) -> Step<'a> {
        if let Some(end) = find_crlf(buffer) {
            self.state = State::Line;
            return Step { consumed: end + 2, event: Some(Event::Refused(Refusal::BadFormat)) };
        }
        // The last byte may be the first half of the end.
        let half = usize::from(buffer.last() == Some(&b'\r'));
        Step { consumed: buffer.len() - half, event: None }
    }
}

fn put_with_body(buffer: &[u8], end: usize, put: Put) -> Step<'_> {
    let start = end + 2;
    let whole = start + put.size as usize + 2;
    if buffer.len() < whole {
        return Step { consumed: 0, event: None };
    }
    let (body, crlf) = buffer[start..whole].split_at(put.size as usize);
    let event = if crlf == b"\r\n" { Event::Put { put, body } } else { Event::Refused(Refusal::ExpectedCrlf) };
    Step { consumed: whole, event: Some(event) }
}

/// Where the line at the beginning of the buffer ends, if it does within the longest there may be.
fn line_end(buffer: &[u8]) -> Option<usize> {
    find_crlf(&buffer[..buffer.len().min(MAX_LINE)])
}

fn find_crlf(buffer: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let end = from + buffer[from..].iter().position(|&byte| byte == b'\r')?;
        if *buffer.get(end + 1)? == b'\n' {
            return Some(end);
        }
        from = end + 1;
    }
}

/// Whether what has come is the beginning of an HTTP request, or one of its headers that every request has. No command has
/// capitals.
fn looks_like_http(line: &[u8]) -> bool {
    const METHODS: [&str; 10] =
        ["GET ", "POST ", "PUT ", "HEAD ", "DELETE ", "OPTIONS ", "PATCH ", "CONNECT ", "TRACE ", "PRI "];
    if !line.first().is_some_and(|first| first.is_ascii_uppercase() || *first == b'h') {
        return false;
    }
    let begins = |word: &str| line.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word.as_bytes()));
    METHODS.iter().any(|method| line.starts_with(method.as_bytes())) || begins("Host:")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(decoder: &mut Decoder, bytes: &[u8]) -> Vec<String> {
        let (mut at, mut events) = (0, Vec::new());
        loop {
            let step = decoder.decode(&bytes[at..]);
            at += step.consumed;
            match step.event {
                Some(event) => events.push(format!("{event:?}")),
                None => return events,
            }
        }
    }

    fn refused(why: Refusal) -> String {
        format!("{:?}", Event::Refused(why))
    }

    #[test]
    fn a_body_too_big_is_swallowed_and_what_follows_is_read() {
        let mut decoder = Decoder::new(4);
        let seen = events(
            &mut decoder,
            b"put 0 0 1 5\r\nstats\r\nput 0 0 1 4\r\nquit\r\nput 0 0 1 9 x\r\n123456789\r\nquit\r\n",
        );
        let put = Put { priority: 0, delay: 0, ttr: 1, size: 4 };
        let taken = format!("{:?}", Event::Put { put, body: b"quit" });
        let big = refused(Refusal::JobTooBig);
        assert_eq!(seen, [big.clone(), taken, big, format!("{:?}", Event::Command(Command::Quit))]);
    }

    #[test]
    fn a_body_too_big_may_come_in_pieces() {
        let mut decoder = Decoder::new(4);
        assert_eq!(decoder.decode(b"put 0 0 1 4294967295\r\nab"), Step { consumed: 24, event: None });
        assert_eq!(decoder.state, State::TooBig(4_294_967_295));
        decoder.state = State::TooBig(3);
        assert_eq!(decoder.decode(b"c\r"), Step { consumed: 2, event: None });
        assert_eq!(decoder.decode(b"\nstats\r\n").consumed, 1);
    }

    #[test]
    fn a_line_may_have_224_bytes_and_no_more() {
        let mut decoder = Decoder::new(4);
        let line = |bytes: usize| format!("peek {}\r\nstats\r\n", "0".repeat(bytes - 7)).into_bytes();
        let stats = format!("{:?}", Event::Command(Command::Stats));
        let peek = format!("{:?}", Event::Command(Command::Peek(0)));
        assert_eq!(events(&mut decoder, &line(224)), [peek, stats.clone()]);
        for bytes in [225, 226, 500, 10_000] {
            assert_eq!(events(&mut decoder, &line(bytes)), [refused(Refusal::BadFormat), stats.clone()], "{bytes}");
        }
    }

    #[test]
    fn the_end_of_a_long_line_may_come_in_two_halves() {
        let mut decoder = Decoder::new(4);
        let long = [b'x'; 300];
        assert_eq!(decoder.decode(&long), Step { consumed: 300, event: None });
        assert_eq!(decoder.decode(b"xx\r"), Step { consumed: 2, event: None });
        assert_eq!(events(&mut decoder, b"\r\n"), [refused(Refusal::BadFormat)]);
    }

    #[test]
    fn a_body_that_does_not_end_is_refused_and_dropped() {
        let mut decoder = Decoder::new(4);
        let seen = events(&mut decoder, b"put 0 0 1 2\r\nabcd\r\nstats\r\n");
        let stats = format!("{:?}", Event::Command(Command::Stats));
        assert_eq!(seen, [refused(Refusal::ExpectedCrlf), refused(Refusal::UnknownCommand), stats]);
    }

    #[test]
    fn http_is_seen_by_its_first_line() {
        for line in
            ["GET / HTTP/1.1\r\n", "POST /x", "PUT /v1 HTTP/1.1\r\n", "Host: a\r\n", "hOST:a\r\n", "PRI * HTTP/2.0\r\n"]
        {
            assert_eq!(events(&mut Decoder::new(4), line.as_bytes())[0], "Http", "{line}");
        }
        let long = format!("GET /{} HTTP/1.1\r\n", "a".repeat(3_000));
        assert_eq!(events(&mut Decoder::new(4), long.as_bytes())[0], "Http");
        for line in ["GETTING\r\n", "get x\r\n", "hostile: x\r\n"] {
            assert_eq!(events(&mut Decoder::new(4), line.as_bytes()), [refused(Refusal::UnknownCommand)], "{line}");
        }
    }

    #[test]
    fn it_says_how_much_it_needs() {
        let decoder = Decoder::new(100);
        assert_eq!(decoder.needs(b""), 1);
        assert_eq!(decoder.needs(b"put 0 0 1 7"), 12);
        assert_eq!(decoder.needs(b"put 0 0 1 7\r\nab"), 22);
    }
}
