//! What a store refuses: a directory someone else has, a format it does not know, more than fits.

use std::sync::Arc;

use dwell_core::{Body, CancelItem, Delay, JobId, JobRef, NewJob, PutError, Store, Verdict, When};
use dwell_store_embedded::storage::{MemoryStorage, Storage};
use dwell_store_embedded::{Config, EmbeddedStore, OpenError};

use crate::subject::{StoreClock, fresh_directory};
use crate::world::{config, find, lease, new_job, open, put, settle, topic};

#[tokio::test]
async fn a_directory_belongs_to_one_store_at_a_time() {
    let directory = fresh_directory();
    let config = Config { segment: 1 << 20, ..Config::in_directory(&directory) };
    let first = EmbeddedStore::open(&config).unwrap();
    let second = EmbeddedStore::open(&config).err().expect("it is taken");
    assert!(matches!(second, OpenError::Directory(_)), "{second}");
    assert!(second.to_string().contains("is in use by another Dwell process"), "{second}");
    drop(first);
    EmbeddedStore::open(&config).expect("it is free again");
    std::fs::remove_dir_all(directory).unwrap();
}

#[tokio::test]
async fn a_clock_far_behind_stops_the_start_unless_it_is_accepted() {
    use dwell_store_testkit::TestClock;
    let storage = MemoryStorage::default();
    let later = StoreClock::frozen();
    later.fake.advance(2 * 3_600_000);
    let at = |clock, accept_clock| Config { clock, accept_clock, ..config(Arc::new(storage.clone())) };
    drop(EmbeddedStore::open(&at(later, false)).unwrap());
    let refused = EmbeddedStore::open(&at(StoreClock::frozen(), false)).err().expect("two hours behind");
    assert!(matches!(refused, OpenError::Clock(_)), "{refused}");
    EmbeddedStore::open(&at(StoreClock::frozen(), true)).expect("accepted");
}

#[tokio::test]
async fn past_the_memory_budget_puts_are_refused_and_nothing_else() {
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::default());
    let store = EmbeddedStore::open(&Config { memory: 64 << 10, ..config(storage) }).unwrap();
    let big = |name: &str| NewJob { body: Body::Bytes(Arc::from(vec![7; 8 << 10])), ..new_job(name) };
    let mut taken = 0;
    while store.put(vec![big(&taken.to_string())]).await.unwrap()[0].is_ok() {
        taken += 1;
        assert!(taken < 100, "never full");
    }
    assert_eq!(store.put(vec![new_job("small")]).await.unwrap(), [Err(PutError::StorageFull)]);
    for _ in 0..2 {
        let held = lease(&store).await;
        settle(&store, &held, Verdict::Ack).await;
    }
    put(&store, "small").await.expect("there is room again");
}

/// Jobs that are leased have to be in memory: where they fill it, puts are refused at last and do not wait for ever.
#[tokio::test]
async fn a_cold_tier_does_not_help_where_everything_is_leased() {
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::default());
    let cold = Config { cold_tier: true, tail: 64 << 10, block: 512, memory: 256 << 10, ..config(storage) };
    let store = EmbeddedStore::open(&cold).unwrap();
    let big = |name: &str| NewJob { body: Body::Bytes(Arc::from(vec![7; 4 << 10])), ..new_job(name) };
    let mut held = Vec::new();
    while store.put(vec![big(&held.len().to_string())]).await.unwrap()[0].is_ok() {
        held.push(lease(&store).await);
        assert!(held.len() < 1_000, "never full");
    }
    for job in &held {
        settle(&store, job, Verdict::Ack).await;
    }
    put(&store, "small").await.expect("there is room again");
}

fn far(name: &str) -> NewJob {
    let when = When::In(Delay::from_millis(3_600_000).unwrap());
    NewJob { body: Body::Bytes(Arc::from(vec![7; 1 << 10])), when, ..new_job(name) }
}

/// Puts waiting jobs until there is no more room; their names.
async fn fill(store: &EmbeddedStore, round: &str) -> Vec<String> {
    let mut names = Vec::new();
    loop {
        let name = format!("{round}-{}", names.len());
        if store.put(vec![far(&name)]).await.unwrap()[0].is_err() {
            return names;
        }
        names.push(name);
        assert!(names.len() < 300, "never full");
    }
}

/// Cancels every other one, so that there are gaps and nothing but gaps.
async fn thin_out(store: &EmbeddedStore, names: &[String]) {
    for name in names.iter().step_by(2) {
        let job = JobRef::Named(topic(), JobId::new(name).unwrap());
        let cancelled = store.cancel(vec![CancelItem { job, if_match: None, force: false }]).await.unwrap();
        assert_eq!(cancelled, [Ok(())]);
    }
}

/// Jobs that wait lie side by side: what is cancelled between them makes room, at once and after a restart.
#[tokio::test]
async fn a_budget_that_is_full_has_room_again_when_waiting_jobs_go() {
    let storage = MemoryStorage::default();
    let small = |storage: MemoryStorage| Config { memory: 256 << 10, ..config(Arc::new(storage)) };
    let store = EmbeddedStore::open(&small(storage.clone())).unwrap();
    let first = fill(&store, "first").await;
    assert!(first.len() > 100, "only {}", first.len());
    thin_out(&store, &first).await;
    let second = fill(&store, "second").await;
    assert!(second.len() > first.len() / 3, "only {} after {}", second.len(), first.len());
    thin_out(&store, &second).await;

    let store = EmbeddedStore::open(&small(storage.image())).unwrap();
    let third = fill(&store, "third").await;
    // Half of the second have gone; an eighth of the budget, about a third of those, may lie between the others.
    assert!(third.len() > second.len() / 6, "only {} after {}", third.len(), second.len());
    for name in [&first[1], &second[1], &third[0]] {
        assert_eq!(find(&store, name).await.expect("it was answered").job.body.len(), 1 << 10);
    }
}

#[tokio::test]
async fn closing_twice_and_calling_afterwards_is_fine() {
    let store = open(Arc::new(MemoryStorage::default())).unwrap();
    store.close().await.unwrap();
    store.close().await.unwrap();
    assert_eq!(put(&store, "a").await, Err(dwell_core::StoreError::Closed));
    let status = store.status().await.unwrap();
    assert!(status.troubles.is_empty());
    assert_eq!(status.promise, "everything is gone when the process ends", "memory promises nothing else");
}

#[tokio::test]
async fn a_clock_that_is_set_back_changes_nothing_but_the_status() {
    let clock = Arc::new(SteppedClock::default());
    let settings = Config { clock: Arc::<SteppedClock>::clone(&clock), ..config(Arc::new(MemoryStorage::default())) };
    let store = EmbeddedStore::open(&settings).unwrap();
    let before = store.status().await.unwrap().now;
    clock.step.store(-7_200_000, std::sync::atomic::Ordering::SeqCst);
    let look = async {
        loop {
            let status = store.status().await.unwrap();
            assert!(status.now >= before, "time never goes back");
            if status.troubles.iter().any(|trouble| trouble.contains("behind the store's time")) {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(10), look).await.expect("the status tells");
    put(&store, "a").await.unwrap();
    assert_eq!(lease(&store).await.view.job.id.as_str(), "a", "what is due now is due");
}

/// The machine's clocks, with a wall clock that can be set.
#[derive(Default)]
struct SteppedClock {
    system: dwell_store_embedded::clock::SystemClock,
    step: std::sync::atomic::AtomicI64,
}

impl dwell_store_embedded::clock::Clock for SteppedClock {
    fn wall(&self) -> dwell_core::Timestamp {
        let step = self.step.load(std::sync::atomic::Ordering::SeqCst);
        let wall = self.system.wall().as_millis().saturating_add_signed(step);
        dwell_core::Timestamp::from_millis(wall).unwrap()
    }

    fn monotonic(&self) -> std::time::Duration {
        self.system.monotonic()
    }

    fn real(&self) -> std::time::Duration {
        self.system.real()
    }
}
