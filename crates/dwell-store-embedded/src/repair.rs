//! Repair: from what is left of a damaged store, a store that opens.
//!
//! Nothing of the old one is changed. Everything of it that can be read is written anew somewhere else, and whatever
//! cannot is listed. This reads files by itself and believes nothing: neither that the manifest is there, nor that
//! records follow one another. What a lost record would have ended (an ack, a cancellation) goes on: a job may then be
//! handed out once more, and none that can be read is lost.

mod cold;
mod journal;

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use dwell_core::{Timestamp, TopicName};

pub(crate) use self::cold::fill_lanes;
use self::journal::{Kept, Salvaged};
use crate::format::frame::{self, FrameHeader};
use crate::format::manifest::{self, CleanStop, Manifest};
use crate::format::record::{self, TopicId, TopicRecord};
use crate::format::segment::{self, SegmentHeader};
use crate::format::topics::{self, Topics};
use crate::recovery::OpenError;
use crate::storage::{DiskStorage, Storage};

/// Bytes of records in a frame that is written anew, and of frames in a segment.
const FRAME_BYTES: usize = 4 << 20;
const SEGMENT_BYTES: u64 = 16 << 20;

/// How to repair.
#[derive(Clone, Copy, Debug, Default)]
pub struct RepairOptions {
    /// Forget what time the store has seen: for one whose clock once was far ahead.
    pub reset_clock: bool,
}

/// What a repair has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repair {
    /// Jobs that were kept.
    pub jobs: u64,
    /// Topics that were kept.
    pub topics: u64,
    /// What could not be read.
    pub dropped: Vec<Dropped>,
}

/// Something that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// The file it was in.
    pub file: String,
    /// What and where.
    pub what: String,
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file, self.what)
    }
}

/// Where the old store was put, and what was found.
#[derive(Clone, Debug)]
pub struct Repaired {
    /// What was found.
    pub found: Repair,
    /// Where the old files are now; none if there was nothing to repair.
    pub old: Option<PathBuf>,
}

/// Why a directory could not be repaired. It is as it was.
#[derive(Debug, thiserror::Error)]
pub enum RepairError {
    /// The directory cannot be taken, or holds no store.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// There is nothing like a store in it.
    #[error("{} holds no store", dir.display())]
    NoStore {
        /// Which.
        dir: PathBuf,
    },
    /// Something is in the way.
    #[error("{} is in the way; move it elsewhere first", path.display())]
    InTheWay {
        /// What.
        path: PathBuf,
    },
    /// What was kept could not be written.
    #[error("{}: {error}", path.display())]
    Io {
        /// Where.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

/// Repairs the store in a directory: what can be read of it is in its place afterwards, and the old files are beside it,
/// in a directory whose name ends with `.damaged`. A store in which everything can be read is left alone.
pub fn repair_directory(dir: &Path, options: RepairOptions) -> Result<Repaired, RepairError> {
    let beside = |ending: &str| {
        let mut name = dir.as_os_str().to_owned();
        name.push(ending);
        PathBuf::from(name)
    };
    let (new, old) = (beside(".repaired"), beside(".damaged"));
    let io = |path: &Path| {
        let path = path.to_owned();
        move |error| RepairError::Io { path, error }
    };
    if !dir.is_dir() {
        return Err(RepairError::NoStore { dir: dir.to_owned() });
    }
    let from = DiskStorage::open(dir).map_err(OpenError::from)?;
    if !is_store(&from).map_err(io(dir))? {
        return Err(RepairError::NoStore { dir: dir.to_owned() });
    }
    for path in [&new, &old] {
        if path.exists() {
            return Err(RepairError::InTheWay { path: path.clone() });
        }
    }
    let to = DiskStorage::open(&new).map_err(OpenError::from)?;
    let repaired = repair(&from, &to, options).map_err(io(&new));
    drop(to);
    let found = match repaired {
        Ok(found) if !found.dropped.is_empty() || options.reset_clock => found,
        other => {
            fs::remove_dir_all(&new).map_err(io(&new))?;
            return other.map(|found| Repaired { found, old: None });
        }
    };
    fs::rename(dir, &old).map_err(io(&old))?;
    fs::rename(&new, dir).map_err(io(dir))?;
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::File::open(parent).and_then(|parent| parent.sync_all()).map_err(io(parent))?;
    Ok(Repaired { found, old: Some(old) })
}

fn is_store(storage: &dyn Storage) -> io::Result<bool> {
    let ours = |name: &String| name == manifest::NAME || name.starts_with(segment::PREFIX);
    Ok(storage.list()?.iter().any(ours))
}

/// Writes everything that can be read of one store into another place, which is empty.
pub fn repair(from: &dyn Storage, to: &dyn Storage, options: RepairOptions) -> io::Result<Repair> {
    let mut found = Repair::default();
    let names = from.list()?;
    let manifest = load_manifest(from, &mut found);
    let known = load_topics(from, &names, manifest.as_ref(), &mut found);
    let mut journal = Salvaged::read(from, &names, manifest.as_ref(), known, &mut found);
    let cold = cold::salvage(from, to, &names, manifest.as_ref(), &mut journal, &mut found)?;

    let Salvaged { topics, jobs, done, last_sequence, mark, .. } = journal;
    let base = manifest.as_ref().map_or(0, |manifest| manifest.sequence_reserved).max(last_sequence) + 1;
    let mark = if options.reset_clock { 0 } else { mark };
    let mut writer = Writer::new(to, &journal_place(manifest.as_ref(), &names), base, mark)?;
    for job in jobs.values().filter_map(Kept::record) {
        writer.add(|out| record::encode_job_again(out, &job))?;
        found.jobs += 1;
    }
    for (topic, done) in done.values() {
        writer.add(|out| record::encode_done(out, *topic, done))?;
    }
    found.jobs += cold.jobs;
    found.topics = topics.len() as u64;
    let file = topics_file(&topics, &cold.summary, base);
    write(to, &topics::name(base), &file)?;
    let place = writer.finish()?;
    let number = jobs.keys().copied().chain([cold.last_number]).max().unwrap_or(0) + 1;
    let topic = topics.keys().map(|id| id.0 + 1).max().unwrap_or(1);
    to.sync_dir()?;
    let repaired = Manifest {
        epoch: place.epoch,
        first_segment: place.first_segment,
        next_segment: place.segment + 1,
        sequence_reserved: place.next_sequence,
        number_reserved: manifest.as_ref().map_or(1, |manifest| manifest.number_reserved).max(number),
        topic_ids_reserved: manifest.as_ref().map_or(1, |manifest| manifest.topic_ids_reserved).max(topic),
        mark,
        topics: Some(base),
        clean: Some(CleanStop { last_sequence: place.next_sequence - 1 }),
        flushed: base,
        runs: cold.runs,
        bad: Vec::new(),
    };
    manifest::store(to, &repaired)?;
    Ok(found)
}

fn load_manifest(from: &dyn Storage, found: &mut Repair) -> Option<Manifest> {
    match manifest::load(from) {
        Ok(Some(manifest)) => Some(manifest),
        Ok(None) => {
            found.note(from, manifest::NAME, "is missing; whatever files there are were read instead");
            None
        }
        Err(error) => {
            let what = format!("cannot be read ({error}); whatever files there are were read instead");
            found.note(from, manifest::NAME, what);
            None
        }
    }
}

/// The topics as they were when the oldest segments were freed, and as of which sequence.
fn load_topics(from: &dyn Storage, names: &[String], manifest: Option<&Manifest>, found: &mut Repair) -> (Topics, u64) {
    let mut stamps: Vec<u64> = match manifest {
        Some(manifest) => manifest.topics.into_iter().collect(),
        None => names.iter().filter_map(|name| topics::parse_name(name)).collect(),
    };
    stamps.sort_unstable();
    for stamp in stamps.into_iter().rev() {
        match topics::load(from, stamp) {
            Ok(topics) => return (topics, stamp),
            Err(error) => {
                let what =
                    format!("cannot be read ({error}); topics that no later record names are called recovered-…");
                found.note(from, &topics::name(stamp), what);
            }
        }
    }
    (Topics::default(), 0)
}

impl Repair {
    fn note(&mut self, from: &dyn Storage, file: &str, what: impl Into<String>) {
        self.dropped.push(Dropped { file: from.describe(file), what: what.into() });
    }
}

/// A topic of which nothing but its jobs is known.
fn nameless(id: TopicId) -> TopicRecord {
    let name = TopicName::new(&format!("recovered-{}", id.0)).expect("a good name");
    let (policy, pause, totals) = Default::default();
    TopicRecord { id, name, policy, pause, totals, forgotten: 0 }
}

fn topics_file(
    topics: &std::collections::BTreeMap<TopicId, TopicRecord>,
    summary: &topics::ColdSummary,
    stamp: u64,
) -> Vec<u8> {
    let mut file = topics::room();
    for TopicRecord { id, name, policy, pause, totals, forgotten } in topics.values() {
        record::encode_topic(&mut file, *id, name, policy, *pause, totals, *forgotten);
    }
    summary.encode(&mut file);
    topics::seal(&mut file, stamp, u32::try_from(topics.len()).expect("fewer than 2^32 topics"));
    file
}

fn write(to: &dyn Storage, name: &str, bytes: &[u8]) -> io::Result<()> {
    let file = to.create(name)?;
    file.write_at(0, bytes)?;
    file.sync_data()
}

/// Where the new journal begins: after everything there was.
fn journal_place(manifest: Option<&Manifest>, names: &[String]) -> (u64, u64) {
    let last = names.iter().filter_map(|name| segment::parse_name(name)).max().unwrap_or(0);
    let next = manifest.map_or(0, |manifest| manifest.next_segment);
    let epoch = manifest.map_or(0, |manifest| manifest.epoch);
    ((last + 1).max(next), ((epoch >> 32) + 1) << 32)
}

/// Writes records as a journal.
struct Writer<'a> {
    to: &'a dyn Storage,
    epoch: u64,
    first_segment: u64,
    segment: u64,
    mark: u64,
    /// The next frame, and how many records it has.
    frame: Vec<u8>,
    records: u32,
    first_sequence: u64,
    /// Where it goes.
    offset: u64,
    file: std::sync::Arc<dyn crate::storage::StoredFile>,
}

struct Written {
    epoch: u64,
    first_segment: u64,
    segment: u64,
    next_sequence: u64,
}

impl<'a> Writer<'a> {
    /// Begins after this sequence.
    fn new(to: &'a dyn Storage, (segment, epoch): &(u64, u64), after: u64, mark: u64) -> io::Result<Self> {
        let (segment, epoch) = (*segment, *epoch);
        let file = begin(to, segment, epoch, after + 1)?;
        let (frame, offset) = (frame::room(), segment::FIRST_FRAME);
        let first_sequence = after + 1;
        Ok(Self { to, epoch, first_segment: segment, segment, mark, frame, records: 0, first_sequence, offset, file })
    }

    fn add(&mut self, encode: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        encode(&mut self.frame);
        self.records += 1;
        if self.frame.len() >= FRAME_BYTES { self.end_frame() } else { Ok(()) }
    }

    fn end_frame(&mut self) -> io::Result<()> {
        if self.records == 0 {
            return Ok(());
        }
        if self.offset >= SEGMENT_BYTES {
            self.file.sync_data()?;
            self.segment += 1;
            self.file = begin(self.to, self.segment, self.epoch, self.first_sequence)?;
            self.offset = segment::FIRST_FRAME;
        }
        let header = FrameHeader {
            segment: self.segment,
            epoch: self.epoch,
            first_sequence: self.first_sequence,
            record_count: self.records,
            durable_through: self.first_sequence - 1,
            now: self.mark,
        };
        let mut bytes = std::mem::replace(&mut self.frame, frame::room());
        frame::seal(&mut bytes, &header);
        self.file.write_at(self.offset, &bytes)?;
        self.offset += bytes.len() as u64;
        self.first_sequence += u64::from(std::mem::take(&mut self.records));
        Ok(())
    }

    fn finish(mut self) -> io::Result<Written> {
        self.end_frame()?;
        self.file.sync_data()?;
        let Self { epoch, first_segment, segment, first_sequence: next_sequence, .. } = self;
        Ok(Written { epoch, first_segment, segment, next_sequence })
    }
}

fn begin(
    to: &dyn Storage,
    segment: u64,
    epoch: u64,
    first_sequence: u64,
) -> io::Result<std::sync::Arc<dyn crate::storage::StoredFile>> {
    let file = to.create(&segment::name(segment))?;
    file.write_at(0, &SegmentHeader { segment, epoch, first_sequence }.encode())?;
    Ok(file)
}

/// The latest of two marks that makes sense.
fn later(mark: u64, other: u64) -> u64 {
    if Timestamp::from_millis(other).is_ok() { mark.max(other) } else { mark }
}
