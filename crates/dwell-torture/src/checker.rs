//! Reads a history and says what broke a promise.
//!
//! Each job is put once, under its own name, and moved or cancelled only by who put it. In the end consumers ack all
//! that is due and what is far off is cancelled, so that whatever was stored must have come to an end that somebody
//! heard of. A call without an answer may or may not have been done: it excuses, and is counted apart.
//!
//! What a lease says of the server's time is `lease_expires_at` less its time-to-run: the moment at which it began.

use std::collections::{BTreeMap, HashMap};

use crate::history::{Answer, Ask, Event, Held, Means, Stored, Verb};
use crate::job::Key;

mod ends;
mod report;
#[cfg(test)]
mod tests;

use self::report::FULL;
pub(crate) use self::report::{FAILED, Report, UNREADABLE, Wrong};

/// A request without its answer yet.
struct Pending {
    line: u64,
    at: u64,
    ask: Ask,
    /// The latest moment that any answer had shown when it was sent.
    floor: u64,
    /// Whether somebody had heard by then that the store has failed.
    failed: bool,
}

/// Whether a job was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Put {
    /// Nobody knows, or nobody knows yet.
    Unknown,
    Stored,
    Refused,
}

/// What is known of a job.
struct Job {
    put: Put,
    put_at: u64,
    /// Due times that were answered, by version.
    due: Vec<(u64, u64)>,
    /// By our own clock, when it may be handed out at the earliest, if nobody set the server's clock ahead.
    real_due: u64,
    /// Moves whose outcome is unknown.
    open_moves: u32,
    /// Cancels whose outcome is unknown.
    open_cancels: u32,
    /// Whether a lease was acked of which only its holder had heard.
    acked_unseen: bool,
    /// The line at which somebody heard that it was cancelled.
    cancelled: Option<u64>,
    leases: Vec<Lease>,
}

/// A lease that somebody received.
struct Lease {
    version: u64,
    attempt: u32,
    due: u64,
    begun: u64,
    expires: u64,
    /// By our own clock, when it was asked for and for how long.
    call_at: u64,
    ttr: u64,
    extended: bool,
    settled: Option<(Verb, Settled)>,
}

/// What became of an ack, nack or release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Settled {
    Unknown,
    Done(u64),
    Refused,
}

/// Reads one history.
pub(crate) struct Checker {
    round: u32,
    line: u64,
    calls: HashMap<u64, Pending>,
    jobs: HashMap<Key, Job>,
    floor: u64,
    failed: bool,
    ahead: bool,
    no_machine: bool,
    /// Lease calls whose answer was lost.
    lost_leases: u64,
    left: Option<Vec<Key>>,
    report: Report,
}

impl Checker {
    pub(crate) fn new() -> Self {
        Self {
            round: 0,
            line: 0,
            calls: HashMap::new(),
            jobs: HashMap::new(),
            floor: 0,
            failed: false,
            ahead: false,
            no_machine: false,
            lost_leases: 0,
            left: None,
            report: Report::default(),
        }
    }

    /// Takes in the next event.
    pub(crate) fn event(&mut self, event: Event) {
        self.line += 1;
        match event {
            Event::Round { round } => self.round = round,
            Event::Call { call, at, ask } => {
                self.asked(at, &ask);
                let pending = Pending { line: self.line, at, ask, floor: self.floor, failed: self.failed };
                self.calls.insert(call, pending);
            }
            Event::Done { call, at, answer } => {
                if let Some(pending) = self.calls.remove(&call) {
                    self.answered(&pending, at, answer);
                }
            }
            Event::Fault { what, means, .. } => {
                self.ahead |= means == Means::ClockAhead;
                self.no_machine |= means == Means::NoMachine;
                *self.report.faults.entry(what).or_default() += 1;
            }
            Event::Up { .. } => (self.failed, self.no_machine) = (false, false),
            Event::Left { jobs } => self.left = Some(jobs),
        }
    }

    /// From now on it may have been done.
    fn asked(&mut self, at: u64, ask: &Ask) {
        match ask {
            Ask::Put { round, writer, first, count } => {
                for key in (*first..first + count).map(|seq| Key(*round, *writer, seq)) {
                    let real_due = at + key.delay() * REAL;
                    self.jobs.insert(key, Job::asked(at, real_due));
                }
            }
            Ask::Cancel { jobs } => {
                for key in jobs {
                    self.with(*key, |job| job.open_cancels += 1);
                }
            }
            Ask::Move { job, delay } => self.with(*job, |job| {
                job.open_moves += 1;
                job.real_due = job.real_due.min(at + delay * REAL);
            }),
            Ask::Lease { .. } => {}
            Ask::Settle { leases, verb } => {
                for (key, version) in leases {
                    self.with(*key, |job| match job.leases.iter_mut().find(|lease| lease.version == *version) {
                        Some(lease) if *verb != Verb::Extend => lease.settled = Some((*verb, Settled::Unknown)),
                        Some(_) => {}
                        // It was received after a power cut, and counts for nothing; its ack may have been done.
                        None => job.acked_unseen |= *verb == Verb::Ack,
                    });
                }
            }
        }
    }

    fn answered(&mut self, pending: &Pending, at: u64, answer: Answer) {
        match answer {
            Answer::Unknown(why) => return self.unknown(pending, &why),
            Answer::Unsent => return self.undo(pending),
            // The file system has been shut down and the server not yet: it may even hear that a sync has succeeded.
            _ if self.no_machine => return self.unknown(pending, "no machine"),
            Answer::Refused(code) => {
                *self.report.refused.entry(code.clone()).or_default() += 1;
                if code == FULL && !matches!(pending.ask, Ask::Put { .. }) {
                    self.wrong(Wrong::NotGraceful, || format!("{:?} was refused with {code}", pending.ask));
                } else if !EXPECTED.contains(&code.as_str()) {
                    self.wrong(Wrong::Odd, || format!("{:?} was refused with {code}", pending.ask));
                }
                return self.undo(pending);
            }
            _ if pending.failed => {
                self.wrong(Wrong::AfterFailure, || format!("{:?} succeeded after the store had failed", pending.ask));
            }
            _ => {}
        }
        match (&pending.ask, answer) {
            (Ask::Put { round, writer, first, .. }, Answer::Put(results)) => {
                for (seq, stored) in (*first..).zip(results) {
                    self.put(Key(*round, *writer, seq), stored);
                }
            }
            (Ask::Cancel { jobs }, Answer::Each(statuses)) => {
                for (key, status) in jobs.iter().zip(statuses) {
                    self.cancelled(pending, *key, status);
                }
            }
            (Ask::Move { job, delay }, Answer::Moved { due, version }) => {
                self.report.count("moves");
                let real_due = pending.at + delay * REAL;
                self.with(*job, |job| {
                    job.open_moves -= 1;
                    job.due.push((version, due));
                    job.real_due = real_due;
                });
            }
            (Ask::Lease { ttr }, Answer::Leased(jobs)) => {
                for held in jobs {
                    self.leased(pending, at, *ttr, held);
                }
            }
            (Ask::Settle { leases, verb }, Answer::Each(statuses)) => {
                for ((key, version), status) in leases.iter().zip(statuses) {
                    self.settled(at, *key, *version, *verb, status);
                }
            }
            (ask, answer) => self.wrong(Wrong::Odd, || format!("{ask:?} was answered with {answer:?}")),
        }
    }

    /// The outcome of a call is unknown, and stays so.
    fn unknown(&mut self, pending: &Pending, why: &str) {
        if why == FAILED {
            self.failed = true;
            self.report.failures += 1;
        }
        let what = match &pending.ask {
            Ask::Put { count, .. } => ("puts", u64::from(*count)),
            Ask::Cancel { jobs } => ("cancels", jobs.len() as u64),
            Ask::Move { .. } => ("moves", 1),
            Ask::Lease { .. } => {
                self.lost_leases += 1;
                ("lease calls", 1)
            }
            Ask::Settle { leases, .. } => ("settles", leases.len() as u64),
        };
        *self.report.unknown.entry(what.0).or_default() += what.1;
        if why == "internal" {
            self.wrong(Wrong::Odd, || format!("{:?} was answered with 500", pending.ask));
        }
    }

    /// A call was not done.
    fn undo(&mut self, pending: &Pending) {
        match &pending.ask {
            Ask::Put { round, writer, first, count } => {
                for key in (*first..first + count).map(|seq| Key(*round, *writer, seq)) {
                    self.with(key, |job| job.put = Put::Refused);
                }
            }
            Ask::Cancel { jobs } => {
                for key in jobs {
                    self.with(*key, |job| job.open_cancels -= 1);
                }
            }
            Ask::Move { job, .. } => self.with(*job, |job| job.open_moves -= 1),
            Ask::Lease { .. } => {}
            Ask::Settle { leases, .. } => {
                for (key, version) in leases {
                    self.with_lease(*key, *version, |lease| lease.settled = None);
                }
            }
        }
    }

    fn put(&mut self, key: Key, stored: Stored) {
        match stored {
            Stored::Created(due, version) => {
                self.report.count("puts");
                self.with(key, |job| {
                    job.put = Put::Stored;
                    job.due.push((version, due));
                });
            }
            Stored::Refused(500..=503) => *self.report.unknown.entry("puts").or_default() += 1,
            Stored::Refused(status) => {
                *self.report.refused.entry(status.to_string()).or_default() += 1;
                self.with(key, |job| job.put = Put::Refused);
            }
        }
    }

    fn cancelled(&mut self, pending: &Pending, key: Key, status: u16) {
        let line = self.line;
        match status {
            204 => {
                self.report.count("cancels");
                let was_acked = self.jobs.get(&key).is_some_and(|job| job.acked_before(pending.line));
                if was_acked {
                    self.wrong(Wrong::Resurrected, || format!("{key} was acked and could then be cancelled"));
                }
                self.with(key, |job| {
                    job.open_cancels -= 1;
                    job.cancelled = Some(line);
                });
            }
            500.. => *self.report.unknown.entry("cancels").or_default() += 1,
            _ => self.with(key, |job| job.open_cancels -= 1),
        }
    }

    fn leased(&mut self, pending: &Pending, at: u64, ttr: u64, held: Held) {
        self.report.count("leases");
        let begun = held.expires.saturating_sub(ttr);
        let (key, floor) = (held.job, self.floor.max(begun));
        if begun < held.due {
            self.wrong(Wrong::Early, || format!("{key} was leased {} ms before it was due", held.due - begun));
        }
        if begun < pending.floor {
            self.wrong(Wrong::TimeFell, || {
                format!("{key} was leased {} ms before an earlier call", pending.floor - begun)
            });
        }
        if !held.whole {
            self.wrong(Wrong::Changed, || format!("{key} has another body than it was put with"));
        }
        self.floor = floor;
        if key.0 != self.round {
            return self.wrong(Wrong::Resurrected, || format!("{key} is of a round that had come to its end"));
        }
        let Some(job) = self.jobs.get_mut(&key) else {
            return self.wrong(Wrong::Phantom, || format!("{key} was never put"));
        };
        let (is_early, cancelled) = (at < job.real_due - job.real_due.min(GRAIN), job.cancelled);
        let (is_first, waited) = (job.leases.is_empty() && held.attempt == 1, at.saturating_sub(job.put_at));
        job.leases.push(Lease {
            version: held.version,
            attempt: held.attempt,
            due: held.due,
            begun,
            expires: held.expires,
            call_at: pending.at,
            ttr,
            extended: false,
            settled: None,
        });
        if is_early && is_first && !self.ahead {
            self.wrong(Wrong::Early, || format!("{key} came {waited} µs after it was put, by our own clock"));
        }
        if cancelled.is_some_and(|line| line < pending.line) {
            self.wrong(Wrong::Resurrected, || format!("{key} was cancelled and then leased"));
        }
    }

    fn settled(&mut self, at: u64, key: Key, version: u64, verb: Verb, status: u16) {
        let (line, ahead) = (self.line, self.ahead);
        let mut broken = None;
        self.with_lease(key, version, |lease| {
            let lasts_until = lease.call_at + lease.ttr * REAL;
            match (verb, status) {
                (Verb::Extend, 200) => lease.extended = true,
                (_, 200) => lease.settled = Some((verb, Settled::Done(line))),
                (_, 500..) => {}
                _ => {
                    broken = (at < lasts_until && !ahead).then(|| (lasts_until - at) / 1_000);
                    if verb != Verb::Extend {
                        lease.settled = Some((verb, Settled::Refused));
                    }
                }
            }
        });
        match status {
            200 => self.report.count(verb.counted()),
            500.. => *self.report.unknown.entry("settles").or_default() += 1,
            _ => *self.report.refused.entry("lease_lost".to_owned()).or_default() += 1,
        }
        if let Some(rest) = broken {
            self.wrong(Wrong::Duplicate, || format!("the lease of {key} was lost {rest} ms before it ran out"));
        }
    }

    fn with(&mut self, key: Key, change: impl FnOnce(&mut Job)) {
        if let Some(job) = self.jobs.get_mut(&key) {
            change(job);
        }
    }

    fn with_lease(&mut self, key: Key, version: u64, change: impl FnOnce(&mut Lease)) {
        self.with(key, |job| {
            if let Some(lease) = job.leases.iter_mut().find(|lease| lease.version == version) {
                change(lease);
            }
        });
    }

    fn wrong(&mut self, wrong: Wrong, what: impl FnOnce() -> String) {
        self.report.wrong(wrong, what);
    }
}

/// Microseconds of our clock that a millisecond of the server's lasts at least: it may run faster by 1 % to catch up,
/// and its clock is not ours.
const REAL: u64 = 985;

/// What clocks may differ by at one reading, in microseconds.
const GRAIN: u64 = 2_000;

/// Codes of refusals that may come.
const EXPECTED: [&str; 5] = [FULL, UNREADABLE, "overloaded", "job_leased", "not_found"];

impl Job {
    fn asked(put_at: u64, real_due: u64) -> Self {
        Self {
            put: Put::Unknown,
            put_at,
            due: Vec::new(),
            real_due,
            open_moves: 0,
            open_cancels: 0,
            acked_unseen: false,
            cancelled: None,
            leases: Vec::new(),
        }
    }

    fn acked_before(&self, line: u64) -> bool {
        let acked = |lease: &Lease| matches!(lease.settled, Some((Verb::Ack, Settled::Done(done))) if done < line);
        self.leases.iter().any(acked)
    }
}

impl Verb {
    fn counted(self) -> &'static str {
        match self {
            Self::Ack => "acks",
            Self::Nack => "nacks",
            Self::Release => "releases",
            Self::Extend => "extends",
        }
    }
}

/// Reads a whole history.
pub(crate) fn check(path: &std::path::Path) -> crate::Outcome<Report> {
    let mut checker = Checker::new();
    crate::history::read(path, |event| checker.event(event))?;
    Ok(checker.finish())
}

/// Counts by name.
type Counts<K> = BTreeMap<K, u64>;
