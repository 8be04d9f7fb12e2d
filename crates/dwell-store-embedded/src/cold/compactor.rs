//! The compactor thread: flushes when the engine says so, compacts runs when there is nothing else to do.
//!
//! It alone writes runs and tombstone files. Whatever it reports is durable, and means nothing before a manifest names it.
//! What it cannot write (ENOSPC) it gives up; the engine tells it to try again.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use roaring::RoaringBitmap;

use super::flush::{AppliedTombstones, Flush, Purged, RUN_BYTES};
use super::merge::{Merge, Moved, Step};
use super::{BadPlace, LiveRun, View};
use crate::clock::Clock;
use crate::disk_space::{ONE_SPARE, Reserve};
use crate::format::run::{self, Run, RunError};
use crate::format::tombstone_file;
use crate::runner::Event;
use crate::storage::Storage;

/// Blocks a merge writes before it is looked whether there is something more urgent.
const BLOCKS_A_STEP: usize = 4;

/// How long after a failure it is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Runs of about one size are merged when there are so many.
const FAN_IN: usize = 6;

/// From this size on a run is only made anew once most of it is dead.
const LARGE_RUN_BYTES: u64 = 1 << 30;

/// A task for the compactor thread.
pub(crate) enum Task {
    /// Put these jobs to the cold tier.
    Flush(Box<Flush>),
    /// End.
    Stop,
}

/// What it has done.
pub(crate) enum Outcome {
    /// What it was told to flush is in the cold tier.
    Flushed {
        /// All runs from now on.
        view: View,
        /// What was purged.
        purged: Purged,
        /// Files that nobody needs once a manifest names this view.
        obsolete: Vec<String>,
        /// What could not be read.
        bad: Vec<BadPlace>,
    },
    /// Some runs have become one.
    Merged {
        /// All runs from now on.
        view: View,
        /// Files that nobody needs once a manifest names this view.
        obsolete: Vec<String>,
    },
    /// What was to be merged cannot be read.
    Bad(Vec<BadPlace>),
    /// What it was told to flush is not in the cold tier.
    FlushFailed(String),
    /// Something else could not be done, and will be tried again.
    Trouble(String),
}

/// The thread's own state.
pub(crate) struct Compactor {
    storage: Arc<dyn Storage>,
    clock: Arc<dyn Clock>,
    reserve: Reserve,
    view: View,
    /// What the next file is called by.
    next: u64,
    /// Bytes of a block.
    block: usize,
    /// Bytes of the smallest runs.
    smallest: u64,
    flush: Option<Box<Flush>>,
    merging: Option<Merge>,
    /// Whether what is being merged may go on where the disk is full.
    is_sparing: bool,
    /// After a failure: not before this.
    not_before: Option<Duration>,
    /// Runs that cannot be read as a whole.
    bad: BTreeSet<u64>,
}

impl Compactor {
    pub(crate) fn new(
        storage: Arc<dyn Storage>,
        clock: Arc<dyn Clock>,
        reserve: Reserve,
        view: View,
        block: usize,
        smallest: u64,
    ) -> Self {
        let names = view.runs.iter().flat_map(|live_run| [Some(live_run.run.number), live_run.stamp]).flatten();
        let next = names.max().unwrap_or(0) + 1;
        Self {
            storage,
            clock,
            reserve,
            view,
            next,
            block,
            smallest,
            flush: None,
            merging: None,
            is_sparing: false,
            not_before: None,
            bad: BTreeSet::new(),
        }
    }

    /// Does what it is told until it is told to stop.
    pub(crate) fn run(&mut self, tasks: &Receiver<Task>, events: &Sender<Event>) {
        loop {
            let task = match self.patience() {
                None => tasks.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(patience) => tasks.recv_timeout(patience),
            };
            match task {
                Ok(Task::Flush(flush)) => self.flush = Some(flush),
                Ok(Task::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if let Some(outcome) = self.turn() {
                drop(events.send(Event::ColdTier(outcome)));
            }
        }
    }

    /// How long until there is something to do; none: until it is told.
    pub(crate) fn patience(&self) -> Option<Duration> {
        if self.flush.is_some() {
            return Some(Duration::ZERO);
        }
        if self.merging.is_none() && self.wanted().is_none() {
            return None;
        }
        Some(self.not_before.map_or(Duration::ZERO, |at| at.saturating_sub(self.clock.real())))
    }

    /// Takes a task, to be done with the next turns.
    pub(crate) fn take(&mut self, task: Task) {
        if let Task::Flush(flush) = task {
            self.flush = Some(flush);
        }
    }

    /// Does one piece of work.
    pub(crate) fn turn(&mut self) -> Option<Outcome> {
        if let Some(mut flush) = self.flush.take() {
            return Some(self.flush(&mut flush).unwrap_or_else(|error| Outcome::FlushFailed(trouble(&error))));
        }
        if self.not_before.is_some_and(|at| at > self.clock.real()) {
            return None;
        }
        self.not_before = None;
        if self.merging.is_none() {
            let wanted = self.wanted()?;
            let Some((wanted, is_sparing)) = self.with_room(wanted) else {
                self.not_before = Some(self.clock.real() + RETRY_AFTER);
                return None;
            };
            let number = self.next_number();
            match Merge::begin(&*self.storage, wanted, number, self.block) {
                Ok(merge) => (self.merging, self.is_sparing) = (Some(merge), is_sparing),
                Err(error) => return Some(self.fail_merge(&error, number)),
            }
        }
        let merge = self.merging.as_mut()?;
        let number = merge.number;
        self.reserve.look();
        if self.reserve.has_waiting() || (self.reserve.is_short() && !self.is_sparing) {
            // Others need what room there is more than this does.
            self.give_up_merge();
            return None;
        }
        match merge.step(BLOCKS_A_STEP * self.block) {
            Ok(Step::More) => None,
            Ok(Step::Done(run, moved)) => {
                self.merging = None;
                let first = self.next;
                Some(self.merged(run, &moved).unwrap_or_else(|error| {
                    self.remove_made_since(first);
                    self.fail_merge(&RunError::Io(error), number)
                }))
            }
            Err(error) => Some(self.fail_merge(&error, number)),
        }
    }

    fn fail(&mut self, error: &RunError) -> Outcome {
        self.not_before = Some(self.clock.real() + RETRY_AFTER);
        Outcome::Trouble(trouble(error))
    }

    /// A merge that fails is given up; runs that cannot be read are left as they are.
    fn fail_merge(&mut self, error: &RunError, number: u64) -> Outcome {
        // What there is of the new run takes room.
        self.storage.remove(&run::name(number)).ok();
        let runs: Vec<u64> = self.merging.take().iter().flat_map(Merge::runs).collect();
        if let RunError::Io(_) = error {
            return self.fail(error);
        }
        self.not_before = Some(self.clock.real() + RETRY_AFTER);
        let merged = self.view.runs.iter().filter(|live_run| runs.contains(&live_run.run.number));
        let bad: Vec<BadPlace> = merged.flat_map(bad_places).collect();
        self.bad.extend(bad.iter().map(|place| place.run));
        Outcome::Bad(bad)
    }

    /// Begins anew later with what is being merged, and gives back the room it has taken.
    fn give_up_merge(&mut self) {
        if let Some(merge) = self.merging.take() {
            self.storage.remove(&run::name(merge.number)).ok();
            self.not_before = Some(self.clock.real() + RETRY_AFTER);
        }
    }

    fn next_number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    fn flush(&mut self, flush: &mut Flush) -> Result<Outcome, RunError> {
        let first = self.next;
        let flushed = self.flush_all(flush);
        if flushed.is_err() {
            self.remove_made_since(first);
        }
        self.reserve.look();
        flushed
    }

    fn flush_all(&mut self, flush: &mut Flush) -> Result<Outcome, RunError> {
        let mut view = self.view.clone();
        let written = view.runs.len();
        let reserve = self.reserve.clone();
        if !reserve.fits(flush.reckoned()) {
            self.give_up_merge();
        }
        if !reserve.make_room_for(flush.reckoned(), flush.may_spend) {
            return Err(RunError::Io(io::ErrorKind::StorageFull.into()));
        }
        if let Some(run) = reserve.retry_on_enospc(ONE_SPARE, || self.write(flush))? {
            view.runs.push(LiveRun { run, dead: Arc::default(), stamp: None });
        }
        let AppliedTombstones { purged, bad } = flush.apply_tombstones(&mut view, written)?;
        let obsolete = self.settle(&mut view)?;
        self.view = view.clone();
        Ok(Outcome::Flushed { view, purged, obsolete, bad })
    }

    /// Removes what was made by something that was given up: it takes room, and only the next start would remove it.
    fn remove_made_since(&self, first: u64) {
        let is_new = |name: &str| {
            let made = run::parse_name(name).or_else(|| tombstone_file::parse_name(name).map(|(_, stamp)| stamp));
            made.is_some_and(|number| number >= first)
        };
        for name in self.storage.list().into_iter().flatten().filter(|name| is_new(name)) {
            self.storage.remove(&name).ok();
        }
    }

    fn write(&mut self, flush: &mut Flush) -> io::Result<Option<Arc<Run>>> {
        let number = self.next_number();
        let written = flush.write(&*self.storage, number, self.block);
        if written.is_err() {
            // It takes room; the next start would remove it.
            self.storage.remove(&run::name(number)).ok();
        }
        written
    }

    /// Writes the sets of dead jobs that have changed, and leaves out runs without jobs; which files are not needed then.
    fn settle(&mut self, view: &mut View) -> io::Result<Vec<String>> {
        for live_run in &mut view.runs {
            if live_run.stamp.is_none() && !live_run.dead.is_empty() && live_run.live() > 0 {
                let stamp = self.next_number();
                let store = || tombstone_file::store(&*self.storage, live_run.run.number, stamp, &live_run.dead);
                self.reserve.retry_on_enospc(ONE_SPARE, store)?;
                live_run.stamp = Some(stamp);
            }
        }
        self.storage.sync_dir()?;
        let mut obsolete: BTreeSet<String> = self.view.runs.iter().flat_map(files).collect();
        // A run without jobs may be new.
        obsolete.extend(view.runs.iter().filter(|live_run| live_run.live() == 0).flat_map(files));
        view.runs.retain(|live_run| live_run.live() > 0);
        for name in view.runs.iter().flat_map(files) {
            obsolete.remove(&name);
        }
        Ok(obsolete.into_iter().collect())
    }

    fn merged(&mut self, run: Arc<Run>, moved: &[Moved]) -> io::Result<Outcome> {
        let mut dead = RoaringBitmap::new();
        let mut view = self.view.clone();
        for moved in moved {
            if let Some(place) = view.runs.iter().position(|live_run| live_run.run.number == moved.run) {
                let old = view.runs.swap_remove(place);
                dead.extend(moved.died_since(&old.dead));
            } else {
                // A run that is no longer there had no job left: whatever was merged of it has died since.
                dead.extend(moved.all());
            }
        }
        view.runs.push(LiveRun { run, dead: Arc::new(dead), stamp: None });
        let obsolete = self.settle(&mut view)?;
        self.view = view.clone();
        Ok(Outcome::Merged { view, obsolete })
    }

    /// These runs if what they become fits beside what must stay free. Where the disk is full, another one that is mostly
    /// dead and fits into what is free: it gives back more than it takes. Whether it is that.
    fn with_room(&self, wanted: Vec<LiveRun>) -> Option<(Vec<LiveRun>, bool)> {
        let bytes = wanted.iter().map(|live_run| live_run.run.bytes).sum();
        if !self.reserve.is_short() && self.reserve.has_room_for(bytes) {
            return Some((wanted, false));
        }
        // The one that takes the least room: what is left of it, and a little for what is beside the jobs.
        let half_dead = self.view.runs.iter().filter(|run| self.is_half_dead(run));
        let (smallest, bytes) = half_dead.map(|run| (run, bytes_left(run))).min_by_key(|(_, bytes)| *bytes)?;
        let fits = self.reserve.make_room_for_compaction(bytes);
        fits.then(|| (vec![smallest.clone()], true))
    }

    /// Whether a run is mostly dead, and can be read.
    fn is_half_dead(&self, live_run: &LiveRun) -> bool {
        !self.bad.contains(&live_run.run.number) && live_run.dead.len() * 2 > u64::from(live_run.run.entries)
    }

    /// Which runs are to be merged next, if any.
    fn wanted(&self) -> Option<Vec<LiveRun>> {
        let good = |live_run: &&LiveRun| !self.bad.contains(&live_run.run.number);
        if let Some(live_run) = self.view.runs.iter().find(|live_run| self.is_half_dead(live_run)) {
            return Some(vec![live_run.clone()]);
        }
        let mut sizes: Vec<(u32, &LiveRun)> = Vec::new();
        for live_run in self.view.runs.iter().filter(good).filter(|live_run| live_run.run.bytes < LARGE_RUN_BYTES) {
            sizes.push((self.size(live_run.run.bytes), live_run));
        }
        sizes.sort_by_key(|(size, live_run)| (*size, live_run.run.number));
        let same = sizes.chunk_by(|(a, _), (b, _)| a == b).find(|same| same.len() >= FAN_IN)?;
        Some(same.iter().map(|(_, live_run)| (*live_run).clone()).collect())
    }

    /// About how large a run is: how often it could be divided by the fan-in.
    fn size(&self, bytes: u64) -> u32 {
        (bytes / self.smallest.max(1)).max(1).ilog(FAN_IN as u64)
    }
}

/// Bytes that what is left of a run is reckoned to take in a run of its own.
fn bytes_left(run: &LiveRun) -> u64 {
    let left = u128::from(run.run.bytes) * u128::from(run.live()) / u128::from(run.run.entries.max(1));
    let left = u64::try_from(left).unwrap_or(u64::MAX);
    left + left / 8 + RUN_BYTES
}

/// What of a run cannot be read.
fn bad_places(live_run: &LiveRun) -> Vec<BadPlace> {
    let run = &live_run.run;
    let blocks = (0..run.index.len()).filter_map(|at| Some((format!("block {at}"), run.block(at).err()?)));
    let tables = run.tables().into_iter().flat_map(|(table, file)| {
        (0..table.pages()).filter_map(move |page| Some(("a table".to_owned(), table.page(file, page).err()?)))
    });
    let damaged = blocks.chain(tables).filter(|(_, error)| matches!(error, RunError::Damaged(_)));
    damaged.map(|(what, error)| BadPlace::new(run.number, &what, &error)).collect()
}

fn trouble(error: &RunError) -> String {
    format!("the cold tier cannot be written: {error}; it is tried again")
}

/// The names of a run's files.
fn files(live_run: &LiveRun) -> Vec<String> {
    let run = live_run.run.number;
    std::iter::once(run::name(run)).chain(live_run.stamp.map(|stamp| tombstone_file::name(run, stamp))).collect()
}
