//! Callers that share the work of going over many jobs in batches.

use std::future::Future;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dwell_bench::memory;
use dwell_bench::program::progress;

/// How many there are.
pub(crate) const CALLERS: usize = 4;

/// Does something to each batch of a range, some at a time. Nobody keeps a list of jobs: there are too many.
pub(crate) async fn batches<F>(range: Range<u64>, batch: u64, work: impl Fn(Range<u64>) -> F + Clone + Send + 'static)
where
    F: Future<Output = ()> + Send,
{
    let next = Arc::new(AtomicU64::new(range.start));
    let callers: Vec<_> = (0..CALLERS)
        .map(|_| {
            let (next, work, range) = (Arc::clone(&next), work.clone(), range.clone());
            tokio::spawn(async move {
                loop {
                    let first = next.fetch_add(batch, Ordering::Relaxed);
                    if first >= range.end {
                        return;
                    }
                    work(first..(first + batch).min(range.end)).await;
                    if ((first - range.start) / batch).is_multiple_of(256) {
                        let (done, all) = (first - range.start, range.end - range.start);
                        progress(&format!("{done} of {all} jobs, {} MiB of memory", memory::resident_bytes() >> 20));
                    }
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.expect("no caller panics");
    }
    progress("");
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[tokio::test]
    async fn every_job_is_in_one_batch() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let noting = Arc::clone(&seen);
        batches(5..1_008, 10, move |batch| {
            let noting = Arc::clone(&noting);
            async move { noting.lock().unwrap().extend(batch) }
        })
        .await;
        let mut seen = seen.lock().unwrap().clone();
        seen.sort_unstable();
        assert!(seen.into_iter().eq(5..1_008));
    }
}
