//! The way to the engine: one call, sent again while that is safe, until it is answered or patience ends.
//!
//! Scripts are safe to send again (each says why in its head). A call whose connection broke may have been done; it is
//! sent again with its mark of a repeat. A call that the engine refused to begin (it is loading, fails over, has moved
//! the slot) was not done.

mod connection;
mod subscription;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use dwell_core::StoreError;
use redis::{ErrorKind, RedisError, ServerErrorKind, Value};
use tokio::time::Instant;

pub(crate) use connection::Connection;
pub(crate) use subscription::{Subscription, Wake};

use crate::address::Address;
use crate::script::Script;

/// How long a call is sent again before its caller is told that the engine is out of reach.
const PATIENCE: Duration = Duration::from_secs(5);
/// The first rest between two attempts; each is twice the one before.
const FIRST_REST: Duration = Duration::from_millis(10);
/// The longest.
const LONGEST_REST: Duration = Duration::from_millis(200);

/// A call of a script.
pub(crate) struct Call {
    pub(crate) script: &'static Script,
    pub(crate) key: String,
    pub(crate) arguments: Vec<Vec<u8>>,
}

impl Call {
    pub(crate) fn new(script: &'static Script, key: &str, clock: Vec<u8>) -> Self {
        Self { script, key: key.to_owned(), arguments: vec![clock] }
    }

    pub(crate) fn arg(mut self, argument: impl Into<Vec<u8>>) -> Self {
        self.push(argument);
        self
    }

    pub(crate) fn push(&mut self, argument: impl Into<Vec<u8>>) {
        self.arguments.push(argument.into());
    }

    pub(crate) fn int(self, value: u64) -> Self {
        self.arg(value.to_string())
    }

    pub(crate) fn flag(self, flag: bool) -> Self {
        self.arg(if flag { "1" } else { "0" })
    }
}

/// What went wrong with a call.
#[derive(Clone, Debug)]
pub(crate) enum Trouble {
    /// The engine has no memory left for what takes some.
    Full,
    /// The call as a whole failed.
    Failed(StoreError),
}

impl From<Trouble> for StoreError {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Full => out_of_reach("it has no memory left"),
            Trouble::Failed(error) => error,
        }
    }
}

pub(crate) fn out_of_reach(detail: impl Into<String>) -> StoreError {
    StoreError::Unreachable { detail: detail.into() }
}

/// The way to the engine.
pub(crate) struct Link {
    connection: Connection,
    /// How many replicas must confirm what is promised.
    replicas: u32,
    /// Connections for what must be confirmed: each stands still while its replicas are waited for.
    confirming: Vec<Connection>,
    next: AtomicUsize,
}

/// How many changes can wait for replicas at once.
const CONFIRMING: usize = 8;

/// What to do about an error.
enum Next {
    /// Load the script and try again: the engine does not know it.
    Load,
    /// Nothing was done: try again.
    Again,
    /// It may have been done: try again, saying so.
    Repeat,
    /// Give up.
    Give(Trouble),
}

impl Link {
    pub(crate) async fn open(address: &Address, replicas: u32) -> Result<Self, RedisError> {
        let connection = Connection::open(address).await?;
        let mut confirming = Vec::new();
        while replicas > 0 && confirming.len() < CONFIRMING {
            confirming.push(Connection::open(address).await?);
        }
        Ok(Self { connection, replicas, confirming, next: AtomicUsize::new(0) })
    }

    /// The connection for a call whose change so many replicas must confirm.
    fn connection_for(&self, replicas: u32) -> &Connection {
        if replicas == 0 {
            return &self.connection;
        }
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        &self.confirming[next % self.confirming.len()]
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Runs a script.
    pub(crate) async fn run(&self, mut call: Call) -> Result<Value, Trouble> {
        let deadline = Instant::now() + PATIENCE;
        let mut rest = FIRST_REST;
        let replicas = if call.script.promises { self.replicas } else { 0 };
        loop {
            let connection = self.connection_for(replicas);
            let error = match connection.run(&call, replicas).await {
                Ok((answer, confirmed)) if confirmed >= i64::from(replicas) => return Ok(answer),
                Ok((_, confirmed)) => {
                    let detail = format!("{confirmed} of {replicas} replicas confirmed a change in time");
                    return Err(Trouble::Failed(out_of_reach(detail)));
                }
                Err(error) => error,
            };
            match next(&error) {
                Next::Give(trouble) => return Err(trouble),
                Next::Load => {
                    if let Err(error) = connection.load(&call).await {
                        tracing::debug!(%error, script = call.script.name, "a script was not loaded");
                    }
                }
                Next::Again => {}
                Next::Repeat => {
                    if let Some(place) = call.script.repeat {
                        call.arguments[place] = b"1".to_vec();
                    }
                }
            }
            if Instant::now() + rest >= deadline {
                return Err(Trouble::Failed(out_of_reach(error.to_string())));
            }
            tracing::debug!(%error, script = call.script.name, "sending a call again");
            tokio::time::sleep(rest).await;
            rest = (rest * 2).min(LONGEST_REST);
        }
    }
}

fn next(error: &RedisError) -> Next {
    if error.code() == Some("OOM") {
        return Next::Give(Trouble::Full);
    }
    match error.kind() {
        ErrorKind::Server(ServerErrorKind::NoScript) => Next::Load,
        ErrorKind::Server(
            ServerErrorKind::BusyLoading
            | ServerErrorKind::TryAgain
            | ServerErrorKind::ClusterDown
            | ServerErrorKind::MasterDown
            | ServerErrorKind::ReadOnly
            | ServerErrorKind::Moved
            | ServerErrorKind::Ask,
        )
        | ErrorKind::ClusterConnectionNotFound
        | ErrorKind::MasterNameNotFoundBySentinel => Next::Again,
        ErrorKind::Io | ErrorKind::Parse => Next::Repeat,
        _ if matches!(error.code(), Some("BUSY" | "MISCONF" | "NOREPLICAS" | "UNBLOCKED")) => Next::Again,
        _ => Next::Give(Trouble::Failed(out_of_reach(error.to_string()))),
    }
}
