//! Reading and writing the bytes of stored records. All numbers are big-endian, as the scripts read them.

use dwell_core::{Number, Timestamp, Version};

/// What is stored is not what this release writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a stored {0} cannot be read; it was damaged, or written by something else")]
pub(crate) struct Unreadable(pub(crate) &'static str);

/// Writes a record.
#[derive(Debug, Default)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// The last `width` bytes of a number, which holds no more than they do.
    pub(crate) fn uint(&mut self, value: u64, width: usize) -> &mut Self {
        self.raw(&value.to_be_bytes()[8 - width..])
    }

    pub(crate) fn time(&mut self, at: Timestamp) -> &mut Self {
        self.uint(at.as_millis(), 6)
    }

    pub(crate) fn version(&mut self, version: Version) -> &mut Self {
        self.uint(version.get(), 7)
    }

    pub(crate) fn number(&mut self, number: Number) -> &mut Self {
        self.uint(number.get(), 7)
    }

    /// Text or bytes of at most 255.
    pub(crate) fn short(&mut self, bytes: &[u8]) -> &mut Self {
        self.sized(bytes, 1)
    }

    /// Bytes behind their length, which takes `width` bytes.
    pub(crate) fn sized(&mut self, bytes: &[u8], width: usize) -> &mut Self {
        self.uint(bytes.len() as u64, width).raw(bytes)
    }
}

/// Reads a record from its beginning on.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    left: &'a [u8],
    what: &'static str,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8], what: &'static str) -> Self {
        Self { left: bytes, what }
    }

    pub(crate) fn wrong(&self) -> Unreadable {
        Unreadable(self.what)
    }

    pub(crate) fn raw(&mut self, length: usize) -> Result<&'a [u8], Unreadable> {
        let (bytes, left) = self.left.split_at_checked(length).ok_or(Unreadable(self.what))?;
        self.left = left;
        Ok(bytes)
    }

    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.left)
    }

    pub(crate) fn uint(&mut self, width: usize) -> Result<u64, Unreadable> {
        Ok(self.raw(width)?.iter().fold(0, |value, &byte| (value << 8) | u64::from(byte)))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Unreadable> {
        let value = self.uint(4)?;
        u32::try_from(value).map_err(|_| self.wrong())
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Unreadable> {
        Ok(self.raw(1)?[0])
    }

    pub(crate) fn time(&mut self) -> Result<Timestamp, Unreadable> {
        Timestamp::from_millis(self.uint(6)?).map_err(|_| self.wrong())
    }

    pub(crate) fn version(&mut self) -> Result<Version, Unreadable> {
        Version::new(self.uint(7)?).ok_or(self.wrong())
    }

    pub(crate) fn number(&mut self) -> Result<Number, Unreadable> {
        Number::new(self.uint(7)?).ok_or(self.wrong())
    }

    pub(crate) fn secret(&mut self) -> Result<u64, Unreadable> {
        self.uint(8)
    }

    /// Three lengths of 4 bytes each.
    pub(crate) fn lengths(&mut self) -> Result<[usize; 3], Unreadable> {
        let mut lengths = [0; 3];
        for length in &mut lengths {
            *length = usize::try_from(self.uint(4)?).map_err(|_| self.wrong())?;
        }
        Ok(lengths)
    }

    pub(crate) fn sized(&mut self, width: usize) -> Result<&'a [u8], Unreadable> {
        let length = usize::try_from(self.uint(width)?).map_err(|_| self.wrong())?;
        self.raw(length)
    }

    pub(crate) fn text(&mut self, width: usize) -> Result<&'a str, Unreadable> {
        std::str::from_utf8(self.sized(width)?).map_err(|_| self.wrong())
    }

    /// What `build` makes of a text, if it makes anything.
    pub(crate) fn named<T, E>(&mut self, build: impl FnOnce(&str) -> Result<T, E>) -> Result<T, Unreadable> {
        let text = self.text(1)?;
        build(text).map_err(|_| self.wrong())
    }

    pub(crate) fn end(&self) -> Result<(), Unreadable> {
        if self.left.is_empty() { Ok(()) } else { Err(self.wrong()) }
    }
}

/// A number, as it stands in keys and members.
pub(crate) fn number_bytes(number: Number) -> [u8; 7] {
    narrow(number.get())
}

/// A version, as it stands in records.
pub(crate) fn version_bytes(version: Version) -> [u8; 7] {
    narrow(version.get())
}

fn narrow(value: u64) -> [u8; 7] {
    let [_, bytes @ ..] = value.to_be_bytes();
    bytes
}
