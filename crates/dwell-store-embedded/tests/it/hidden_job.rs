//! A directory that a build of November 2026 left behind: a flush that a kill had cut short was taken for one that had
//! landed, since both had one sequence. So the topic `a` counted one job too few in the cold tier, and its last one there
//! was found by its id and never handed out. See docs/reliability.md.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dwell_core::{JobId, JobRef, LeaseFrom, LeaseRequest, ListQuery, Lookup, Pause, SetPause, Store, TopicName};
use dwell_store_embedded::{Config, EmbeddedStore, Place, RepairOptions, check_directory, repair_directory};
use dwell_store_testkit::TestClock as _;

use crate::subject::{StoreClock, fresh_directory};

/// Bytes of the segments there; what is left out in the copy was zeros.
const SEGMENT: u64 = 131_072;

/// From the beginning of a frozen clock to well beyond the time when every job of the directory is due.
const YEARS: u64 = 5 * 365 * 24 * 3_600 * 1_000;

fn directory() -> PathBuf {
    let (from, to) = (Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/hidden-job"), fresh_directory());
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let copy = to.join(entry.file_name());
        fs::copy(entry.path(), &copy).unwrap();
        if entry.file_name().to_string_lossy().starts_with("journal-") {
            File::options().write(true).open(&copy).unwrap().set_len(SEGMENT).unwrap();
        }
    }
    to
}

fn open(directory: &Path) -> EmbeddedStore {
    let clock = StoreClock::frozen();
    clock.fake.advance(YEARS);
    let config = Config { clock, accept_clock: true, ..Config::in_directory(directory).with_memory(1 << 20) };
    EmbeddedStore::open(&Config { place: Place::Directory(directory.to_owned()), ..config }).unwrap()
}

fn topic(name: &str) -> TopicName {
    TopicName::new(name).unwrap()
}

async fn ids(store: &EmbeddedStore) -> Vec<String> {
    let query = ListQuery { limit: 1_000, ..ListQuery::of(topic("a")) };
    let page = store.list(query).await.unwrap().unwrap();
    page.jobs.iter().map(|view| view.job.id.as_str().to_owned()).collect()
}

#[test]
fn a_check_says_that_there_is_a_hidden_job_and_changes_nothing() {
    let directory = directory();
    for _ in 0..2 {
        let checked = check_directory(&directory).unwrap();
        assert_eq!((checked.hidden, checked.absent, checked.wrong.len()), (1, 0, 0), "{checked:?}");
        assert!(!checked.is_good());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_puts_a_hidden_job_back() {
    let directory = directory();
    let store = open(&directory);
    let said = store.set_right().expect("there was something to set right");
    assert!(said.contains("1 jobs were in no order"), "{said}");
    let listed = ids(&store).await;
    assert!(listed.iter().any(|id| id == "b27"), "{listed:?}");
    store.close().await.unwrap();
    drop(store);
    let checked = check_directory(&directory).unwrap();
    assert!(checked.is_good(), "{checked:?}");
    let again = open(&directory);
    assert_eq!(again.set_right(), None, "what was set right stays so");
    assert_eq!(ids(&again).await, listed);
    again.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hidden_job_is_handed_out() {
    let store: Arc<dyn Store> = Arc::new(open(&directory()));
    store.pause(topic("a"), SetPause::Off).await.unwrap().unwrap();
    let info = store.topic(topic("a")).await.unwrap().unwrap();
    assert_eq!(info.pause, Pause::Off);
    let asked = LeaseRequest { max: 1_000, ..LeaseRequest::from(LeaseFrom::Pull(vec![topic("a")])) };
    let leased = store.lease(asked).await.unwrap();
    assert!(leased.iter().any(|leased| leased.view.job.id.as_str() == "b27"), "{} were handed out", leased.len());
    let found = store.get(vec![Lookup::Job(JobRef::Named(topic("a"), JobId::new("b27").unwrap()))]).await.unwrap();
    assert!(found[0].is_some());
}

#[test]
fn a_repair_is_not_needed() {
    let repaired = repair_directory(&directory(), RepairOptions::default()).unwrap();
    assert!(repaired.found.dropped.is_empty() && repaired.old.is_none(), "{repaired:?}");
}
