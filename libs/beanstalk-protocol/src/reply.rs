//! What a server answers.

use std::fmt;

use crate::number::{self, read_u64, whole_u64};
use crate::tube::Tube;

/// The longest line a server answers with: `USING` and a tube's name, or a word and two numbers.
const MAX_REPLY_LINE: usize = 224;

/// What a server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// The job is in.
    Inserted(u64),
    /// To `put`: the job is in, but the server had no room to queue it and put it aside.
    BuriedId(u64),
    /// Puts go into this tube.
    Using(Tube<'a>),
    /// A job for the client.
    Reserved {
        /// Its number.
        id: u64,
        /// Its body.
        body: &'a [u8],
    },
    /// A job to look at.
    Found {
        /// Its number.
        id: u64,
        /// Its body.
        body: &'a [u8],
    },
    /// A document in YAML.
    Ok(&'a [u8]),
    /// So many tubes are watched.
    Watching(u64),
    /// So many jobs were kicked.
    KickedCount(u64),
    /// The job was kicked.
    Kicked,
    /// A job that the client holds will be taken from it within a second.
    DeadlineSoon,
    /// No job within the time.
    TimedOut,
    /// The job is gone.
    Deleted,
    /// The job was given back.
    Released,
    /// The job was put aside.
    Buried,
    /// The client may hold the job for longer.
    Touched,
    /// The tube is paused.
    Paused,
    /// There is no such job or tube, or it is not the client's to do this to.
    NotFound,
    /// The only watched tube cannot be ignored.
    NotIgnored,
    /// The server has no room.
    OutOfMemory,
    /// The server is broken.
    InternalError,
    /// The server takes no new jobs.
    Draining,
    /// The line was not well-formed.
    BadFormat,
    /// No such command.
    UnknownCommand,
    /// The body did not end where it should.
    ExpectedCrlf,
    /// The body is too big.
    JobTooBig,
}

/// Replies that are a word alone.
const WORDS: [(&str, Reply<'static>); 17] = [
    ("KICKED", Reply::Kicked),
    ("DEADLINE_SOON", Reply::DeadlineSoon),
    ("TIMED_OUT", Reply::TimedOut),
    ("DELETED", Reply::Deleted),
    ("RELEASED", Reply::Released),
    ("BURIED", Reply::Buried),
    ("TOUCHED", Reply::Touched),
    ("PAUSED", Reply::Paused),
    ("NOT_FOUND", Reply::NotFound),
    ("NOT_IGNORED", Reply::NotIgnored),
    ("OUT_OF_MEMORY", Reply::OutOfMemory),
    ("INTERNAL_ERROR", Reply::InternalError),
    ("DRAINING", Reply::Draining),
    ("BAD_FORMAT", Reply::BadFormat),
    ("UNKNOWN_COMMAND", Reply::UnknownCommand),
    ("EXPECTED_CRLF", Reply::ExpectedCrlf),
    ("JOB_TOO_BIG", Reply::JobTooBig),
];

impl<'a> Reply<'a> {
    /// Appends the reply, `\r\n` included.
    pub fn write(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Inserted(id) => line(out, "INSERTED ", id),
            Self::BuriedId(id) => line(out, "BURIED ", id),
            Self::Watching(count) => line(out, "WATCHING ", count),
            Self::KickedCount(count) => line(out, "KICKED ", count),
            Self::Using(tube) => {
                out.extend_from_slice(b"USING ");
                out.extend_from_slice(tube.as_str().as_bytes());
                out.extend_from_slice(b"\r\n");
            }
            Self::Reserved { id, body } => job(out, "RESERVED ", id, body),
            Self::Found { id, body } => job(out, "FOUND ", id, body),
            Self::Ok(document) => data(out, "OK ", document),
            word => {
                let (text, _) = WORDS.iter().find(|(_, reply)| *reply == word).expect("all others are words");
                out.extend_from_slice(text.as_bytes());
                out.extend_from_slice(b"\r\n");
            }
        }
    }

    /// Reads the reply at the beginning of a buffer, and how many bytes it has. `None`: more must be received first.
    pub fn read(buffer: &'a [u8]) -> Result<Option<(Self, usize)>, NotAReply> {
        let Some(end) = buffer.windows(2).position(|pair| pair == b"\r\n") else {
            return if buffer.len() < MAX_REPLY_LINE { Ok(None) } else { Err(NotAReply) };
        };
        let (text, next) = (&buffer[..end], end + 2);
        if let Some(rest) = text.strip_prefix(b"RESERVED ") {
            return read_job(buffer, rest, next, |id, body| Self::Reserved { id, body });
        }
        if let Some(rest) = text.strip_prefix(b"FOUND ") {
            return read_job(buffer, rest, next, |id, body| Self::Found { id, body });
        }
        if let Some(rest) = text.strip_prefix(b"OK ") {
            let size = whole_u64(rest).ok_or(NotAReply)?;
            return read_data(buffer, size, next).map(|found| found.map(|(body, whole)| (Self::Ok(body), whole)));
        }
        let reply = if let Some(rest) = text.strip_prefix(b"USING ") {
            Tube::read(rest).map(Self::Using)
        } else {
            read_line(text)
        };
        reply.map(|reply| Some((reply, next))).ok_or(NotAReply)
    }
}

fn read_line(text: &[u8]) -> Option<Reply<'static>> {
    let counted = |word: &str| text.strip_prefix(word.as_bytes()).map(whole_u64);
    if let Some(id) = counted("INSERTED ") {
        return id.map(Reply::Inserted);
    } else if let Some(id) = counted("BURIED ") {
        return id.map(Reply::BuriedId);
    } else if let Some(count) = counted("WATCHING ") {
        return count.map(Reply::Watching);
    } else if let Some(count) = counted("KICKED ") {
        return count.map(Reply::KickedCount);
    }
    WORDS.iter().find(|(word, _)| word.as_bytes() == text).map(|(_, reply)| *reply)
}

fn read_job<'a>(
    buffer: &'a [u8],
    rest: &[u8],
    next: usize,
    make: impl FnOnce(u64, &'a [u8]) -> Reply<'a>,
) -> Result<Option<(Reply<'a>, usize)>, NotAReply> {
    let (id, rest) = read_u64(rest).ok_or(NotAReply)?;
    let size = whole_u64(rest).ok_or(NotAReply)?;
    read_data(buffer, size, next).map(|found| found.map(|(body, whole)| (make(id, body), whole)))
}

fn read_data(buffer: &[u8], size: u64, start: usize) -> Result<Option<(&[u8], usize)>, NotAReply> {
    let end = usize::try_from(size).ok().and_then(|size| start.checked_add(size)).ok_or(NotAReply)?;
    let whole = end.checked_add(2).ok_or(NotAReply)?;
    if buffer.len() < whole {
        return Ok(None);
    }
    if &buffer[end..whole] == b"\r\n" { Ok(Some((&buffer[start..end], whole))) } else { Err(NotAReply) }
}

fn line(out: &mut Vec<u8>, word: &str, number: u64) {
    out.extend_from_slice(word.as_bytes());
    number::write(out, number);
    out.extend_from_slice(b"\r\n");
}

fn job(out: &mut Vec<u8>, word: &str, id: u64, body: &[u8]) {
    out.extend_from_slice(word.as_bytes());
    number::write(out, id);
    data(out, " ", body);
}

fn data(out: &mut Vec<u8>, word: &str, bytes: &[u8]) {
    line(out, word, bytes.len() as u64);
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

/// What was received is no reply of this protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAReply;

impl fmt::Display for NotAReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this is no reply of the beanstalk protocol")
    }
}

impl std::error::Error for NotAReply {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_no_reply() {
        let long = "X".repeat(224);
        for text in ["HELLO\r\n", "INSERTED\r\n", "INSERTED x\r\n", "OK 1\r\nabc", "FOUND 1\r\n", "USING \r\n", &long] {
            assert_eq!(Reply::read(text.as_bytes()), Err(NotAReply), "{text}");
        }
        assert_eq!(Reply::read(b"OK 18446744073709551615\r\n"), Err(NotAReply));
        assert_eq!(Reply::read(b"RESERVED 1 3\r\nab"), Ok(None));
    }
}
