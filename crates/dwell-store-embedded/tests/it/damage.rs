//! Stored bytes that are not as they were written: loud where something acknowledged is lost, silent nowhere.

use std::sync::Arc;

use dwell_core::{Body, NewJob, Store};
use dwell_store_embedded::storage::{MemoryStorage, Storage};
use dwell_store_embedded::{Config, EmbeddedStore, OpenError, Place, RepairOptions, repair};

use crate::world::{config, find, new_job, open, put, topic};

const JOBS: usize = 30;
const PAGE: usize = 4_096;

/// A journal of many frames, as a kill or an orderly stop leaves it.
async fn journal(clean: bool) -> MemoryStorage {
    let storage = MemoryStorage::default();
    let store = open(Arc::new(storage.clone())).unwrap();
    for k in 0..JOBS {
        put(&store, &k.to_string()).await.unwrap();
    }
    if clean {
        store.close().await.unwrap();
    }
    storage.image()
}

/// The segments in which anything stands, with their bytes.
fn segments(storage: &MemoryStorage) -> Vec<(String, Vec<u8>)> {
    let names = storage.list().unwrap().into_iter().filter(|name| name.starts_with("journal-"));
    let read = |name: String| {
        let file = storage.open(&name).unwrap();
        let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
        file.read_at(0, &mut bytes).unwrap();
        (name, bytes)
    };
    let mut segments: Vec<_> = names.map(read).collect();
    segments.sort();
    segments
}

fn is_used(page: &[u8]) -> bool {
    page.iter().any(|byte| *byte != 0)
}

/// How many of the jobs, from the first on, are there; the rest must not be.
async fn jobs_there(store: &dyn Store) -> usize {
    let mut there = 0;
    for k in 0..JOBS {
        if find(store, &k.to_string()).await.is_some() {
            assert_eq!(there, k, "no job is missing before one that is there");
            there += 1;
        }
    }
    there
}

#[tokio::test]
async fn a_flipped_bit_is_noticed_wherever_it_is() {
    for clean in [false, true] {
        let whole = journal(clean).await;
        let all = segments(&whole);
        let pages: Vec<(usize, usize)> = all
            .iter()
            .enumerate()
            .flat_map(|(s, (_, bytes))| (0..bytes.len() / PAGE).map(move |page| (s, page * PAGE)))
            .filter(|(s, at)| is_used(&all[*s].1[*at..*at + PAGE]))
            .collect();
        assert!(pages.len() > JOBS, "a frame a job");
        for (k, (s, at)) in pages.iter().enumerate() {
            for bit in [0, 77, 300, 64 * 8 + 3] {
                let damaged = whole.image();
                let (name, bytes) = &all[*s];
                let place = at + bit / 8;
                damaged.open(name).unwrap().write_at(place as u64, &[bytes[place] ^ (1 << (bit % 8))]).unwrap();
                let last = k + 1 == pages.len();
                match open(Arc::new(damaged)) {
                    Err(OpenError::Damaged { file, offset, .. }) => {
                        assert_eq!((file.as_str(), offset), ("memory", *at), "segment {s}, bit {bit}");
                    }
                    Err(other) => panic!("not how damage is reported: {other}"),
                    // Only what a crash may also have left: the very last frame, and only after a crash.
                    Ok(store) => {
                        let there = jobs_there(&store).await;
                        let padding = bytes[place] == 0 && there == JOBS;
                        assert!(padding || (last && !clean && there == JOBS - 1), "{there} jobs, page {k}, bit {bit}");
                    }
                }
            }
        }
    }
}

#[tokio::test]
async fn a_segment_that_is_cut_short_is_noticed() {
    let whole = journal(true).await;
    let (name, bytes) = segments(&whole).remove(0);
    for length in (0..bytes.len()).step_by(PAGE) {
        if !is_used(&bytes[length..]) {
            break;
        }
        let damaged = whole.image();
        damaged.create(&name).unwrap().write_at(0, &bytes[..length]).unwrap();
        let error = open(Arc::new(damaged)).err().unwrap_or_else(|| panic!("cut at {length} and nobody noticed"));
        assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
    }
}

/// Where the first segments have been freed, what the oldest one had could go without a word: the topics were known from
/// elsewhere, and the next segment was taken for the first.
#[tokio::test]
async fn a_segment_without_its_frames_is_noticed() {
    let storage = MemoryStorage::default();
    let base = config(Arc::new(storage.clone()));
    let tiny = Config { cold_tier: true, tail: 16 << 10, block: 512, segment: 16 << 10, ..base };
    let store = EmbeddedStore::open(&tiny).unwrap();
    for number in 0..100 {
        let body = Body::Bytes(Arc::from(vec![7; 1 << 10]));
        store.put(vec![NewJob { body, ..new_job(&number.to_string()) }]).await.unwrap().remove(0).unwrap();
    }
    store.close().await.unwrap();
    drop(store);
    let whole = storage.image();
    let start =
        |image: MemoryStorage| EmbeddedStore::open(&Config { place: Place::Storage(Arc::new(image)), ..tiny.clone() });
    let mut all = segments(&whole);
    // What has been freed and not yet removed is not needed.
    all.retain(|(name, _)| {
        let without = whole.image();
        without.remove(name).unwrap();
        start(without).is_err()
    });
    assert!(all.len() > 1 && all[0].0.as_str() > "journal-0000000000000001", "some are free: {}", all[0].0);
    for (name, bytes) in all.iter().filter(|(_, bytes)| is_used(&bytes[PAGE..])) {
        let damaged = whole.image();
        damaged.open(name).unwrap().write_at(PAGE as u64, &vec![0; bytes.len() - PAGE]).unwrap();
        let repaired = repair(&damaged, &MemoryStorage::default(), RepairOptions::default()).unwrap();
        assert!(!repaired.dropped.is_empty(), "{name}: {repaired:?}");
        let error = start(damaged).err().unwrap_or_else(|| panic!("{name} has no frames and nobody noticed"));
        assert!(matches!(error, OpenError::Damaged { .. }), "{name}: {error}");
    }
}

/// The topics may be known from their file as they were at the very end, and that was taken for all that there was: where the
/// last frame of the journal was damaged, what its leases had done was lost without a word.
#[tokio::test]
async fn the_last_frame_of_an_orderly_stop_is_missed_though_the_topics_are_known() {
    let storage = MemoryStorage::default();
    let base = config(Arc::new(storage.clone()));
    let tiny = Config { cold_tier: true, tail: 16 << 10, block: 512, segment: 16 << 10, ..base };
    let mut noticed = 0;
    for round in 1..40 {
        let store = EmbeddedStore::open(&tiny).unwrap();
        for number in 0..20 {
            let body = Body::Bytes(Arc::from(vec![7; 1 << 10]));
            store.put(vec![NewJob { body, ..new_job(&format!("{round}-{number}")) }]).await.unwrap().remove(0).unwrap();
        }
        store.close().await.unwrap();
        drop(store);
        let (name, bytes) = segments(&storage).pop().unwrap();
        // Pages of what the file was before are used, too, and mean nothing.
        for page in (PAGE..bytes.len()).step_by(PAGE).filter(|page| is_used(&bytes[*page..*page + PAGE])) {
            let damaged = storage.image();
            damaged.open(&name).unwrap().write_at(page as u64, &[0; PAGE]).unwrap();
            let repaired = repair(&damaged, &MemoryStorage::default(), RepairOptions::default()).unwrap();
            assert!(!repaired.dropped.is_empty() || repaired.jobs == round * 20, "round {round}: {repaired:?}");
            match EmbeddedStore::open(&Config { place: Place::Storage(Arc::new(damaged)), ..tiny.clone() }) {
                Ok(store) => {
                    let info = store.topic(topic()).await.unwrap().unwrap();
                    assert_eq!(
                        info.counts.live(),
                        round * 20,
                        "round {round}: byte {page} of {name}, and no word of it"
                    );
                }
                Err(OpenError::Damaged { .. }) => noticed += 1,
                Err(error) => panic!("{error}"),
            }
        }
    }
    assert!(noticed >= 39, "{noticed}");
}

#[tokio::test]
async fn a_missing_segment_or_manifest_is_noticed() {
    let whole = journal(false).await;
    let all = segments(&whole);
    assert!(all.len() > 1, "more than one segment");
    for missing in [all[0].0.as_str(), "manifest"] {
        let damaged = whole.image();
        damaged.remove(missing).unwrap();
        let error = open(Arc::new(damaged)).err().unwrap_or_else(|| panic!("{missing} is missing and nobody noticed"));
        assert!(matches!(error, OpenError::ReadNeed { .. }), "{error}");
    }
}

/// A frame that was being written when the power went: never acknowledged, so it is cut without a word.
#[tokio::test]
async fn a_torn_frame_at_the_end_is_cut_and_stays_cut() {
    let whole = journal(false).await;
    let (name, bytes) = segments(&whole).pop().expect("there is a last one");
    let end = bytes.chunks(PAGE).rposition(is_used).expect("something is there") * PAGE;
    let torn = whole.image();
    torn.open(&name).unwrap().write_at(end as u64 + 70, &[0xff; 8]).unwrap();
    for _ in 0..3 {
        // Each start goes on in a segment of its own; the cut frame must never be taken for damage later.
        let store = open(Arc::new(torn.clone())).expect("a torn frame is no damage");
        assert_eq!(jobs_there(&store).await, JOBS - 1);
        put(&store, "more").await.unwrap();
        put(&store, "and more").await.unwrap();
        drop(store);
    }
}

/// A body that holds frames of the very segment it lands in, on page boundaries: whoever puts jobs cannot make a torn
/// frame look like damage.
#[tokio::test]
async fn frames_inside_a_body_are_never_taken_for_frames() {
    let (name, bytes) = segments(&journal(false).await).swap_remove(1);
    let forged = &bytes[PAGE..4 * PAGE];
    let unaligned = with_body(&[], forged).await;
    let at = position(&segments(&unaligned)[1].1, 2);
    let torn = with_body(&vec![0; PAGE - at % PAGE], forged).await;
    let (last, bytes) = segments(&torn).swap_remove(1);
    assert_eq!((position(&bytes, 2) % PAGE, &last), (0, &name), "the forged frames stand where frames do");

    torn.open(&last).unwrap().write_at(PAGE as u64 + 70, &[0xff; 8]).unwrap();
    let store = open(Arc::new(torn)).expect("a torn frame is no damage, whatever is in it");
    assert!(find(&store, "before").await.is_some());
    assert_eq!(find(&store, "big").await, None);
}

/// What a store leaves that has put a small job and one with this body, which has a segment to itself.
async fn with_body(padding: &[u8], forged: &[u8]) -> MemoryStorage {
    let storage = MemoryStorage::default();
    let store = open(Arc::new(storage.clone())).unwrap();
    put(&store, "before").await.unwrap();
    let body = [padding, forged, &vec![0; 60 << 10]].concat();
    let body = Body::Bytes(Arc::from(body));
    let answer = store.put(vec![NewJob { body, ..new_job("big") }]).await.unwrap();
    assert!(answer[0].is_ok());
    storage.image()
}

/// Where the `nth` frame begins, counted from 1, wherever that is.
fn position(bytes: &[u8], nth: usize) -> usize {
    let frames = bytes.windows(4).enumerate().filter(|(_, window)| window == b"DwFr");
    frames.map(|(at, _)| at).nth(nth - 1).expect("there are that many")
}
