//! Many consumers, many values, and consumers that change their minds.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Poll;
use std::time::Duration;

use delay_queue::DelayQueue;
use tokio::task::JoinSet;
use tokio::time::{advance, sleep, timeout};

use crate::consumer::Consumer;

/// Different for different `seed`s, and the same every time.
fn scatter(seed: u64, below: u64) -> u64 {
    (seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33) % below
}

fn lock(taken: &Mutex<Vec<u64>>) -> MutexGuard<'_, Vec<u64>> {
    taken.lock().expect("no test panics under this lock")
}

/// Consumers that give up and come back all the time, while values are pushed, moved and cancelled:
/// each value must come out once, by whichever door.
async fn everything_comes_out_once(consumers: u64, values: u64) {
    let queue = DelayQueue::new();
    let taken = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = JoinSet::new();
    for consumer in 0..consumers {
        let (queue, taken) = (queue.clone(), Arc::clone(&taken));
        tasks.spawn(async move {
            for round in 0.. {
                let patience = Duration::from_micros(scatter(consumer << 32 | round, 4_000));
                tokio::select! {
                    value = queue.pop() => match value {
                        Some(value) => lock(&taken).push(value),
                        None => return,
                    },
                    () = sleep(patience) => {}
                }
            }
        });
    }
    for value in 0..values {
        let key = queue.push(value, Duration::from_micros(scatter(value, 20_000)));
        match scatter(value ^ 0xABCD, 8) {
            0 => lock(&taken).extend(queue.cancel(key)),
            1 => drop(queue.reschedule(key, Duration::from_micros(scatter(value, 9_000)))),
            2 => sleep(Duration::from_micros(100)).await,
            _ => {}
        }
    }
    queue.close();
    let all = async { while tasks.join_next().await.is_some() {} };
    timeout(Duration::from_mins(1), all).await.expect("a wake-up was lost");
    let taken = std::mem::take(&mut *lock(&taken));
    assert_eq!(taken.len() as u64, values);
    assert!(taken.into_iter().collect::<BTreeSet<_>>().into_iter().eq(0..values));
}

#[tokio::test(start_paused = true)]
async fn everything_comes_out_once_on_one_thread() {
    everything_comes_out_once(20, 5_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn everything_comes_out_once_on_four_threads() {
    everything_comes_out_once(20, 5_000).await;
}

/// No consumer has a timer of its own, so that a single lost wake-up stops everything.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn patient_consumers_are_never_forgotten() {
    for _ in 0..50 {
        let queue = DelayQueue::new();
        let mut tasks = JoinSet::new();
        for _ in 0..8 {
            let queue = queue.clone();
            tasks.spawn(async move {
                let mut count = 0;
                while queue.pop().await.is_some() {
                    count += 1;
                }
                count
            });
        }
        for value in 0..200_u64 {
            queue.push(value, Duration::from_micros(scatter(value, 3_000)));
        }
        queue.close();
        let all = timeout(Duration::from_mins(1), tasks.join_all()).await;
        assert_eq!(all.expect("a wake-up was lost").into_iter().sum::<u64>(), 200);
    }
}

/// More falls due at once than is done under one hold of the lock.
#[tokio::test(start_paused = true)]
async fn a_herd_comes_out_whole() {
    let queue = DelayQueue::new();
    for value in 0..50_000_u32 {
        queue.push(value, Duration::from_hours(2));
    }
    sleep(Duration::from_hours(2)).await;
    for value in 0..25_000 {
        assert_eq!(queue.try_pop(), Some(value));
    }
    for value in 25_000..50_000 {
        assert_eq!(queue.pop().await, Some(value));
    }
}

/// A newcomer finds that the herd must be sorted first, which makes it the leader, and gives up in
/// the middle of it.
#[tokio::test(start_paused = true)]
async fn a_herd_survives_the_one_that_was_sorting_it() {
    let queue = DelayQueue::new();
    for value in 0..50_000_u32 {
        queue.push(value, Duration::from_hours(2));
    }
    let mut first = Consumer::waiting(&queue);
    advance(Duration::from_mins(100)).await;
    let newcomer = Consumer::waiting(&queue);
    assert_eq!((newcomer.wakes(), first.wakes()), (1, 0), "there is more to do");
    drop(newcomer);
    assert_eq!(first.wakes(), 1);
    while first.poll().is_pending() && first.wakes() == 1 {}
    advance(Duration::from_mins(20)).await;
    let value = loop {
        assert_eq!(first.wakes(), 1, "by its timer, then by itself as there is more to do");
        if let Poll::Ready(value) = first.poll() {
            break value;
        }
    };
    assert_eq!(value, Some(0));
}
