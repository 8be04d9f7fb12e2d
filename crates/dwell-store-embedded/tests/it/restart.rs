//! What is there after a restart: everything that was answered, and nothing twice.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use dwell_core::{LeaseRequest, Phase, Rate, SetPause, State, Store, TopicPolicy, Ttr, Verdict};
use dwell_store_embedded::storage::MemoryStorage;
use dwell_store_embedded::{Config, EmbeddedStore};

use crate::subject::fresh_directory;
use crate::world::{find, lease, new_job, open, put, settle, topic};

#[tokio::test]
async fn leases_attempts_and_tokens_survive() {
    let storage = MemoryStorage::default();
    let store = open(Arc::new(storage.clone())).unwrap();
    put(&store, "a").await.unwrap();
    let first = lease(&store).await;
    settle(&store, &first, Verdict::Nack { error: None, delay: Some(dwell_core::Delay::ZERO) }).await;
    let held = lease(&store).await;

    let store = open(Arc::new(storage.image())).unwrap();
    let found = find(&store, "a").await.expect("it was answered");
    assert_eq!((found.state, found.job.attempt), (State::Leased, 2));
    assert_eq!(found.job.body, held.view.job.body);
    settle(&store, &held, Verdict::Ack).await;
    assert_eq!(find(&store, "a").await, None);
}

/// A job's later records have no body, and where a job was another may be by then: each must get its own back.
#[tokio::test]
async fn no_job_gets_what_belongs_to_another() {
    let storage = MemoryStorage::default();
    let store = open(Arc::new(storage.clone())).unwrap();
    put(&store, "gone").await.unwrap();
    let held = lease(&store).await;
    settle(&store, &held, Verdict::Ack).await;
    // It takes the place of the one that is gone, and nothing else happens to it.
    let delay = dwell_core::Delay::from_millis(3_600_000).unwrap();
    let waits = dwell_core::NewJob { when: dwell_core::When::In(delay), ..new_job("waits") };
    assert!(store.put(vec![waits]).await.unwrap()[0].is_ok());
    put(&store, "buried").await.unwrap();
    let held = lease(&store).await;
    settle(&store, &held, Verdict::Bury { reason: None, priority: None }).await;
    put(&store, "late").await.unwrap();
    let held = lease(&store).await;
    settle(&store, &held, Verdict::Nack { error: None, delay: Some(delay) }).await;
    put(&store, "held").await.unwrap();
    let held = lease(&store).await;
    put(&store, "fresh").await.unwrap();
    let names = ["waits", "buried", "late", "held", "fresh"];
    let mut before = Vec::new();
    for name in names {
        before.push(find(&store, name).await.expect("it was answered"));
    }
    assert_eq!(held.view.job, before[3].job);

    let storage = storage.image();
    for round in 0..2 {
        let store = open(Arc::new(storage.clone())).unwrap();
        for (name, before) in names.iter().zip(&before) {
            let mut after = find(&store, name).await.expect("it was answered").job;
            if let (Phase::Leased(after), Phase::Leased(before)) = (&mut after.phase, &before.job.phase) {
                after.expires_at = before.expires_at;
            }
            assert_eq!(after, before.job, "round {round}");
        }
        assert_eq!(find(&store, "gone").await, None);
        let counts = store.topic(topic()).await.unwrap().expect("it is there").counts;
        assert_eq!(State::ALL.map(|state| counts[state]), [2, 1, 1, 1], "round {round}");
    }
}

#[tokio::test]
async fn a_lease_gets_its_time_anew_after_a_restart() {
    let storage = MemoryStorage::default();
    let store = open(Arc::new(storage.clone())).unwrap();
    put(&store, "a").await.unwrap();
    let held = lease(&store).await;
    settle(&store, &held, Verdict::Extend { ttr: Some(Ttr::MIN) }).await;
    let before = store.status().await.unwrap().now;
    let store = open(Arc::new(storage.image())).unwrap();
    let Phase::Leased(lease) = find(&store, "a").await.expect("it was answered").job.phase else {
        panic!("not leased")
    };
    assert!(lease.expires_at >= before.plus(60_000), "down time is not the holder's fault");
}

#[tokio::test]
async fn a_rate_begins_with_a_full_burst_after_a_restart() {
    let storage = MemoryStorage::default();
    let store = open(Arc::new(storage.clone())).unwrap();
    let policy = TopicPolicy { max_rate: Rate::per_second(0.01), ..TopicPolicy::default() };
    store.set_policy(topic(), policy).await.unwrap().unwrap();
    for name in ["a", "b", "c"] {
        put(&store, name).await.unwrap();
    }
    let all = LeaseRequest::of(topic()).up_to(3);
    assert_eq!(store.lease(all.clone()).await.unwrap().len(), 1);
    let store = open(Arc::new(storage.image())).unwrap();
    assert_eq!(store.lease(all.clone()).await.unwrap().len(), 1, "what was used before is not kept");
    assert_eq!(store.lease(all).await.unwrap().len(), 0);
}

#[tokio::test]
async fn versions_and_numbers_go_on_where_they_were() {
    let storage = MemoryStorage::default();
    let mut last = None;
    for round in 0..4 {
        let store = open(Arc::new(storage.clone())).unwrap();
        for _ in 0..3 {
            let receipt = put(&store, "a").await.unwrap();
            assert!(Some((receipt.number, receipt.version)) > last, "round {round}: {receipt:?} after {last:?}");
            last = Some((receipt.number, receipt.version));
        }
        if round % 2 == 0 {
            store.close().await.unwrap();
        }
        drop(store);
    }
}

/// A power cut without syncs may lose the whole journal. What was given out is still never given out again.
#[tokio::test]
async fn versions_and_numbers_never_repeat_even_if_the_journal_is_lost() {
    let storage = MemoryStorage::default();
    let store = open(Arc::new(storage.clone())).unwrap();
    let before = put(&store, "a").await.unwrap();
    let cut = storage.image();
    wipe_journal(&cut);
    let store = open(Arc::new(cut)).unwrap();
    assert_eq!(find(&store, "a").await, None, "it is lost indeed");
    let after = put(&store, "a").await.unwrap();
    assert!(after.number > before.number && after.version > before.version, "{after:?} after {before:?}");
}

fn wipe_journal(storage: &MemoryStorage) {
    use dwell_store_embedded::storage::Storage;
    for name in storage.list().unwrap().into_iter().filter(|name| name.starts_with("journal-")) {
        let file = storage.open(&name).unwrap();
        let rest = usize::try_from(file.len().unwrap()).unwrap().saturating_sub(4_096);
        file.write_at(4_096, &vec![0; rest]).unwrap();
    }
}

#[tokio::test]
async fn policies_pauses_and_totals_survive_many_segments() {
    let storage = MemoryStorage::default();
    let store = open(Arc::new(storage.clone())).unwrap();
    let policy = TopicPolicy { ttr: Some(Ttr::MAX), ..TopicPolicy::default() };
    store.set_policy(topic(), policy.clone()).await.unwrap().unwrap();
    put(&store, "keeper").await.unwrap();
    // Far more than the segments that are kept: the first ones are freed long before the end.
    for round in 0..400 {
        put(&store, "a").await.unwrap();
        let held = store.lease(LeaseRequest::of(topic()).up_to(2)).await.unwrap();
        for job in held.iter().filter(|job| job.view.job.id.as_str() == "a") {
            settle(&store, job, Verdict::Ack).await;
        }
        let release = Verdict::Release { delay: None, priority: None };
        for job in held.iter().filter(|job| job.view.job.id.as_str() != "a") {
            settle(&store, job, release.clone()).await;
        }
        assert_eq!(find(&store, "a").await, None, "round {round}");
    }
    store.pause(topic(), SetPause::On).await.unwrap().unwrap();
    let before = store.topic(topic()).await.unwrap().expect("it is there");
    assert_eq!((before.totals.put, before.totals.acked, before.totals.released), (401, 400, 400));
    let segments = journal_files(&storage);
    assert!(segments < 40, "old segments are freed: {segments} are left");

    let store = open(Arc::new(storage.image())).unwrap();
    let after = store.topic(topic()).await.unwrap().expect("it is there");
    assert_eq!((after.totals, after.policy, after.pause), (before.totals, policy, dwell_core::Pause::On));
    assert_eq!(find(&store, "keeper").await.expect("it was answered").job.body.as_bytes(), b"keeper");
}

fn journal_files(storage: &MemoryStorage) -> usize {
    use dwell_store_embedded::storage::Storage;
    storage.list().unwrap().iter().filter(|name| name.starts_with("journal-")).count()
}

#[tokio::test]
async fn real_files_survive_a_close_and_a_drop() {
    let directory = fresh_directory();
    let config = Config { segment: 1 << 20, ..Config::in_directory(&directory) };
    for round in 0..3 {
        let store = EmbeddedStore::open(&config).unwrap();
        for earlier in 0..round {
            assert!(find(&store, &earlier.to_string()).await.is_some(), "job {earlier} in round {round}");
        }
        put(&store, &round.to_string()).await.unwrap();
        if round == 0 {
            store.close().await.unwrap();
        }
    }
    std::fs::remove_dir_all(directory).unwrap();
}

#[tokio::test]
async fn a_call_larger_than_a_frame_is_as_durable_as_any() {
    let storage = MemoryStorage::default();
    let store = open(Arc::new(storage.clone())).unwrap();
    let big = |k: u8| {
        let body = dwell_core::Body::Bytes(Arc::from(vec![k; 6 << 20]));
        dwell_core::NewJob { body, ..new_job(&k.to_string()) }
    };
    let answers = store.put((0..4).map(big).collect()).await.unwrap();
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    let store = open(Arc::new(storage.image())).unwrap();
    for k in 0..4_u8 {
        let job = find(&store, &k.to_string()).await.expect("it was answered").job;
        assert!(job.body.len() == 6 << 20 && job.body.as_bytes().iter().all(|byte| *byte == k));
    }
}

/// A sync of a file that grows has metadata to write, too, which a disk that dies may lose: so nothing is answered from one.
#[tokio::test]
async fn the_first_answer_is_in_a_file_of_full_length() {
    let directory = fresh_directory();
    let config = Config::in_directory(&directory);
    // In a new directory, and where an earlier run left no spare.
    for name in ["a", "b"] {
        let store = EmbeddedStore::open(&config).unwrap();
        put(&store, name).await.unwrap();
        let lengths: Vec<_> = files(&directory, "journal-").map(|path| path.metadata().unwrap().len()).collect();
        assert!(!lengths.is_empty() && lengths.iter().all(|length| *length == config.segment), "{lengths:?}");
        drop(store);
        files(&directory, "spare-").for_each(|path| std::fs::remove_file(path).unwrap());
    }
    std::fs::remove_dir_all(directory).unwrap();
}

fn files(directory: &Path, prefix: &'static str) -> impl Iterator<Item = PathBuf> {
    let paths = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    paths.filter(move |path| path.file_name().unwrap().to_string_lossy().starts_with(prefix))
}
