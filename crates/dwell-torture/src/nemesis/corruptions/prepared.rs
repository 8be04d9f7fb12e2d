//! The directory that is damaged: made once, copied for every try.

use std::collections::HashMap;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dwell_core::{
    Body, CancelItem, Delay, JobId, JobRef, JobView, LeaseRequest, NewJob, Phase, Settle, Store, TopicName, Ttr,
    Verdict, When,
};
use dwell_store_embedded::{Config, Durability, EmbeddedStore, Place};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::look;
use crate::Outcome;

const BATCH: u64 = 500;

/// Of so many jobs one is ready, one is cancelled.
const READY: u64 = 10;
const CANCELLED: u64 = 9;

/// How many are leased and settled, and how many stay leased.
const SETTLED: u32 = 200;
const LEASED: u32 = 50;

pub(super) struct Prepared {
    place: PathBuf,
    data: PathBuf,
    jobs: u64,
    /// What every job that lives is like.
    pub(super) live: HashMap<u64, Likeness>,
    /// Names of files that may be damaged, in order.
    pub(super) files: Vec<String>,
    /// What runs were like: they are linked, and nobody may write to them.
    runs: u64,
}

/// Small enough that a part is in runs, with dead jobs, and a part in several segments. To find a job a block is read:
/// small ones make it quick to ask for all of them.
pub(super) fn config(place: Place) -> Config {
    let base = Config::in_directory("");
    let (segment, tail, block, memory) = (1 << 20, 4 << 20, 2 << 10, 16 << 20);
    Config { place, durability: Durability::Sync, segment, tail, block, memory, ..base }
}

pub(super) fn topic() -> TopicName {
    TopicName::new("corruptions").expect("a good topic")
}

pub(super) fn key(job: u64) -> JobRef {
    JobRef::Named(topic(), JobId::new(&job.to_string()).expect("a good id"))
}

fn body(job: u64) -> Vec<u8> {
    let times = usize::try_from(1 + job % 7).unwrap_or(1);
    format!("the body of job {job}, ").repeat(times).into_bytes()
}

/// What a job is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Likeness {
    /// What was put: two jobs that differ in anything of it differ in this.
    pub(super) put: u64,
    /// What has happened since.
    pub(super) attempt: u32,
    pub(super) is_buried: bool,
}

impl Likeness {
    pub(super) fn of(view: &JobView) -> Self {
        let job = &view.job;
        let mut hasher = DefaultHasher::new();
        (job.id.as_str(), job.number.get(), job.body.as_bytes()).hash(&mut hasher);
        (job.due_at.as_millis(), job.created_at.as_millis()).hash(&mut hasher);
        let is_buried = matches!(job.phase, Phase::Buried { .. });
        Self { put: hasher.finish(), attempt: job.attempt, is_buried }
    }
}

impl Prepared {
    pub(super) fn make(place: &Path, jobs: u64) -> Outcome<Self> {
        let data = place.join("whole");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let store = EmbeddedStore::open(&config(Place::Directory(data.clone())))?;
        let ended = runtime.block_on(fill(&store, jobs))?;
        runtime.block_on(store.close())?;
        drop(store);
        let mut prepared =
            Self { place: place.to_owned(), data, jobs, live: HashMap::new(), files: Vec::new(), runs: 0 };
        prepared.live = prepared.learn(&runtime, &ended)?;
        prepared.files = prepared.names()?;
        if !prepared.files.iter().any(|name| name.starts_with("run-")) {
            return Err("nothing is in the cold tier".into());
        }
        prepared.runs = prepared.runs_now()?;
        Ok(prepared)
    }

    /// Asks a store that was never damaged, after comparing it with what was put.
    fn learn(&self, runtime: &Runtime, ended: &[u64]) -> Outcome<HashMap<u64, Likeness>> {
        let copy = self.copy(u64::MAX)?;
        let store = EmbeddedStore::open(&config(Place::Directory(copy.path().to_owned())))?;
        let mut live = HashMap::new();
        for (job, answer) in runtime.block_on(look::ask(&store, 0..self.jobs)) {
            let view = answer.map_err(|error| format!("job {job}: {error}"))?;
            if view.is_some() == ended.contains(&job) {
                return Err(format!("job {job} is wrong before anything is damaged").into());
            }
            if view.as_ref().is_some_and(|view| view.job.body.as_bytes() != body(job)) {
                return Err(format!("job {job} has another's body before anything is damaged").into());
            }
            live.extend(view.map(|view| (job, Likeness::of(&view))));
        }
        runtime.block_on(store.close())?;
        Ok(live)
    }

    pub(super) fn jobs(&self) -> u64 {
        self.jobs
    }

    pub(super) fn live(&self) -> u64 {
        self.live.len() as u64
    }

    /// A copy that is gone when this value is. Runs are never written to: they are linked.
    pub(super) fn copy(&self, seed: u64) -> Outcome<TempDir> {
        let copy = tempfile::Builder::new().prefix(&format!("try-{seed}-")).tempdir_in(&self.place)?;
        for name in self.names()? {
            let (from, to) = (self.data.join(&name), copy.path().join(&name));
            if name.starts_with("run-") { fs::hard_link(from, to)? } else { fs::copy(from, to).map(drop)? }
        }
        Ok(copy)
    }

    pub(super) fn bytes(&self, name: &str) -> Outcome<Vec<u8>> {
        Ok(fs::read(self.data.join(name))?)
    }

    /// Whether nobody has written to what is linked.
    pub(super) fn is_as_made(&self) -> Outcome<bool> {
        Ok(self.runs_now()? == self.runs)
    }

    pub(super) fn described(&self) -> String {
        let count = |prefix: &str| self.files.iter().filter(|name| name.starts_with(prefix)).count();
        let (runs, dead, segments) = (count("run-"), count("dead-"), count("journal-"));
        format!("{} jobs live, in {runs} runs, {dead} files of dead jobs, {segments} segments", self.live())
    }

    /// Files that mean something: neither room that is kept nor the lock.
    fn names(&self) -> Outcome<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.data)? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.retain(|name| !name.starts_with("spare") && name != "reserve" && name != "lock");
        names.sort();
        Ok(names)
    }

    fn runs_now(&self) -> Outcome<u64> {
        let mut hasher = DefaultHasher::new();
        for name in self.files.iter().filter(|name| name.starts_with("run-")) {
            (name, self.bytes(name)?).hash(&mut hasher);
        }
        Ok(hasher.finish())
    }
}

/// Puts jobs; cancels, acks and buries some, holds a few. Which have ended.
async fn fill(store: &EmbeddedStore, jobs: u64) -> Outcome<Vec<u64>> {
    for first in (0..jobs).step_by(usize::try_from(BATCH)?) {
        let batch: Result<Vec<NewJob>, _> = (first..(first + BATCH).min(jobs)).map(new_job).collect();
        let answers = store.put(batch?).await?;
        answers.into_iter().collect::<Result<Vec<_>, _>>()?;
    }
    let mut ended = Vec::new();
    let step = usize::try_from(CANCELLED)?;
    for job in (1..jobs).step_by(step).filter(|job| !job.is_multiple_of(READY)) {
        let cancelled = store.cancel(vec![CancelItem::new(key(job))]).await?;
        cancelled.into_iter().collect::<Result<Vec<_>, _>>()?;
        ended.push(job);
    }
    let held = store.lease(LeaseRequest::of(topic()).up_to(SETTLED)).await?;
    for (at, job) in held.iter().enumerate() {
        let acked = at.is_multiple_of(2);
        let verdict = if acked { Verdict::Ack } else { Verdict::Bury { reason: None, priority: None } };
        let token = job.token.ok_or("a lease has a token")?;
        store.settle(vec![Settle::new(token, verdict)]).await?.into_iter().collect::<Result<Vec<_>, _>>()?;
        if acked {
            ended.push(job.view.job.id.as_str().parse()?);
        }
    }
    // For longer than any look at them takes, also where that is stopped for a while.
    let held = LeaseRequest { ttr: Some(Ttr::MAX), ..LeaseRequest::of(topic()).up_to(LEASED) };
    store.lease(held).await?;
    Ok(ended)
}

fn new_job(job: u64) -> Outcome<NewJob> {
    let delay = if job.is_multiple_of(READY) { 0 } else { 86_400_000 + job };
    let id = JobId::new(&job.to_string())?;
    let new = NewJob::new(topic(), id, When::In(Delay::from_millis(delay)?));
    Ok(NewJob { body: Body::Bytes(Arc::from(body(job))), ..new })
}
