//! The engine's thread: loads commands and time to the engine, and its frames to the journal.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dwell_core::time::Human;
use dwell_core::{Sizes, StoreError, Timestamp, When, limits};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::clock::Clock;
use crate::cold::compactor::{Outcome, Task};
use crate::cold::reader::ReadOutcome;
use crate::disk_space::Reserve;
use crate::engine::{Admission, ColdRead, Command, Engine, ManifestDelta, Now, ReadId};
use crate::format::manifest::{CleanStop, Manifest};
use crate::format::topics;
use crate::journal::Work;
use crate::sim_bugs::{self, Bug};
use crate::timeline::{ClockAction, ClockReport, Timeline};

/// How many commands one turn takes before time and the journal are looked at again.
const COMMANDS_A_TURN: usize = 1_024;

/// How many sequences and numbers are reserved at a time, so that none is ever used twice.
const RESERVED_AHEAD: u64 = 1 << 24;

/// How often the wall clock is looked at.
const CLOCK_CHECK: Duration = Duration::from_secs(1);

/// What reaches the engine's thread.
pub(crate) enum Event {
    /// A call. The permit is the room it takes in the queue.
    Call(Command, OwnedSemaphorePermit),
    /// Leases whose receiver went away, or any other command that must not wait.
    Urgent(Command),
    /// Look at the clock, and say what time it is.
    Time(oneshot::Sender<Timestamp>),
    /// The frame under way is as durable as it is meant to be.
    Synced {
        /// Also against a power cut.
        on_disk: bool,
    },
    /// A manifest is durable.
    Saved,
    /// Something was read from the cold tier.
    Read(ReadId, ReadOutcome),
    /// The compactor's thread has done something.
    ColdTier(Outcome),
    /// The journal failed.
    Failed(String),
    /// Stop, and say when everything is durable.
    Close(oneshot::Sender<Result<(), StoreError>>),
}

/// What the thread shows to those who ask for the status.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    pub(crate) now: Timestamp,
    /// Why the store has failed, if it has.
    pub(crate) failed: Option<String>,
    /// What is wrong with the wall clock, if anything is.
    pub(crate) clock: Option<String>,
    /// What is wrong with the cold tier.
    pub(crate) cold: Vec<String>,
    /// What is wrong with the room there is.
    pub(crate) room: Option<String>,
    /// How much there is where; looked at when the clock is.
    pub(crate) sizes: Sizes,
}

/// What to tell people about a clock that does not agree with the store's time.
fn clock_trouble(report: ClockReport) -> Option<String> {
    let seconds = Human(report.gap.unsigned_abs() / limits::SECOND * limits::SECOND);
    match report.action {
        ClockAction::Agrees | ClockAction::Slews | ClockAction::TookStep { .. } => None,
        ClockAction::WaitsForWall => {
            Some(format!("the clock is {seconds} behind the store's time, which waits for it; delays stay exact"))
        }
        ClockAction::WatchesStep => {
            Some(format!("the clock has jumped ahead by {seconds}; the store follows if it stays there for 30 s"))
        }
        ClockAction::RefusesStep => {
            Some(format!("the clock is {seconds} ahead, too far to follow; set it right, or restart to accept it"))
        }
    }
}

/// The engine's thread.
pub(crate) struct Runner {
    pub(crate) engine: Engine,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) timeline: Timeline,
    pub(crate) manifest: Manifest,
    pub(crate) shown: Arc<Mutex<Shown>>,
    pub(crate) events: Receiver<Event>,
    pub(crate) journal: Sender<Work>,
    pub(crate) reader: Sender<ColdRead>,
    pub(crate) compactor: Sender<Task>,
    pub(crate) reserve: Reserve,
    /// Calls that wait until there is room.
    pub(crate) held: VecDeque<(Command, OwnedSemaphorePermit)>,
    pub(crate) checked_at: Duration,
    pub(crate) in_flight: bool,
    pub(crate) closing: Option<oneshot::Sender<Result<(), StoreError>>>,
    /// Calls that wait for room in the batch.
    pub(crate) backlog: VecDeque<(Command, OwnedSemaphorePermit)>,
    /// Whether there is more to do at once, even if nobody calls.
    pub(crate) busy: bool,
    /// The last sequence given before the last turn took calls; simulators ask.
    pub(crate) before_calls: u64,
}

impl Runner {
    /// Runs until it is told to close, or everybody who could tell it anything is gone.
    pub(crate) fn run(mut self) {
        loop {
            let patience = self.patience();
            let event = match self.events.recv_timeout(patience) {
                Ok(event) => Some(event),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            self.turn(event, |_| {});
            if self.is_closed() {
                break;
            }
        }
        self.stop();
    }

    /// One turn: takes in what has come, looks at the time, does what is to be done, sends off what can be written. After
    /// each step `between` is called.
    pub(crate) fn turn(&mut self, first: Option<Event>, between: impl Fn(&mut Engine)) {
        let more = std::iter::from_fn(|| self.events.try_recv().ok()).take(COMMANDS_A_TURN);
        let events: Vec<Event> = first.into_iter().chain(more).collect();
        // Only now, so that no call is dated before it was made.
        let now = self.look_at_clock();
        self.engine.note_room(self.reserve.room());
        self.busy = self.engine.tick(now);
        between(&mut self.engine);
        for event in events {
            self.handle(event);
            between(&mut self.engine);
        }
        self.before_calls = self.engine.journal().last_sequence;
        self.engine.retry_for_room();
        if self.held.front().is_some_and(|(command, _)| self.engine.admission_of(command) != Admission::Later) {
            let later = std::mem::replace(&mut self.backlog, std::mem::take(&mut self.held));
            self.backlog.extend(later);
        }
        while (!self.engine.has_full_batch() || self.engine.has_failed())
            && let Some((command, permit)) = self.backlog.pop_front()
        {
            match self.engine.admission_of(&command) {
                Admission::Now => self.engine.apply(command),
                Admission::Later => {
                    self.held.push_back((command, permit));
                    continue;
                }
                Admission::Never => command.refuse(StoreError::Overloaded),
            }
            between(&mut self.engine);
            drop(permit);
        }
        self.send_reads();
        self.send_frame();
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Call(Command::Put { mut jobs, reply }, permit) if sim_bugs::is(Bug::DelayAtTheEdge) => {
                for new in &mut jobs {
                    if let When::In(delay) = new.when {
                        new.when = When::At(self.clock.wall().plus(delay.as_millis()));
                    }
                }
                self.backlog.push_back((Command::Put { jobs, reply }, permit));
            }
            Event::Call(command, permit) => self.backlog.push_back((command, permit)),
            Event::Urgent(command) => self.engine.apply(command),
            Event::Time(reply) => drop(reply.send(self.engine.now())),
            Event::Synced { on_disk } => {
                self.in_flight = false;
                self.engine.synced(on_disk);
                // The next frame goes out before anything else is looked at.
                self.send_frame();
            }
            Event::Saved => self.engine.saved(),
            Event::Read(ask, answered) => {
                let has_found_damage = !answered.bad.is_empty();
                if self.engine.answered(ask, answered) {
                    // The next is read while this is used.
                    self.send_reads();
                    self.engine.use_answer();
                }
                if has_found_damage {
                    self.show_cold_tier();
                }
            }
            Event::ColdTier(outcome) => {
                self.engine.compactor_did(outcome);
                self.show_cold_tier();
            }
            Event::Failed(_) if sim_bugs::is(Bug::FailureIgnored) => self.handle(Event::Synced { on_disk: true }),
            Event::Failed(why) => {
                self.in_flight = false;
                self.show(|shown| shown.failed = Some(why.clone()));
                self.engine.fail(why);
            }
            Event::Close(done) => {
                self.reserve.end();
                self.engine.close();
                self.closing = Some(done);
            }
        }
    }

    /// How long until something is to be done even if nobody calls.
    pub(crate) fn patience(&mut self) -> Duration {
        if self.busy || self.engine.is_cleaning() || (!self.backlog.is_empty() && !self.engine.has_full_batch()) {
            return Duration::ZERO;
        }
        let (timer, waiter) = self.engine.next_wake();
        let now = self.timeline.now(self.clock.monotonic());
        let timer = timer.map(|at| Duration::from_millis(at.since(now)));
        let real = waiter.into_iter().chain(self.engine.flushes_again_at()).min();
        let real = real.map(|at| at.saturating_sub(self.clock.real()));
        let sweep = Duration::from_millis(limits::SWEEP);
        [timer, real].into_iter().flatten().fold(sweep, Duration::min)
    }

    fn look_at_clock(&mut self) -> Now {
        let (monotonic, real) = (self.clock.monotonic(), self.clock.real());
        if real >= self.checked_at + CLOCK_CHECK {
            self.checked_at = real;
            let clock = if self.clock.is_set_by_hand() {
                None
            } else {
                clock_trouble(self.timeline.check(self.clock.wall(), monotonic))
            };
            let room = self.reserve.trouble();
            let sizes = Sizes { disk_free: self.reserve.free(), ..self.engine.sizes() };
            self.show(|shown| (shown.clock, shown.room, shown.sizes) = (clock, room, sizes));
        }
        let up = self.timeline.now_rounded_up(monotonic);
        let at = self.timeline.now(monotonic);
        self.show(|shown| shown.now = at);
        Now { at, up, real }
    }

    fn send_frame(&mut self) {
        if self.in_flight {
            return;
        }
        self.keep_reserves();
        self.engine.before_saving();
        if sim_bugs::is(Bug::TopicsBeforeJournal) {
            self.let_segments_go();
        }
        if let Some(frame) = self.engine.take_frame() {
            self.in_flight = true;
            self.send(Work::Write(frame));
        }
        self.let_segments_go();
    }

    /// Sends off what is to be read, and what is to be flushed.
    fn send_reads(&mut self) {
        for ask in self.engine.take_reads() {
            // A thread that has ended is only missed by a store that is ending.
            drop(self.reader.send(ask));
        }
        if let Some(flush) = self.engine.take_flush() {
            drop(self.compactor.send(Task::Flush(flush)));
        }
    }

    /// Writes a new manifest when reserves run low.
    fn keep_reserves(&mut self) {
        let state = self.engine.journal();
        let low = state.next_sequence + RESERVED_AHEAD / 2 > self.manifest.sequence_reserved
            || state.next_number + RESERVED_AHEAD / 2 > self.manifest.number_reserved;
        if low {
            self.engine.saves_nothing();
            self.send_manifest(None, Vec::new());
        }
    }

    /// Writes a new manifest, and the topics as they are, when segments have become free or the cold tier has changed.
    ///
    /// The topics must not know of anything that the journal does not: so only when everything that was done is in a
    /// frame, and after that frame.
    fn let_segments_go(&mut self) {
        let state = self.engine.journal();
        if state.batched > 0 && !sim_bugs::is(Bug::TopicsBeforeJournal) {
            return;
        }
        let Some(ManifestDelta { runs, bad, obsolete, topics }) = self.engine.take_manifest_delta() else { return };
        self.manifest.runs = runs;
        self.manifest.bad = bad;
        let topics = topics.then(|| {
            self.manifest.first_segment = state.first_segment;
            self.manifest.flushed = self.engine.flushed_through();
            self.manifest.topics = Some(state.last_sequence);
            (topics::name(state.last_sequence), self.engine.topics_file())
        });
        self.send_manifest(topics, obsolete);
    }

    fn send_manifest(&mut self, topics: Option<(String, Vec<u8>)>, obsolete: Vec<String>) {
        let state = self.engine.journal();
        self.manifest.sequence_reserved = state.next_sequence + RESERVED_AHEAD;
        self.manifest.number_reserved = state.next_number + RESERVED_AHEAD;
        self.manifest.topic_ids_reserved = state.next_topic;
        self.manifest.mark = self.engine.now().as_millis();
        self.send(Work::Manifest(Box::new(self.manifest.clone()), topics, obsolete));
    }

    fn send(&self, work: Work) {
        // A journal thread that has ended has said why.
        drop(self.journal.send(work));
    }

    pub(crate) fn is_closed(&self) -> bool {
        let drained = !self.in_flight && self.engine.journal().batched == 0;
        self.closing.is_some() && (drained || self.shown().failed.is_some())
    }

    /// Leaves a manifest that says that everything is there.
    pub(crate) fn stop(mut self) {
        drop(self.compactor.send(Task::Stop));
        for (command, _) in std::mem::take(&mut self.held).into_iter().chain(std::mem::take(&mut self.backlog)) {
            self.engine.apply(command);
        }
        if self.shown().failed.is_none() {
            self.finish_frames();
        }
        if self.shown().failed.is_none() {
            let state = self.engine.journal();
            self.manifest.clean = Some(CleanStop { last_sequence: state.last_in_journal });
            self.manifest.sequence_reserved = state.next_sequence;
            self.manifest.number_reserved = state.next_number;
            self.manifest.topic_ids_reserved = state.next_topic;
            self.manifest.mark = self.engine.now().as_millis();
            self.manifest.next_segment = state.segment + 1;
            self.send(Work::Manifest(Box::new(self.manifest.clone()), None, Vec::new()));
        }
        let done = self.closing.take();
        self.send(Work::Stop(done));
    }

    /// Everybody has gone away without a word: what is batched still becomes durable.
    fn finish_frames(&mut self) {
        self.reserve.end();
        self.engine.close();
        loop {
            self.send_frame();
            if !self.in_flight {
                return;
            }
            match self.events.recv() {
                Ok(event) => self.handle(event),
                Err(_) => return,
            }
        }
    }

    fn show_cold_tier(&self) {
        let troubles = self.engine.troubles();
        self.show(|shown| shown.cold = troubles);
    }

    fn show(&self, change: impl FnOnce(&mut Shown)) {
        change(&mut self.shown.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn shown(&self) -> Shown {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
