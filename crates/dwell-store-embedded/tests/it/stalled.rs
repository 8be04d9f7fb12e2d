//! A topic that nobody consumes.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use dwell_core::{LeaseRequest, NewJob, Store};
use dwell_store_embedded::storage::MemoryStorage;
use dwell_store_embedded::{Config, EmbeddedStore, Stepper};

use crate::world::{config, new_job, topic};

const JOBS: usize = 60_000;

/// Lets the store work until a call is answered.
fn answer<T>(stepper: &mut Stepper, call: impl Future<Output = T>) -> T {
    let mut call = std::pin::pin!(call);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(answer) = call.as_mut().poll(&mut context) {
            return answer;
        }
        stepper.engine_turn();
        while stepper.journal_turn() {}
        stepper.compactor_turn();
    }
}

/// Lets the store work until there is nothing more to do.
fn rest(stepper: &mut Stepper) {
    loop {
        stepper.engine_turn();
        let works =
            stepper.journal_turn() | stepper.compactor_turn() | (stepper.engine_patience() == Some(Duration::ZERO));
        if !works {
            return;
        }
    }
}

/// Its ready jobs are not in memory, in the way of others, beyond what somebody who comes would take at first; and whoever
/// comes gets all of them, in order.
#[test]
fn its_jobs_leave_memory_and_come_back() {
    let base = config(Arc::new(MemoryStorage::default()));
    let config = Config { cold_tier: true, tail: 128 << 10, block: 2 << 10, memory: 64 << 20, ..base };
    let (store, mut stepper) = EmbeddedStore::open_stepped(&config).unwrap();
    let empty = stepper.weight();
    let job = |number: usize| NewJob { ..new_job(&format!("{number:06}")) };
    for first in (0..JOBS).step_by(500) {
        let put = answer(&mut stepper, store.put((first..first + 500).map(job).collect())).unwrap();
        assert!(put.iter().all(Result::is_ok));
    }
    rest(&mut stepper);
    let weight = stepper.weight() - empty;
    assert!(weight < JOBS * 100, "{weight} bytes of {JOBS} jobs are in memory");
    let mut got = Vec::new();
    while got.len() < JOBS {
        let request = LeaseRequest { auto_ack: true, ..LeaseRequest::of(topic()).up_to(1_000) };
        let leased = answer(&mut stepper, store.lease(request)).unwrap();
        assert!(!leased.is_empty(), "only {} of {JOBS}", got.len());
        got.extend(leased.into_iter().map(|leased| leased.view.job.id.as_str().to_owned()));
    }
    assert!(got.is_sorted() && got.len() == JOBS, "in the order they were put");
}
