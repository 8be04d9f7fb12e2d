//! What every measurement needs: a directory, a store, and jobs.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use dwell_core::{Body, Delay, JobId, NewId, NewJob, PutError, PutOutcome, Store, TopicName, When};
use dwell_store_embedded::{Config, EmbeddedStore};

pub(crate) const MEBI: f64 = 1_048_576.0;

/// More than are asked for.
const MAX_TOPICS: usize = 1 << 20;

/// A place to measure in.
pub(crate) struct World {
    pub(crate) runtime: tokio::runtime::Runtime,
    pub(crate) jobs: usize,
    pub(crate) body: Body,
    /// Bytes of memory that jobs may take.
    pub(crate) memory: usize,
    directory: tempfile::TempDir,
}

impl World {
    pub(crate) fn new(parent: &Path, jobs: usize, body: usize, memory: usize) -> io::Result<Self> {
        let directory = tempfile::Builder::new().prefix("dwell-bench-").tempdir_in(parent)?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        Ok(Self { runtime, jobs, body: Body::Bytes(Arc::from(vec![b'x'; body])), memory, directory })
    }

    /// A path of its own in the directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A fresh store.
    pub(crate) fn store(&self, name: &str) -> Arc<dyn Store> {
        self.open(&self.path(name))
    }

    /// The store in this directory.
    pub(crate) fn open(&self, path: &Path) -> Arc<dyn Store> {
        let config = Config { max_topics: MAX_TOPICS, ..Config::in_directory(path) }.with_memory(self.memory);
        Arc::new(EmbeddedStore::open(&config).expect("the store opens"))
    }

    /// A job of a topic, due after `delay` milliseconds, known to nobody else.
    pub(crate) fn job(&self, topic: &TopicName, id: u64, delay: u64) -> NewJob {
        job(topic, id, delay, &self.body)
    }
}

/// A job with a body of its own, as if it had come over a wire.
pub(crate) fn job(topic: &TopicName, id: u64, delay: u64, body: &Body) -> NewJob {
    let body = Body::Bytes(Arc::from(body.as_bytes()));
    let id = JobId::new(&format!("job-{id:012}")).expect("a good id");
    let when = When::In(Delay::from_millis(delay).expect("within ten years"));
    let new = NewJob::new(topic.clone(), id.clone(), when);
    NewJob { id: NewId::Named(id), body, ..new }
}

/// Every one of these was put.
pub(crate) fn taken(answers: &[Result<PutOutcome, PutError>]) {
    let refused = answers.iter().find_map(|answer| answer.as_ref().err());
    assert!(refused.is_none(), "a job was refused: {refused:?}; with little room in memory try a larger --memory");
}

pub(crate) fn topic(name: &str) -> TopicName {
    TopicName::new(name).expect("a good topic")
}

#[expect(clippy::disallowed_methods, reason = "measuring is reading clocks")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// The value below which this share of all lies, in milliseconds.
pub(crate) fn percentile(durations: &mut [Duration], share: f64) -> f64 {
    durations.sort_unstable();
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an index"
    )]
    let index = ((durations.len() as f64 - 1.0) * share) as usize;
    durations.get(index).map_or(0.0, |duration| duration.as_secs_f64() * 1_000.0)
}

pub(crate) fn rate(count: usize, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64()
}

/// The one in the middle.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_and_medians_are_of_what_is_there() {
        let mut hundred: Vec<Duration> = (1..=100).rev().map(Duration::from_millis).collect();
        let at = [0.0, 0.5, 0.99, 1.0].map(|share| percentile(&mut hundred, share).to_string());
        assert_eq!(at, ["1", "50", "99", "100"]);
        assert_eq!(percentile(&mut [], 0.5).to_string(), "0");
        assert_eq!(median([3.0, 1.0, 2.0]).to_string(), "2");
        assert!(median([]).is_nan());
    }
}
