//! What a store's directory holds, and when the store has nothing left to do to it.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use dwell_bench::program::progress;
use dwell_core::{Sizes, Store};

use super::put::OVERHEAD;
use super::world::now;

/// How long nothing may have changed, and how often that is looked at.
const QUIET: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(50);

/// Bytes that the files of a directory take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Disk {
    /// Segments of the journal, in use and spare, and what is kept free for bad times.
    pub(crate) segments: u64,
    /// Everything else: runs, who is dead in them, topics, the manifest.
    pub(crate) rest: u64,
    /// How many files are runs.
    pub(crate) runs: u64,
}

impl Disk {
    pub(crate) fn of(path: &Path) -> Self {
        let files = fs::read_dir(path).expect("the directory can be read");
        let mut disk = Self::default();
        // A file may go while the directory is read.
        for (file, meta) in
            files.filter_map(|file| file.ok().and_then(|file| Some((file.file_name(), file.metadata().ok()?))))
        {
            disk.add(&file.to_string_lossy(), meta.blocks() * 512);
        }
        disk
    }

    fn add(&mut self, name: &str, bytes: u64) {
        if name.starts_with("journal-") || name.starts_with("spare-") || name == "reserve" {
            self.segments += bytes;
        } else {
            self.rest += bytes;
        }
        self.runs += u64::from(name.starts_with("run-"));
    }

    pub(crate) fn all(&self) -> u64 {
        self.segments + self.rest
    }
}

/// Bytes of jobs that live: what each takes in the journal, with its body.
pub(crate) fn live(jobs: u64, body: usize) -> u64 {
    jobs * (body + OVERHEAD) as u64
}

/// Waits until a store has flushed and compacted all it is going to: every run on disk is one that it reads (one that is
/// being written is not, nor is one that is to be removed), and nothing has moved for a second.
pub(crate) async fn rest(store: &dyn Store, path: &Path) -> Duration {
    let begun = now();
    let mut last = look(store, path).await;
    let mut since = now();
    loop {
        tokio::time::sleep(LOOK).await;
        let seen = look(store, path).await;
        if seen != last || !settled(&seen) {
            (last, since) = (seen, now());
        } else if since.elapsed() >= QUIET {
            progress("");
            return begun.elapsed();
        }
        progress(&format!(
            "{} runs on disk, {} read; {:.0} s",
            seen.1.runs,
            seen.0.shelf_runs,
            begun.elapsed().as_secs_f64()
        ));
    }
}

async fn look(store: &dyn Store, path: &Path) -> (Sizes, Disk) {
    let sizes = store.status().await.expect("status answers").measures.sizes.expect("it measures itself");
    // Others write to the disk as well.
    (Sizes { disk_free: None, ..sizes }, Disk::of(path))
}

fn settled((sizes, disk): &(Sizes, Disk)) -> bool {
    sizes.shelf_runs == disk.runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_count_for_what_they_are() {
        let mut disk = Disk::default();
        for name in ["journal-01", "spare-01", "reserve"] {
            disk.add(name, 1);
        }
        for name in ["run-01", "run-02", "dead-01-02", "topics-01", "manifest"] {
            disk.add(name, 10);
        }
        assert_eq!((disk, disk.all()), (Disk { segments: 3, rest: 50, runs: 2 }, 53));
    }

    #[test]
    fn a_run_that_is_written_or_removed_is_no_rest() {
        let sizes = Sizes { shelf_runs: 2, ..Sizes::default() };
        let on_disk = |runs| settled(&(sizes, Disk { runs, ..Disk::default() }));
        assert_eq!([2, 3, 1].map(on_disk), [true, false, false]);
    }
}
