//! A split-block Bloom filter with 16 bits a key.
//!
//! Each hash sets one bit in each of the eight words of one block of 32 bytes, so a lookup costs one cache miss. The bits are
//! kept in files, so the salts below are fixed for ever.

use super::bytes::Damage;
use super::bytes::Reader;

/// Bits a hash.
const BITS_A_KEY: usize = 16;
const WORDS_A_BLOCK: usize = 8;
/// Bytes of a block.
const BLOCK_BYTES: usize = WORDS_A_BLOCK * 4;

/// What spreads a hash over the words of a block: odd numbers without a pattern.
const SALTS: [u32; WORDS_A_BLOCK] =
    [0x9e37_79b1, 0x85eb_ca77, 0xc2b2_ae3d, 0x27d4_eb2f, 0x1656_67b1, 0xd3a2_646d, 0xfd70_46c5, 0xb55a_4f09];

/// A set of hashes, roughly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Filter {
    blocks: Vec<[u32; WORDS_A_BLOCK]>,
}

impl Filter {
    /// An empty one, for so many hashes.
    pub(crate) fn for_hashes(count: usize) -> Self {
        Self { blocks: vec![[0; WORDS_A_BLOCK]; (count * BITS_A_KEY).div_ceil(BLOCK_BYTES * 8).max(1)] }
    }

    fn block(&self, hash: u64) -> usize {
        let place = (u128::from(hash) * self.blocks.len() as u128) >> 64;
        usize::try_from(place).expect("below the number of blocks")
    }

    pub(crate) fn insert(&mut self, hash: u64) {
        let block = self.block(hash);
        for (word, bit) in self.blocks[block].iter_mut().zip(bits(hash)) {
            *word |= bit;
        }
    }

    /// False if the hash is surely not there.
    pub(crate) fn may_have(&self, hash: u64) -> bool {
        self.blocks[self.block(hash)].iter().zip(bits(hash)).all(|(word, bit)| word & bit != 0)
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        for word in self.blocks.iter().flatten() {
            out.extend_from_slice(&word.to_le_bytes());
        }
    }

    /// Reads all that is left.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, Damage> {
        if reader.remaining() == 0 || !reader.remaining().is_multiple_of(BLOCK_BYTES) {
            return Err(reader.invalid("length of a filter"));
        }
        let mut blocks = vec![[0; WORDS_A_BLOCK]; reader.remaining() / BLOCK_BYTES];
        for word in blocks.iter_mut().flatten() {
            *word = reader.u32()?;
        }
        Ok(Self { blocks })
    }
}

/// One bit a word.
fn bits(hash: u64) -> impl Iterator<Item = u32> {
    let low = u32::try_from(hash & u64::from(u32::MAX)).expect("the lower half");
    SALTS.into_iter().map(move |spread| 1 << (low.wrapping_mul(spread) >> 27))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashes(from: u64, count: u64) -> impl Iterator<Item = u64> {
        (from..from + count).map(|n| xxhash_rust::xxh3::xxh3_64(&n.to_le_bytes()))
    }

    #[test]
    fn it_knows_what_is_there_and_seldom_errs_about_the_rest() {
        let mut filter = Filter::for_hashes(10_000);
        hashes(0, 10_000).for_each(|hash| filter.insert(hash));
        assert!(hashes(0, 10_000).all(|hash| filter.may_have(hash)));
        let wrong = hashes(1_000_000, 100_000).filter(|hash| filter.may_have(*hash)).count();
        assert!(wrong < 400, "{wrong} of 100,000");
        let mut bytes = Vec::new();
        filter.encode(&mut bytes);
        assert_eq!(Filter::decode(&mut Reader::new(&bytes)), Ok(filter));
        assert!(Filter::decode(&mut Reader::new(&bytes[1..])).is_err());
    }

    #[test]
    fn which_bits_are_set_never_changes() {
        let mut filter = Filter::for_hashes(1);
        filter.insert(0x0123_4567_89ab_cdef);
        let mut bytes = Vec::new();
        filter.encode(&mut bytes);
        assert_eq!(crate::format::hex(&bytes), "1000000000000001000000100000002001000000020000004000000080000000");
    }
}
