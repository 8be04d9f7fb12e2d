//! Receivers on ports of their own, good and bad.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use dwell_bench::Outcome;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::Notify;

use crate::now;

/// How a receiver behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Good,
    /// Never answers.
    Hangs,
    /// Answers 500.
    Fails,
    /// Cuts the connection.
    Resets,
    /// Answers 200 with a body that never ends.
    Endless,
}

/// A job that came in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) id: usize,
    pub(crate) target: usize,
    /// Milliseconds since 1970.
    pub(crate) due: f64,
    pub(crate) at: f64,
}

impl Seen {
    pub(crate) fn lateness(&self) -> f64 {
        self.at - self.due
    }
}

/// Receivers that run until the program ends.
pub(crate) struct Receivers {
    pub(crate) ports: Vec<u16>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Receivers {
    /// One a kind, each on a port of its own, all on a thread of their own.
    pub(crate) fn start(kinds: Vec<Kind>) -> Outcome<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let listeners = runtime.block_on(async {
            let mut listeners = Vec::with_capacity(kinds.len());
            for _ in &kinds {
                listeners.push(TcpListener::bind("127.0.0.1:0").await?);
            }
            Ok::<_, std::io::Error>(listeners)
        })?;
        let ports = listeners.iter().map(|listener| Ok(listener.local_addr()?.port())).collect::<Outcome<_>>()?;
        let shared = Arc::clone(&seen);
        thread::spawn(move || {
            runtime.block_on(async {
                for (target, (listener, kind)) in listeners.into_iter().zip(kinds).enumerate() {
                    tokio::spawn(accept(listener, target, kind, Arc::clone(&shared)));
                }
                Notify::new().notified().await;
            });
        });
        Ok(Self { ports, seen })
    }

    /// What has come in so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How much has come in so far.
    pub(crate) fn count(&self) -> usize {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

async fn accept(listener: TcpListener, target: usize, kind: Kind, seen: Arc<Mutex<Vec<Seen>>>) {
    while let Ok((stream, _)) = listener.accept().await {
        let seen = Arc::clone(&seen);
        // A connection that breaks is part of what is measured.
        tokio::spawn(async move { drop(serve(stream, target, kind, &seen).await) });
    }
}

async fn serve(mut stream: TcpStream, target: usize, kind: Kind, seen: &Mutex<Vec<Seen>>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::with_capacity(4_096);
    loop {
        let Some(end) = whole(&buffer) else {
            if stream.read_buf(&mut buffer).await? == 0 {
                return Ok(());
            }
            continue;
        };
        let at = now();
        let (id, due) = (number(&buffer, b"\"id\":"), number(&buffer, b"\"due\":"));
        let note = Seen { id: usize::try_from(id).unwrap_or(usize::MAX), target, due: due as f64, at };
        seen.lock().unwrap_or_else(PoisonError::into_inner).push(note);
        match kind {
            Kind::Good => stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await?,
            Kind::Fails => stream.write_all(b"HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n").await?,
            Kind::Resets => return Ok(()),
            Kind::Hangs => {
                stream.read_u8().await?;
                return Ok(());
            }
            Kind::Endless => {
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n").await?;
                loop {
                    stream.write_all(&[b'x'; 8 << 10]).await?;
                }
            }
        }
        buffer.drain(..end);
    }
}

/// Where the first request ends, once all of it is there.
fn whole(buffer: &[u8]) -> Option<usize> {
    let head = find(buffer, b"\r\n\r\n")? + 4;
    let end = head + usize::try_from(number(&buffer[..head], b"content-length: ")).ok()?;
    (buffer.len() >= end).then_some(end)
}

/// The number after a text; 0 if there is none.
fn number(buffer: &[u8], after: &[u8]) -> u64 {
    let Some(at) = find(buffer, after) else { return 0 };
    let digits = buffer[at + after.len()..].iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0'))
}

fn find(buffer: &[u8], text: &[u8]) -> Option<usize> {
    buffer.windows(text.len()).position(|window| window == text)
}
