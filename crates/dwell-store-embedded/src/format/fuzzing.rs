//! The door through which a fuzzer reaches the decoders. Not part of the interface of this crate.

use dwell_core::TopicName;

use super::bloom_filter::Filter;
use super::bytes::Reader;
use super::frame::{self, FrameHeader, ReadFrame};
use super::manifest::Manifest;
use super::record::{self, Record, TopicId};
use super::run::{self, Run};
use super::segment::SegmentHeader;
use super::{table, tombstone_file, topics};
use crate::storage::{MemoryStorage, Storage as _};

/// Takes `bytes` for each kind of file and record in turn.
///
/// # Panics
///
/// If a decoder panics, or if what it reads does not come out the same once it is written and read again.
pub fn decode_any(bytes: &[u8]) {
    if let Ok(manifest) = Manifest::decode(bytes) {
        assert_eq!(Manifest::decode(&manifest.encode()), Ok(manifest));
    }
    if let Ok(header) = SegmentHeader::decode(bytes) {
        assert_eq!(SegmentHeader::decode(&header.encode()), Ok(header));
    }
    let _ = topics::decode(bytes, 0);
    decode_segment(bytes);
    decode_records(bytes);
    decode_cold(bytes);
    wrap_in_frame(bytes);
}

/// Reads `bytes` as a run, as each of its parts, and as the set of its dead jobs.
fn decode_cold(bytes: &[u8]) {
    let _ = table::decode_page(bytes);
    let _ = table::decode_fences(&mut Reader::new(bytes));
    let _ = Filter::decode(&mut Reader::new(bytes));
    let number = bytes.get(8..).and_then(<[u8]>::first_chunk).map_or(0, |id| u64::from_le_bytes(*id));
    let _ = tombstone_file::decode(&mut bytes.to_vec(), number, 0);
    let first: u32 = run::blocks_in_a_row(bytes).iter().map(|block| u32::try_from(block.len()).unwrap_or(0)).sum();
    let storage = MemoryStorage::default();
    let written = storage.create(&run::name(number)).and_then(|file| file.write_at(0, bytes));
    written.expect("memory takes it");
    let Ok(run) = Run::open(&storage, number) else { return };
    for at in 0..run.index.len() {
        let _ = run.block(at).map(|block| block.entries().count());
    }
    let _ = (run.find_id(first.into()), run.find_number(first.into()));
}

/// Reads `bytes` as a segment whose id is that of its first frame.
fn decode_segment(bytes: &[u8]) {
    let id = bytes.get(24..).and_then(<[u8]>::first_chunk).map_or(0, |id| u64::from_le_bytes(*id));
    let _ = frame::read_frame(bytes, 0, id);
    let _ = frame::read_frame(bytes, usize::MAX, id);
    for found in frame::find_later(bytes, 0, id) {
        assert!(found.next_offset > found.offset);
        decode_records(found.payload);
    }
}

/// Reads `bytes` as records, up to the first that is none.
fn decode_records(bytes: &[u8]) {
    let name = TopicName::new("topic").expect("a good name");
    let topics = |id: TopicId| (id.0 != u32::MAX).then(|| name.clone());
    let mut reader = Reader::new(bytes);
    while !reader.is_empty() {
        let before = reader.position();
        let mut looking = reader.clone();
        let seen = record::see(&mut looking, &topics).is_ok();
        let read = record::decode(&mut reader, &topics);
        // The one difference: a look does not ask for the topic of a job.
        assert!(seen || read.is_err());
        let Ok(record) = read else { break };
        assert!(reader.position() > before && reader.position() == looking.position());
        let mut again = Vec::new();
        encode(&mut again, &record);
        assert_eq!(record::decode(&mut Reader::new(&again), &topics), Ok(record));
    }
}

/// Makes a frame of `bytes` and reads it back.
fn wrap_in_frame(bytes: &[u8]) {
    let header = FrameHeader { segment: 7, epoch: 1, first_sequence: 1, record_count: 1, durable_through: 0, now: 5 };
    let mut buffer = frame::room();
    buffer.extend_from_slice(bytes);
    frame::seal(&mut buffer, &header);
    let ReadFrame::Frame(found) = frame::read_frame(&buffer, 0, 7) else { panic!("a sealed frame reads back") };
    assert_eq!((found.header, found.payload, found.next_offset), (header, bytes, buffer.len()));
}

pub(super) fn encode(out: &mut Vec<u8>, record: &Record) {
    match record {
        Record::Job(r) => record::encode_job(out, r.topic, r.cause, &r.job, r.body),
        Record::Gone(r) => record::encode_gone(out, r),
        Record::Done(r) => record::encode_done(out, r.topic, &r.done),
        Record::Topic(r) => record::encode_topic(out, r.id, &r.name, &r.policy, r.pause, &r.totals, r.forgotten),
        Record::TopicGone(id) => record::encode_topic_gone(out, *id),
        Record::Tombstone(stale) => record::encode_tombstone(out, stale),
    }
}
