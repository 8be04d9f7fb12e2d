//! Lives a life, and checks it.

mod asking;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use dwell_core::{Defaults, Delay, Ladder, Store, StoreError, Timestamp};
use dwell_store_embedded::{Config, Durability, EmbeddedStore, OpenError, Place, Stepper};
use dwell_store_testkit::{Model, Setup};

use crate::chance::Chance;
use crate::clock::SimClock;
use crate::disk::{Counts, Cut, SimDisk};
use crate::event::Event;
use crate::request::{Pending, Reply, Request, ask_store};
use crate::same::Same;
use crate::shadow::{CallId, Shadow};

/// Bytes of a segment: small, so that segments fill, are freed and used again.
const SEGMENT: u64 = 32 << 10;

/// Turns after which whatever can be answered must have been.
const PATIENCE: usize = 60;

/// A store that has failed is started again after so many more events.
const FAILED_EVENTS: u64 = 3;

/// What was found to be wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong(pub String);

/// What one life amounted to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Things that happened.
    pub events: u64,
    /// Calls that were answered.
    pub answers: u64,
    /// Times the store was started.
    pub starts: u64,
    /// Milliseconds of simulated time.
    pub time: u64,
    /// What the disk did.
    pub disk: Counts,
    /// A digest of everything that was answered, in order.
    pub trace: u64,
}

/// A store, its surroundings and its shadow.
pub struct World {
    seed: u64,
    durability: Durability,
    disk: SimDisk,
    clock: Arc<SimClock>,
    store: Arc<EmbeddedStore>,
    stepper: Stepper,
    shadow: Shadow,
    same: Same,
    calls: BTreeMap<CallId, Call>,
    /// Calls that the engine has not taken yet.
    queued: VecDeque<(CallId, Request)>,
    next_call: CallId,
    bodies: u64,
    start: Timestamp,
    closing: bool,
    /// Disk calls that had failed when the store was started last.
    faults: u64,
    failed_for: Option<u64>,
    tally: Tally,
    /// Says what happens, where someone wants to read it.
    pub log: Option<Vec<String>>,
}

struct Call {
    about: String,
    future: Pending,
    /// What must be answered, and the moment it needs.
    expected: Option<(Reply, u64)>,
}

/// Lives these events under this seed.
pub fn live(seed: u64, events: &[Event]) -> Result<Tally, Wrong> {
    let mut world = World::new(seed)?;
    world.run(events)?;
    Ok(world.tally())
}

/// The same; a panic of the store's is something wrong, too.
pub fn live_caught(seed: u64, events: &[Event]) -> Result<Tally, Wrong> {
    std::panic::catch_unwind(|| live(seed, events)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        Err(Wrong(format!("panicked: {}", text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("?"))))
    })
}

fn defaults() -> Defaults {
    // No jitter: both sides must come to the same due times.
    let retry = Ladder::new(&[Delay::ZERO; 3]).map(Ladder::into_policy);
    Defaults { retry: retry.unwrap_or_default(), ..Defaults::default() }
}

/// What an answered success survives, in the life of this seed: mostly everything.
fn durability(seed: u64) -> Durability {
    match Chance::new(seed ^ 0xd0).within(0..8) {
        0 => Durability::None,
        1 => Durability::Interval(Duration::from_millis(20)),
        _ => Durability::Sync,
    }
}

fn open(
    seed: u64,
    durability: Durability,
    disk: &SimDisk,
    clock: &Arc<SimClock>,
    accept: bool,
) -> Result<(EmbeddedStore, Stepper), OpenError> {
    let config = Config {
        place: Place::Storage(Arc::new(disk.clone())),
        durability,
        defaults: defaults(),
        segment: SEGMENT,
        accept_clock: accept,
        clock: Arc::clone(clock) as Arc<_>,
        seed: Some(seed),
        ..Config::in_memory()
    };
    EmbeddedStore::open_stepped(&config)
}

impl World {
    /// A new store on an empty disk.
    pub fn new(seed: u64) -> Result<Self, Wrong> {
        let (disk, clock) = (SimDisk::new(seed ^ 0xd15c), Arc::new(SimClock::default()));
        let durability = durability(seed);
        let opened = open(seed, durability, &disk, &clock, false);
        let (store, stepper) = opened.map_err(|error| Wrong(error.to_string()))?;
        let now = stepper.now().map_or(Timestamp::EPOCH, |(now, _)| now);
        let setup = Setup { defaults: defaults(), ..Setup::default() };
        let mut shadow = Shadow::new(Model::new(&setup), now, stepper.last_sequence().unwrap_or(0));
        shadow.remembers_all = durability != Durability::Sync;
        Ok(Self {
            seed,
            durability,
            disk,
            clock,
            store: Arc::new(store),
            stepper,
            shadow,
            same: Same::default(),
            calls: BTreeMap::new(),
            queued: VecDeque::new(),
            next_call: 0,
            bodies: 0,
            start: now,
            closing: false,
            faults: 0,
            failed_for: None,
            tally: Tally { starts: 1, ..Tally::default() },
            log: None,
        })
    }

    /// Lives these events, then looks at everything.
    pub fn run(&mut self, events: &[Event]) -> Result<(), Wrong> {
        for event in events {
            self.note(|| format!("{event:?}"));
            self.happen(event).map_err(|Wrong(what)| Wrong(format!("{event:?}: {what}")))?;
            self.tally.events += 1;
        }
        self.note(|| "the end".to_owned());
        let ended = if self.failed_for.is_some() { self.restart(None) } else { Ok(()) };
        ended.and_then(|()| self.look()).map_err(|Wrong(what)| Wrong(format!("at the end: {what}")))
    }

    /// What it amounted to.
    pub fn tally(&self) -> Tally {
        Tally { time: self.clock.run(), disk: self.disk.counts(), ..self.tally }
    }

    fn happen(&mut self, event: &Event) -> Result<(), Wrong> {
        if let Some(events) = &mut self.failed_for {
            *events += 1;
            if *events > FAILED_EVENTS {
                self.restart(None)?;
            }
        }
        match event {
            Event::Call(op) => self.ask(op),
            Event::Engine => self.engine_turn(),
            Event::Journal => {
                self.stepper.journal_turn();
                Ok(())
            }
            Event::Spares => {
                self.stepper.spares_turn();
                Ok(())
            }
            Event::Pass(millis) => self.pass(*millis),
            Event::Oversleep(millis) => {
                self.clock.advance(*millis);
                Ok(())
            }
            Event::StepWall(by) => {
                self.clock.step_wall(*by);
                Ok(())
            }
            Event::HangUp(n) => {
                if let Some(call) = self.shadow.waiter(*n) {
                    self.shadow.hang_up(call);
                    self.calls.remove(&call);
                }
                Ok(())
            }
            Event::Fault(fault) => {
                self.disk.set_fault(Some(*fault));
                Ok(())
            }
            Event::Full(is_full) => {
                self.disk.set_full(*is_full);
                Ok(())
            }
            Event::Cut(cut) => self.restart(Some(*cut)),
            Event::Kill => self.restart(None),
            Event::Close => self.close(),
            Event::Look => self.look(),
        }
    }

    /// The engine takes a turn, and the shadow with it.
    fn engine_turn(&mut self) -> Result<(), Wrong> {
        let had_failed = self.stepper.has_failed();
        self.stepper.engine_turn();
        if had_failed {
            self.queued.clear();
        }
        if let (false, Some((at, up))) = (had_failed, self.stepper.now()) {
            if at < self.shadow.now {
                return Err(Wrong(format!("the store's time fell from {:?} to {at:?}", self.shadow.now)));
            }
            self.shadow_turn(at, up);
        }
        self.poll()
    }

    fn shadow_turn(&mut self, at: Timestamp, up: Timestamp) {
        let (real, sequence) = (self.clock.run(), self.stepper.last_sequence().unwrap_or(0));
        let served = self.shadow.tick(at, up, real);
        if self.queued.is_empty() || self.stepper.has_failed() || self.closing {
            // What was asked is refused.
            self.queued.clear();
            self.shadow.mark(sequence);
            let moment = self.shadow.last_moment();
            return self.expect(served, moment);
        }
        self.shadow.mark(self.stepper.sequence_before_calls().unwrap_or(sequence));
        let before = self.shadow.last_moment();
        self.expect(served, before);
        let mut answers = Vec::new();
        for (call, request) in std::mem::take(&mut self.queued) {
            answers.push(self.shadow.call(call, request, real));
        }
        self.shadow.mark(sequence);
        let after = self.shadow.last_moment();
        let mut has_effect = false;
        for answers in answers {
            has_effect |= answers.iter().any(|(_, reply)| reply.has_effect());
            self.expect(answers, if has_effect { after } else { before });
        }
    }

    fn expect(&mut self, answers: Vec<(CallId, Reply)>, moment: u64) {
        for (id, reply) in answers {
            if let Some(call) = self.calls.get_mut(&id) {
                call.expected = Some((reply, moment));
            }
        }
    }

    /// Sends a request: the store's form, and the model's.
    fn send(&mut self, model: Request, store: Request) -> Result<(), Wrong> {
        let id = self.next_call;
        self.next_call += 1;
        let about = format!("{store:?}");
        let future = ask_store(Arc::clone(&self.store) as Arc<dyn Store>, store);
        self.calls.insert(id, Call { about, future, expected: None });
        self.queued.push_back((id, model));
        // The first poll sends it off.
        self.poll()
    }

    /// Hears every answer that is there, good ones first.
    fn poll(&mut self) -> Result<(), Wrong> {
        let mut context = Context::from_waker(Waker::noop());
        let mut ready = Vec::new();
        for (id, call) in &mut self.calls {
            if let Poll::Ready(answer) = call.future.as_mut().poll(&mut context) {
                ready.push((*id, answer));
            }
        }
        ready.sort_by_key(|(_, answer)| answer.is_err());
        for (id, answer) in ready {
            let Some(call) = self.calls.remove(&id) else { continue };
            self.tally.answers += 1;
            self.tally.trace = digest(self.tally.trace, &format!("{answer:?}"));
            self.note(|| format!("    {} answered {answer:?}", call.about));
            match answer {
                Ok(found) => self.answered(&call, found)?,
                Err(error) => self.refused(&call, &error)?,
            }
        }
        Ok(())
    }

    fn answered(&mut self, call: &Call, found: Reply) -> Result<(), Wrong> {
        let about = &call.about;
        if self.failed_for.is_some() {
            return Err(Wrong(format!("{about} succeeded after the store had failed")));
        }
        let Some((expected, moment)) = call.expected.clone() else {
            return Err(Wrong(format!("{about} was answered before it was due: {found:?}")));
        };
        self.shadow.answered(moment);
        self.same.reply(expected, found).map_err(|what| Wrong(format!("{about}: {what}")))
    }

    fn refused(&mut self, call: &Call, error: &StoreError) -> Result<(), Wrong> {
        match error {
            StoreError::Failed { .. } if self.stepper.has_failed() || self.closing => {
                self.failed_for.get_or_insert(0);
                Ok(())
            }
            StoreError::Closed if self.closing => Ok(()),
            error => Err(Wrong(format!("{} was refused: {error}", call.about))),
        }
    }

    /// Time passes; the engine sleeps as long as it wants to, the journal works.
    fn pass(&mut self, millis: u64) -> Result<(), Wrong> {
        let mut left = millis;
        for _ in 0..10_000 {
            self.engine_turn()?;
            while self.stepper.journal_turn() {
                self.engine_turn()?;
            }
            if left == 0 {
                return Ok(());
            }
            let patience = self.stepper.engine_patience().unwrap_or(Duration::from_secs(1));
            self.check_patience(patience)?;
            let nap = u64::try_from(patience.as_micros().div_ceil(1_000)).unwrap_or(left).clamp(1, left);
            self.clock.advance(nap);
            left -= nap;
        }
        Err(Wrong("the engine never rests".to_owned()))
    }

    /// The engine must not sleep past the moment when someone's job is due, nor longer than a sweep.
    fn check_patience(&mut self, patience: Duration) -> Result<(), Wrong> {
        if patience > Duration::from_secs(1) {
            return Err(Wrong(format!("the engine would sleep for {patience:?}")));
        }
        let wanted = if self.stepper.has_failed() || self.closing { None } else { self.shadow.next_wanted() };
        let Some(due) = wanted else { return Ok(()) };
        let left = Duration::from_millis(due.since(self.shadow.now));
        if patience > left {
            return Err(Wrong(format!("the engine would sleep for {patience:?}, but a job is wanted in {left:?}")));
        }
        Ok(())
    }

    /// Lets engine and journal work until every call but those who wait has its answer.
    fn settle(&mut self) -> Result<(), Wrong> {
        for _ in 0..PATIENCE {
            self.engine_turn()?;
            while self.stepper.journal_turn() {}
            let waits = |id: &CallId, shadow: &Shadow| shadow.is_waiting(*id);
            if self.calls.keys().all(|id| waits(id, &self.shadow)) && self.queued.is_empty() {
                return Ok(());
            }
        }
        let stuck = self.calls.iter().find(|(id, _)| !self.shadow.is_waiting(**id));
        Err(Wrong(format!("never answered: {}", stuck.map_or("", |(_, call)| &call.about))))
    }

    fn close(&mut self) -> Result<(), Wrong> {
        let faults = self.disk.counts().faults;
        let store = Arc::clone(&self.store);
        self.settle()?;
        if self.stepper.has_failed() {
            return self.restart(None);
        }
        let mut closing: std::pin::Pin<Box<dyn Future<Output = Result<(), StoreError>>>> =
            Box::pin(async move { store.close().await });
        self.closing = true;
        let (answers, moment) = (self.shadow.close(), self.shadow.last_moment());
        self.expect(answers, moment);
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..PATIENCE {
            if let Poll::Ready(closed) = closing.as_mut().poll(&mut context) {
                if closed.is_err()
                    && self.disk.counts().faults == faults
                    && !self.disk.is_full()
                    && self.failed_for.is_none()
                {
                    return Err(Wrong(format!("the store did not close well: {closed:?}")));
                }
                drop(closing);
                return self.restart(None);
            }
            self.engine_turn()?;
            while self.stepper.journal_turn() {}
        }
        Err(Wrong("the store never closes".to_owned()))
    }

    /// The process ends here and now; with a cut, the machine too. Then the store is started again.
    fn restart(&mut self, cut: Option<Cut>) -> Result<(), Wrong> {
        self.calls.clear();
        self.queued.clear();
        if let Some(cut) = cut {
            self.disk.cut_power(cut);
        }
        let (mut accept, mut tries) = (false, 0);
        let (store, stepper) = loop {
            let faults = self.disk.counts().faults;
            tries += 1;
            self.tally.starts += 1;
            match open(self.seed.wrapping_add(self.tally.starts), self.durability, &self.disk, &self.clock, accept) {
                Ok(opened) => break opened,
                Err(OpenError::Clock(_)) if !accept => accept = true,
                Err(OpenError::Io { .. })
                    if tries < 9 && (self.disk.counts().faults > faults || self.disk.is_full()) =>
                {
                    self.disk.set_fault(None);
                    self.disk.set_full(false);
                }
                Err(error) => return Err(Wrong(format!("the store does not start: {error}"))),
            }
        };
        (self.store, self.stepper) = (Arc::new(store), stepper);
        (self.closing, self.failed_for) = (false, None);
        let (now, _) = self.stepper.now().unwrap_or((self.shadow.now, self.shadow.now));
        let sequence = self.stepper.last_sequence().unwrap_or(0);
        self.note(|| format!("    started at {now:?} with everything up to {sequence}"));
        // Without a sync for each answer a power cut may lose what was answered, and so may a disk that fails; a kill
        // may not.
        let failed = self.disk.counts().faults > self.faults;
        let may_lose = self.durability != Durability::Sync && (cut.is_some() || failed);
        self.faults = self.disk.counts().faults;
        self.shadow.restart(sequence, now, may_lose).map_err(Wrong)?;
        self.same.forget();
        if may_lose {
            self.same.leases.clear();
        }
        self.look()
    }

    fn note(&mut self, what: impl FnOnce() -> String) {
        if let Some(log) = &mut self.log {
            log.push(what());
        }
    }
}

/// FNV-1a, carried on.
fn digest(so_far: u64, text: &str) -> u64 {
    let start = if so_far == 0 { 0xcbf2_9ce4_8422_2325 } else { so_far };
    text.bytes().fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
