//! The journal thread: writes frames, syncs them, keeps segments and the manifest.
//!
//! Frames come one at a time; while one is being synced the engine fills the next. A segment is a file that was filled
//! with zeros beforehand, so that a sync writes data and no metadata; the first of a run waits until it is. Files that
//! are no longer needed become spares.

mod segments;

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use dwell_core::StoreError;
use tokio::sync::oneshot;

use crate::clock::Clock;
use crate::config::Durability;
use crate::engine::BatchFrame;
use crate::format::frame;
use crate::format::manifest::{self, Manifest};
use crate::format::topics;
use crate::gauges::Gauges;
use crate::planted::{self, Bug};
use crate::reserve::Reserve;
use crate::runner::Event;
use crate::storage::{Storage, StoredFile};

use segments::SegmentFiles;
pub(crate) use segments::Spares;

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
    gauges: Arc<Gauges>,
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
        Self { storage, clock, durability, segments, reserve, file: None, dirty_since: None, gauges }
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
    /// there may be more.
    pub(crate) fn perform(&mut self, work: Option<Work>) -> (Option<Event>, bool) {
        let goes_on = !matches!(work, Some(Work::Stop(_)));
        let outcome = match work {
            Some(Work::Write(frame)) => {
                self.write(frame).map(|()| Some(Event::Synced { on_disk: self.dirty_since.is_none() }))
            }
            Some(Work::Manifest(manifest, topics, obsolete)) => {
                self.manifest(&manifest, topics, obsolete).map(|()| Some(Event::Saved))
            }
            Some(Work::Stop(done)) => {
                let outcome = self.sync();
                if let Some(done) = done {
                    let said = outcome.as_ref().map_err(|error| StoreError::Failed { detail: error.to_string() });
                    // Nobody needs to have stayed to hear it.
                    done.send(said.copied()).ok();
                }
                outcome.map(|()| None)
            }
            None => self.sync().map(|()| None),
        };
        match outcome {
            Ok(event) => (event, goes_on),
            Err(error) => {
                let place = self.file.as_ref().map(|(segment, _)| self.segments.describe(*segment));
                let place = place.unwrap_or_else(|| "the journal".to_owned());
                (Some(Event::Failed(format!("{place}: {error}"))), false)
            }
        }
    }

    /// How long to wait for work before what was written must be synced.
    pub(crate) fn patience(&self) -> Option<Duration> {
        let Durability::Interval(interval) = self.durability else { return None };
        let since = self.dirty_since?;
        Some((since + interval).saturating_sub(self.clock.real()))
    }

    fn write(&mut self, frame: BatchFrame) -> io::Result<()> {
        let BatchFrame { header, offset, buffer: mut bytes } = frame;
        frame::seal(&mut bytes, &header);
        let file = match &self.file {
            Some((segment, file)) if *segment == header.segment => Arc::clone(file),
            _ => {
                self.sync()?;
                let start = || self.segments.start(header.segment, header.first_sequence);
                let file = self.reserve.or_spend(start)?;
                self.file = Some((header.segment, Arc::clone(&file)));
                file
            }
        };
        self.reserve.or_spend(|| file.write_at(offset, &bytes))?;
        match self.durability {
            Durability::Sync if planted::is(Bug::SkippedSync) => Ok(()),
            Durability::Sync => self.sync_now(&*file),
            Durability::Interval(interval) => {
                let now = self.clock.real();
                let since = *self.dirty_since.get_or_insert(now);
                if now >= since + interval { self.sync() } else { Ok(()) }
            }
            Durability::None => {
                self.dirty_since = Some(Duration::ZERO);
                Ok(())
            }
        }
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
        topics: Option<(String, Vec<u8>)>,
        obsolete: Vec<String>,
    ) -> io::Result<()> {
        self.sync()?;
        if let Some((name, bytes)) = topics {
            self.reserve.or_spend(|| {
                // Under another name first: a file of this name may be the one that is in use.
                let file = self.storage.create(topics::NEW_NAME)?;
                file.write_at(0, &bytes)?;
                file.sync_data()
            })?;
            self.storage.rename(topics::NEW_NAME, &name)?;
            self.storage.sync_dir()?;
        }
        self.reserve.or_spend(|| manifest::store(&*self.storage, manifest))?;
        self.segments.free(obsolete, manifest.first_segment, manifest.topics)
    }
}
