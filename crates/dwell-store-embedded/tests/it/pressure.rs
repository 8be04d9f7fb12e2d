//! Puts that come faster than the cold tier takes them: they wait for it, and for nothing else.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use dwell_core::{Body, Delay, NewJob, State, Store, When};
use dwell_store_embedded::storage::MemoryStorage;
use dwell_store_embedded::{Config, EmbeddedStore};

use crate::world::{config, new_job, topic};

/// Nothing happens here but what is still to do: whoever sleeps while a put waits would sleep until somebody calls, or
/// until it next looks at the clock.
#[test]
fn nobody_sleeps_while_a_put_waits_for_the_cold_tier() {
    let base = config(Arc::new(MemoryStorage::default()));
    let tiny = Config { cold_tier: true, tail: 128 << 10, block: 512, memory: 1 << 20, ..base };
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
            let moved = stepper.journal_turn() | stepper.compactor_turn() | !std::mem::replace(&mut called, true);
            let sleeps = !moved && stepper.engine_patience() != Some(Duration::ZERO);
            assert!(!sleeps, "all sleep, and {} puts after the first {first} wait", puts.len());
            stepper.engine_turn();
        }
    }
}

/// Many callers at once, each with so many calls of so many jobs, each of so many bytes; nobody is refused.
async fn flood(memory: usize, [callers, calls, jobs, bytes]: [usize; 4]) {
    let little = Config { cold_tier: true, ..Config::in_memory() }.with_memory(memory);
    let store = Arc::new(EmbeddedStore::open(&little).unwrap());
    let callers = (0..callers).map(|caller| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            for call in 0..calls {
                let job = |number: usize| NewJob {
                    body: Body::Bytes(Arc::from(vec![7; bytes])),
                    when: When::In(Delay::from_millis(3_600_000).unwrap()),
                    ..new_job(&format!("{caller}-{call}-{number}"))
                };
                let answers = store.put((0..jobs).map(job).collect()).await.unwrap();
                assert!(answers.iter().all(Result::is_ok), "{answers:?}");
            }
            calls * jobs
        })
    });
    let mut put = 0;
    for caller in callers.collect::<Vec<_>>() {
        put += caller.await.unwrap() as u64;
    }
    let info = store.topic(topic()).await.unwrap().unwrap();
    assert_eq!(info.counts[State::Delayed], put);
}

/// What is in the newest segment cannot leave memory: of one as large as usual nothing could, and puts were refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_little_memory_puts_wait_and_are_not_refused() {
    flood(16 << 20, [32, 8, 500, 64]).await;
}

/// More at once than memory holds: neither may all of it be taken before the first of it is written, nor may those who
/// asked the cold tier for their ids find that others have taken the room.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_less_memory_than_comes_at_once_puts_wait_and_are_not_refused() {
    flood(2 << 20, [64, 4, 50, 1 << 10]).await;
}
