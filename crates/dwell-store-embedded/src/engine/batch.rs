//! The batch being filled: records, and where they will go.

use std::collections::VecDeque;

use dwell_core::{Timestamp, Version};

use super::Origin;
use crate::format::frame::{self, FrameHeader};
use crate::format::key::Tombstone;
use crate::format::record;
use crate::format::segment;

/// Bytes at which a frame in the making is full and the next one begins.
const FRAME_BYTES: usize = 8 << 20;

/// Bytes a frame in the making gets room for at the most before it has records.
const MAX_PREALLOCATED: usize = 1 << 20;

/// What has been done and not yet written.
pub(super) struct Batch {
    /// Frames that are full and wait for their turn.
    full: VecDeque<Making>,
    /// The one being filled.
    making: Making,
    /// The record that is logged next stays in one frame with the one after it.
    joined: bool,
    bytes: usize,
    /// The sequence the next record gets.
    next_sequence: u64,
    /// The last sequence given; before the first one, the last that was there.
    logged: u64,
    /// The last sequence that is in the journal, or will be.
    last_in_journal: u64,
    /// The last sequence of the frame that is under way, if one is.
    under_way: Option<u64>,
    /// Everything up to this sequence is durable.
    durable: u64,
    /// Everything up to this sequence was synced: what a power cut leaves.
    synced: u64,
    epoch: u64,
    segment: u64,
    /// Where in the segment the next frame goes.
    offset: u64,
    segment_size: u64,
    /// The first sequence of each segment that is needed, in order.
    starts: VecDeque<(u64, u64)>,
}

/// A frame in the making: room for its header, then records.
struct Making {
    buffer: Vec<u8>,
    records: u32,
    first_sequence: u64,
}

impl Making {
    fn from(first_sequence: u64, room: usize) -> Self {
        let mut buffer = frame::room();
        buffer.reserve(room);
        Self { buffer, records: 0, first_sequence }
    }
}

/// A frame to be written. Whoever writes it seals it: the checksum of a large one takes a while.
#[derive(Debug)]
pub(crate) struct BatchFrame {
    /// What it says of itself: where it goes, too.
    pub(crate) header: FrameHeader,
    /// At this place of its segment.
    pub(crate) offset: u64,
    /// Room for the header, and records.
    pub(crate) buffer: Vec<u8>,
    pub(crate) is_sealed: bool,
}

impl Batch {
    pub(super) fn new(origin: Origin, segment_size: u64) -> Self {
        Self {
            full: VecDeque::new(),
            making: Making::from(origin.sequence, 0),
            joined: false,
            bytes: 0,
            next_sequence: origin.sequence,
            logged: origin.durable,
            last_in_journal: origin.read,
            under_way: None,
            durable: origin.durable,
            synced: origin.durable,
            epoch: origin.epoch,
            segment: origin.segment,
            offset: segment::FIRST_FRAME,
            segment_size,
            starts: VecDeque::from([(origin.segment, origin.sequence)]),
        }
    }

    /// A segment of an earlier run begins with this sequence, and comes before those that are known.
    pub(super) fn began_before(&mut self, earlier: impl Iterator<Item = (u64, u64)>) {
        let now = std::mem::take(&mut self.starts);
        // One that was never begun is begun again.
        let earlier = earlier.filter(|(segment, _)| *segment < self.segment);
        self.starts = earlier.chain(now).collect();
    }

    /// The first sequence of a segment: what comes before it is in earlier ones.
    pub(super) fn first_sequence(&self, segment: u64) -> u64 {
        let start = self.starts.iter().find(|(of, _)| *of >= segment);
        start.map_or(self.making.first_sequence, |(_, sequence)| *sequence)
    }

    /// Segments before this one are not needed any more.
    pub(super) fn forget_before(&mut self, segment: u64) {
        while self.starts.front().is_some_and(|(of, _)| *of < segment) {
            self.starts.pop_front();
        }
    }

    /// The version of whatever is logged next.
    pub(super) fn version(&self) -> Version {
        Version::new(self.next_sequence).expect("sequences are reserved below 2^53")
    }

    /// The record that is logged next and the one after it are true together: they are in one frame.
    pub(super) fn join_next(&mut self) {
        self.joined = true;
    }

    /// Appends one record; its bytes.
    pub(super) fn log(&mut self, encode: impl FnOnce(&mut Vec<u8>)) -> &[u8] {
        let before = self.making.buffer.len();
        encode(&mut self.making.buffer);
        self.bytes += self.making.buffer.len() - before;
        self.making.records += 1;
        self.logged = self.next_sequence;
        self.last_in_journal = self.next_sequence;
        self.next_sequence += 1;
        let is_joined = std::mem::take(&mut self.joined);
        if self.making.buffer.len() >= FRAME_BYTES && !is_joined {
            let next = Making::from(self.next_sequence, MAX_PREALLOCATED);
            self.full.push_back(std::mem::replace(&mut self.making, next));
            return self.full.back().map_or(&[], |full| &full.buffer[before..]);
        }
        &self.making.buffer[before..]
    }

    /// Appends a record, and if there is a copy in the cold tier that it makes stale, another one that says so: both are in
    /// one frame.
    pub(super) fn log_over(&mut self, stale: Option<Tombstone>, encode: impl FnOnce(&mut Vec<u8>)) {
        let Some(stale) = stale else {
            self.log(encode);
            return;
        };
        self.log(|out| {
            encode(out);
            record::encode_tombstone(out, &stale);
        });
        // That was two of them; the frame may be full by now.
        let frame = self.full.back_mut().filter(|_| self.making.records == 0).unwrap_or(&mut self.making);
        frame.records += 1;
        self.logged = self.next_sequence;
        self.last_in_journal = self.next_sequence;
        self.next_sequence += 1;
        if self.making.records == 0 {
            self.making.first_sequence = self.next_sequence;
        }
    }

    pub(super) fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// The last sequence given to a record: what an answer given now has seen.
    pub(super) fn last_sequence(&self) -> u64 {
        self.logged
    }

    /// The last sequence that is in the journal, once everything is written.
    pub(super) fn last_in_journal(&self) -> u64 {
        self.last_in_journal
    }

    /// Everything up to this sequence is durable.
    pub(super) fn durable(&self) -> u64 {
        self.durable
    }

    /// The segment that records logged now will be in, or one before it.
    pub(super) fn segment(&self) -> u64 {
        self.segment
    }

    /// Whether there is a frame in the segment.
    pub(super) fn has_begun_segment(&self) -> bool {
        self.offset > segment::FIRST_FRAME
    }

    /// How many segments will have to be begun for what is to be written, or is being written, after this one.
    pub(super) fn segments_after(&self, begun: u64) -> usize {
        let size = self.offset + frame::padded(self.bytes + frame::HEADER);
        // Frames are not cut where a segment ends: one that is begun may end well before its size.
        let more = if size > self.segment_size { 1 + self.bytes as u64 / (self.segment_size / 2).max(1) } else { 0 };
        usize::try_from(self.segment.saturating_sub(begun) + more).unwrap_or(usize::MAX)
    }

    /// Whether nothing waits to be written, and nothing is being written.
    pub(super) fn is_idle(&self) -> bool {
        self.bytes == 0 && self.under_way.is_none()
    }

    /// Bytes of records that wait to be written.
    pub(super) fn len(&self) -> usize {
        self.bytes
    }

    /// Takes what has waited longest as a frame, unless there is nothing or one is still under way.
    pub(super) fn take(&mut self, now: Timestamp) -> Option<BatchFrame> {
        if self.bytes == 0 || self.under_way.is_some() {
            return None;
        }
        let made = self.full.pop_front().unwrap_or_else(|| {
            // The next one is often as large as this one.
            let next = Making::from(self.next_sequence, self.making.buffer.len().min(MAX_PREALLOCATED));
            std::mem::replace(&mut self.making, next)
        });
        let Making { buffer, records, first_sequence } = made;
        self.bytes -= buffer.len() - frame::HEADER;
        let size = frame::padded(buffer.len());
        if self.offset + size > self.segment_size && self.offset > segment::FIRST_FRAME {
            self.segment += 1;
            self.offset = segment::FIRST_FRAME;
            self.starts.push_back((self.segment, first_sequence));
        }
        let header = FrameHeader {
            record_count: records,
            segment: self.segment,
            epoch: self.epoch,
            first_sequence,
            durable_through: self.synced,
            now: now.as_millis(),
        };
        let frame = BatchFrame { header, offset: self.offset, buffer, is_sealed: false };
        self.offset += size;
        self.under_way = Some(first_sequence + u64::from(records) - 1);
        Some(frame)
    }

    /// The frame under way is durable; up to which sequence everything is.
    pub(super) fn synced(&mut self, on_disk: bool) -> u64 {
        if let Some(sequence) = self.under_way.take() {
            self.durable = sequence;
            if on_disk {
                self.synced = sequence;
            }
        }
        self.durable
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_that_is_full_is_followed_by_another() {
        let origin = Origin { epoch: 1, segment: 1, durable: 0, read: 0, sequence: 1, number: 1, topic: 1 };
        let mut batch = Batch::new(origin, 1 << 30);
        for _ in 0..5 {
            batch.log(|out| out.resize(out.len() + FRAME_BYTES / 2, 7));
        }
        assert_eq!(batch.len(), FRAME_BYTES / 2 * 5);
        let mut synced = Vec::new();
        while let Some(frame) = batch.take(Timestamp::EPOCH) {
            assert!(frame.buffer.len() < 2 * FRAME_BYTES);
            assert!(batch.take(Timestamp::EPOCH).is_none(), "one at a time");
            synced.push(batch.synced(true));
        }
        assert_eq!((synced, batch.len()), (vec![2, 4, 5], 0));
    }

    #[test]
    fn records_that_are_true_together_are_in_one_frame() {
        let origin = Origin { epoch: 1, segment: 1, durable: 0, read: 0, sequence: 1, number: 1, topic: 1 };
        let mut batch = Batch::new(origin, 1 << 30);
        batch.log(|out| out.resize(FRAME_BYTES - 1, 7));
        batch.join_next();
        batch.log(|out| out.push(7));
        batch.log(|out| out.push(7));
        batch.log(|out| out.push(7));
        let mut synced = Vec::new();
        while batch.take(Timestamp::EPOCH).is_some() {
            synced.push(batch.synced(true));
        }
        assert_eq!(synced, [3, 4], "the first is full with the second, and stays open for the third");
    }
}
