//! Read-ahead of segments during a start: what can be checked of each segment by itself.
//!
//! Two threads share the work: one reads segments, the other replays them. Checking frames and scanning records is done by
//! whichever thread has time: the reader scans frame after frame until the replay waits for it. The result is the same
//! wherever it is done.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};

use dwell_core::TopicName;

use super::{OpenError, read};
use crate::engine::{IdHash, ScannedJob};
use crate::format::bytes::Reader;
use crate::format::frame::{self, Frame, FrameHeader, ReadFrame};
use crate::format::record::{self, Record, RecordHeader, Seen};
use crate::format::segment::{self, SegmentError, SegmentHeader};
use crate::storage::Storage;

/// Why frames end where nothing was written.
pub(super) const FRAME_MISSING: &str = "a frame is missing";

/// Reads segments one after the other, up to the first that cannot be read.
pub(super) struct Ahead<'a> {
    pub(super) storage: &'a dyn Storage,
    pub(super) ids: &'a [u64],
    pub(super) scanner: RecordScanner,
    /// Whether the replay waits for the next segment.
    pub(super) awaited: &'a AtomicBool,
}

impl Ahead<'_> {
    /// All of them are read even if nobody wants them any more, so that the same is read in any case.
    pub(super) fn run(self, to: &SyncSender<Result<SegmentFile, OpenError>>) {
        for id in self.ids {
            let mut file = SegmentFile::read(self.storage, *id);
            let failed = file.is_err();
            if let Ok(file) = &mut file {
                while !self.awaited.load(Ordering::Relaxed) && file.look(&self.scanner) {}
            }
            drop(to.send(file));
            if failed {
                return;
            }
        }
    }
}

/// The next segment.
pub(super) fn next(
    from: &Receiver<Result<SegmentFile, OpenError>>,
    awaited: &AtomicBool,
) -> Option<Result<SegmentFile, OpenError>> {
    awaited.store(true, Ordering::Relaxed);
    let file = from.recv().ok();
    awaited.store(false, Ordering::Relaxed);
    file
}

/// A segment as it was read: everything that can be said of it alone.
pub(super) struct SegmentFile {
    pub(super) id: u64,
    pub(super) name: String,
    pub(super) bytes: Vec<u8>,
    pub(super) header: Result<SegmentHeader, SegmentError>,
    /// Its frames that were looked at, from the first one on, as far as they are whole and of its run.
    pub(super) frames: Vec<FramePlace>,
    /// The records of these frames.
    pub(super) scanned: Vec<ScannedRecord>,
    /// Where the frames end.
    pub(super) end: usize,
    /// Why they do, once all of them were looked at.
    pub(super) why: Option<String>,
}

/// A frame whose checksum matches, without its bytes.
pub(super) struct FramePlace {
    pub(super) header: FrameHeader,
    pub(super) offset: usize,
    /// How many records were seen.
    pub(super) records: usize,
    /// What is wrong after them.
    pub(super) wrong: Option<String>,
}

/// A record that was looked at.
pub(super) enum ScannedRecord {
    /// A job's.
    Job(ScannedJob),
    /// Any other. The topic of a remembered job is known by its id alone.
    Other(Box<Record>),
}

impl SegmentFile {
    fn read(storage: &dyn Storage, id: u64) -> Result<Self, OpenError> {
        let name = segment::name(id);
        let bytes = read(storage, &name)?;
        let header = SegmentHeader::decode(&bytes);
        let why = header.is_err().then(|| FRAME_MISSING.to_owned());
        Ok(Self { id, name, bytes, header, frames: Vec::new(), scanned: Vec::new(), end: frame::PAGE, why })
    }

    /// Looks at the next frame and its records. False if there is none.
    pub(super) fn look(&mut self, scanner: &RecordScanner) -> bool {
        let (Ok(SegmentHeader { epoch, .. }), None) = (&self.header, &self.why) else { return false };
        match frame::read_frame(&self.bytes, self.end, self.id) {
            ReadFrame::Frame(frame) if frame.header.epoch == *epoch => {
                let before = self.scanned.len();
                let wrong = scanner.look(&frame, &mut self.scanned).err();
                let Frame { header, offset, next_offset, .. } = frame;
                self.frames.push(FramePlace { header, offset, records: self.scanned.len() - before, wrong });
                self.end = next_offset;
            }
            ReadFrame::Frame(_) | ReadFrame::Nothing => self.why = Some(FRAME_MISSING.to_owned()),
            ReadFrame::Damaged { why, .. } => self.why = Some(why.to_string()),
        }
        self.why.is_none()
    }
}

/// What it takes to look at records.
#[derive(Clone)]
pub(super) struct RecordScanner {
    hash: IdHash,
    /// What topics are called: their names are known where records are replayed.
    nowhere: TopicName,
}

impl RecordScanner {
    pub(super) fn new(hash: IdHash) -> Self {
        Self { hash, nowhere: TopicName::new("$").expect("a good name") }
    }

    /// Looks at all records of a frame; what is wrong with it after those that were added.
    fn look(&self, frame: &Frame<'_>, scanned: &mut Vec<ScannedRecord>) -> Result<(), String> {
        let mut reader = Reader::new(frame.payload);
        let records = usize::try_from(frame.header.record_count).unwrap_or(usize::MAX);
        // A record has two bytes at least; what the header says is not believed beyond that.
        scanned.reserve(records.min(frame.payload.len() / 2));
        for _ in 0..records {
            let begin = reader.position();
            let seen =
                record::see(&mut reader, &|_| Some(self.nowhere.clone())).map_err(|damage| damage.to_string())?;
            scanned.push(match seen {
                Seen::Other(record) => ScannedRecord::Other(record),
                Seen::Job(RecordHeader { topic, cause, id, body, meta, .. }) => {
                    let (id_hash, length) = (self.hash.of(topic, id), reader.position() - begin);
                    let at = frame.offset + frame::HEADER + begin;
                    ScannedRecord::Job(ScannedJob { topic, cause, body, meta, id_hash, at, length })
                }
            });
        }
        if reader.is_empty() { Ok(()) } else { Err("there is more in it than it says".to_owned()) }
    }
}
