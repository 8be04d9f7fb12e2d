//! Load over the beanstalk protocol.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use beanstalk_protocol::{Command, Put, Reply, Tube};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use super::load::{Plan, Taken};
use crate::exit::{Code, Exit};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Seconds that a consumer waits for a job before it asks again.
const WAIT: u32 = 1;

/// Jobs deleted in one pipeline.
const DELETES: usize = 500;

const ANOTHER: &str = "it does not speak the beanstalk protocol";

const PRIORITY: u32 = 1_024;
const TTR: u32 = 60;

/// A server, and the jobs that were put there.
pub(super) struct Door {
    address: String,
    put: Arc<Mutex<Vec<u64>>>,
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// One connection.
pub(super) struct Connection {
    stream: Box<dyn Stream>,
    out: Vec<u8>,
    received: Vec<u8>,
    at: usize,
    put: Arc<Mutex<Vec<u64>>>,
}

impl Door {
    /// A server that answers.
    pub(super) async fn open(address: &str) -> Result<Self, Exit> {
        let door = Self { address: address.to_owned(), put: Arc::default() };
        let there = door.connect().await.map_err(|reason| format!("cannot reach {address}: {reason}"));
        let mut connection = there.map_err(|said| Exit::new(Code::Unreachable, said))?;
        Command::ListTubeUsed.write(&mut connection.out);
        let answer = match connection.send().await {
            Ok(()) => connection.reply(|reply| matches!(reply, Reply::Using(_))).await,
            Err(reason) => Err(reason),
        };
        match answer {
            Ok(true) => Ok(door),
            Ok(false) => Err(Exit::failure(format!("{address}: {ANOTHER}"))),
            Err(reason) if reason == ANOTHER => Err(Exit::failure(format!("{address}: {reason}"))),
            Err(reason) => Err(Exit::new(Code::Unreachable, format!("no answer from {address}: {reason}"))),
        }
    }

    async fn connect(&self) -> Result<Connection, String> {
        let stream: Box<dyn Stream> = if let Some(path) = self.address.strip_prefix("unix:") {
            Box::new(UnixStream::connect(path).await.map_err(|error| error.kind().to_string())?)
        } else {
            let stream = timeout(PATIENCE, TcpStream::connect(&self.address)).await;
            let stream = stream.map_err(|_| "it takes too long")?.map_err(|error| error.kind().to_string())?;
            stream.set_nodelay(true).map_err(|error| error.to_string())?;
            Box::new(stream)
        };
        let (out, received) = (Vec::new(), Vec::new());
        Ok(Connection { stream, out, received, at: 0, put: Arc::clone(&self.put) })
    }

    /// A connection that puts into the tube and takes from it alone.
    pub(super) async fn connection(&self, tube: &str) -> Result<Connection, String> {
        let mut connection = self.connect().await?;
        let (tube, other) = (Tube::new(tube), Tube::new("default"));
        let (Ok(tube), Ok(other)) = (tube, other) else { return Err("is no name of a tube".to_owned()) };
        for command in [Command::Use(tube), Command::Watch(tube), Command::Ignore(other)] {
            command.write(&mut connection.out);
        }
        connection.send().await?;
        for _ in 0..3 {
            connection.reply(|reply| wanted(reply, matches!(reply, Reply::Using(_) | Reply::Watching(_)))).await??;
        }
        Ok(connection)
    }

    /// Deletes what was put and is still there.
    pub(super) async fn clean(&self) -> Result<String, String> {
        let ids = std::mem::take(&mut *self.put.lock().unwrap_or_else(PoisonError::into_inner));
        let mut connection = self.connect().await?;
        for ids in ids.chunks(DELETES) {
            for id in ids {
                Command::Delete(*id).write(&mut connection.out);
            }
            connection.send().await?;
            for _ in ids {
                connection.reply(|reply| wanted(reply, matches!(reply, Reply::Deleted | Reply::NotFound))).await??;
            }
        }
        Ok("the topic stays, empty: over beanstalk it cannot be deleted".to_owned())
    }
}

/// An answer that was not hoped for is an error.
fn wanted(reply: Reply<'_>, is: bool) -> Result<(), String> {
    if is { Ok(()) } else { Err(format!("the server answers {reply:?}")) }
}

impl Connection {
    /// Puts a batch, all jobs with the same body.
    pub(super) async fn put(&mut self, plan: &Plan, body: &str) -> Result<(), String> {
        let delay = u32::try_from(plan.delay.0 / 1_000).unwrap_or(u32::MAX);
        let put = Put { priority: PRIORITY, delay, ttr: TTR, size: 0 };
        (0..plan.batch).for_each(|_| put.write(body.as_bytes(), &mut self.out));
        self.send().await?;
        for _ in 0..plan.batch {
            let id = self.reply(|reply| match reply {
                Reply::Inserted(id) => Ok(id),
                other => Err(format!("the server answers {other:?}")),
            });
            let id = id.await??;
            self.put.lock().unwrap_or_else(PoisonError::into_inner).push(id);
        }
        Ok(())
    }

    /// A job that is due, if there was one for a while.
    pub(super) async fn take(&mut self) -> Result<Option<(u64, Taken)>, String> {
        Command::ReserveWithTimeout(WAIT).write(&mut self.out);
        self.send().await?;
        let taken = self.reply(|reply| match reply {
            Reply::Reserved { id, body } => {
                Ok(Some((id, Taken { body: String::from_utf8_lossy(body).into_owned(), lateness: None })))
            }
            Reply::TimedOut => Ok(None),
            other => Err(format!("the server answers {other:?}")),
        });
        taken.await?
    }

    pub(super) async fn delete(&mut self, id: u64) -> Result<(), String> {
        Command::Delete(id).write(&mut self.out);
        self.send().await?;
        self.reply(|reply| wanted(reply, reply == Reply::Deleted)).await?
    }

    async fn send(&mut self) -> Result<(), String> {
        let sent = timeout(PATIENCE, self.stream.write_all(&self.out)).await;
        self.out.clear();
        sent.map_err(|_| "it takes too long")?.map_err(|error| error.kind().to_string())
    }

    /// The next answer, as `read` takes it.
    async fn reply<T>(&mut self, read: impl FnOnce(Reply<'_>) -> T) -> Result<T, String> {
        loop {
            match Reply::read(&self.received[self.at..]) {
                Ok(Some((reply, length))) => {
                    let result = read(reply);
                    self.at += length;
                    if self.at == self.received.len() {
                        self.received.clear();
                        self.at = 0;
                    }
                    return Ok(result);
                }
                Ok(None) => {}
                Err(_) => return Err(ANOTHER.to_owned()),
            }
            let received = timeout(PATIENCE, self.stream.read_buf(&mut self.received)).await;
            let count = received.map_err(|_| "it takes too long")?.map_err(|error| error.kind().to_string())?;
            if count == 0 {
                return Err("it closed the connection".to_owned());
            }
        }
    }
}
