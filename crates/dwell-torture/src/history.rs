//! What clients asked and heard, in the order in which it happened, one JSON object a line.
//!
//! A history is kept on disk and read back by the [checker](crate::checker): memory does not grow with its length. It is
//! that of one round, in which everything that was put is in the end acked or cancelled; only a round in which something
//! was wrong leaves its history behind.

use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::Outcome;
use crate::clock::Clock;
use crate::job::Key;

/// One thing that happened. Times are microseconds since the start of the run, by the monotonic clock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Event {
    /// A round begins: everything of earlier ones is settled.
    Round { round: u32 },
    /// A client sends a request.
    Call { call: u64, at: u64, ask: Ask },
    /// It hears the answer, or that there is none.
    Done { call: u64, at: u64, answer: Answer },
    /// Something was done to the server.
    Fault { at: u64, what: String, means: Means },
    /// A server has started.
    Up { at: u64 },
    /// What the server still had when nobody wanted to wait any longer.
    Left { jobs: Vec<Key> },
}

/// What else follows from a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Means {
    Nothing,
    /// From now on the server's clock may be ahead of ours.
    ClockAhead,
    /// With a real machine, nothing would be answered from now on until the next start.
    NoMachine,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ask {
    /// These jobs of a writer: the first, and how many.
    Put {
        round: u32,
        writer: u16,
        first: u32,
        count: u32,
    },
    Cancel {
        jobs: Vec<Key>,
    },
    Move {
        job: Key,
        delay: u64,
    },
    /// With this time-to-run in milliseconds.
    Lease {
        ttr: u64,
    },
    /// Each lease by its job and the version it gave it.
    Settle {
        leases: Vec<(Key, u64)>,
        verb: Verb,
    },
}

/// What is done with a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verb {
    Ack,
    Nack,
    Release,
    Extend,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    /// To a put: what became of each.
    Put(Vec<Stored>),
    /// To cancel and settle: a status each.
    Each(Vec<u16>),
    /// To a move: the job's new due time and version.
    Moved {
        due: u64,
        version: u64,
    },
    Leased(Vec<Held>),
    /// The server said no; nothing was done.
    Refused(String),
    /// It may or may not have been done.
    Unknown(String),
    /// There was no connection; nothing was done.
    Unsent,
}

/// What became of one job of a put.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Stored {
    /// Due time, version.
    Created(u64, u64),
    Refused(u16),
}

/// One job of a lease. Instants are the server's, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Held {
    pub(crate) job: Key,
    pub(crate) version: u64,
    pub(crate) attempt: u32,
    pub(crate) due: u64,
    pub(crate) expires: u64,
    /// Whether the body is what was put.
    pub(crate) whole: bool,
}

/// A history that is being written.
pub(crate) struct History {
    path: PathBuf,
    file: Mutex<BufWriter<File>>,
    calls: AtomicU64,
    clock: Clock,
}

impl History {
    /// Begins the history of a round in a file of this name.
    pub(crate) fn create(path: &Path, round: u32, clock: Clock) -> Outcome<Self> {
        let file = Mutex::new(BufWriter::with_capacity(1 << 20, File::create(path)?));
        let history = Self { path: path.to_owned(), file, calls: AtomicU64::new(0), clock };
        history.write(&Event::Round { round });
        Ok(history)
    }

    /// A request is about to be sent.
    pub(crate) fn call(&self, ask: Ask) -> u64 {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        self.write(&Event::Call { call, at: self.clock.micros(), ask });
        call
    }

    /// Its answer has come.
    pub(crate) fn done(&self, call: u64, answer: Answer) {
        self.write(&Event::Done { call, at: self.clock.micros(), answer });
    }

    /// Something is done to the server.
    pub(crate) fn fault(&self, what: &str, means: Means) {
        self.write(&Event::Fault { at: self.clock.micros(), what: what.to_owned(), means });
    }

    /// A server has started.
    pub(crate) fn up(&self) {
        self.write(&Event::Up { at: self.clock.micros() });
    }

    /// What is left at the end.
    pub(crate) fn left(&self, jobs: Vec<Key>) {
        self.write(&Event::Left { jobs });
    }

    /// Writes a line. That a history cannot be written ends the run: nothing could be said of it.
    fn write(&self, event: &Event) {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        serde_json::to_writer(&mut *file, event).expect("the history can be written");
        file.write_all(b"\n").expect("the history can be written");
    }

    /// Everything is written; says where.
    pub(crate) fn finish(&self) -> Outcome<PathBuf> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner).flush()?;
        Ok(self.path.clone())
    }
}

/// Reads a history, event by event.
pub(crate) fn read(path: &Path, mut each: impl FnMut(Event)) -> Outcome<()> {
    for (number, line) in BufReader::with_capacity(1 << 20, File::open(path)?).lines().enumerate() {
        let event = serde_json::from_str(&line?);
        each(event.map_err(|error| format!("{}, line {}: {error}", path.display(), number + 1))?);
    }
    Ok(())
}
