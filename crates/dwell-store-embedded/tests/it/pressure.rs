//! Puts that come faster than the shelf takes them: they wait for it, and for nothing else.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use dwell_core::{Body, Delay, NewJob, Store, When};
use dwell_store_embedded::storage::MemoryStorage;
use dwell_store_embedded::{Config, EmbeddedStore};

use crate::world::{config, new_job};

/// Nothing happens here but what is still to do: whoever sleeps while a put waits would sleep until somebody calls, or
/// until it next looks at the clock.
#[test]
fn nobody_sleeps_while_a_put_waits_for_the_shelf() {
    let base = config(Arc::new(MemoryStorage::default()));
    let tiny = Config { shelves: true, tail: 128 << 10, block: 512, memory: 1 << 20, ..base };
    let (store, mut stepper) = EmbeddedStore::open_stepped(&tiny).unwrap();
    let job = |number: usize| NewJob {
        body: Body::Bytes(Arc::from(vec![7; 1 << 10])),
        when: When::In(Delay::from_millis(3_600_000).unwrap()),
        ..new_job(&number.to_string())
    };
    let mut context = Context::from_waker(Waker::noop());
    for first in (0..12_000).step_by(400) {
        let mut puts: Vec<_> = (first..first + 400).map(|number| store.put(vec![job(number)])).collect();
        let mut called = false;
        loop {
            puts.retain_mut(|put| match put.as_mut().poll(&mut context) {
                Poll::Ready(answer) => {
                    assert!(answer.unwrap().remove(0).is_ok());
                    false
                }
                Poll::Pending => true,
            });
            if puts.is_empty() {
                break;
            }
            let moved = stepper.journal_turn() | stepper.shelf_turn() | !std::mem::replace(&mut called, true);
            let sleeps = !moved && stepper.engine_patience() != Some(Duration::ZERO);
            assert!(!sleeps, "all sleep, and {} puts after the first {first} wait", puts.len());
            stepper.engine_turn();
        }
    }
}
