//! The store without threads: the same engine, journal and spares, one step at a time, as a simulator says.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use dwell_core::Timestamp;

use crate::check;
use crate::cold::compactor::{Compactor, Task};
use crate::cold::reader;
use crate::engine::{ColdRead, Engine, Recounted};
use crate::journal::{Journal, Spares, Work};
use crate::runner::{Event, Runner};
use crate::storage::Storage;
use crate::store::Parts;

/// Does one step of a store at a time. Dropped at any moment, it leaves the storage as a killed process would.
pub struct Stepper {
    runner: Option<Runner>,
    /// The journal and what it is to do, until it has ended.
    journal: Option<(Journal, Receiver<Work>)>,
    events: Sender<Event>,
    spares: Spares,
    compactor: Compactor,
    tasks: Receiver<Task>,
    /// Nobody asks here: see [`read_at_once`].
    _asks: Receiver<ColdRead>,
    storage: Arc<dyn Storage>,
    recounted: Option<Recounted>,
}

impl Stepper {
    pub(crate) fn new(parts: Parts, events: Sender<Event>, spares: Spares) -> Self {
        let Parts { runner, journal, work, compactor, tasks, reads, storage, recounted } = parts;
        let (runner, journal) = (Some(runner), Some((journal, work)));
        Self { runner, journal, events, spares, compactor, tasks, _asks: reads, storage, recounted }
    }

    /// One turn of the engine: calls, timers, waiting consumers; then the next frame, if one can go. False once it has
    /// ended.
    pub fn engine_turn(&mut self) -> bool {
        let Some(runner) = &mut self.runner else { return false };
        runner.turn(None, read_at_once);
        if runner.is_closed()
            && let Some(runner) = self.runner.take()
        {
            runner.stop();
        }
        self.runner.is_some()
    }

    /// How long the engine would sleep now if nobody called.
    pub fn engine_patience(&mut self) -> Option<Duration> {
        self.runner.as_mut().map(Runner::patience)
    }

    /// The store's time as of the engine's last turn: rounded down, and up.
    pub fn now(&self) -> Option<(Timestamp, Timestamp)> {
        self.runner.as_ref().map(|runner| runner.engine.time())
    }

    /// Whether the journal has failed and the engine knows.
    pub fn has_failed(&self) -> bool {
        self.runner.as_ref().is_some_and(|runner| runner.engine.has_failed())
    }

    /// The last sequence that was given; right after opening, the last that was read back.
    pub fn last_sequence(&self) -> Option<u64> {
        self.runner.as_ref().map(|runner| runner.engine.journal().last_sequence)
    }

    /// Everything up to this sequence has been answered, or could have been.
    pub fn durable(&self) -> Option<u64> {
        self.runner.as_ref().map(|runner| runner.engine.durable())
    }

    /// The last sequence that was given before the last turn of the engine took calls.
    pub fn sequence_before_calls(&self) -> Option<u64> {
        self.runner.as_ref().map(|runner| runner.before_calls)
    }

    /// One piece of the journal's work, or, if there is none and it is time, its sync. False if there was nothing to do, or
    /// no room to do it.
    pub fn journal_turn(&mut self) -> bool {
        let Some((journal, work)) = &mut self.journal else { return false };
        let work = work.try_recv().ok();
        if work.is_none() && !journal.is_waiting() && journal.patience() != Some(Duration::ZERO) {
            return false;
        }
        let (event, goes_on) = journal.perform(work);
        let is_done = !journal.is_waiting();
        if let Some(event) = event {
            drop(self.events.send(event));
        }
        if !goes_on {
            self.journal = None;
        }
        is_done
    }

    /// One piece of the cold tier's work. False if there was nothing to do.
    pub fn compactor_turn(&mut self) -> bool {
        if let Ok(task) = self.tasks.try_recv() {
            self.compactor.take(task);
        }
        let busy = self.compactor.patience() == Some(Duration::ZERO);
        if let Some(outcome) = self.compactor.turn() {
            drop(self.events.send(Event::ColdTier(outcome)));
        }
        busy
    }

    /// Whether every live job is in exactly one order and counts are what is there; if not, what is wrong.
    pub fn audit(&self) -> Result<(), String> {
        let audited = self.runner.as_ref().and_then(|runner| check::audit(&runner.engine));
        match audited {
            Some(audited) if !audited.wrong.is_empty() => Err(audited.wrong.join("; ")),
            _ => Ok(()),
        }
    }

    /// How many jobs a start has put back into the orders of the cold tier, or has found to be counted and not there.
    pub fn recounted(&self) -> Option<(u64, u64)> {
        self.recounted.map(|Recounted { found, absent }| (found, absent))
    }

    /// Makes one spare segment, if one is wanted.
    pub fn spares_turn(&mut self) {
        self.spares.make_one(&*self.storage);
    }

    /// Bytes that jobs were reckoned to take each time room was needed since this was asked last.
    #[cfg(feature = "planted")]
    pub fn take_weighed(&mut self) -> Vec<usize> {
        self.runner.as_mut().map(|runner| std::mem::take(&mut runner.engine.weighed)).unwrap_or_default()
    }

    /// Bytes that jobs are reckoned to take.
    pub fn weight(&self) -> usize {
        self.runner.as_ref().map_or(0, |runner| runner.engine.weight())
    }
}

/// Reads from the cold tier whatever the engine asks for, so that a call is carried out in the turn that takes it.
fn read_at_once(engine: &mut Engine) {
    /// More than any life needs.
    const MOST_ROUNDS: usize = 10_000;
    for _ in 0..MOST_ROUNDS {
        let reads = engine.take_reads();
        if reads.is_empty() {
            return;
        }
        for ColdRead { id, view, question } in reads {
            if engine.answered(id, reader::answer(&view, &question)) {
                engine.use_answer();
            }
        }
    }
    panic!("the engine reads for ever");
}
