//! Segments: the files of the journal. A header page, then frames; the file keeps its size and is used again.
//!
//! The header is durable before the first frame is written. A file that is used again gets its new header first, then
//! its new name; a segment whose header is not its own has never had a frame.

use super::bytes::{Damage, Reader, put_u16, put_u32, put_u64};
use super::frame::PAGE;
use super::{VERSION, numbered_name, parse_numbered_name};

/// What the names of segments in use begin with; their id in 16 hexadecimal digits follows.
pub(crate) const PREFIX: &str = "journal-";
/// What the names of files begin with that wait to become segments.
pub(crate) const SPARE_PREFIX: &str = "spare-";

/// Where the first frame begins: after the header's page.
pub(crate) const FIRST_FRAME: u64 = PAGE as u64;

const MAGIC: u32 = u32::from_le_bytes(*b"DwSg");

/// The name of a segment.
pub(crate) fn name(id: u64) -> String {
    numbered_name(PREFIX, id)
}

/// The id in a name that [`name`] made.
pub(crate) fn parse_name(text: &str) -> Option<u64> {
    parse_numbered_name(PREFIX, text)
}

/// The name of a spare.
pub(crate) fn spare_name(number: u64) -> String {
    numbered_name(SPARE_PREFIX, number)
}

/// The number in a name that [`spare_name`] made.
pub(crate) fn parse_spare_name(text: &str) -> Option<u64> {
    parse_numbered_name(SPARE_PREFIX, text)
}

/// What stands at the front of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    /// Its id; ids only grow.
    pub segment: u64,
    /// The start of the store that opened it.
    pub epoch: u64,
    /// The sequence that its first frame begins with.
    pub first_sequence: u64,
}

/// Why there is no header at the front of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SegmentError {
    /// It was never written, or not to the end.
    #[error("the segment has no header")]
    ReadNeed,
    /// It is not as it was written.
    #[error("the header of the segment is damaged")]
    Damaged,
    /// It is of a later version of Dwell.
    #[error(
        "the segment has format version {found}, and this build reads up to {VERSION}; use the version of Dwell that wrote it"
    )]
    Newer {
        /// Its version.
        found: u16,
    },
}

impl SegmentHeader {
    /// The header as a page.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut page = Vec::with_capacity(PAGE);
        put_u32(&mut page, MAGIC);
        put_u16(&mut page, VERSION);
        put_u16(&mut page, 0);
        put_u64(&mut page, self.segment);
        put_u64(&mut page, self.epoch);
        put_u64(&mut page, self.first_sequence);
        let crc = crc32c::crc32c(&page);
        put_u32(&mut page, crc);
        page.resize(PAGE, 0);
        page
    }

    /// Reads the first page of a segment, or all of it.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, SegmentError> {
        if Reader::new(bytes).u32() != Ok(MAGIC) {
            return Err(SegmentError::ReadNeed);
        }
        match Self::fields(bytes) {
            Ok((VERSION, 0, header)) => Ok(header),
            Ok((found, ..)) if found > VERSION => Err(SegmentError::Newer { found }),
            _ => Err(SegmentError::Damaged),
        }
    }

    /// Version, flags and the rest, if the checksum matches.
    fn fields(bytes: &[u8]) -> Result<(u16, u16, Self), Damage> {
        let mut reader = Reader::new(bytes);
        reader.u32()?;
        let (version, flags) = (reader.u16()?, reader.u16()?);
        let header = Self { segment: reader.u64()?, epoch: reader.u64()?, first_sequence: reader.u64()? };
        let crc = crc32c::crc32c(&bytes[..reader.position()]);
        if reader.u32()? == crc { Ok((version, flags, header)) } else { Err(reader.invalid("checksum")) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_read_as_they_are_made_and_no_others() {
        assert_eq!(name(0xab), "journal-00000000000000ab");
        for id in [0, 1, 0xab, u64::MAX] {
            assert_eq!(parse_name(&name(id)), Some(id));
        }
        for other in [
            "journal-",
            "journal-ab",
            "journal-00000000000000AB",
            "journal-+0000000000000ab",
            "journal-00000000000000ab0",
            "spare-00000000000000ab",
            "manifest",
        ] {
            assert_eq!(parse_name(other), None, "{other}");
        }
    }

    #[test]
    fn the_header_has_its_golden_bytes() {
        let page = SegmentHeader { segment: 0x0102, epoch: 3, first_sequence: 9 }.encode();
        assert_eq!(page.len(), PAGE);
        assert_eq!(u64::try_from(page.len()), Ok(FIRST_FRAME));
        assert!(page[36..].iter().all(|&b| b == 0));
        assert_eq!(
            crate::format::hex(&page[..36]),
            "447753670100000002010000000000000300000000000000090000000000000067299468"
        );
    }

    #[test]
    fn a_header_says_what_is_wrong_with_it() {
        let page = SegmentHeader { segment: 1, epoch: 1, first_sequence: 1 }.encode();
        assert_eq!(SegmentHeader::decode(&[]), Err(SegmentError::ReadNeed));
        assert_eq!(SegmentHeader::decode(&[0; PAGE]), Err(SegmentError::ReadNeed));
        assert_eq!(SegmentHeader::decode(&page[..35]), Err(SegmentError::Damaged));
        let sealed = |version: u16, flags: u16| {
            let mut page = page.clone();
            page[4..6].copy_from_slice(&version.to_le_bytes());
            page[6..8].copy_from_slice(&flags.to_le_bytes());
            let crc = crc32c::crc32c(&page[..32]);
            page[32..36].copy_from_slice(&crc.to_le_bytes());
            SegmentHeader::decode(&page)
        };
        assert_eq!(sealed(VERSION + 1, 9), Err(SegmentError::Newer { found: VERSION + 1 }));
        assert_eq!(sealed(0, 0), Err(SegmentError::Damaged));
        assert_eq!(sealed(VERSION, 1), Err(SegmentError::Damaged));
        assert_eq!(sealed(VERSION, 0), Ok(SegmentHeader { segment: 1, epoch: 1, first_sequence: 1 }));
    }

    proptest! {
        #[test]
        fn headers_read_back_and_no_flipped_bit_goes_unseen(segment: u64, epoch: u64, first_sequence: u64, bit in 0..36_usize * 8) {
            let header = SegmentHeader { segment, epoch, first_sequence };
            let mut page = header.encode();
            prop_assert_eq!(SegmentHeader::decode(&page), Ok(header));
            page[bit / 8] ^= 1_u8 << (bit % 8);
            prop_assert!(SegmentHeader::decode(&page).is_err());
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let mut with_magic = MAGIC.to_le_bytes().to_vec();
            with_magic.extend_from_slice(&bytes);
            prop_assert!(SegmentHeader::decode(&bytes).is_err());
            prop_assert!(SegmentHeader::decode(&with_magic).is_err());
        }
    }
}
