//! A vector that grows without moving what it holds.

use std::ops::{Index, IndexMut};

/// Bytes allocated at a time. Large enough that the list of chunks stays in the fastest cache,
/// small enough that a new chunk is no event.
const CHUNK_BYTES: usize = 256 << 10;

/// Items in chunks of equal length, numbered from zero.
pub(crate) struct Chunked<T> {
    chunks: Vec<Vec<T>>,
}

impl<T> Chunked<T> {
    /// A power of two, so that finding an item takes a shift and a mask.
    const CHUNK: usize = {
        let size = if size_of::<T>() == 0 { 1 } else { size_of::<T>() };
        let fit = CHUNK_BYTES / size;
        if fit == 0 { 1 } else { 1 << fit.ilog2() }
    };

    pub(crate) const fn new() -> Self {
        Self { chunks: Vec::new() }
    }

    /// Appends an item, and says at which number.
    pub(crate) fn push(&mut self, item: T) -> usize {
        if self.chunks.last().is_none_or(|chunk| chunk.len() == Self::CHUNK) {
            self.chunks.push(Vec::with_capacity(Self::CHUNK));
        }
        let earlier = (self.chunks.len() - 1) * Self::CHUNK;
        let chunk = self.chunks.last_mut().expect("a chunk with room");
        chunk.push(item);
        earlier + chunk.len() - 1
    }

    pub(crate) fn get(&self, number: u32) -> Option<&T> {
        let number = number as usize;
        self.chunks.get(number / Self::CHUNK)?.get(number % Self::CHUNK)
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        let number = number as usize;
        self.chunks.get_mut(number / Self::CHUNK)?.get_mut(number % Self::CHUNK)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flatten()
    }
}

impl<T> Index<u32> for Chunked<T> {
    type Output = T;

    fn index(&self, number: u32) -> &T {
        &self.chunks[number as usize / Self::CHUNK][number as usize % Self::CHUNK]
    }
}

impl<T> IndexMut<u32> for Chunked<T> {
    fn index_mut(&mut self, number: u32) -> &mut T {
        &mut self.chunks[number as usize / Self::CHUNK][number as usize % Self::CHUNK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_keep_their_numbers_and_their_addresses() {
        let mut items = Chunked::new();
        let count = 3 * Chunked::<u64>::CHUNK as u64 + 1;
        items.push(0);
        let address = &raw const items[0];
        for nth in 1..count {
            assert_eq!(items.push(nth) as u64, nth);
        }
        assert_eq!(address, &raw const items[0]);
        assert!(items.iter().copied().eq(0..count));
        assert_eq!(items.get(u32::try_from(count).unwrap()), None);
    }

    #[test]
    fn items_of_any_size_have_a_chunk() {
        assert_eq!(Chunked::<[u8; 1 << 20]>::CHUNK, 1);
        assert_eq!(Chunked::<[u8; 24]>::CHUNK, 8192);
        assert_eq!(Chunked::<()>::CHUNK, CHUNK_BYTES);
    }
}
