//! Files in a directory of a Unix file system.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;

use super::{Storage, StoredFile, write_zeros};

/// The file that is locked as long as a process uses the directory. It is never removed: a lock on a file that has
/// lost its name would keep nobody out.
const LOCK_NAME: &str = "lock";

/// A directory that belongs to this process for as long as this value lives.
#[derive(Debug)]
pub struct DiskStorage {
    dir: PathBuf,
    /// Kept open to sync names.
    handle: File,
    /// Holds the lock; the system lets go of it when the file is closed, also by a crash.
    lock: File,
}

impl DiskStorage {
    /// Takes a directory for this process alone. One that is missing is made, open to nobody else, and is durable
    /// when this returns.
    pub fn open(dir: &Path) -> Result<Self, OpenDirError> {
        let failed = |what| move |source| OpenDirError::Io { what, dir: dir.to_owned(), source };
        make_dir(dir).map_err(failed("make"))?;
        let handle = File::open(dir).map_err(failed("open"))?;
        let lock = open_options().create(true).truncate(false).open(dir.join(LOCK_NAME)).map_err(failed("lock"))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { dir: dir.to_owned(), handle, lock }),
            Err(TryLockError::WouldBlock) => Err(OpenDirError::InUse { dir: dir.to_owned() }),
            Err(TryLockError::Error(source)) => Err(failed("lock")(source)),
        }
    }
}

impl Drop for DiskStorage {
    /// Lets go of the lock by name: a child process that was just forked may still have the file open.
    fn drop(&mut self) {
        // If that fails, the system does it when the file is closed.
        self.lock.unlock().ok();
    }
}

/// Why a directory could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum OpenDirError {
    /// Someone else has it.
    #[error("{} is in use by another Dwell process; stop that one or choose another directory", dir.display())]
    InUse {
        /// Which.
        dir: PathBuf,
    },
    /// The system refused.
    #[error("cannot {what} the directory {}: {source}", dir.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// On which.
        dir: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Makes `dir` and the directories above it that are missing, each durable in the one that holds it.
fn make_dir(dir: &Path) -> io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    let parent = dir.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !parent.exists() {
        make_dir(parent)?;
    }
    match DirBuilder::new().mode(0o700).create(dir) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists && dir.is_dir() => {}
        other => other?,
    }
    File::open(parent)?.sync_all()
}

fn open_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options
}

impl Storage for DiskStorage {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            // A name that is not text is none of ours, nor is a directory.
            if let Ok(name) = entry.file_name().into_string()
                && name != LOCK_NAME
                && entry.file_type()?.is_file()
            {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn StoredFile>> {
        Ok(Arc::new(DiskFile(open_options().open(self.dir.join(name))?)))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn StoredFile>> {
        Ok(Arc::new(DiskFile(open_options().create(true).truncate(true).open(self.dir.join(name))?)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.dir.join(from), self.dir.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.dir.join(name))
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.handle.sync_all()
    }

    fn free(&self) -> io::Result<Option<u64>> {
        let disk = rustix::fs::fstatvfs(&self.handle)?;
        Ok(Some(disk.f_bavail.saturating_mul(disk.f_frsize)))
    }

    fn allocate(&self, name: &str, bytes: u64) -> io::Result<()> {
        let file = open_options().create(true).truncate(true).open(self.dir.join(name))?;
        let allocated = match rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes) {
            // Some file systems give room only to what is written.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => write_zeros(&DiskFile(file), bytes),
            allocated => Ok(allocated?),
        };
        if allocated.is_err() {
            drop(fs::remove_file(self.dir.join(name)));
        }
        allocated
    }

    fn shrink(&self, name: &str, bytes: u64) -> io::Result<()> {
        open_options().open(self.dir.join(name))?.set_len(bytes)
    }

    fn describe(&self, name: &str) -> String {
        self.dir.join(name).display().to_string()
    }
}

struct DiskFile(File);

impl StoredFile for DiskFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < into.len() {
            match self.0.read_at(&mut into[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}
