//! Who puts jobs, and moves or cancels some of them.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use dwell_client::wire::cancel::{CancelJobs, JobName};
use dwell_client::wire::change::ChangeJob;
use dwell_client::wire::put::{PutJob, PutJobs, PutResult};
use dwell_client::wire::retry::{Backoff, LooseDuration, Retry};
use dwell_client::wire::{Duration as Millis, job};
use dwell_client::{Client, Guard};
use serde_json::value::RawValue;
use tokio::time::sleep;

use super::{LOADING, OVER, Shared};
use crate::history::{Answer, Ask, Stored};
use crate::job::Key;

/// Jobs of one cancel at the end.
const REAPED: usize = 2_000;

/// Moves after a batch, at most: each is a call.
const MOVES: usize = 4;

pub(super) async fn run(shared: Arc<Shared>, writer: u16) {
    while shared.is(LOADING) {
        let Some(client) = shared.client().await else { continue };
        let stored =
            if writer == 0 { put_one(&shared, &client).await } else { put_batch(&shared, &client, writer).await };
        shared.stored.fetch_add(stored.len() as u64, Ordering::Relaxed);
        let cancelled: Vec<Key> = stored.iter().copied().filter(|key| key.is_cancelled()).collect();
        if !cancelled.is_empty() {
            cancel(&shared, &client, &cancelled).await;
        }
        for (key, delay) in stored.iter().filter_map(|key| Some((*key, key.moved_to()?))).take(MOVES) {
            move_to(&shared, &client, key, delay).await;
        }
        if !shared.load.rest.is_zero() {
            sleep(shared.load.rest).await;
        }
    }
}

/// Cancels all that is not meant to become due; what consumers hold goes with their acks.
pub(super) async fn reap(shared: Arc<Shared>) {
    for (writer, next) in (0..).zip(&shared.next) {
        let keys = (0..next.load(Ordering::SeqCst)).map(|seq| Key(shared.round, writer, seq));
        let far: Vec<Key> = keys.filter(|key| key.is_far()).collect();
        for keys in far.chunks(REAPED) {
            loop {
                if shared.is(OVER) {
                    return;
                }
                if let Some(client) = shared.client().await
                    && cancel(&shared, &client, keys).await
                {
                    break;
                }
                sleep(Duration::from_millis(20)).await;
            }
        }
    }
}

/// Puts one job under its id; says which, if it was stored.
async fn put_one(shared: &Shared, client: &Client) -> Vec<Key> {
    let seq = shared.next[0].fetch_add(1, Ordering::SeqCst);
    let key = Key(shared.round, 0, seq);
    let body = raw(key);
    let put = PutJob { topic: None, id: None, ..ask(key, &body) };
    let id = key.to_string();
    let call = client.put(key.topic(), &id, &put, Guard::default());
    let asked = Ask::Put { round: shared.round, writer: 0, first: seq, count: 1 };
    let read = |job: &job::Job| Answer::Put(vec![Stored::Created(job.due_at.0, job.version)]);
    shared.ask(asked, call, read).await.map(|_| key).into_iter().collect()
}

/// Puts a batch; says what was stored of it.
async fn put_batch(shared: &Shared, client: &Client, writer: u16) -> Vec<Key> {
    let most = u64::from(shared.load.batch);
    let count = if most >= 500 { most } else { 1 + shared.chance(writer.into(), most) };
    let count = u32::try_from(count).unwrap_or(1);
    let first = shared.next[usize::from(writer)].fetch_add(count, Ordering::SeqCst);
    let keys: Vec<Key> = (first..first + count).map(|seq| Key(shared.round, writer, seq)).collect();
    let bodies: Vec<Box<RawValue>> = keys.iter().map(|key| raw(*key)).collect();
    let jobs = PutJobs { jobs: keys.iter().zip(&bodies).map(|(key, body)| ask(*key, body)).collect() };
    let asked = Ask::Put { round: shared.round, writer, first, count };
    let read = |results: &Vec<PutResult>| Answer::Put(results.iter().map(stored).collect());
    let Some(results) = shared.ask(asked, client.put_many(&jobs), read).await else { return Vec::new() };
    let created = keys.into_iter().zip(results).filter(|(_, result)| result.status == 201);
    created.map(|(key, _)| key).collect()
}

fn stored(result: &PutResult) -> Stored {
    match (result.status, result.due_at, result.version) {
        (201, Some(due), Some(version)) => Stored::Created(due.0, version),
        (status, ..) => Stored::Refused(status),
    }
}

fn raw(key: Key) -> Box<RawValue> {
    RawValue::from_string(key.body()).expect("bodies are JSON")
}

fn ask(key: Key, body: &RawValue) -> PutJob<'_> {
    // It is tried again at once and as often as it takes.
    let backoff = Backoff::Ladder(vec![LooseDuration(Millis(0))]);
    PutJob {
        topic: Some(Cow::Borrowed(key.topic())),
        id: Some(Cow::Owned(key.to_string())),
        delay: Some(Millis(key.delay())),
        priority: Some(key.priority()),
        body: Some(body),
        retry: Some(Retry { attempts: Some(1_000_000), backoff: Some(backoff) }),
        ..PutJob::default()
    }
}

/// Cancels jobs; false if no answer came.
async fn cancel(shared: &Shared, client: &Client, keys: &[Key]) -> bool {
    let named = |key: &Key| JobName { topic: Cow::Borrowed(key.topic()), id: Cow::Owned(key.to_string()) };
    let jobs = CancelJobs { jobs: keys.iter().map(named).collect() };
    let asked = Ask::Cancel { jobs: keys.to_vec() };
    let call = client.cancel_many(&jobs);
    shared
        .ask(asked, call, |results| Answer::Each(results.iter().map(|result| result.status).collect()))
        .await
        .is_some()
}

async fn move_to(shared: &Shared, client: &Client, key: Key, delay: u64) {
    let change = ChangeJob { delay: Some(Millis(delay)), ..ChangeJob::default() };
    let id = key.to_string();
    let call = client.change(key.topic(), &id, &change, Guard::default());
    let read = |job: &job::Job| Answer::Moved { due: job.due_at.0, version: job.version };
    shared.ask(Ask::Move { job: key, delay }, call, read).await;
}
