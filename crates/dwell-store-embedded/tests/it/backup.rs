//! A copy that is made while the store is in use opens, and has everything that was there when it was begun.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use dwell_core::{Body, Delay, NewJob, Store, When};
use dwell_store_embedded::{BackupError, Config, EmbeddedStore, RepairOptions, backup, repair_directory};

use crate::subject::fresh_directory;
use crate::world::{find, lease, new_job, put, settle};

fn config(directory: &std::path::Path) -> Config {
    let tiny = Config { tail: 4 << 20, memory: 16 << 20, segment: 256 << 10, ..Config::in_directory(directory) };
    Config { durability: dwell_store_embedded::Durability::None, ..tiny }
}

fn far(number: usize) -> NewJob {
    let when = When::In(Delay::from_millis(3_600_000).unwrap());
    NewJob { body: Body::Bytes(Arc::from(vec![7; 200])), when, ..new_job(&number.to_string()) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_in_use_can_be_copied() {
    let directory = fresh_directory();
    let store = Arc::new(EmbeddedStore::open(&config(&directory)).unwrap());
    let (put_so_far, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let putting = {
        let (store, put_so_far, stop) = (Arc::clone(&store), Arc::clone(&put_so_far), Arc::clone(&stop));
        tokio::spawn(async move {
            while !stop.load(Ordering::SeqCst) {
                let first = put_so_far.load(Ordering::SeqCst);
                let batch = (first..first + 20).map(far).collect();
                assert!(store.put(batch).await.unwrap().iter().all(Result::is_ok));
                put_so_far.store(first + 20, Ordering::SeqCst);
            }
        })
    };
    for round in 0..5 {
        while put_so_far.load(Ordering::SeqCst) < (round + 1) * 20_000 {
            tokio::task::yield_now().await;
        }
        let before = put_so_far.load(Ordering::SeqCst);
        let into = directory.with_extension(format!("copy-{round}"));
        let (from, to) = (directory.clone(), into.clone());
        let copied = tokio::task::spawn_blocking(move || backup(&from, &to)).await.unwrap().unwrap();
        assert!(copied.jobs >= before as u64, "{copied:?}, {before} were put before");
        let copy = EmbeddedStore::open(&config(&into)).unwrap();
        for number in (0..before).step_by(97) {
            assert!(find(&copy, &number.to_string()).await.is_some(), "job {number} of {before}, round {round}");
        }
        drop(copy);
        std::fs::remove_dir_all(into).unwrap();
    }
    stop.store(true, Ordering::SeqCst);
    putting.await.unwrap();
    drop(store);
    std::fs::remove_dir_all(directory).unwrap();
}

#[tokio::test]
async fn a_copy_goes_nowhere_where_something_is_and_there_must_be_a_store() {
    let directory = fresh_directory();
    let none = backup(&directory, &directory.with_extension("copy"));
    assert!(matches!(none, Err(BackupError::NoStore { .. })), "{none:?}");
    drop(EmbeddedStore::open(&config(&directory)).unwrap());
    let there = backup(&directory, &directory);
    assert!(matches!(there, Err(BackupError::InTheWay { .. })), "{there:?}");
    std::fs::remove_dir_all(directory).unwrap();
}

#[tokio::test]
async fn a_damaged_directory_is_repaired_and_kept_beside() {
    let directory = fresh_directory();
    let store = EmbeddedStore::open(&config(&directory)).unwrap();
    for number in 0..50 {
        put(&store, &number.to_string()).await.unwrap();
    }
    let held = lease(&store).await;
    settle(&store, &held, dwell_core::Verdict::Ack).await;
    store.close().await.unwrap();
    drop(store);
    let whole = repair_directory(&directory, RepairOptions::default()).unwrap();
    assert!(whole.old.is_none() && whole.found.dropped.is_empty() && whole.found.jobs == 49, "{whole:?}");

    let journal = directory.join("journal-0000000000000001");
    let mut bytes = std::fs::read(&journal).unwrap();
    // The third frame: each put is one of its own.
    bytes[3 * 4096 + 70] ^= 1;
    std::fs::write(&journal, bytes).unwrap();
    assert!(EmbeddedStore::open(&config(&directory)).is_err());
    let repaired = repair_directory(&directory, RepairOptions::default()).unwrap();
    assert_eq!((repaired.found.jobs, repaired.found.dropped.len()), (48, 1), "{repaired:?}");
    assert!(repaired.found.dropped[0].to_string().contains("at byte 12288"), "{repaired:?}");
    let store = EmbeddedStore::open(&config(&directory)).unwrap();
    assert!(find(&store, "2").await.is_none());
    assert!(find(&store, "3").await.is_some());
    drop(store);
    std::fs::remove_dir_all(repaired.old.unwrap()).unwrap();
    std::fs::remove_dir_all(directory).unwrap();
}
