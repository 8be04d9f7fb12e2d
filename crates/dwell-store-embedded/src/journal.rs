//! The journal thread: writes frames, syncs them, keeps segments and the manifest.
//!
//! Frames come one at a time; while one is being synced the engine fills the next. A segment is a file that was filled
//! with zeros beforehand, so that a sync writes data and no metadata; the first of a run waits until it is. Files that
//! are no longer needed become spares.

mod segments;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use dwell_core::StoreError;
use tokio::sync::oneshot;

use crate::clock::Clock;
use crate::config::Durability;
use crate::disk_space::{NoSpace as _, Reserve};
use crate::engine::BatchFrame;
use crate::format::frame;
use crate::format::manifest::{self, Manifest};
use crate::format::topics;
use crate::gauges::Gauges;
use crate::runner::Event;
use crate::sim_bugs::{self, Bug};
use crate::storage::{Storage, StoredFile};

use segments::SegmentFiles;
pub(crate) use segments::Spares;

/// How long after it found no room something is tried again.
const RETRY_AFTER: Duration = Duration::from_millis(50);

/// What the journal thread is asked to do, in order.
pub(crate) enum Work {
    /// Write this frame and make it durable.
    Write(BatchFrame),
    /// Make this the manifest; with it, the state of all topics up to some sequence, under this name. Then these files are
    /// not needed any more.
    Manifest(Box<Manifest>, Option<(String, Vec<u8>)>, Vec<String>),
    /// Make everything durable, say so and end.
    Stop(Option<oneshot::Sender<Result<(), StoreError>>>),
}

/// The journal thread's own state.
pub(crate) struct Journal {
    storage: Arc<dyn Storage>,
    clock: Arc<dyn Clock>,
    durability: Durability,
    segments: SegmentFiles,
    reserve: Reserve,
    file: Option<(u64, Arc<dyn StoredFile>)>,
    /// Written and not yet synced, since when.
    dirty_since: Option<Duration>,
    /// What found no room, to be tried again then; and what came after it.
    waiting: VecDeque<Work>,
    again_at: Duration,
    gauges: Arc<Gauges>,
}

/// Why something was not done.
enum Undone {
    /// There is no room for it. Nothing that was synced before is touched: it can be done later.
    NoRoom(io::Error),
    /// What is on the disk now is not known.
    Failed(io::Error),
}

impl From<io::Error> for Undone {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

/// Of something that may be done again as a whole.
fn unless_full(error: io::Error) -> Undone {
    if error.is_no_space() { Undone::NoRoom(error) } else { Undone::Failed(error) }
}

impl Journal {
    pub(crate) fn new(
        storage: Arc<dyn Storage>,
        clock: Arc<dyn Clock>,
        durability: Durability,
        epoch: u64,
        spares: Spares,
        reserve: Reserve,
        gauges: Arc<Gauges>,
    ) -> Self {
        let segments = SegmentFiles::new(Arc::clone(&storage), epoch, spares, durability);
        let (file, dirty_since, waiting, again_at) = (None, None, VecDeque::new(), Duration::ZERO);
        Self { storage, clock, durability, segments, reserve, file, dirty_since, waiting, again_at, gauges }
    }

    /// Does what it is asked until it is told to stop or something fails. After a failure nothing more is written.
    pub(crate) fn run(&mut self, work: &Receiver<Work>, events: &Sender<Event>) {
        loop {
            let next = match self.patience() {
                None => work.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(patience) => work.recv_timeout(patience),
            };
            let next = match next {
                Ok(work) => Some(work),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => Some(Work::Stop(None)),
            };
            let (event, goes_on) = self.perform(next);
            if let Some(event) = event {
                drop(events.send(event));
            }
            if !goes_on {
                return;
            }
        }
    }

    /// Does one piece of work, or, without any, syncs what was written; what the engine is to be told of it, and whether
    /// there may be more. What finds no room is tried again before anything else is done.
    pub(crate) fn perform(&mut self, work: Option<Work>) -> (Option<Event>, bool) {
        if !self.is_waiting() {
            return self.perform_next(work);
        }
        self.waiting.extend(work);
        self.again_at = self.clock.real();
        let next = self.waiting.pop_front();
        self.perform_next(next)
    }

    /// Whether something waits for room.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn perform_next(&mut self, mut work: Option<Work>) -> (Option<Event>, bool) {
        let goes_on = !matches!(work, Some(Work::Stop(_)));
        let outcome = match &mut work {
            Some(Work::Write(frame)) => {
                self.write(frame).map(|()| Some(Event::Synced { on_disk: self.dirty_since.is_none() }))
            }
            Some(Work::Manifest(manifest, topics, obsolete)) => {
                self.manifest(manifest, topics.as_ref(), obsolete).map(|()| Some(Event::Saved))
            }
            Some(Work::Stop(done)) => {
                let outcome = self.sync();
                if let Some(done) = done.take() {
                    let said = outcome.as_ref().map_err(|error| StoreError::Failed { detail: error.to_string() });
                    // Nobody needs to have stayed to hear it.
                    done.send(said.copied()).ok();
                }
                outcome.map(|()| None).map_err(Undone::Failed)
            }
            None => self.sync().map(|()| None).map_err(Undone::Failed),
        };
        self.reserve.note_waiting(matches!(outcome, Err(Undone::NoRoom(_))));
        match outcome {
            Ok(event) => (event, goes_on),
            Err(Undone::NoRoom(_)) if !self.reserve.has_ended() => {
                self.again_at = self.clock.real() + RETRY_AFTER;
                self.waiting.extend(work);
                self.waiting.rotate_right(1);
                (None, true)
            }
            Err(Undone::NoRoom(error) | Undone::Failed(error)) => {
                let place = self.file.as_ref().map(|(segment, _)| self.segments.describe(*segment));
                let place = place.unwrap_or_else(|| "the journal".to_owned());
                (Some(Event::Failed(format!("{place}: {error}"))), false)
            }
        }
    }

    /// How long to wait for work before what was written must be synced, or what found no room is tried again.
    pub(crate) fn patience(&self) -> Option<Duration> {
        if self.is_waiting() {
            return Some(self.again_at.saturating_sub(self.clock.real()));
        }
        let Durability::Interval(interval) = self.durability else { return None };
        let since = self.dirty_since?;
        Some((since + interval).saturating_sub(self.clock.real()))
    }

    fn write(&mut self, frame: &mut BatchFrame) -> Result<(), Undone> {
        let BatchFrame { header, offset, buffer, is_sealed } = frame;
        if !std::mem::replace(is_sealed, true) {
            frame::seal(buffer, header);
        }
        let file = match &self.file {
            Some((segment, file)) if *segment == header.segment => Arc::clone(file),
            _ => {
                self.sync()?;
                let file = self.segments.start(header.segment, header.first_sequence).map_err(unless_full)?;
                self.file = Some((header.segment, Arc::clone(&file)));
                file
            }
        };
        self.reserve.retry_on_enospc(0, || file.write_at(*offset, buffer)).map_err(unless_full)?;
        match self.durability {
            Durability::Sync if sim_bugs::is(Bug::SkippedSync) => {}
            Durability::Sync => self.sync_now(&*file)?,
            Durability::Interval(interval) => {
                let now = self.clock.real();
                let since = *self.dirty_since.get_or_insert(now);
                if now >= since + interval {
                    self.sync()?;
                }
            }
            Durability::None => self.dirty_since = Some(Duration::ZERO),
        }
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        if self.dirty_since.take().is_some()
            && let Some((_, file)) = &self.file
        {
            self.sync_now(&**file)?;
        }
        Ok(())
    }

    fn sync_now(&self, file: &dyn StoredFile) -> io::Result<()> {
        let start = self.clock.real();
        let outcome = file.sync_data();
        self.gauges.synced.note(self.clock.real().saturating_sub(start));
        outcome
    }

    fn manifest(
        &mut self,
        manifest: &Manifest,
        topics: Option<&(String, Vec<u8>)>,
        obsolete: &[String],
    ) -> Result<(), Undone> {
        self.sync()?;
        if let Some((name, bytes)) = topics {
            let store = || {
                // Under another name first: a file of this name may be the one that is in use.
                let file = self.storage.create(topics::NEW_NAME)?;
                file.write_at(0, bytes)?;
                file.sync_data()
            };
            self.reserve.retry_on_enospc(0, store).map_err(unless_full)?;
            self.storage.rename(topics::NEW_NAME, name)?;
            self.storage.sync_dir()?;
        }
        self.reserve.retry_on_enospc(0, || manifest::store(&*self.storage, manifest)).map_err(unless_full)?;
        Ok(self.segments.free(obsolete, manifest.first_segment, manifest.topics)?)
    }
}
