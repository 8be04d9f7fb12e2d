//! Numbers, bytes and texts: how they are written to a `Vec<u8>` and read back with every step checked.

use std::fmt;

/// The stored bytes are not what a writer of this format makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why} at byte {at}")]
pub(crate) struct Damage {
    /// How far the reader had come, from the start of what it was given.
    pub at: usize,
    /// What is wrong there.
    pub why: Why,
}

/// What is wrong with stored bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// They stop in the middle of something.
    Ends,
    /// A number does not fit its type.
    Overflow,
    /// Something is longer than it may be.
    TooLong {
        /// Its length.
        length: u64,
        /// The longest it may be.
        most: usize,
    },
    /// A text is not UTF-8.
    NotText,
    /// A value that cannot be.
    Invalid(&'static str),
    /// A record of a topic that nobody knows.
    UnknownTopic(u32),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ends => f.write_str("the data ends too early"),
            Self::Overflow => f.write_str("a number is too large"),
            Self::TooLong { length, most } => write!(f, "a length is {length} where at most {most} can be"),
            Self::NotText => f.write_str("a text is not UTF-8"),
            Self::Invalid(what) => write!(f, "there is no such {what}"),
            Self::UnknownTopic(id) => write!(f, "the topic with id {id} is unknown"),
        }
    }
}

/// Reads stored bytes from front to back.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Starts at the front.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// How many bytes have been read.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// How many bytes are left.
    pub(crate) fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Whether all has been read.
    pub(crate) fn is_empty(&self) -> bool {
        self.remaining() == 0
    }

    /// The damage of finding `why` here.
    #[cold]
    pub(crate) fn damage(&self, why: Why) -> Damage {
        Damage { at: self.at, why }
    }

    /// The damage of finding a value here that no `what` can have.
    #[cold]
    pub(crate) fn invalid(&self, what: &'static str) -> Damage {
        self.damage(Why::Invalid(what))
    }

    /// The next `length` bytes.
    #[inline]
    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8], Damage> {
        let rest = &self.bytes[self.at..];
        let Some(taken) = rest.get(..length) else { return Err(self.damage(Why::Ends)) };
        self.at += length;
        Ok(taken)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Damage> {
        let Some(taken) = self.bytes[self.at..].first_chunk::<N>() else { return Err(self.damage(Why::Ends)) };
        self.at += N;
        Ok(*taken)
    }

    /// One byte.
    #[inline]
    pub(crate) fn u8(&mut self) -> Result<u8, Damage> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// Two bytes, little-endian.
    #[inline]
    pub(crate) fn u16(&mut self) -> Result<u16, Damage> {
        self.array().map(u16::from_le_bytes)
    }

    /// Four bytes, little-endian.
    pub(crate) fn u32(&mut self) -> Result<u32, Damage> {
        self.array().map(u32::from_le_bytes)
    }

    /// Eight bytes, little-endian.
    pub(crate) fn u64(&mut self) -> Result<u64, Damage> {
        self.array().map(u64::from_le_bytes)
    }

    /// A number in one to ten bytes, seven bits each, lowest first; the top bit of a byte says that more follow.
    #[expect(clippy::inline_always, reason = "a start reads several of them for each job")]
    #[inline(always)]
    pub(crate) fn varint(&mut self) -> Result<u64, Damage> {
        // Up to eight bytes are taken at once where there are as many left.
        if let Some(eight) = self.bytes[self.at..].first_chunk() {
            let word = u64::from_le_bytes(*eight);
            let ends = !word & 0x8080_8080_8080_8080;
            if ends != 0 {
                let length = ends.trailing_zeros() / 8 + 1;
                self.at += length as usize;
                return Ok(join_sevens(word & (u64::MAX >> (64 - 8 * length))));
            }
        }
        self.varint_by_bytes()
    }

    fn varint_by_bytes(&mut self) -> Result<u64, Damage> {
        let mut value = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return Err(self.damage(Why::Overflow));
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(self.damage(Why::Overflow))
    }

    /// A [`Reader::varint`] of at most 32 bits.
    #[inline]
    pub(crate) fn varint_u32(&mut self) -> Result<u32, Damage> {
        let value = self.varint()?;
        u32::try_from(value).map_err(|_| self.damage(Why::Overflow))
    }

    /// A number with a sign: 0, −1, 1, −2 … are written as 0, 1, 2, 3 …
    #[inline]
    pub(crate) fn signed(&mut self) -> Result<i64, Damage> {
        let value = self.varint()?;
        Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    /// A length, no more than `most`.
    #[inline]
    pub(crate) fn length(&mut self, most: usize) -> Result<usize, Damage> {
        let length = self.varint()?;
        match usize::try_from(length) {
            Ok(fits) if fits <= most => Ok(fits),
            _ => Err(self.damage(Why::TooLong { length, most })),
        }
    }

    /// Bytes after their length, at most `most`.
    #[inline]
    pub(crate) fn bytes(&mut self, most: usize) -> Result<&'a [u8], Damage> {
        let length = self.length(most)?;
        self.take(length)
    }

    /// A text after its length in bytes, at most `most`.
    pub(crate) fn text(&mut self, most: usize) -> Result<&'a str, Damage> {
        let bytes = self.bytes(most)?;
        str::from_utf8(bytes).map_err(|_| self.damage(Why::NotText))
    }
}

/// The seven low bits of each byte, side by side.
#[inline]
fn join_sevens(word: u64) -> u64 {
    let sevens = word & 0x7f7f_7f7f_7f7f_7f7f;
    let pairs = (sevens & 0x007f_007f_007f_007f) | ((sevens & 0x7f00_7f00_7f00_7f00) >> 1);
    let fours = (pairs & 0x0000_3fff_0000_3fff) | ((pairs & 0x3fff_0000_3fff_0000) >> 2);
    (fours & 0x0fff_ffff) | ((fours & 0x0fff_ffff_0000_0000) >> 4)
}

/// Writes what [`Reader::varint`] reads.
#[inline]
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

/// Writes what [`Reader::signed`] reads.
#[inline]
pub(crate) fn put_signed(out: &mut Vec<u8>, value: i64) {
    put_varint(out, ((value << 1) ^ (value >> 63)).cast_unsigned());
}

/// Writes what [`Reader::u16`] reads.
#[inline]
pub(crate) fn put_u16(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Writes what [`Reader::u32`] reads.
#[inline]
pub(crate) fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Writes what [`Reader::u64`] reads.
#[inline]
pub(crate) fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Writes what [`Reader::bytes`] reads.
#[inline]
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Writes what [`Reader::text`] reads.
#[inline]
pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    put_bytes(out, text.as_bytes());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut out);
        out
    }

    /// A number with as many bits as not, so that each length of a varint is met.
    fn any_size() -> impl Strategy<Value = u64> {
        (any::<u64>(), 0..64_u32).prop_map(|(value, shift)| value >> shift)
    }

    #[test]
    fn varints_have_their_known_bytes() {
        for (value, bytes) in [
            (0, &[0][..]),
            (127, &[0x7f]),
            (128, &[0x80, 1]),
            (300, &[0xac, 2]),
            ((1 << 56) - 1, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]),
            (1 << 56, &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1]),
            (u64::MAX, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]),
        ] {
            assert_eq!(written(|out| put_varint(out, value)), bytes);
            assert_eq!(Reader::new(bytes).varint(), Ok(value));
            // The same with more behind it, which is read another way.
            let more = [bytes, &[0xff; 8]].concat();
            let mut reader = Reader::new(&more);
            assert_eq!((reader.varint(), reader.position()), (Ok(value), bytes.len()));
        }
        for (value, bytes) in [(0, [0]), (-1, [1]), (1, [2]), (-2, [3]), (63, [126]), (-64, [127])] {
            assert_eq!(written(|out| put_signed(out, value)), bytes);
        }
    }

    #[test]
    fn numbers_that_do_not_fit_are_damage() {
        let why = |bytes: &[u8]| Reader::new(bytes).varint().map_err(|damage| damage.why);
        assert_eq!(why(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]), Err(Why::Overflow));
        assert_eq!(why(&[0x80; 11]), Err(Why::Overflow));
        assert_eq!(why(&[0x80; 9]), Err(Why::Ends));
        assert_eq!(why(&[]), Err(Why::Ends));
        let big = written(|out| put_varint(out, 1 << 32));
        assert_eq!(Reader::new(&big).varint_u32(), Err(Damage { at: 5, why: Why::Overflow }));
    }

    #[test]
    fn lengths_are_checked_before_they_are_believed() {
        let huge = written(|out| put_varint(out, u64::MAX));
        assert_eq!(Reader::new(&huge).bytes(10).map_err(|d| d.why), Err(Why::TooLong { length: u64::MAX, most: 10 }));
        assert_eq!(Reader::new(&huge).bytes(usize::MAX).map_err(|d| d.why), Err(Why::Ends));
        assert_eq!(Reader::new(&[4, 1, 2, 3]).bytes(10), Err(Damage { at: 1, why: Why::Ends }));
        assert_eq!(Reader::new(&[3, 1, 2, 3]).bytes(2).map_err(|d| d.why), Err(Why::TooLong { length: 3, most: 2 }));
        assert_eq!(Reader::new(&[3, 1, 2, 3]).bytes(3), Ok(&[1, 2, 3][..]));
        assert_eq!(Reader::new(&[1, 0xff]).text(10).map_err(|d| d.why), Err(Why::NotText));
    }

    proptest! {
        #[test]
        fn everything_reads_back(a in any_size(), b in any_size(), c: u16, d: u32, text in ".{0,40}", negative: bool) {
            let b = if negative { b.cast_signed().wrapping_neg() } else { b.cast_signed() };
            let bytes = written(|out| {
                put_varint(out, a);
                put_signed(out, b);
                put_u16(out, c);
                put_u32(out, d);
                put_u64(out, a);
                put_text(out, &text);
            });
            let mut reader = Reader::new(&bytes);
            prop_assert_eq!(reader.varint(), Ok(a));
            prop_assert_eq!(reader.signed(), Ok(b));
            prop_assert_eq!(reader.u16(), Ok(c));
            prop_assert_eq!(reader.u32(), Ok(d));
            prop_assert_eq!(reader.u64(), Ok(a));
            prop_assert_eq!(reader.text(160), Ok(&*text));
            prop_assert!(reader.is_empty());
            prop_assert_eq!(reader.position(), bytes.len());
        }

        #[test]
        fn varints_are_read_the_same_both_ways(bytes in prop::collection::vec(any::<u8>(), 0..24), mask: u64) {
            // Long ones are rare unless most top bits are set.
            let bytes: Vec<u8> =
                bytes.iter().zip(0..).map(|(byte, k)| if mask >> k & 1 == 0 { byte | 0x80 } else { *byte }).collect();
            let (mut one, mut other) = (Reader::new(&bytes), Reader::new(&bytes));
            prop_assert_eq!(one.varint(), other.varint_by_bytes());
            prop_assert_eq!(one.position(), other.position());
        }
    }
}
