//! The batch being filled: records, and where they will go.

use dwell_core::{Timestamp, Version};

use super::Origin;
use crate::format::frame::{self, FrameHeader};
use crate::format::segment;

/// What has been done and not yet written.
pub(super) struct Batch {
    /// A frame in the making: room for its header, then records.
    buffer: Vec<u8>,
    records: u32,
    /// The sequence the next record gets.
    next_sequence: u64,
    /// The last sequence given; before the first one, the last that was read back.
    logged: u64,
    /// The last sequence of the frame that is under way, if one is.
    under_way: Option<u64>,
    /// Everything up to this sequence is durable.
    durable: u64,
    epoch: u64,
    segment: u64,
    /// Where in the segment the next frame goes.
    offset: u64,
    segment_size: u64,
}

/// A frame to be written.
#[derive(Debug)]
pub(crate) struct SealedFrame {
    /// Into this segment.
    pub(crate) segment: u64,
    /// At this place.
    pub(crate) offset: u64,
    /// These bytes, whole pages.
    pub(crate) bytes: Vec<u8>,
}

impl Batch {
    pub(super) fn new(origin: Origin, segment_size: u64) -> Self {
        Self {
            buffer: frame::room(),
            records: 0,
            next_sequence: origin.sequence,
            logged: origin.durable,
            under_way: None,
            durable: origin.durable,
            epoch: origin.epoch,
            segment: origin.segment,
            offset: segment::FIRST_FRAME,
            segment_size,
        }
    }

    /// The version of whatever is logged next.
    pub(super) fn version(&self) -> Version {
        Version::new(self.next_sequence).expect("sequences are reserved below 2^53")
    }

    /// Appends one record.
    pub(super) fn log(&mut self, encode: impl FnOnce(&mut Vec<u8>)) {
        encode(&mut self.buffer);
        self.records += 1;
        self.logged = self.next_sequence;
        self.next_sequence += 1;
    }

    /// The last sequence given to a record: what an answer given now has seen.
    pub(super) fn last_sequence(&self) -> u64 {
        self.logged
    }

    /// Everything up to this sequence is durable.
    pub(super) fn durable(&self) -> u64 {
        self.durable
    }

    /// The segment that records logged now will be in, or one before it.
    pub(super) fn segment(&self) -> u64 {
        self.segment
    }

    /// Bytes that wait for the next frame.
    pub(super) fn len(&self) -> usize {
        if self.records == 0 { 0 } else { self.buffer.len() }
    }

    /// Makes a frame of what there is, unless there is nothing or one is still under way.
    pub(super) fn seal(&mut self, now: Timestamp) -> Option<SealedFrame> {
        if self.records == 0 || self.under_way.is_some() {
            return None;
        }
        let size = frame::padded(self.buffer.len());
        if self.offset + size > self.segment_size && self.offset > segment::FIRST_FRAME {
            self.segment += 1;
            self.offset = segment::FIRST_FRAME;
        }
        let mut bytes = std::mem::replace(&mut self.buffer, frame::room());
        let header = FrameHeader {
            record_count: self.records,
            segment: self.segment,
            epoch: self.epoch,
            first_sequence: self.next_sequence - u64::from(self.records),
            durable_through: self.durable,
            now: now.as_millis(),
        };
        frame::seal(&mut bytes, &header);
        let sealed = SealedFrame { segment: self.segment, offset: self.offset, bytes };
        self.offset += size;
        self.records = 0;
        self.under_way = Some(self.last_sequence());
        Some(sealed)
    }

    /// The frame under way is durable; up to which sequence everything is.
    pub(super) fn synced(&mut self) -> u64 {
        if let Some(sequence) = self.under_way.take() {
            self.durable = sequence;
        }
        self.durable
    }
}
