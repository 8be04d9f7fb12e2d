//! Tables in runs: from numbers of eight bytes, sorted, to the ordinals of jobs. A number may be there more than once.
//!
//! ```text
//! page: crc u32 │ entries u16 │ 0 u16 │ (number u64, ordinal u32) …, filled up with zeros to 4 KiB
//! ```
//!
//! The first number of each page is kept in memory, so that a look-up reads one page.

use super::bytes::{Damage, Reader, put_u16, put_u32, put_u64};
use super::run::RunError;
use crate::storage::StoredFile;

pub(crate) const PAGE: usize = 4_096;
const HEADER: usize = 8;
const ENTRY: usize = 12;
/// Entries of a full page.
pub(crate) const ENTRIES: usize = (PAGE - HEADER) / ENTRY;

/// Makes pages of entries that come in order.
pub(crate) struct TablePages {
    page: Vec<u8>,
    entries: u16,
    /// The first number of each page.
    pub(crate) fences: Vec<u64>,
}

impl TablePages {
    pub(crate) fn new() -> Self {
        Self { page: vec![0; HEADER], entries: 0, fences: Vec::new() }
    }

    /// Adds an entry; a page, when it is full.
    pub(crate) fn add(&mut self, number: u64, ordinal: u32) -> Option<Vec<u8>> {
        if self.entries == 0 {
            self.fences.push(number);
        }
        put_u64(&mut self.page, number);
        put_u32(&mut self.page, ordinal);
        self.entries += 1;
        if usize::from(self.entries) == ENTRIES { self.finish() } else { None }
    }

    /// The last page, if there is anything in it.
    pub(crate) fn finish(&mut self) -> Option<Vec<u8>> {
        if self.entries == 0 {
            return None;
        }
        let mut page = std::mem::replace(&mut self.page, vec![0; HEADER]);
        page.resize(PAGE, 0);
        page[4..6].copy_from_slice(&std::mem::take(&mut self.entries).to_le_bytes());
        let crc = crc32c::crc32c(&page[4..]);
        page[..4].copy_from_slice(&crc.to_le_bytes());
        Some(page)
    }
}

/// Reads a page.
pub(crate) fn decode_page(page: &[u8]) -> Result<Vec<(u64, u32)>, Damage> {
    let mut reader = Reader::new(page);
    let (crc, entries, zero) = (reader.u32()?, reader.u16()?, reader.u16()?);
    if page.len() != PAGE || crc != crc32c::crc32c(&page[4..]) || zero != 0 || usize::from(entries) > ENTRIES {
        return Err(reader.invalid("checksum"));
    }
    (0..entries).map(|_| Ok((reader.u64()?, reader.u32()?))).collect()
}

/// A table of a run that is open.
#[derive(Debug)]
pub(crate) struct Table {
    /// Where in the file its pages begin.
    offset: u64,
    fences: Vec<u64>,
}

impl Table {
    pub(crate) fn new(offset: u64, fences: Vec<u64>) -> Self {
        Self { offset, fences }
    }

    pub(crate) fn pages(&self) -> usize {
        self.fences.len()
    }

    /// Reads one page.
    pub(crate) fn page(&self, file: &dyn StoredFile, page: usize) -> Result<Vec<(u64, u32)>, RunError> {
        let mut bytes = vec![0; PAGE];
        let read = file.read_at(self.offset + (page * PAGE) as u64, &mut bytes)?;
        bytes.truncate(read);
        Ok(decode_page(&bytes)?)
    }

    /// The ordinals of a number.
    pub(crate) fn find(&self, file: &dyn StoredFile, number: u64) -> Result<Vec<u32>, RunError> {
        Ok(self.find_many(file, &[number])?.into_iter().map(|(_, ordinal)| ordinal).collect())
    }

    /// The ordinals of many numbers, which come in order; with each, the place of its number among those asked for.
    pub(crate) fn find_many(&self, file: &dyn StoredFile, numbers: &[u64]) -> Result<Vec<(usize, u32)>, RunError> {
        let mut found = Vec::new();
        let mut read: Option<(usize, Vec<(u64, u32)>)> = None;
        for (place, number) in numbers.iter().enumerate() {
            let first = self.fences.partition_point(|fence| fence < number).saturating_sub(1);
            for page in (first..self.fences.len()).take_while(|page| self.fences[*page] <= *number) {
                let entries = match &mut read {
                    Some((of, entries)) if *of == page => entries,
                    other => &mut other.insert((page, self.page(file, page)?)).1,
                };
                let begin = entries.partition_point(|(of, _)| of < number);
                let same = entries[begin..].iter().take_while(|(of, _)| of == number);
                found.extend(same.map(|(_, ordinal)| (place, *ordinal)));
            }
        }
        Ok(found)
    }
}

/// Fences as they are kept in a file.
pub(crate) fn encode_fences(fences: &[u64], out: &mut Vec<u8>) {
    put_u32(out, u32::try_from(fences.len()).expect("fewer than 2^32 pages"));
    put_u16(out, 0);
    for fence in fences {
        put_u64(out, *fence);
    }
}

/// Reads what [`encode_fences`] wrote.
pub(crate) fn decode_fences(reader: &mut Reader<'_>) -> Result<Vec<u64>, Damage> {
    let (count, zero) = (reader.u32()?, reader.u16()?);
    if zero != 0 || count as usize > reader.remaining() / 8 {
        return Err(reader.invalid("number of pages"));
    }
    (0..count).map(|_| reader.u64()).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::storage::{MemoryStorage, Storage};

    proptest! {
        #[test]
        fn every_entry_is_found_and_nothing_else(
            mut numbers in prop::collection::vec(0..2_000_u64, 0..3_000),
            offset in 0..10_000_u64,
        ) {
            numbers.sort_unstable();
            let storage = MemoryStorage::new();
            let file = storage.create("t").unwrap();
            let mut pages = TablePages::new();
            let mut at = offset;
            let mut write = |page: Option<Vec<u8>>| if let Some(page) = page {
                file.write_at(at, &page).unwrap();
                at += page.len() as u64;
            };
            for (number, ordinal) in numbers.iter().zip(0..) {
                write(pages.add(*number, ordinal));
            }
            write(pages.finish());
            let mut fences = Vec::new();
            encode_fences(&pages.fences, &mut fences);
            let fences = decode_fences(&mut Reader::new(&fences)).unwrap();
            let table = Table::new(offset, fences);
            for number in 0..2_001 {
                let mut found = table.find(&*file, number).unwrap();
                found.sort_unstable();
                let there = numbers.iter().zip(0_u32..).filter(|(of, _)| **of == number).map(|(_, k)| k);
                prop_assert_eq!(found, there.collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn a_flipped_bit_is_noticed_wherever_it_is() {
        let mut pages = TablePages::new();
        assert!(pages.add(7, 1).is_none());
        let page = pages.finish().unwrap();
        for bit in 0..page.len() * 8 {
            let mut flipped = page.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(decode_page(&flipped).is_err(), "bit {bit}");
        }
    }
}
