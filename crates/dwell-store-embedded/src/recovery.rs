//! Starting: what the last run left is read back, checked, and taken up.
//!
//! The manifest says where the journal begins and how far each earlier run had come; the topics file gives the topics
//! as they were when the oldest segments were freed; the journal's frames, in order, give everything since. Nothing is
//! changed on disk until all of it has been read.
//!
//! A run that ended in a crash may leave a torn frame that was never acknowledged: it is cut. Damage to anything that
//! was acknowledged stops the start, with file and offset. Which of the two it is follows from three facts: at most one
//! frame is under way at a time, each frame says up to where the journal was durable when it was written, and each start
//! notes how far the run before it came.

pub(crate) mod cold_check;
mod doubtful;
mod read_ahead;

use std::io;
use std::ops::RangeInclusive;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, mpsc};
use std::thread;

use dwell_core::Timestamp;
use roaring::RoaringBitmap;

use self::doubtful::Doubtful;
use self::read_ahead::{Ahead, FRAME_MISSING, FramePlace, RecordScanner, ScannedRecord, SegmentFile};
use crate::clock::Clock;
use crate::cold::{LiveRun, View};
use crate::dice::Dice;
use crate::engine::{Engine, JobBytes, Now, Origin, RecordLocation, Recounted, ReplayContext, ReplayError, Settings};
use crate::format::frame::{self, Frame, FrameHeader};
use crate::format::manifest::{self, Manifest, ManifestError};
use crate::format::run::{self, Run, RunError};
use crate::format::segment;
use crate::format::tombstone_file;
use crate::format::topics::{self, Topics, TopicsError};
use crate::sim_bugs::{self, Bug};
use crate::storage::{OpenDirError, Storage};
use crate::timeline::{ClockBehind, Timeline};

/// Why a store does not open. Nothing on disk has been changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A file cannot be read or written.
    #[error("{place}: {error}")]
    Io {
        /// Which.
        place: String,
        /// Why.
        error: io::Error,
    },
    /// Something that was acknowledged cannot be read.
    #[error("{file} is damaged at byte {offset}: {why}; what was acknowledged after sequence {after} cannot be read")]
    Damaged {
        /// Which file.
        file: String,
        /// Where in it.
        offset: usize,
        /// What is wrong.
        why: String,
        /// Everything up to this sequence was read.
        after: u64,
    },
    /// A file that must be there is not.
    #[error("{file} is missing; the journal cannot be read without it")]
    ReadNeed {
        /// Which.
        file: String,
    },
    /// The directory cannot be taken.
    #[error(transparent)]
    Directory(#[from] OpenDirError),
    /// A later version of Dwell wrote it.
    #[error(
        "{file} has format version {found}, which this build cannot read; start the version of Dwell that wrote it"
    )]
    Newer {
        /// Which file.
        file: String,
        /// Its version.
        found: u16,
    },
    /// The clock makes no sense.
    #[error(transparent)]
    Clock(#[from] ClockBehind),
}

impl From<ManifestError> for OpenError {
    fn from(error: ManifestError) -> Self {
        match error {
            ManifestError::Io { file, source } => Self::Io { place: file, error: source },
            ManifestError::Newer { file, found } => Self::Newer { file, found },
            ManifestError::Damaged { file, why } => Self::Damaged { file, offset: 0, why: why.to_string(), after: 0 },
        }
    }
}

impl From<TopicsError> for OpenError {
    fn from(error: TopicsError) -> Self {
        match error {
            TopicsError::Io { file, source } => Self::Io { place: file, error: source },
            TopicsError::Damaged { file, why } => Self::Damaged { file, offset: 0, why: why.to_string(), after: 0 },
        }
    }
}

/// A store as the last run left it.
pub(crate) struct Recovered {
    pub(crate) engine: Engine,
    pub(crate) manifest: Manifest,
    pub(crate) timeline: Timeline,
    /// What of the cold tier had to be set right.
    pub(crate) recounted: Option<Recounted>,
}

/// Reads everything back and makes ready for a new run.
pub(crate) fn recover(
    storage: &Arc<dyn Storage>,
    settings: Settings,
    clock: &dyn Clock,
    accept_clock: bool,
) -> Result<Recovered, OpenError> {
    let mut manifest = load_manifest(&**storage)?;
    let seed = settings.seed;
    let mut reading = Reading::new(&**storage, settings);
    reading.topics_file(&manifest)?;
    let last_segment = reading.segments(&manifest)?;
    let last_read = reading.last_sequence;
    // All that was written may have been freed or lost: then the topics say how far the journal had come.
    reading.last_sequence = last_read.max(reading.topics_known);

    reading.check(last_segment)?;
    let Reading { mut engine, last_sequence, mark, doubtful, .. } = reading;
    let mark = Timestamp::from_millis(mark.max(manifest.mark)).unwrap_or(Timestamp::MAX);
    let mark = if sim_bugs::is(Bug::MarkIgnored) { clock.wall() } else { mark };
    let accept = accept_clock || clock.is_set_by_hand();
    let mut timeline = Timeline::start(clock.wall(), clock.monotonic(), Some(mark), accept)?;
    let now =
        Now { at: timeline.now(clock.monotonic()), up: timeline.now_rounded_up(clock.monotonic()), real: clock.real() };
    manifest.epoch = epoch_after(manifest.epoch, seed);
    manifest.next_segment = last_segment + 2;
    manifest.clean = None;
    manifest.mark = now.at.as_millis();
    let mut origin = Origin {
        epoch: manifest.epoch,
        segment: last_segment + 1,
        durable: last_sequence,
        read: last_read,
        sequence: manifest.sequence_reserved.max(last_sequence + 1),
        number: manifest.number_reserved,
        topic: manifest.topic_ids_reserved,
    };
    if sim_bugs::is(Bug::ReservesIgnored) {
        (origin.sequence, origin.number) = (last_sequence + 1, 1);
    }
    if !sim_bugs::is(Bug::EndNotWrittenAgain) {
        doubtful.iter().try_for_each(|part| part.write_again(&**storage))?;
    }
    let ids = engine.ids();
    let recounted = cold_check::check(&**storage, &mut engine)?;
    if recounted.is_some() {
        engine.save_recount();
    }
    let first = if sim_bugs::is(Bug::StartNotSynced) { last_segment + 1 } else { manifest.first_segment };
    let (jobs, table, synced) = thread::scope(|scope| {
        let synced = scope.spawn(|| sync(&**storage, first..=last_segment));
        let [sooner, later] = engine.shares(now.at);
        let other = scope.spawn(move || (later.order(), ids.into_table()));
        let sooner = sooner.order();
        let (later, table) = other.join().expect("whoever puts jobs in order does not panic");
        ([sooner, later], table, synced.join().expect("whoever syncs does not panic"))
    });
    engine.name(table);
    engine.begin(origin, now, (manifest.first_segment, manifest.flushed), jobs);
    synced.map(|()| Recovered { engine, manifest, timeline, recounted })
}

/// Reads everything back as a start would, and changes nothing: an engine that is only looked at, and what a start would
/// have to set right.
pub(crate) fn look(storage: &dyn Storage, settings: Settings) -> Result<(Engine, Option<Recounted>), OpenError> {
    let manifest = load_manifest(storage)?;
    let mut reading = Reading::new(storage, settings);
    reading.topics_file(&manifest)?;
    let last_segment = reading.segments(&manifest)?;
    reading.check(last_segment)?;
    let Reading { mut engine, last_sequence, mark, topics_known, .. } = reading;
    let ids = engine.ids();
    let recounted = cold_check::check(storage, &mut engine)?;
    let at = Timestamp::from_millis(mark.max(manifest.mark)).unwrap_or(Timestamp::MAX);
    let [sooner, later] = engine.shares(at);
    let jobs = [sooner.order(), later.order()];
    engine.name(ids.into_table());
    let last = last_sequence.max(topics_known);
    let origin = Origin {
        epoch: manifest.epoch,
        segment: last_segment + 1,
        durable: last,
        read: last_sequence,
        sequence: manifest.sequence_reserved.max(last + 1),
        number: manifest.number_reserved,
        topic: manifest.topic_ids_reserved,
    };
    let now = Now { at, up: at, real: std::time::Duration::ZERO };
    engine.begin(origin, now, (manifest.first_segment, manifest.flushed), jobs);
    Ok((engine, recounted))
}

/// The next run's number: one more than the last in its upper half, and chance in its lower. A body that happens to
/// hold a frame, or was made to, does not know it, and so is never taken for a frame of this run.
fn epoch_after(epoch: u64, seed: Option<u64>) -> u64 {
    let chance = Dice::new(seed).roll() & u64::from(u32::MAX);
    ((epoch >> 32) + 1) << 32 | chance
}

/// The manifest; a fresh one where there is no store yet.
fn load_manifest(storage: &dyn Storage) -> Result<Manifest, OpenError> {
    if let Some(manifest) = manifest::load(storage)? {
        return Ok(manifest);
    }
    let names = storage.list().map_err(|error| io_error(storage, "", error))?;
    if names.iter().any(|name| segment::parse_name(name).is_some()) {
        return Err(OpenError::ReadNeed { file: storage.describe(manifest::NAME) });
    }
    Ok(Manifest {
        epoch: 0,
        first_segment: 1,
        next_segment: 1,
        sequence_reserved: 1,
        number_reserved: 1,
        topic_ids_reserved: 1,
        mark: 0,
        topics: None,
        clean: None,
        flushed: 0,
        runs: Vec::new(),
        bad: Vec::new(),
    })
}

/// Opens the runs that the manifest names.
fn open_cold_tier(storage: &dyn Storage, manifest: &Manifest) -> Result<View, OpenError> {
    let mut view = View::default();
    for name in &manifest.runs {
        let failed = |file: String, error: RunError| match error {
            RunError::Io(error) if error.kind() == io::ErrorKind::NotFound => {
                OpenError::ReadNeed { file: storage.describe(&file) }
            }
            RunError::Io(error) if error.kind() != io::ErrorKind::UnexpectedEof => io_error(storage, &file, error),
            error => {
                let file = storage.describe(&file);
                OpenError::Damaged { file, offset: 0, why: error.to_string(), after: manifest.flushed }
            }
        };
        let run = Run::open(storage, name.run).map_err(|error| failed(run::name(name.run), error))?;
        let dead = match name.dead {
            None => RoaringBitmap::new(),
            Some(stamp) => {
                let loaded = tombstone_file::load(storage, name.run, stamp);
                loaded.map_err(|error| failed(tombstone_file::name(name.run, stamp), error))?
            }
        };
        view.runs.push(LiveRun { run: Arc::new(run), dead: Arc::new(dead), stamp: name.dead });
    }
    Ok(view)
}

/// What has been read so far.
struct Reading<'a> {
    storage: &'a dyn Storage,
    engine: Engine,
    scanner: RecordScanner,
    /// The last sequence read.
    last_sequence: u64,
    /// What came before the first segment there is has been freed: all up to this sequence.
    freed: u64,
    /// The run of what was read last, or of the first segment.
    epoch: u64,
    /// The latest time any frame names.
    mark: u64,
    /// Topics are known as of this sequence; records up to it say nothing new about them.
    topics_known: u64,
    /// The cold tier is known as of this sequence.
    flushed: u64,
    /// What was read and may be nowhere but in memory.
    doubtful: Vec<Doubtful>,
    /// Where the last segment that was begun ended: its name, the offset, and why there.
    end: Option<(String, usize, String)>,
}

impl<'a> Reading<'a> {
    fn new(storage: &'a dyn Storage, settings: Settings) -> Self {
        let engine = Engine::new(settings);
        let scanner = RecordScanner::new(engine.id_hash());
        let (topics_known, flushed) = (0, 0);
        let (doubtful, end) = (Vec::new(), None);
        let (last_sequence, freed, epoch, mark) = (0, 0, 0, 0);
        Self { storage, engine, scanner, last_sequence, freed, epoch, mark, topics_known, flushed, doubtful, end }
    }

    /// Reads the topics as they were when the oldest segments were freed.
    fn topics_file(&mut self, manifest: &Manifest) -> Result<(), OpenError> {
        let Some(stamp) = manifest.topics else { return Ok(()) };
        let Topics { topics, cold } = topics::load(self.storage, stamp)?;
        for topic in topics {
            self.engine.replay_topic(topic);
        }
        self.topics_known = stamp;
        self.flushed = manifest.flushed;
        let view = open_cold_tier(self.storage, manifest)?;
        self.engine.replay_cold_tier(cold, view, &manifest.bad, manifest.flushed, stamp);
        Ok(())
    }

    /// Reads all segments; the last one there is.
    fn segments(&mut self, manifest: &Manifest) -> Result<u64, OpenError> {
        let names = self.storage.list().map_err(|error| io_error(self.storage, "", error))?;
        let mut ids: Vec<u64> = names.iter().filter_map(|name| segment::parse_name(name)).collect();
        ids.retain(|id| *id >= manifest.first_segment);
        ids.sort_unstable();
        if let Some((_, gap)) = ids.iter().zip(manifest.first_segment..).find(|(id, expected)| *id != expected) {
            return Err(OpenError::ReadNeed { file: self.storage.describe(&segment::name(gap)) });
        }
        let mut last = manifest.first_segment.saturating_sub(1);
        let awaited = AtomicBool::new(false);
        let ahead = Ahead { storage: self.storage, ids: &ids, scanner: self.scanner.clone(), awaited: &awaited };
        // A scope ends when all in it has: everything is read, whatever becomes of the replay.
        thread::scope(|scope| {
            let (to, from) = mpsc::sync_channel(1);
            scope.spawn(move || ahead.run(&to));
            for (id, left) in ids.iter().zip((0..ids.len()).rev()) {
                let file = read_ahead::next(&from, &awaited).expect("who reads ahead says of each segment what it is");
                // One that was never begun has nothing in it: the next run makes it again.
                last = if self.segment(file?, left)? { *id } else { id - 1 };
            }
            Ok::<(), OpenError>(())
        })?;
        if ids.is_empty() && (manifest.first_segment > 1 || manifest.topics.is_some()) {
            return Err(OpenError::ReadNeed { file: self.storage.describe(&segment::name(manifest.first_segment)) });
        }
        let read = self.last_sequence.max(self.freed);
        if manifest.clean.is_some_and(|clean| clean.last_sequence > read) {
            let last = segment::name(ids.last().copied().unwrap_or(manifest.first_segment));
            return Err(self.damaged_before(&last, 0, "the last clean stop wrote more than is there"));
        }
        Ok(last)
    }

    fn check(&self, last_segment: u64) -> Result<(), OpenError> {
        let fits = self.engine.check_replayed();
        fits.map_err(|error| self.damaged(&segment::name(last_segment), 0, &error.to_string()))
    }

    /// Replays a segment, of which so many are left after it; whether it was ever begun.
    fn segment(&mut self, mut file: SegmentFile, left: usize) -> Result<bool, OpenError> {
        let first = file.header.as_ref().map_or(0, |header| header.first_sequence);
        let place = self.engine.begin_segment(file.id, first);
        let end = self.frames(&mut file, place, left == 0)?;
        // A run syncs a segment before it begins the next one; the last of all may have nothing in it yet.
        if left <= 1 {
            self.doubtful.extend(Doubtful::of(&file));
        }
        file.bytes.truncate(end.unwrap_or(0));
        self.engine.end_segment(place, file.bytes, left);
        Ok(end.is_some())
    }

    /// Replays the frames of a segment; where they end, if it was ever begun.
    fn frames(&mut self, file: &mut SegmentFile, place: u32, last: bool) -> Result<Option<usize>, OpenError> {
        while file.look(&self.scanner) {}
        let mut scanned = std::mem::take(&mut file.scanned).into_iter();
        let SegmentFile { id, name, bytes, header, frames, end, why, .. } = file;
        let why = why.as_deref().unwrap_or(FRAME_MISSING);
        let (epoch, first_sequence) = match header {
            Ok(header) if header.segment == *id => (header.epoch, header.first_sequence),
            // A start that was cut short leaves a last segment without a header, and nothing in it.
            _ if last && frame::find_later(bytes, 0, *id).next().is_none() => return Ok(None),
            Ok(_) => return Err(self.damaged(name, 0, "the header is another segment's")),
            Err(error) => return Err(self.damaged(name, 0, &error.to_string())),
        };
        if self.epoch == 0 {
            (self.epoch, self.freed) = (epoch, first_sequence.saturating_sub(1));
        }
        for frame in frames {
            self.frame(name, frame)?;
            let replayed = self.records(&frame.header, scanned.by_ref().take(frame.records), bytes, place);
            let wrong = replayed.err().or_else(|| frame.wrong.take());
            wrong.map_or(Ok(()), |why| Err(self.damaged(name, frame.offset, &why)))?;
        }
        // Nothing, or a frame that was never acknowledged: no later frame of this run may say it was durable.
        // What it says of what was before this segment does not count: that may have been freed.
        let before = if sim_bugs::is(Bug::FreedCountsAsMissing) { 0 } else { first_sequence.saturating_sub(1) };
        let read = self.last_sequence.max(before);
        let lost = |later: Frame<'_>| later.header.epoch == epoch && later.header.durable_through > read;
        let damaged = frame::find_later(bytes, *end, *id).any(lost);
        let damaged = damaged || (sim_bugs::is(Bug::FalseAlarm) && why != FRAME_MISSING);
        if damaged {
            return Err(self.damaged(name, *end, why));
        }
        self.end = Some((name.clone(), *end, why.to_owned()));
        Ok(Some(*end))
    }

    /// A frame, before its records: whether it follows those before it.
    fn frame(&mut self, name: &str, frame: &FramePlace) -> Result<(), OpenError> {
        let header = &frame.header;
        let read = self.last_sequence.max(self.freed);
        let follows = read + 1;
        let new_run = header.epoch > self.epoch;
        // A run's first frame says how much of the runs before it was there when it began.
        if new_run && header.durable_through > read {
            let why = format!("the journal was there up to sequence {} when this was written", header.durable_through);
            return Err(self.damaged_before(name, frame.offset, &why));
        }
        let in_order = if new_run {
            header.first_sequence >= follows
        } else {
            header.epoch == self.epoch && header.first_sequence == follows
        };
        if !in_order {
            let why = format!("it goes on at sequence {}, not at {follows}", header.first_sequence);
            return Err(self.damaged_before(name, frame.offset, &why));
        }
        self.epoch = header.epoch;
        self.mark = self.mark.max(header.now);
        Ok(())
    }

    fn records(
        &mut self,
        header: &FrameHeader,
        scanned: impl Iterator<Item = ScannedRecord>,
        bytes: &[u8],
        place: u32,
    ) -> Result<(), String> {
        for (scanned, sequence) in scanned.zip(header.first_sequence..) {
            let known = sequence <= self.topics_known && !sim_bugs::is(Bug::TotalsCountedTwice);
            let told = ReplayContext { sequence, topics_known: known, flushed: sequence <= self.flushed };
            let replayed = match scanned {
                ScannedRecord::Other(record) => self.engine.replay(*record, told),
                ScannedRecord::Job(job) => {
                    let lying = RecordLocation { chunk: place, at: job.at, length: job.length };
                    let record = JobBytes { bytes: &bytes[job.at..][..job.length], lying };
                    self.engine.replay_job(&job, record, told)
                }
            };
            replayed.map_err(|error: ReplayError| error.to_string())?;
            self.last_sequence = sequence;
        }
        Ok(())
    }

    /// Something is missing before this place, which shows it: at the start of a segment, the damage is where the one
    /// before it ended.
    fn damaged_before(&self, name: &str, offset: usize, shows: &str) -> OpenError {
        match &self.end {
            Some((end, at, why)) if offset <= frame::PAGE => {
                self.damaged(end, *at, &format!("{why}; of {name}, byte {offset}: {shows}"))
            }
            _ => self.damaged(name, offset, shows),
        }
    }

    fn damaged(&self, name: &str, offset: usize, why: &str) -> OpenError {
        let file = self.storage.describe(name);
        OpenError::Damaged { file, offset, why: why.to_owned(), after: self.last_sequence.max(self.freed) }
    }
}

/// Reads a whole file.
pub(crate) fn read(storage: &dyn Storage, name: &str) -> Result<Vec<u8>, OpenError> {
    let failed = |error| io_error(storage, name, error);
    let file = storage.open(name).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => OpenError::ReadNeed { file: storage.describe(name) },
        _ => failed(error),
    })?;
    let length = usize::try_from(file.len().map_err(failed)?).unwrap_or(usize::MAX);
    let mut bytes = vec![0; length];
    let read = file.read_at(0, &mut bytes).map_err(failed)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// What was read may not have reached the disk: a kill leaves that to the system. From now on it is built upon, so it
/// must.
fn sync(storage: &dyn Storage, segments: RangeInclusive<u64>) -> Result<(), OpenError> {
    segments.map(segment::name).try_for_each(|name| {
        let synced = storage.open(&name).and_then(|file| file.sync_data());
        synced.map_err(|error| io_error(storage, &name, error))
    })
}

pub(crate) fn io_error(storage: &dyn Storage, name: &str, error: io::Error) -> OpenError {
    OpenError::Io { place: storage.describe(name), error }
}
