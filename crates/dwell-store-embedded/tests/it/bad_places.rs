//! Damage in the cold tier of a store that runs: it holds nothing up, and is not forgotten.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use dwell_core::{Body, Delay, NewJob, Store, When};
use dwell_store_embedded::storage::{MemoryStorage, Storage};
use dwell_store_embedded::{Config, EmbeddedStore, Stepper};
use dwell_store_testkit::TestClock;

use crate::subject::StoreClock;
use crate::world::{config, find, lease, new_job};

const HOUR: u64 = 3_600_000;

/// A store in which nothing happens but here.
struct Stepped {
    store: EmbeddedStore,
    stepper: Stepper,
}

impl Stepped {
    fn open(config: &Config) -> Self {
        let (store, stepper) = EmbeddedStore::open_stepped(config).unwrap();
        Self { store, stepper }
    }

    /// Lets the store work until a call is answered.
    fn call<T>(&mut self, call: impl AsyncFnOnce(&EmbeddedStore) -> T) -> T {
        let mut call = std::pin::pin!(call(&self.store));
        let mut context = Context::from_waker(Waker::noop());
        loop {
            if let Poll::Ready(answer) = call.as_mut().poll(&mut context) {
                return answer;
            }
            turn(&mut self.stepper);
        }
    }

    /// Lets it work until there is nothing left to do.
    fn rest(&mut self) {
        while turn(&mut self.stepper) {}
    }

    fn put_far(&mut self, names: std::ops::Range<usize>) {
        for name in names {
            let (when, body) = (When::In(Delay::from_millis(HOUR).unwrap()), Body::Bytes(Arc::from(vec![7; 1 << 10])));
            let job = NewJob { when, body, ..new_job(&name.to_string()) };
            self.call(async |store| store.put(vec![job]).await).unwrap().remove(0).unwrap();
            self.rest();
        }
    }

    fn troubles(&mut self) -> Vec<String> {
        self.call(async |store| store.status().await).unwrap().troubles
    }
}

fn turn(stepper: &mut Stepper) -> bool {
    stepper.engine_turn();
    stepper.journal_turn() | stepper.compactor_turn()
}

/// Flips a bit in the first block of every run.
fn damage(storage: &MemoryStorage) {
    for name in storage.list().unwrap().into_iter().filter(|name| name.starts_with("run-")) {
        let (file, at) = (storage.open(&name).unwrap(), 200);
        let mut byte = [0];
        file.read_at(at, &mut byte).unwrap();
        file.write_at(at, &[byte[0] ^ 1]).unwrap();
    }
}

fn tells_of_damage(troubles: &[String]) -> bool {
    troubles.iter().any(|trouble| trouble.starts_with("run-") && trouble.contains("block 0"))
}

#[test]
fn a_damaged_block_holds_no_fold_up_and_is_known_after_a_start() {
    let (storage, clock) = (MemoryStorage::default(), StoreClock::frozen());
    let base = Config { clock: Arc::<StoreClock>::clone(&clock), ..config(Arc::new(storage.clone())) };
    let tiny = Config { cold_tier: true, tail: 16 << 10, block: 512, segment: 16 << 10, ..base };
    let mut first = Stepped::open(&tiny);
    first.put_far(0..100);
    drop(first);

    let mut store = Stepped::open(&tiny);
    store.rest();
    clock.fake.advance(HOUR);
    // Its copy in the cold tier is no more, which the next flush has to note there.
    let held = store.call(async |store| lease(store).await);
    assert_eq!(held.view.job.id.as_str(), "0");
    damage(&storage);
    store.put_far(100..300);
    let troubles = store.troubles();
    assert!(tells_of_damage(&troubles), "{troubles:?}");
    assert!(!troubles.iter().any(|trouble| trouble.contains("cannot be written")), "{troubles:?}");
    let segments = storage.list().unwrap().into_iter().filter(|name| name.starts_with("journal-")).count();
    assert!(segments < 20, "{segments} segments, as if nothing had been flushed");
    assert!(store.call(async |store| find(store, "250").await).is_some());
    drop(store);

    let mut store = Stepped::open(&tiny);
    let troubles = store.troubles();
    assert!(tells_of_damage(&troubles), "forgotten: {troubles:?}");
    assert!(store.call(async |store| find(store, "0").await).is_some(), "it is in the journal");
}
