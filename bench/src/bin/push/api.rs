//! The few calls that are needed, over one plain connection.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use dwell_bench::Outcome;

/// Jobs of one batch.
const BATCH: usize = 1_000;

/// A job to be put.
pub(crate) struct Job {
    pub(crate) topic: &'static str,
    pub(crate) id: usize,
    /// Milliseconds since 1970.
    pub(crate) due: u64,
    pub(crate) port: u16,
}

/// Puts jobs, in batches. Their bodies say who they are and when they are due.
pub(crate) fn put(address: &str, jobs: impl Iterator<Item = Job>) -> Outcome<()> {
    let mut jobs = jobs.peekable();
    while jobs.peek().is_some() {
        let mut text = "{\"jobs\":[".to_owned();
        for (index, job) in jobs.by_ref().take(BATCH).enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let Job { topic, id, due, port } = job;
            write!(
                text,
                "{comma}{{\"topic\":\"{topic}\",\"id\":\"{id}\",\"at\":{due},\"deliver_to\":\"http://127.0.0.1:{port}/\",\
                 \"retry\":{{\"backoff\":[\"1h\"]}},\"body\":{{\"id\":{id},\"due\":{due},\"pad\":\"{:200}\"}}}}",
                ""
            )?;
        }
        text.push_str("]}");
        let answer = ask(address, "POST", "/v1/jobs", &text)?;
        if answer.contains("\"code\"") {
            return Err(format!("a job was refused: {}", &answer[..answer.len().min(600)]).into());
        }
    }
    Ok(())
}

/// Asks the server something; answers what it said, which must be a success.
pub(crate) fn ask(address: &str, method: &str, path: &str, body: &str) -> Outcome<String> {
    let mut stream = TcpStream::connect(address)?;
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    if answer.starts_with("HTTP/1.1 20") { Ok(answer) } else { Err(format!("{method} {path}: {answer}").into()) }
}
