//! What a store says that was damaged, and what is left after a repair.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use dwell_core::{Found, JobView, Lookup, Store, StoreError};
use dwell_store_embedded::storage::{DiskStorage, MemoryStorage};
use dwell_store_embedded::{EmbeddedStore, Place, RepairOptions};

use super::prepared::{Likeness, Prepared, config, key};
use crate::Outcome;

/// How many jobs are asked for at once.
const BATCH: usize = 1_000;

/// What became of a start.
pub(super) enum Start {
    Refused(String),
    Opened(Seen),
    Panicked,
    Hung,
}

/// What an open store says of every job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// Jobs that are there, as they were.
    pub(super) good: u64,
    /// Jobs that live, and the store says that there is none.
    pub(super) lost: Vec<u64>,
    /// Jobs that are not as they were.
    pub(super) changed: Vec<u64>,
    /// Jobs that are as they were put, and of which something that has happened since is not known.
    pub(super) older: Vec<u64>,
    /// Jobs that had ended.
    pub(super) back: Vec<u64>,
    /// Jobs of which it says that they cannot be read.
    pub(super) unreadable: Vec<u64>,
    /// Other answers.
    pub(super) odd: Vec<String>,
    /// What it says of itself.
    pub(super) troubles: Vec<String>,
}

/// What became of a repair.
pub(super) enum Repaired {
    /// What was dropped, how many jobs it says it kept, and the store that came of it.
    Opened { dropped: Vec<String>, kept: u64, seen: Seen },
    /// It failed, or what it made does not open.
    Failed(String),
}

/// Opens a damaged directory and asks for every job.
pub(super) fn start(path: &Path, prepared: &Prepared) -> Start {
    match EmbeddedStore::open(&config(Place::Directory(path.to_owned()))) {
        Err(error) => Start::Refused(error.to_string()),
        Ok(store) => Start::Opened(see(&store, prepared)),
    }
}

/// Repairs a damaged directory elsewhere, which changes nothing of it, and asks for every job.
pub(super) fn repair(path: &Path, prepared: &Prepared) -> Outcome<Repaired> {
    let (from, to) = (DiskStorage::open(path)?, MemoryStorage::default());
    let report = match dwell_store_embedded::repair(&from, &to, RepairOptions::default()) {
        Ok(report) => report,
        Err(error) => return Ok(Repaired::Failed(error.to_string())),
    };
    let place = Place::Storage(Arc::new(to));
    Ok(match EmbeddedStore::open(&config(place)) {
        Err(error) => Repaired::Failed(format!("it does not open: {error}")),
        Ok(store) => Repaired::Opened {
            dropped: report.dropped.iter().map(ToString::to_string).collect(),
            kept: report.jobs,
            seen: see(&store, prepared),
        },
    })
}

fn see(store: &EmbeddedStore, prepared: &Prepared) -> Seen {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime can be made");
    runtime.block_on(async {
        let mut seen = Seen::default();
        for (job, answer) in ask(store, 0..prepared.jobs()).await {
            seen.note(job, answer, prepared.live.get(&job).copied());
        }
        match store.status().await {
            Ok(status) => {
                seen.odd.extend(status.failed.map(|why| format!("the store has failed: {why}")));
                seen.troubles = status.troubles;
            }
            Err(error) => seen.odd.push(format!("the status: {error}")),
        }
        if let Err(error) = store.close().await {
            seen.odd.push(format!("the end: {error}"));
        }
        seen
    })
}

impl Seen {
    /// Takes an answer about a job that should be like `was`, or gone.
    pub(super) fn note(&mut self, job: u64, answer: Result<Option<JobView>, StoreError>, was: Option<Likeness>) {
        match (answer.map(|view| view.as_ref().map(Likeness::of)), was) {
            (Ok(Some(is)), Some(was)) if is == was => self.good += 1,
            (Ok(Some(is)), Some(was)) if is.put == was.put => self.older.push(job),
            (Ok(Some(_)), Some(_)) => self.changed.push(job),
            (Ok(Some(_)), None) => self.back.push(job),
            (Ok(None), Some(_)) => self.lost.push(job),
            (Ok(None), None) => {}
            (Err(StoreError::Unreadable { .. }), _) => self.unreadable.push(job),
            (Err(error), _) => self.odd.push(format!("job {job}: {error}")),
        }
    }
}

/// What a store answers when it is asked for each of these jobs. A batch that has one which cannot be read is asked for
/// in halves.
pub(super) async fn ask(store: &EmbeddedStore, jobs: Range<u64>) -> Vec<(u64, Result<Option<JobView>, StoreError>)> {
    let mut answers = Vec::new();
    let batches = jobs.clone().step_by(BATCH).map(|first| first..(first + BATCH as u64).min(jobs.end));
    let mut left: Vec<Range<u64>> = batches.collect();
    while let Some(batch) = left.pop() {
        match get(store, batch.clone()).await {
            Ok(found) => answers.extend(batch.zip(found.into_iter().map(Ok))),
            Err(error) if batch.end - batch.start == 1 => answers.push((batch.start, Err(error))),
            Err(_) => {
                let half = batch.start.midpoint(batch.end);
                left.extend([half..batch.end, batch.start..half]);
            }
        }
    }
    answers
}

async fn get(store: &EmbeddedStore, jobs: Range<u64>) -> Result<Vec<Option<JobView>>, StoreError> {
    let found = store.get(jobs.map(key).map(Lookup::Job).collect()).await?;
    Ok(found.into_iter().map(|found| found.and_then(Found::live)).collect())
}
