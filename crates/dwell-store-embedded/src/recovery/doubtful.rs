//! What of the journal a start has read and may be nowhere but in memory.

use super::read_ahead::SegmentFile;
use super::{OpenError, io_error};
use crate::format::frame;
use crate::storage::Storage;

/// A part of the journal's end that no later frame vouches for.
///
/// A sync that failed has failed the store, and the system may since show what never reached the disk and count it as
/// written: a sync alone would not write it any more. So it is written again.
pub(super) struct Doubtful {
    name: String,
    offset: usize,
    bytes: Vec<u8>,
}

impl Doubtful {
    pub(super) fn of(file: &SegmentFile) -> Vec<Self> {
        let part = |from: usize, to: usize| {
            // The file may end within the padding of its last frame.
            let bytes = file.bytes[from..to.min(file.bytes.len())].to_vec();
            Self { name: file.name.clone(), offset: from, bytes }
        };
        let header = file.header.is_ok().then(|| part(0, frame::PAGE));
        let vouched_for = file.frames.last().map_or(0, |frame| frame.header.durable_through);
        let first = file.frames.iter().find(|frame| frame.header.first_sequence > vouched_for);
        header.into_iter().chain(first.map(|first| part(first.offset, file.end))).collect()
    }

    pub(super) fn write_again(&self, storage: &dyn Storage) -> Result<(), OpenError> {
        let offset = u64::try_from(self.offset).unwrap_or(u64::MAX);
        let written = storage.open(&self.name).and_then(|file| file.write_at(offset, &self.bytes));
        written.map_err(|error| io_error(storage, &self.name, error))
    }
}
