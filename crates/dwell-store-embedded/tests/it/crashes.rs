//! Crash points that need a particular moment: between two files, in a run that did nothing, in a file's earlier life.

use std::sync::Arc;
use std::task::{Context, Waker};

use dwell_core::{
    Body, Delay, JobId, JobRef, LeaseRequest, Lookup, NewJob, Purge, State, Store, TopicName, TopicPolicy, Verdict,
};
use dwell_store_embedded::storage::{MemoryStorage, Storage};
use dwell_store_embedded::{Config, Durability, EmbeddedStore, OpenError};

use crate::faulty::Faulty;
use crate::world::{config, find, new_job, open, put, settle, topic};

const PAGE: usize = 4_096;
const FIRST: &str = "journal-0000000000000001";

fn unsynced(storage: &MemoryStorage) -> Config {
    Config { durability: Durability::None, ..config(Arc::new(storage.clone())) }
}

/// Puts and acks until old segments have been freed.
async fn churn(store: &dyn Store, storage: &Faulty) {
    put(store, "kept").await.unwrap();
    for k in 0..3_000 {
        put(store, &format!("x{k}")).await.unwrap();
        let held = store.lease(LeaseRequest::of(topic()).up_to(10)).await.unwrap();
        for job in held.iter().filter(|job| job.view.job.id.as_str() != "kept") {
            settle(store, job, Verdict::Ack).await;
        }
        if !storage.names("topics-").is_empty() {
            return;
        }
    }
    panic!("nothing was ever freed");
}

#[tokio::test]
async fn a_topics_file_that_no_manifest_names_is_nobodys() {
    let storage = Faulty::default();
    let store = open(Arc::new(storage.clone())).unwrap();
    churn(&store, &storage).await;
    drop(store);
    // A run ended after it made its topics file and before the manifest named it.
    storage.create("topics-00000000000fffff").unwrap();
    for round in 0..3 {
        let store = open(Arc::new(storage.clone())).unwrap_or_else(|error| panic!("round {round}: {error}"));
        assert!(find(&store, "kept").await.is_some());
        put(&store, "after").await.unwrap();
    }
}

#[tokio::test]
async fn the_topics_file_in_use_is_never_made_anew_in_place() {
    let storage = Faulty::default();
    let store = open(Arc::new(storage.clone())).unwrap();
    // Jobs that fill many segments, gone at once: then segments are freed while nothing is logged.
    for k in 0..10 {
        let body = Body::Bytes(Arc::from(vec![7; 60 << 10]));
        let answer = store.put(vec![NewJob { body, ..new_job(&k.to_string()) }]).await.unwrap();
        assert!(answer[0].is_ok());
    }
    store.purge(topic(), Purge::Jobs(State::Ready)).await.unwrap().unwrap();
    while storage.names("journal-").len() > 6 {
        store.status().await.unwrap();
    }
    assert_eq!(storage.emptied_topics_files(), 0, "a crash would leave an empty file that the manifest names");
}

#[tokio::test]
async fn a_segment_that_was_never_begun_is_begun_again() {
    let storage = MemoryStorage::default();
    let store = open(Arc::new(storage.clone())).unwrap();
    put(&store, "a").await.unwrap();
    let storage = storage.image();
    storage.create("journal-0000000000000002").unwrap();
    for name in ["b", "c", "d"] {
        let store = open(Arc::new(storage.clone())).unwrap_or_else(|error| panic!("before {name}: {error}"));
        assert!(find(&store, "a").await.is_some());
        put(&store, name).await.unwrap();
    }
}

#[tokio::test]
async fn rot_in_the_first_frame_of_a_run_is_loud() {
    let storage = MemoryStorage::default();
    let store = open(Arc::new(storage.clone())).unwrap();
    for name in ["a", "b", "c", "d"] {
        put(&store, name).await.unwrap();
    }
    let rotten = storage.image();
    rotten.open(FIRST).unwrap().write_at(PAGE as u64 + 80, &[0xff; 4]).unwrap();
    let error = open(Arc::new(rotten)).err().expect("four acknowledged jobs cannot be read");
    assert!(matches!(error, OpenError::Damaged { offset: PAGE, .. }), "{error}");
}

#[tokio::test]
async fn without_syncs_a_hole_is_no_damage() {
    let storage = MemoryStorage::default();
    let store = EmbeddedStore::open(&unsynced(&storage)).unwrap();
    for name in ["a", "b", "c", "d"] {
        put(&store, name).await.unwrap();
    }
    // The system had written the pages of frames 1, 3 and 4 when the power went, not of 2.
    let cut = storage.image();
    cut.open(FIRST).unwrap().write_at(2 * PAGE as u64, &[0; PAGE]).unwrap();
    let store = EmbeddedStore::open(&unsynced(&cut)).expect("nothing that was promised is lost");
    assert!(find(&store, "a").await.is_some());
}

#[tokio::test]
async fn versions_do_not_repeat_after_a_run_that_did_nothing() {
    let storage = MemoryStorage::default();
    let store = EmbeddedStore::open(&unsynced(&storage)).unwrap();
    put(&store, "a").await.unwrap();
    let given = put(&store, "b").await.unwrap();
    let cut = storage.image();
    cut.open(FIRST).unwrap().write_at(2 * PAGE as u64, &[0; PAGE]).unwrap();
    EmbeddedStore::open(&unsynced(&cut)).unwrap().close().await.unwrap();
    let store = EmbeddedStore::open(&unsynced(&cut)).unwrap();
    let again = put(&store, "other").await.unwrap();
    assert!(again.version > given.version, "{} was given twice", given.version);
}

/// The power goes after the manifest that lets go of a segment and before the next frame; an idle run follows. What is
/// put after that must be there.
#[tokio::test]
async fn jobs_put_after_an_idle_run_are_there() {
    let storage = Faulty::default();
    storage.die_after_freeing();
    let store = Arc::new(open(Arc::new(storage.clone())).unwrap());
    let writers: Vec<_> = (0..16)
        .map(|writer| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                for k in 0.. {
                    let body = Body::Bytes(Arc::from(vec![7; 4 << 10]));
                    let new = NewJob { body, ..new_job(&format!("{writer}-{}", k % 2)) };
                    if store.put(vec![new]).await.is_err() {
                        return;
                    }
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    assert!(storage.is_dead());
    drop(store);

    let after = storage.memory.image();
    open(Arc::new(after.clone())).unwrap().close().await.unwrap();
    let store = open(Arc::new(after.clone())).unwrap();
    let fresh = TopicName::new("fresh").unwrap();
    let answer = store.put(vec![NewJob { topic: fresh.clone(), ..new_job("n") }]).await.unwrap();
    assert!(answer[0].is_ok());
    let store = open(Arc::new(after.image())).unwrap();
    let job = Lookup::Job(JobRef::Named(fresh, JobId::new("n").unwrap()));
    assert!(store.get(vec![job]).await.unwrap()[0].is_some(), "it was acknowledged");
}

/// What a segment has after its last frame when it is used again: the inside of a body of its earlier life.
#[tokio::test]
async fn a_frame_of_an_earlier_life_is_nothing() {
    let storage = MemoryStorage::default();
    let store = open(Arc::new(storage.clone())).unwrap();
    put(&store, "a").await.unwrap();
    store.close().await.unwrap();
    drop(store);
    let file = storage.open(FIRST).unwrap();
    let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
    file.read_at(0, &mut bytes).unwrap();
    let end = bytes.chunks(PAGE).rposition(|page| page.iter().any(|byte| *byte != 0)).unwrap() * PAGE + PAGE;
    let mut forged = [0; 64];
    forged[..6].copy_from_slice(&bytes[PAGE..PAGE + 6]);
    forged[24..32].copy_from_slice(&1_u64.to_le_bytes());
    forged[32..40].copy_from_slice(&u64::MAX.to_le_bytes());
    forged[40..48].copy_from_slice(&(1_u64 << 40).to_le_bytes());
    let crc = crc32c::crc32c(&forged);
    forged[16..20].copy_from_slice(&crc.to_le_bytes());
    file.write_at(end as u64, &forged).unwrap();
    for name in ["b", "c"] {
        let store = open(Arc::new(storage.clone())).unwrap_or_else(|error| panic!("before {name}: {error}"));
        assert!(find(&store, "a").await.is_some());
        put(&store, name).await.unwrap();
    }
}

#[tokio::test]
async fn remembered_jobs_do_not_keep_the_journal_growing() {
    let storage = Faulty::default();
    let store = open(Arc::new(storage.clone())).unwrap();
    let keep_done = Some(Delay::from_millis(86_400_000).unwrap());
    store.set_policy(topic(), TopicPolicy { keep_done, ..TopicPolicy::default() }).await.unwrap().unwrap();
    for k in 0..20 {
        let jobs = (0..500).map(|j| new_job(&format!("a-rather-long-name-of-a-job-{k}-{j}")));
        store.put(jobs.collect()).await.unwrap();
        let request = LeaseRequest { auto_ack: true, ..LeaseRequest::of(topic()).up_to(500) };
        assert_eq!(store.lease(request).await.unwrap().len(), 500);
    }
    // Cleaning goes on for a while and then rests: nobody calls but to ask how it is.
    let mut last = storage.names("journal-").pop();
    for round in 0.. {
        for _ in 0..2_000 {
            store.status().await.unwrap();
        }
        let now = storage.names("journal-").pop();
        if now == last {
            return;
        }
        assert!(round < 30, "the journal grows by itself");
        last = now;
    }
}

/// What a replace ends and what it begins are two records. Where the first of them filled a frame, a power cut before the next
/// frame took the job.
#[tokio::test]
async fn a_job_that_is_being_replaced_is_there_whichever_frame_was_the_last() {
    /// Bytes at which a frame is full.
    const FULL: usize = 8 << 20;
    let mut context = Context::from_waker(Waker::noop());
    for room in (0..400).step_by(24) {
        let storage = MemoryStorage::default();
        let (store, mut stepper) = EmbeddedStore::open_stepped(&config(Arc::new(storage.clone()))).unwrap();
        let filler = NewJob { body: Body::Bytes(Arc::from(vec![7; FULL - room])), ..new_job("filler") };
        let mut frames = 0;
        for (replaces, jobs) in [(false, vec![new_job("a")]), (true, vec![filler, new_job("a")])] {
            let mut put = store.put(jobs);
            while put.as_mut().poll(&mut context).is_pending() {
                stepper.engine_turn();
                if stepper.journal_turn() && replaces {
                    frames += 1;
                    let after_cut = open(Arc::new(storage.image())).unwrap();
                    assert!(find(&after_cut, "a").await.is_some(), "{room} bytes of room, frame {frames}");
                }
            }
        }
        assert!(frames > 0);
    }
}
