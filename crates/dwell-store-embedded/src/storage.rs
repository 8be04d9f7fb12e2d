//! The one small door to files: everything the store keeps goes through [`Storage`].
//!
//! It is this small so that a simulator can stand behind it and tear, lose, reorder and fail what goes through.
//! Nothing written is safe before the call that makes it so has succeeded: bytes and length of a file before its
//! [`StoredFile::sync_data`], a name that was created, renamed or removed before [`Storage::sync_dir`].

pub(crate) mod disk;
pub(crate) mod memory;

use std::io;
use std::sync::Arc;

pub use disk::{DiskStorage, OpenDirError};
pub use memory::MemoryStorage;

/// A flat directory of named files, owned by one process.
pub trait Storage: Send + Sync + 'static {
    /// The names of all files, in no order that means anything.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Opens an existing file to read and write.
    fn open(&self, name: &str) -> io::Result<Arc<dyn StoredFile>>;

    /// Makes a new, empty file; one of that name is emptied.
    fn create(&self, name: &str) -> io::Result<Arc<dyn StoredFile>>;

    /// Gives a file another name, at once; a file that had it before is gone.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file. Whoever has it open can go on using it.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes all names durable as they are now.
    fn sync_dir(&self) -> io::Result<()>;

    /// Bytes that can still be written, where that is bounded.
    fn free(&self) -> io::Result<Option<u64>> {
        Ok(None)
    }

    /// Makes a file of so many bytes, whatever is in it, that takes its room from now on; one of that name is emptied.
    fn allocate(&self, name: &str, bytes: u64) -> io::Result<()> {
        write_zeros(&*self.create(name)?, bytes)
    }

    /// Gives back the end of such a file: so many bytes stay.
    fn shrink(&self, name: &str, bytes: u64) -> io::Result<()> {
        self.allocate(name, bytes)
    }

    /// What to call a file in a message: its full path where it has one.
    fn describe(&self, name: &str) -> String;
}

/// An open file. Reads and writes name their place, so threads can share it.
#[expect(clippy::len_without_is_empty, reason = "nobody reads whether a file is empty")]
pub trait StoredFile: Send + Sync {
    /// Writes all of `bytes` at `offset`; the file grows as needed, with zeros in a gap.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Reads at `offset` until `into` is full or the file ends, and says how many bytes that was.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize>;

    /// Makes the bytes and the length durable. After a failure nothing is known about what was written before: the
    /// call is never repeated.
    fn sync_data(&self) -> io::Result<()>;

    /// Bytes in the file.
    fn len(&self) -> io::Result<u64>;
}

/// Fills a new file with so many zeros, and makes them durable.
fn write_zeros(file: &dyn StoredFile, bytes: u64) -> io::Result<()> {
    let zeros = vec![0; 1 << 20];
    let mut offset = 0;
    while offset < bytes {
        let step = usize::try_from(bytes - offset).map_or(zeros.len(), |left| left.min(zeros.len()));
        file.write_at(offset, &zeros[..step])?;
        offset += step as u64;
    }
    file.sync_data()
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) mod told;
