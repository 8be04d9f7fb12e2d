//! Lives a life, and checks it.

mod asking;
mod image;
mod starting;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use dwell_core::{LeaseFrom, LeaseToken, Phase, Store, StoreError, Timestamp};
use dwell_store_embedded::{Durability, EmbeddedStore, Stepper};
use dwell_store_testkit::{Model, Setup};

pub use self::starting::WITH_COLD_TIER;
use self::starting::{cold_tier, defaults, durability, memory, open};
use crate::chance::Chance;
use crate::clock::SimClock;
use crate::disk::{Counts, FaultKind, SimDisk};
use crate::event::Event;
use crate::request::{Pending, Reply, Request, ask_store};
use crate::same::Same;
use crate::shadow::{CallId, Shadow};

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
    /// Images of what a power cut would have left that were looked at.
    pub images: u64,
    /// Calls that were refused since the disk did not give what is there.
    pub unreadable: u64,
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
    /// Whether jobs that wait for long leave memory.
    cold_tier: bool,
    durability: Durability,
    /// Bytes of memory jobs may take.
    memory: usize,
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
    /// Answers that nobody will hear, by their place.
    lost: BTreeMap<u64, Expected>,
    /// How many answers have been expected.
    expected: u64,
    bodies: u64,
    start: Timestamp,
    closing: bool,
    /// Disk calls that had failed when the store was started last.
    faults: u64,
    failed_for: Option<u64>,
    /// Whether reads of the cold tier fail just now.
    reads_fail: bool,
    tally: Tally,
    /// Says what happens, where someone wants to read it.
    pub log: Option<Vec<String>>,
}

struct Call {
    about: String,
    future: Pending,
    expected: Option<Expected>,
    /// It asks for a job by its number, which can be had before it is due.
    by_number: bool,
}

impl Call {
    /// Fine unless a job was handed out before it was due, to one who was to be answered at `now`.
    fn not_early(&self, found: &Reply, now: Timestamp) -> Result<(), Wrong> {
        let Reply::Lease(jobs) = found else { return Ok(()) };
        for job in jobs.iter().map(|leased| &leased.view.job).filter(|_| !self.by_number) {
            let Phase::Leased(lease) = &job.phase else { continue };
            // It lasts from the end of the millisecond in which it was handed out. One that began later is late, not early.
            let begun = lease.expires_at.as_millis().saturating_sub(lease.ttr.as_millis() + 1);
            let (due_at, now) = (job.due_at.as_millis(), now.as_millis());
            if begun <= now && now < due_at {
                let (topic, id, about) = (&job.topic, &job.id, &self.about);
                return Err(Wrong(format!("early: {topic}/{id} is due at {due_at}, handed out at {now}; {about}")));
            }
        }
        Ok(())
    }
}

/// What must be answered.
struct Expected {
    reply: Reply,
    /// The moment it needs.
    moment: u64,
    /// What must be durable before.
    sequence: u64,
    /// Its place among all answers.
    place: u64,
    /// When it was made.
    at: Timestamp,
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

impl World {
    /// A new store on an empty disk.
    pub fn new(seed: u64) -> Result<Self, Wrong> {
        let (disk, clock) = (SimDisk::new(seed ^ 0xd15c), Arc::new(SimClock::default()));
        let (durability, memory) = (durability(seed), memory(seed));
        let cold_tier = cold_tier(seed);
        let opened = open(seed, cold_tier, durability, memory, &disk, &clock, false);
        let (store, stepper) = opened.map_err(|error| Wrong(error.to_string()))?;
        let now = stepper.now().map_or(Timestamp::EPOCH, |(now, _)| now);
        let setup = Setup { defaults: defaults(), ..Setup::default() };
        let mut shadow = Shadow::new(Model::new(&setup), now, stepper.last_sequence().unwrap_or(0));
        shadow.remembers_all = durability != Durability::Sync;
        Ok(Self {
            seed,
            cold_tier,
            durability,
            memory,
            disk,
            clock,
            store: Arc::new(store),
            stepper,
            shadow,
            same: Same::default(),
            calls: BTreeMap::new(),
            queued: VecDeque::new(),
            next_call: 0,
            lost: BTreeMap::new(),
            expected: 0,
            bodies: 0,
            start: now,
            closing: false,
            faults: 0,
            failed_for: None,
            reads_fail: false,
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
            if self.cold_tier && Chance::new(self.seed ^ self.tally.events << 24 ^ 0x5e1f).percent(40) {
                self.stepper.compactor_turn();
            }
            if image::in_life(self.seed) {
                self.check_image().map_err(|Wrong(what)| Wrong(format!("{event:?}: {what}")))?;
            }
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
                self.hang_up(*n);
                Ok(())
            }
            // What is not read in time comes late, and nobody can say how late: that is looked at in images.
            Event::Fault(fault) if self.cold_tier && fault.kind == FaultKind::Read => Ok(()),
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

    /// The n-th of those who wait for an answer goes away.
    fn hang_up(&mut self, n: u64) {
        let count = self.calls.len().max(1);
        let nth = usize::try_from(n).map_or(0, |n| n % count);
        let Some(id) = self.calls.keys().nth(nth).copied() else { return };
        self.note(|| format!("    it was call {id}"));
        self.shadow.hang_up(id);
        if let Some(expected) = self.calls.remove(&id).and_then(|call| call.expected) {
            self.lost.insert(expected.place, expected);
        }
    }

    /// Leases that nobody received, now that they are durable.
    fn take_lost(&mut self) -> Vec<LeaseToken> {
        let durable = self.stepper.durable().unwrap_or(0);
        let mut tokens = Vec::new();
        while let Some(first) = self.lost.first_entry()
            && first.get().sequence <= durable
        {
            if let Reply::Lease(jobs) = first.remove().reply {
                tokens.extend(jobs.iter().filter_map(|job| job.token));
            }
        }
        tokens
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
            self.shadow_turn(at, up)?;
        }
        self.poll()
    }

    fn shadow_turn(&mut self, at: Timestamp, up: Timestamp) -> Result<(), Wrong> {
        let (real, sequence) = (self.clock.run(), self.stepper.last_sequence().unwrap_or(0));
        let asleep = self.shadow.last_moment();
        let mut served = self.shadow.tick(at, up, real);
        let lost = self.take_lost();
        served.extend(self.shadow.give_back(&lost, real));
        // Who waited in vain has seen nothing of this turn, and need not wait until it is durable.
        let (served, in_vain): (Vec<_>, Vec<_>) = served.into_iter().partition(|(_, reply)| reply.has_effect());
        self.expect(in_vain, asleep);
        if self.queued.is_empty() || self.stepper.has_failed() || self.closing {
            // What was asked is refused.
            self.queued.clear();
            self.shadow.mark(sequence);
            let moment = self.shadow.last_moment();
            self.expect(served, moment);
            return Ok(());
        }
        self.shadow.mark(self.stepper.sequence_before_calls().unwrap_or(sequence));
        let before = self.shadow.last_moment();
        self.expect(served, before);
        let mut answers = Vec::new();
        // Only puts and bodies that grow need room, and have it as long as jobs take no more than they may.
        let weighed = self.stepper.take_weighed();
        // With a cold tier a call may take a quarter more.
        let most = if self.cold_tier { self.memory + self.memory / 4 } else { self.memory };
        self.shadow.model.set_rooms(weighed.iter().map(|weight| *weight <= most));
        for (call, request) in std::mem::take(&mut self.queued) {
            answers.push(self.shadow.call(call, request, real));
        }
        let left = self.shadow.model.rooms_left();
        if left > 0 {
            return Err(Wrong(format!("room was asked for {left} times more than it was needed")));
        }
        self.shadow.mark(sequence);
        let after = self.shadow.last_moment();
        let mut has_effect = false;
        for answers in answers {
            has_effect |= answers.iter().any(|(_, reply)| reply.has_effect());
            self.expect(answers, if has_effect { after } else { before });
        }
        Ok(())
    }

    fn expect(&mut self, answers: Vec<(CallId, Reply)>, moment: u64) {
        let sequence = self.shadow.sequence_of(moment);
        for (id, reply) in answers {
            let place = self.expected;
            self.expected += 1;
            let expected = Expected { reply, moment, sequence, place, at: self.shadow.now };
            match self.calls.get_mut(&id) {
                Some(call) => call.expected = Some(expected),
                None => drop(self.lost.insert(place, expected)),
            }
        }
    }

    /// Sends a request: the store's form, and the model's.
    fn send(&mut self, model: Request, store: Request) -> Result<(), Wrong> {
        let id = self.next_call;
        self.next_call += 1;
        let about = format!("{store:?}");
        let by_number = matches!(&store, Request::Lease(lease) if matches!(lease.from, LeaseFrom::Number(_)));
        let future = ask_store(Arc::clone(&self.store) as Arc<dyn Store>, store);
        self.calls.insert(id, Call { about, future, expected: None, by_number });
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
        call.not_early(&found, call.expected.as_ref().map_or(self.shadow.now, |expected| expected.at))?;
        let Some(Expected { reply: expected, moment, .. }) = &call.expected else {
            return Err(Wrong(format!("{about} was answered before it was due: {found:?}")));
        };
        self.shadow.answered(*moment);
        self.same.reply(expected.clone(), found).map_err(|what| Wrong(format!("{about}: {what}")))
    }

    fn refused(&mut self, call: &Call, error: &StoreError) -> Result<(), Wrong> {
        match error {
            StoreError::Failed { .. } if self.stepper.has_failed() || self.closing => {
                self.failed_for.get_or_insert(0);
                Ok(())
            }
            StoreError::Closed if self.closing => Ok(()),
            StoreError::Unreadable { .. } if self.reads_fail => {
                self.tally.unreadable += 1;
                Ok(())
            }
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
            self.stepper.compactor_turn();
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

    /// Lets engine and journal work until every call but those who wait has its answer. If there is no room for that,
    /// somebody makes some.
    fn settle(&mut self) -> Result<(), Wrong> {
        for round in 0..PATIENCE {
            if round == PATIENCE / 2 && self.disk.is_full() {
                self.note(|| "    there is room again".to_owned());
                self.disk.set_full(false);
            }
            self.engine_turn()?;
            while self.stepper.journal_turn() {}
            self.stepper.compactor_turn();
            let waits = |id: &CallId, shadow: &Shadow| shadow.is_waiting(*id);
            let lost = !self.lost.is_empty() && !self.stepper.has_failed();
            if self.calls.keys().all(|id| waits(id, &self.shadow)) && self.queued.is_empty() && !lost {
                return Ok(());
            }
        }
        let stuck = self.calls.iter().find(|(id, _)| !self.shadow.is_waiting(**id));
        Err(Wrong(format!("never answered: {}", stuck.map_or("", |(_, call)| &call.about))))
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
