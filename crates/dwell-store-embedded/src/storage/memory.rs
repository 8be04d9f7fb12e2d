//! Files in memory: for `memory:` and for tests. Nothing of them outlives the last clone.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use super::{Storage, StoredFile};

/// A directory in memory. Clones share the same files, so that a test can open a store twice.
#[derive(Clone, Debug, Default)]
pub struct MemoryStorage {
    files: Arc<Mutex<BTreeMap<String, Arc<MemoryFile>>>>,
    /// Held by whoever changes anything, and by one who must see everything at one moment.
    changing: Arc<RwLock<()>>,
}

impl MemoryStorage {
    /// An empty directory.
    pub fn new() -> Self {
        Self::default()
    }

    /// A copy of everything as it is at one moment: what a process that is killed leaves behind.
    #[must_use]
    pub fn image(&self) -> Self {
        let _still = self.changing.write().unwrap_or_else(PoisonError::into_inner);
        let image = Self::default();
        for (name, file) in &*self.files() {
            let copy = MemoryFile { bytes: RwLock::new(file.read().clone()), changing: Arc::clone(&image.changing) };
            image.files().insert(name.clone(), Arc::new(copy));
        }
        image
    }

    fn files(&self) -> MutexGuard<'_, BTreeMap<String, Arc<MemoryFile>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Storage for MemoryStorage {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.files().keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn StoredFile>> {
        let file = self.files().get(name).cloned();
        Ok(file.ok_or_else(|| missing(name))?)
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn StoredFile>> {
        let _changing = change(&self.changing);
        let file = || Arc::new(MemoryFile { bytes: RwLock::default(), changing: Arc::clone(&self.changing) });
        let file = Arc::clone(self.files().entry(name.to_owned()).or_insert_with(file));
        file.write().clear();
        Ok(file)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let _changing = change(&self.changing);
        let mut files = self.files();
        let file = files.remove(from).ok_or_else(|| missing(from))?;
        files.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let _changing = change(&self.changing);
        self.files().remove(name).map(drop).ok_or_else(|| missing(name))
    }

    fn sync_dir(&self) -> io::Result<()> {
        Ok(())
    }

    fn shrink(&self, name: &str, bytes: u64) -> io::Result<()> {
        let _changing = change(&self.changing);
        let file = self.files().get(name).cloned().ok_or_else(|| missing(name))?;
        file.write().truncate(usize::try_from(bytes).unwrap_or(usize::MAX));
        Ok(())
    }

    fn describe(&self, _name: &str) -> String {
        "memory".to_owned()
    }
}

fn missing(name: &str) -> io::Error {
    io::Error::new(ErrorKind::NotFound, format!("there is no file {name}"))
}

fn change(changing: &RwLock<()>) -> std::sync::RwLockReadGuard<'_, ()> {
    changing.read().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
struct MemoryFile {
    bytes: RwLock<Vec<u8>>,
    changing: Arc<RwLock<()>>,
}

impl MemoryFile {
    fn write(&self) -> std::sync::RwLockWriteGuard<'_, Vec<u8>> {
        self.bytes.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Vec<u8>> {
        self.bytes.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StoredFile for MemoryFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let start = usize::try_from(offset).map_err(|_| ErrorKind::FileTooLarge)?;
        let end = start.checked_add(bytes.len()).ok_or(ErrorKind::FileTooLarge)?;
        let _changing = change(&self.changing);
        let mut content = self.write();
        if content.len() < end {
            content.resize(end, 0);
        }
        content[start..end].copy_from_slice(bytes);
        Ok(())
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let content = self.read();
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(content.len());
        let length = into.len().min(content.len() - start);
        into[..length].copy_from_slice(&content[start..start + length]);
        Ok(length)
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.read().len() as u64)
    }
}
