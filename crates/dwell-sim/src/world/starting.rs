//! Starts and ends: how a store is set up, closed, and started again.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use dwell_core::{Defaults, Delay, Ladder, Store, StoreError};
use dwell_store_embedded::{Config, Durability, EmbeddedStore, OpenError, Place, Stepper};

use super::{PATIENCE, World, Wrong};
use crate::chance::Chance;
use crate::clock::SimClock;
use crate::disk::{Cut, SimDisk};

/// Seeds with this bit live with a cold tier.
pub const WITH_COLD_TIER: u64 = 1 << 63;

/// Bytes of a segment: small, so that segments fill, are freed and used again.
pub(super) const SEGMENT: u64 = 32 << 10;

pub(super) fn defaults() -> Defaults {
    // No jitter: both sides must come to the same due times.
    let retry = Ladder::new(&[Delay::ZERO; 3]).map(Ladder::into_policy);
    Defaults { retry: retry.unwrap_or_default(), ..Defaults::default() }
}

/// What an answered success survives, in the life of this seed: mostly everything.
pub(super) fn durability(seed: u64) -> Durability {
    match Chance::new(seed ^ 0xd0).within(0..8) {
        0 => Durability::None,
        1 => Durability::Interval(Duration::from_millis(20)),
        _ => Durability::Sync,
    }
}

/// Bytes of memory jobs may take, in the life of this seed: mostly more than enough. With a cold tier, less makes folds
/// follow each other closely.
pub(super) fn memory(seed: u64) -> usize {
    if cold_tier(seed) {
        return Chance::new(seed ^ 0x3e3).one_of(&[1 << 30, 1 << 30, 48 << 10, 96 << 10, 256 << 10]);
    }
    Chance::new(seed ^ 0x3e3).one_of(&[1 << 30, 1 << 30, 1 << 30, 22 << 10, 30 << 10, 48 << 10])
}

/// How many priorities of a topic have lanes of their own: sometimes fewer than are used. Where memory is short, what
/// shares a lane is handed out in order only as far as there is room to look.
fn lanes(seed: u64, memory: usize) -> usize {
    let few = Chance::new(seed ^ 0x1a7e).one_of(&[0, 2, 7, usize::MAX]);
    if memory < 1 << 30 { usize::MAX } else { few }
}

/// Whether jobs that wait for long leave memory, in the life of this seed.
pub(super) fn cold_tier(seed: u64) -> bool {
    seed & WITH_COLD_TIER != 0
}

pub(super) fn open(
    seed: u64,
    cold_tier: bool,
    durability: Durability,
    memory: usize,
    disk: &SimDisk,
    clock: &Arc<SimClock>,
    accept: bool,
) -> Result<(EmbeddedStore, Stepper), OpenError> {
    let config = Config {
        place: Place::Storage(Arc::new(disk.clone())),
        durability,
        defaults: defaults(),
        memory,
        segment: SEGMENT,
        cold_tier,
        tail: SEGMENT,
        block: 600,
        lanes: lanes(seed, memory),
        accept_clock: accept,
        clock: Arc::clone(clock) as Arc<_>,
        seed: Some(seed),
        ..Config::in_memory()
    };
    EmbeddedStore::open_stepped(&config)
}

/// Starts a store: again if the disk fails, or if the clock is behind.
pub(super) fn start(
    seed: u64,
    cold_tier: bool,
    durability: Durability,
    memory: usize,
    disk: &SimDisk,
    clock: &Arc<SimClock>,
    starts: &mut u64,
) -> Result<(EmbeddedStore, Stepper), Wrong> {
    let (mut accept, mut tries) = (false, 0);
    loop {
        let faults = disk.counts().faults;
        tries += 1;
        *starts += 1;
        match open(seed.wrapping_add(*starts), cold_tier, durability, memory, disk, clock, accept) {
            Ok(opened) => return Ok(opened),
            Err(OpenError::Clock(_)) if !accept => accept = true,
            Err(OpenError::Io { .. }) if tries < 9 && (disk.counts().faults > faults || disk.is_full()) => {
                disk.set_fault(None);
                disk.set_full(false);
            }
            Err(error) => return Err(Wrong(format!("the store does not start: {error}"))),
        }
    }
}

impl World {
    pub(super) fn close(&mut self) -> Result<(), Wrong> {
        let faults = self.disk.counts().faults;
        let store = Arc::clone(&self.store);
        self.settle()?;
        if self.stepper.has_failed() {
            return self.restart(None);
        }
        let mut closing: Pin<Box<dyn Future<Output = Result<(), StoreError>>>> =
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
            self.stepper.compactor_turn();
        }
        Err(Wrong("the store never closes".to_owned()))
    }

    /// The process ends here and now; with a cut, the machine too. Then the store is started again.
    pub(super) fn restart(&mut self, cut: Option<Cut>) -> Result<(), Wrong> {
        self.calls.clear();
        self.lost.clear();
        self.queued.clear();
        if let Some(cut) = cut {
            self.disk.cut_power(cut);
        }
        let started = start(
            self.seed,
            self.cold_tier,
            self.durability,
            self.memory,
            &self.disk,
            &self.clock,
            &mut self.tally.starts,
        );
        let (store, stepper) = started?;
        (self.store, self.stepper) = (Arc::new(store), stepper);
        (self.closing, self.failed_for) = (false, None);
        self.take_up(cut.is_some())?;
        self.look()
    }

    /// A store was started: the shadow goes back to what it has read.
    pub(super) fn take_up(&mut self, was_cut: bool) -> Result<(), Wrong> {
        if let Some((hidden, absent)) = self.stepper.recounted() {
            return Err(Wrong(format!("{hidden} jobs were in no order, {absent} were counted and are not there")));
        }
        let (now, _) = self.stepper.now().unwrap_or((self.shadow.now, self.shadow.now));
        let sequence = self.stepper.last_sequence().unwrap_or(0);
        self.note(|| format!("    started at {now:?} with everything up to {sequence}"));
        // Without a sync for each answer a power cut may lose what was answered, and so may a disk that fails; a kill
        // may not.
        let failed = self.disk.counts().faults > self.faults;
        let may_lose = self.durability != Durability::Sync && (was_cut || failed);
        self.faults = self.disk.counts().faults;
        self.shadow.restart(sequence, now, may_lose).map_err(Wrong)?;
        self.same.forget();
        if may_lose {
            self.same.leases.clear();
        }
        Ok(())
    }
}
