//! Backup: a copy of a store that opens, made while the store is in use.
//!
//! It needs nothing of the process that has the store. Runs never change. A segment of the journal only grows, and is not
//! used for anything else before a manifest has let go of it: so what was copied fits together if the manifest that was
//! read first still begins the journal at the same segment when everything has been copied. Frames are written one after
//! the other and read in the same order: a copy ends where a crash could have ended it.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::clock::SystemClock;
use crate::config::Config;
use crate::format::manifest::{self, Manifest};
use crate::format::{run, segment, tombstone_file, topics};
use crate::recovery::{self, OpenError};
use crate::storage::{DiskStorage, Storage};
use crate::store::settings;

/// How often it is tried again because the store has changed meanwhile.
const MAX_ATTEMPTS: usize = 50;

/// What was copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// Jobs in it.
    pub jobs: u64,
    /// Its files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Why there is no backup. What was begun has been removed.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// There is no store.
    #[error("{} holds no store", dir.display())]
    NoStore {
        /// Where.
        dir: PathBuf,
    },
    /// Something is where it would go.
    #[error("{} is there already; name a directory that is not", path.display())]
    InTheWay {
        /// What.
        path: PathBuf,
    },
    /// It changes too fast.
    #[error("the store changes faster than it can be copied; try again when less is put into it")]
    TooFast,
    /// The store cannot be read, or the copy does not open.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Something cannot be read or written.
    #[error("{}: {error}", path.display())]
    Io {
        /// What.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

/// Copies the store in one directory into another, which is made. The store may be in use.
pub fn backup(dir: &Path, into: &Path) -> Result<Backup, BackupError> {
    if !dir.join(manifest::NAME).is_file() {
        return Err(BackupError::NoStore { dir: dir.to_owned() });
    }
    if into.exists() {
        return Err(BackupError::InTheWay { path: into.to_owned() });
    }
    let copied = Copying { dir, into }.run().and_then(|()| verify(into));
    if copied.is_err() {
        // What is half there is of no use to anybody.
        drop(fs::remove_dir_all(into));
    }
    copied
}

/// Reads a copy as a start would.
fn verify(into: &Path) -> Result<Backup, BackupError> {
    let storage: Arc<dyn Storage> = Arc::new(DiskStorage::open(into).map_err(OpenError::from)?);
    let config = Config::in_directory(into);
    let recovered = recovery::recover(&storage, settings(&config), &SystemClock::default(), true)?;
    let jobs = recovered.engine.live_jobs();
    let io = |error| BackupError::Io { path: into.to_owned(), error };
    let mut backup = Backup { jobs, files: 0, bytes: 0 };
    for name in storage.list().map_err(io)? {
        backup.files += 1;
        backup.bytes += storage.open(&name).and_then(|file| file.len()).map_err(io)?;
    }
    Ok(backup)
}

struct Copying<'a> {
    dir: &'a Path,
    into: &'a Path,
}

impl Copying<'_> {
    fn run(&self) -> Result<(), BackupError> {
        drop(DiskStorage::open(self.into).map_err(OpenError::from)?);
        let mut runs = BTreeSet::new();
        for _ in 0..MAX_ATTEMPTS {
            let manifest = self.manifest()?;
            if !self.copy_runs(&manifest, &mut runs)? || !self.copy_journal(&manifest)? {
                continue;
            }
            if self.manifest()?.first_segment == manifest.first_segment {
                return self.finish(&manifest, &runs);
            }
        }
        Err(BackupError::TooFast)
    }

    fn manifest(&self) -> Result<Manifest, BackupError> {
        let path = self.dir.join(manifest::NAME);
        let bytes = fs::read(&path).map_err(|error| BackupError::Io { path: path.clone(), error })?;
        Ok(manifest::parse(&bytes, path.display().to_string()).map_err(OpenError::from)?)
    }

    /// Runs and what says which of their jobs are no more: these files never change. False if one is gone.
    fn copy_runs(&self, manifest: &Manifest, copied: &mut BTreeSet<String>) -> Result<bool, BackupError> {
        for name in run_files(manifest) {
            if !copied.contains(&name) {
                if !self.link_or_copy(&name)? {
                    return Ok(false);
                }
                copied.insert(name);
            }
        }
        Ok(true)
    }

    /// Topics and the journal, oldest first. False if something is gone.
    fn copy_journal(&self, manifest: &Manifest) -> Result<bool, BackupError> {
        let topics = manifest.topics.map(topics::name);
        let mut segments = self.segments(manifest.first_segment)?;
        segments.sort_unstable();
        for name in topics.into_iter().chain(segments.into_iter().map(segment::name)) {
            if !self.copy(&name)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn segments(&self, first: u64) -> Result<Vec<u64>, BackupError> {
        let io = |error| BackupError::Io { path: self.dir.to_owned(), error };
        let mut ids = Vec::new();
        for entry in fs::read_dir(self.dir).map_err(io)? {
            let name = entry.map_err(io)?.file_name();
            ids.extend(name.to_str().and_then(segment::parse_name).filter(|id| *id >= first));
        }
        Ok(ids)
    }

    /// Makes the copy whole: the manifest last, and nothing in it that the manifest does not name.
    fn finish(&self, manifest: &Manifest, runs: &BTreeSet<String>) -> Result<(), BackupError> {
        let io = |error| BackupError::Io { path: self.into.to_owned(), error };
        let storage = DiskStorage::open(self.into).map_err(OpenError::from)?;
        let named: BTreeSet<String> = run_files(manifest).collect();
        let spent = runs.difference(&named).cloned();
        let old = storage.list().map_err(io)?.into_iter().filter(|name| {
            segment::parse_name(name).is_some_and(|id| id < manifest.first_segment)
                || topics::parse_name(name).is_some_and(|stamp| Some(stamp) != manifest.topics)
        });
        for name in spent.chain(old) {
            storage.remove(&name).map_err(io)?;
        }
        for name in storage.list().map_err(io)? {
            storage.open(&name).and_then(|file| file.sync_data()).map_err(io)?;
        }
        storage.sync_dir().map_err(io)?;
        manifest::store(&storage, manifest).map_err(io)
    }

    /// Gives the file a name in the copy as well, which costs nothing; where that cannot be done, copies it.
    fn link_or_copy(&self, name: &str) -> Result<bool, BackupError> {
        match fs::hard_link(self.dir.join(name), self.into.join(name)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(_) => self.copy(name),
        }
    }

    /// Copies a file as it is now, front to back. False if it is gone.
    fn copy(&self, name: &str) -> Result<bool, BackupError> {
        let (from, to) = (self.dir.join(name), self.into.join(name));
        let mut source = match File::open(&from) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            opened => opened.map_err(|error| BackupError::Io { path: from, error })?,
        };
        let mut options = File::options();
        let options = options.write(true).create(true).truncate(true).mode(0o600);
        let copied = options.open(&to).and_then(|mut target| {
            // Made durable at the end: it may have to be copied again.
            io::copy(&mut source, &mut target)
        });
        copied.map(|_| true).map_err(|error| BackupError::Io { path: to, error })
    }
}

fn run_files(manifest: &Manifest) -> impl Iterator<Item = String> {
    manifest.runs.iter().flat_map(|name| {
        let dead = name.dead.map(|stamp| tombstone_file::name(name.run, stamp));
        std::iter::once(run::name(name.run)).chain(dead)
    })
}
