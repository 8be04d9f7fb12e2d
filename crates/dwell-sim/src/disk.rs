//! A disk that loses, tears and reorders what was not synced, and fails when it is told to.
//!
//! A file has what a reader sees and what is safe; between the two lie writes that were not synced. Names are the same:
//! what a reader sees, what is safe, and changes that were not. A power cut ([`SimDisk::cut_power`]) keeps what is safe
//! and, of the rest, whatever chance says: writes whole, by pages, in any order; changes of names up to some point.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dwell_store_embedded::storage::{Storage, StoredFile};

use crate::chance::Chance;

/// Bytes that are written together or not at all.
const PAGE: usize = 4_096;

/// A disk.
#[derive(Clone)]
pub struct SimDisk(Arc<Mutex<Disk>>);

#[derive(Clone)]
struct Disk {
    files: BTreeMap<u64, File>,
    next_file: u64,
    names: Names,
    safe_names: Names,
    changes: Vec<NameChange>,
    chance: Chance,
    fault: Option<Fault>,
    is_full: bool,
    counts: Counts,
}

type Names = BTreeMap<String, u64>;

#[derive(Clone)]
enum NameChange {
    Set(String, u64),
    Remove(String),
    Rename(String, String),
}

#[derive(Clone, Default)]
struct File {
    seen: Vec<u8>,
    safe: Vec<u8>,
    pending: Vec<(usize, Vec<u8>)>,
}

/// What is to fail, and after how many more calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Calls of that kind that still succeed.
    pub after: u64,
    /// Which calls.
    pub kind: FaultKind,
}

/// What can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// Writes; a part may be there.
    Write,
    /// Syncs; nobody knows what is there.
    Sync,
    /// Changes of names, and making them safe.
    Name,
    /// Opening and reading.
    Read,
}

/// What a power cut does to what was not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// All of it is gone.
    Drop,
    /// All of it is there.
    Keep,
    /// Some writes are there, in no order.
    Writes,
    /// Some pages are there.
    Pages,
}

/// What has been done to a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Writes.
    pub writes: u64,
    /// Syncs of files.
    pub syncs: u64,
    /// Calls that failed because they were told to.
    pub faults: u64,
    /// Power cuts.
    pub cuts: u64,
}

impl SimDisk {
    /// An empty disk.
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(Disk {
            files: BTreeMap::new(),
            next_file: 0,
            names: Names::new(),
            safe_names: Names::new(),
            changes: Vec::new(),
            chance: Chance::new(seed),
            fault: None,
            is_full: false,
            counts: Counts::default(),
        })))
    }

    /// Another disk with the same on it, and chances of its own.
    #[must_use]
    pub fn copy(&self, seed: u64) -> Self {
        let disk = Disk { chance: Chance::new(seed), ..self.lock().clone() };
        Self(Arc::new(Mutex::new(disk)))
    }

    /// Lets calls fail, or no longer.
    pub fn set_fault(&self, fault: Option<Fault>) {
        self.lock().fault = fault;
    }

    /// Whether files can grow.
    pub fn set_full(&self, is_full: bool) {
        self.lock().is_full = is_full;
    }

    /// How many files have names that begin so.
    pub fn files(&self, prefix: &str) -> usize {
        self.lock().names.keys().filter(|name| name.starts_with(prefix)).count()
    }

    /// Whether it is full.
    pub fn is_full(&self) -> bool {
        self.lock().is_full
    }

    /// What has been done to it.
    pub fn counts(&self) -> Counts {
        self.lock().counts
    }

    /// Cuts the power: what was not synced is lost or not, as `cut` and chance say. What is left is safe.
    pub fn cut_power(&self, cut: Cut) {
        let mut disk = self.lock();
        disk.counts.cuts += 1;
        disk.fault = None;
        disk.is_full = false;
        let disk = &mut *disk;
        for file in disk.files.values_mut() {
            file.lose(cut, &mut disk.chance);
        }
        let changes = std::mem::take(&mut disk.changes);
        let kept = match cut {
            Cut::Drop => 0,
            Cut::Keep => changes.len(),
            Cut::Writes | Cut::Pages => usize::try_from(disk.chance.within(0..changes.len() as u64 + 1)).unwrap_or(0),
        };
        for change in changes.into_iter().take(kept) {
            change.apply(&mut disk.safe_names);
        }
        disk.names = disk.safe_names.clone();
    }

    fn lock(&self) -> MutexGuard<'_, Disk> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl NameChange {
    fn apply(self, names: &mut Names) {
        match self {
            Self::Set(name, file) => drop(names.insert(name, file)),
            Self::Remove(name) => drop(names.remove(&name)),
            Self::Rename(from, to) => {
                if let Some(file) = names.remove(&from) {
                    names.insert(to, file);
                }
            }
        }
    }
}

impl File {
    fn write(&mut self, offset: usize, bytes: &[u8]) {
        put(&mut self.seen, offset, bytes);
        self.pending.push((offset, bytes.to_vec()));
    }

    fn sync(&mut self) {
        for (offset, bytes) in self.pending.drain(..) {
            put(&mut self.safe, offset, &bytes);
        }
    }

    fn lose(&mut self, cut: Cut, chance: &mut Chance) {
        let mut left: Vec<(usize, Vec<u8>)> = match cut {
            Cut::Drop => Vec::new(),
            Cut::Keep => std::mem::take(&mut self.pending),
            Cut::Writes => self.pending.drain(..).filter(|_| chance.percent(50)).collect(),
            Cut::Pages => {
                let pages = self.pending.drain(..).flat_map(|(offset, bytes)| pages(offset, &bytes));
                pages.filter(|_| chance.percent(50)).collect()
            }
        };
        if cut == Cut::Writes && chance.percent(50) {
            left.reverse();
        }
        for (offset, bytes) in left {
            put(&mut self.safe, offset, &bytes);
        }
        self.pending.clear();
        self.seen = self.safe.clone();
    }
}

/// A write, page by page.
fn pages(offset: usize, bytes: &[u8]) -> Vec<(usize, Vec<u8>)> {
    let mut pages = Vec::new();
    let mut start = 0;
    while start < bytes.len() {
        let end = (start + PAGE - (offset + start) % PAGE).min(bytes.len());
        pages.push((offset + start, bytes[start..end].to_vec()));
        start = end;
    }
    pages
}

fn put(content: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    if content.len() < offset + bytes.len() {
        content.resize(offset + bytes.len(), 0);
    }
    content[offset..offset + bytes.len()].copy_from_slice(bytes);
}

impl Disk {
    /// Fails if it was told to.
    fn check(&mut self, kind: FaultKind) -> io::Result<()> {
        let Some(fault) = &mut self.fault else { return Ok(()) };
        if fault.kind != kind {
            return Ok(());
        }
        if fault.after > 0 {
            fault.after -= 1;
            return Ok(());
        }
        self.counts.faults += 1;
        Err(io::Error::other("the disk fails"))
    }

    fn change(&mut self, change: NameChange) {
        change.clone().apply(&mut self.names);
        self.changes.push(change);
    }
}

fn missing(name: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("there is no file {name}"))
}

impl Storage for SimDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut disk = self.lock();
        disk.check(FaultKind::Read)?;
        Ok(disk.names.keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn StoredFile>> {
        let mut disk = self.lock();
        disk.check(FaultKind::Read)?;
        let file = *disk.names.get(name).ok_or_else(|| missing(name))?;
        Ok(Arc::new(SimFile { disk: self.clone(), file }))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn StoredFile>> {
        let mut disk = self.lock();
        disk.check(FaultKind::Name)?;
        if disk.is_full {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let file = disk.next_file;
        disk.next_file += 1;
        disk.files.insert(file, File::default());
        disk.change(NameChange::Set(name.to_owned(), file));
        Ok(Arc::new(SimFile { disk: self.clone(), file }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut disk = self.lock();
        disk.check(FaultKind::Name)?;
        if !disk.names.contains_key(from) {
            return Err(missing(from));
        }
        disk.change(NameChange::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut disk = self.lock();
        disk.check(FaultKind::Name)?;
        if !disk.names.contains_key(name) {
            return Err(missing(name));
        }
        disk.change(NameChange::Remove(name.to_owned()));
        Ok(())
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut disk = self.lock();
        disk.check(FaultKind::Name)?;
        disk.changes.clear();
        disk.safe_names = disk.names.clone();
        Ok(())
    }

    fn describe(&self, name: &str) -> String {
        name.to_owned()
    }
}

struct SimFile {
    disk: SimDisk,
    file: u64,
}

impl StoredFile for SimFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut disk = self.disk.lock();
        disk.counts.writes += 1;
        let offset = usize::try_from(offset).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let failed = disk.check(FaultKind::Write);
        let disk = &mut *disk;
        let file = disk.files.entry(self.file).or_default();
        if disk.is_full && offset + bytes.len() > file.seen.len() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        if let Err(error) = failed {
            // A part of what was to be written may be there.
            let part = usize::try_from(disk.chance.within(0..bytes.len() as u64 + 1)).unwrap_or(0);
            file.write(offset, &bytes[..part]);
            return Err(error);
        }
        file.write(offset, bytes);
        Ok(())
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let mut disk = self.disk.lock();
        disk.check(FaultKind::Read)?;
        let content = disk.files.get(&self.file).map_or(&[][..], |file| &file.seen);
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(content.len());
        let length = into.len().min(content.len() - start);
        into[..length].copy_from_slice(&content[start..start + length]);
        Ok(length)
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut disk = self.disk.lock();
        disk.counts.syncs += 1;
        let failed = disk.check(FaultKind::Sync);
        let disk = &mut *disk;
        let file = disk.files.entry(self.file).or_default();
        if let Err(error) = failed {
            // Some of it may have been written, and nobody will ever try again to write the rest; but the
            // system may go on showing it for as long as it is up.
            let seen = file.seen.clone();
            file.lose(Cut::Pages, &mut disk.chance);
            if disk.chance.percent(50) {
                file.seen = seen;
            }
            return Err(error);
        }
        file.sync();
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        let disk = self.disk.lock();
        Ok(disk.files.get(&self.file).map_or(0, |file| file.seen.len() as u64))
    }
}
