//! A disk in memory that does as it is told: hangs, fails, dies at the worst moment.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use dwell_store_embedded::storage::{MemoryStorage, Storage, StoredFile};

/// Memory with switches. It makes no spares, so that everything that happens is the journal's doing.
#[derive(Clone, Default)]
pub(crate) struct Faulty {
    pub(crate) memory: MemoryStorage,
    switches: Arc<Switches>,
}

#[derive(Default)]
struct Switches {
    hang_syncs: AtomicBool,
    fail_hanging_syncs: AtomicBool,
    hanging: AtomicUsize,
    hang_cold_reads: AtomicBool,
    hanging_reads: AtomicUsize,
    fail_cold_reads: AtomicBool,
    die_after_freeing: AtomicBool,
    dead: AtomicBool,
    emptied: AtomicUsize,
}

impl Faulty {
    /// From now on syncs do not come back.
    pub(crate) fn hang(&self) {
        self.switches.hang_syncs.store(true, Ordering::SeqCst);
    }

    /// Syncs that hang, and all later ones, fail.
    pub(crate) fn fail(&self) {
        self.switches.fail_hanging_syncs.store(true, Ordering::SeqCst);
        self.hang();
    }

    /// Syncs that hang succeed.
    pub(crate) fn go_on(&self) {
        self.switches.hang_syncs.store(false, Ordering::SeqCst);
    }

    /// Waits until a sync hangs.
    pub(crate) async fn until_hanging(&self) {
        while self.switches.hanging.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// From now on nothing is read from the cold tier for those who ask, until this is taken back.
    pub(crate) fn hang_cold_reads(&self, hang: bool) {
        self.switches.hang_cold_reads.store(hang, Ordering::SeqCst);
    }

    /// From now on reads of the cold tier fail, until this is taken back.
    pub(crate) fn fail_cold_reads(&self, fail: bool) {
        self.switches.fail_cold_reads.store(fail, Ordering::SeqCst);
    }

    /// Waits until somebody asks for the cold tier in vain.
    pub(crate) async fn until_reading(&self) {
        while self.switches.hanging_reads.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Nothing is written any more after the first manifest that lets go of a segment.
    pub(crate) fn die_after_freeing(&self) {
        self.switches.die_after_freeing.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.switches.dead.load(Ordering::SeqCst)
    }

    /// How often a topics file that was there already was made anew in place.
    pub(crate) fn emptied_topics_files(&self) -> usize {
        self.switches.emptied.load(Ordering::SeqCst)
    }

    /// The names of files that begin so.
    pub(crate) fn names(&self, prefix: &str) -> Vec<String> {
        self.memory.list().unwrap().into_iter().filter(|name| name.starts_with(prefix)).collect()
    }

    fn file(&self, name: &str, file: Arc<dyn StoredFile>) -> Arc<dyn StoredFile> {
        Arc::new(FaultyFile { file, is_run: name.starts_with("run-"), switches: Arc::clone(&self.switches) })
    }
}

impl Storage for Faulty {
    fn list(&self) -> io::Result<Vec<String>> {
        self.memory.list()
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn StoredFile>> {
        Ok(self.file(name, self.memory.open(name)?))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn StoredFile>> {
        if name.starts_with("spare") {
            return Err(io::Error::other("no spares here"));
        }
        if name.starts_with("topics-") && self.memory.open(name).is_ok() {
            self.switches.emptied.fetch_add(1, Ordering::SeqCst);
        }
        Ok(self.file(name, self.memory.create(name)?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.memory.rename(from, to)?;
        let frees = to == "manifest" && !self.names("topics-").is_empty();
        if frees && self.switches.die_after_freeing.load(Ordering::SeqCst) {
            self.switches.dead.store(true, Ordering::SeqCst);
        }
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.memory.remove(name)
    }

    fn sync_dir(&self) -> io::Result<()> {
        Ok(())
    }

    fn describe(&self, name: &str) -> String {
        name.to_owned()
    }
}

struct FaultyFile {
    file: Arc<dyn StoredFile>,
    is_run: bool,
    switches: Arc<Switches>,
}

impl StoredFile for FaultyFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if self.switches.dead.load(Ordering::SeqCst) {
            return Err(io::Error::other("the power is gone"));
        }
        self.file.write_at(offset, bytes)
    }

    #[expect(clippy::disallowed_methods, reason = "a disk that hangs, on a thread of the store's own")]
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        // Only what the engine asks for: a flush or a merge that hung would keep a store that is dropped from its end.
        let is_asked_for = std::thread::current().name() == Some("dwell-reader");
        while self.is_run && is_asked_for && self.switches.hang_cold_reads.load(Ordering::SeqCst) {
            self.switches.hanging_reads.fetch_add(1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(1));
        }
        if self.is_run && self.switches.fail_cold_reads.load(Ordering::SeqCst) {
            return Err(io::Error::other("the disk does not answer"));
        }
        self.file.read_at(offset, into)
    }

    #[expect(clippy::disallowed_methods, reason = "a disk that hangs, on a thread of the store's own")]
    fn sync_data(&self) -> io::Result<()> {
        while self.switches.hang_syncs.load(Ordering::SeqCst) {
            if self.switches.fail_hanging_syncs.load(Ordering::SeqCst) {
                return Err(io::Error::other("the disk is gone"));
            }
            self.switches.hanging.fetch_add(1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
}
