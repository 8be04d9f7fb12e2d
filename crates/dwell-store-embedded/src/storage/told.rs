//! Files in memory, of a disk that says and does as it is told.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::{MemoryStorage, Storage, StoredFile};

#[derive(Default)]
pub(crate) struct ToldStorage {
    memory: MemoryStorage,
    /// Bytes that it says are free, whatever is in it.
    pub(crate) free: AtomicU64,
    /// Whether it has no room for a new file of the dead.
    pub(crate) refuses_dead: AtomicBool,
}

impl Storage for ToldStorage {
    fn list(&self) -> io::Result<Vec<String>> {
        self.memory.list()
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn StoredFile>> {
        self.memory.open(name)
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn StoredFile>> {
        if name.starts_with("dead-") && self.refuses_dead.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.memory.create(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.memory.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.memory.remove(name)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.memory.sync_dir()
    }

    fn free(&self) -> io::Result<Option<u64>> {
        Ok(Some(self.free.load(Ordering::SeqCst)))
    }

    fn describe(&self, name: &str) -> String {
        self.memory.describe(name)
    }
}
