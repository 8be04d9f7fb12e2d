//! What would be left if the power went now.
//!
//! A copy of the disk loses what a power cut loses; a store is started on it, and perhaps the power goes in the middle
//! of that, too. Then it must look like the shadow; and if the disk then does not give what is in the cold tier, whoever asks
//! for it is told so or gets what is there, and once the disk does, all of it is. The life goes on as if nothing had been.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::starting::{open, start};
use super::{World, Wrong};
use crate::chance::Chance;
use crate::disk::{Cut, Fault, FaultKind};

/// In one of so many lives everything is looked at at every step.
const LIVES: u64 = 32;

/// Whether an image is taken after every event of this life.
pub(super) fn in_life(seed: u64) -> bool {
    seed % LIVES == LIVES - 1
}

impl World {
    /// Looks at what would be left if the power went now.
    pub(super) fn check_image(&mut self) -> Result<(), Wrong> {
        let mut chance = Chance::new(self.seed ^ self.tally.events << 20 ^ 0x1a9e);
        self.tally.images += 1;
        let wrong = |Wrong(what)| Wrong(format!("in an image: {what}"));
        let looked = self.image(&mut chance).and_then(|mut image| {
            image.look()?;
            image.look_while_reads_fail(&mut chance)?;
            Ok(image.tally.unreadable)
        });
        self.tally.unreadable = looked.map_err(wrong)?;
        Ok(())
    }

    fn look_while_reads_fail(&mut self, chance: &mut Chance) -> Result<(), Wrong> {
        if !self.cold_tier || self.stepper.has_failed() {
            return Ok(());
        }
        self.reads_fail = true;
        self.disk.set_fault(Some(Fault { after: chance.within(0..40), kind: FaultKind::Read }));
        self.look()?;
        self.disk.set_fault(None);
        self.reads_fail = false;
        self.look()
    }

    /// The world as a power cut would leave it, started again.
    fn image(&self, chance: &mut Chance) -> Result<Self, Wrong> {
        let (disk, clock) = (self.disk.copy(chance.roll()), Arc::new(self.clock.copy()));
        let cuts = [Cut::Drop, Cut::Keep, Cut::Writes, Cut::Pages];
        disk.cut_power(chance.one_of(&cuts));
        let mut first = None;
        if chance.percent(50) {
            // A start that comes to its end or not, and then goes with the power.
            if chance.percent(50) {
                let kind = chance.one_of(&[FaultKind::Write, FaultKind::Sync, FaultKind::Name, FaultKind::Read]);
                disk.set_fault(Some(Fault { after: chance.within(0..12), kind }));
            }
            let opened = open(chance.roll(), self.cold_tier, self.durability, self.memory, &disk, &clock, true);
            first = opened.ok().and_then(|(_, stepper)| stepper.last_sequence());
            disk.cut_power(chance.one_of(&cuts));
        }
        let mut starts = self.tally.starts;
        let (store, stepper) =
            start(self.seed, self.cold_tier, self.durability, self.memory, &disk, &clock, &mut starts)?;
        let read = stepper.last_sequence();
        if first.is_some() && first != read {
            return Err(Wrong(format!("one start has read back up to {first:?}, the next up to {read:?}")));
        }
        let mut image = Self {
            seed: self.seed,
            cold_tier: self.cold_tier,
            durability: self.durability,
            memory: self.memory,
            disk,
            clock,
            store: Arc::new(store),
            stepper,
            shadow: self.shadow.clone(),
            same: self.same.clone(),
            calls: BTreeMap::new(),
            queued: VecDeque::new(),
            next_call: self.next_call,
            lost: BTreeMap::new(),
            expected: self.expected,
            bodies: self.bodies,
            start: self.start,
            closing: false,
            faults: self.faults,
            failed_for: None,
            reads_fail: false,
            tally: self.tally,
            log: None,
        };
        image.take_up(true)?;
        Ok(image)
    }
}
