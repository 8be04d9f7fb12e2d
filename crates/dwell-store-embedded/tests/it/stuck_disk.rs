//! A disk that hangs, and then fails or goes on: everybody is answered, and nobody too early.

use std::sync::Arc;
use std::time::Duration;

use dwell_core::{Body, NewJob, Store};
use dwell_store_embedded::{Config, Durability, EmbeddedStore};

use crate::faulty::Faulty;
use crate::world::{config, new_job, open, put};

#[tokio::test]
async fn a_full_batch_is_answered_when_the_journal_fails() {
    let storage = Faulty::default();
    let settings = Config { segment: 64 << 20, ..config(Arc::new(storage.clone())) };
    let store = Arc::new(EmbeddedStore::open(&settings).unwrap());
    put(&*store, "a").await.unwrap();
    storage.hang();
    let call = |k: u8| {
        let store = Arc::clone(&store);
        let body = Body::Bytes(Arc::from(vec![k; 1 << 20]));
        tokio::spawn(async move { store.put(vec![NewJob { body, ..new_job(&k.to_string()) }]).await })
    };
    let first = call(0);
    storage.until_hanging().await;
    // More than a batch takes while the frame before it hangs.
    let mut calls: Vec<_> = (1..45).map(call).collect();
    calls.push(first);
    for _ in 0..100 {
        store.status().await.unwrap();
    }
    storage.fail();
    for call in calls {
        let answer = tokio::time::timeout(Duration::from_secs(10), call).await.expect("every call is answered");
        assert!(answer.unwrap().is_err());
    }
}

#[tokio::test]
async fn close_says_so_when_not_everything_is_durable() {
    let storage = Faulty::default();
    let settings = Config { durability: Durability::None, ..config(Arc::new(storage.clone())) };
    let store = EmbeddedStore::open(&settings).unwrap();
    put(&store, "a").await.unwrap();
    storage.fail();
    assert!(store.close().await.is_err());
    assert!(store.close().await.is_err(), "and says so again");
}

#[tokio::test]
async fn two_who_close_wait_for_the_same_end() {
    let storage = Faulty::default();
    let store = Arc::new(open(Arc::new(storage.clone())).unwrap());
    put(&*store, "a").await.unwrap();
    storage.hang();
    let put = {
        let store = Arc::clone(&store);
        tokio::spawn(async move { put(&*store, "b").await })
    };
    storage.until_hanging().await;
    let closing = [0, 1].map(|_| {
        let store = Arc::clone(&store);
        tokio::spawn(async move { store.close().await })
    });
    for _ in 0..100 {
        store.status().await.unwrap();
    }
    assert!(closing.iter().all(|close| !close.is_finished()), "closed while a put is still being synced");
    storage.go_on();
    for close in closing {
        close.await.unwrap().unwrap();
    }
    put.await.unwrap().expect("what was under way is answered");
}
