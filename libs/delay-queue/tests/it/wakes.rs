//! Whom a push or a deadline wakes: exactly one.

use std::task::Poll;
use std::time::Duration;

use delay_queue::DelayQueue;
use tokio::time::advance;

use crate::consumer::{Consumer, wakes};

const SECOND: Duration = Duration::from_secs(1);

fn waiting(queue: &DelayQueue<u32>) -> [Consumer<'_, u32>; 3] {
    std::array::from_fn(|_| Consumer::waiting(queue))
}

#[tokio::test(start_paused = true)]
async fn the_first_push_wakes_the_one_that_waited_longest_and_later_ones_nobody() {
    let queue = DelayQueue::new();
    let mut consumers = waiting(&queue);
    queue.push(1, 5 * SECOND);
    assert_eq!(wakes(&consumers), [1, 0, 0]);
    queue.push(2, 4 * SECOND);
    assert_eq!(wakes(&consumers), [0, 0, 0], "it has not even looked yet");
    assert!(consumers[0].poll().is_pending());
    queue.push(3, 6 * SECOND);
    queue.push(4, 4 * SECOND);
    assert_eq!(wakes(&consumers), [0, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_push_that_is_due_before_all_others_wakes_the_leader_alone() {
    let queue = DelayQueue::new();
    queue.push(1, 5 * SECOND);
    let mut consumers = waiting(&queue);
    queue.push(2, 2 * SECOND);
    queue.push(3, 3 * SECOND);
    queue.push(4, 2 * SECOND);
    assert_eq!(wakes(&consumers), [1, 0, 0], "once is enough until it looks");
    assert!(consumers[0].poll().is_pending());
    advance(2 * SECOND).await;
    assert_eq!(wakes(&consumers), [1, 0, 0], "it must have set its timer anew");
    assert_eq!(consumers[0].poll(), Poll::Ready(Some(2)));
}

#[tokio::test(start_paused = true)]
async fn a_value_moved_ahead_of_all_others_wakes_the_leader_alone() {
    let queue = DelayQueue::new();
    queue.push(1, 5 * SECOND);
    let last = queue.push(2, 9 * SECOND);
    let consumers = waiting(&queue);
    queue.reschedule(last, 7 * SECOND);
    assert_eq!(wakes(&consumers), [0, 0, 0]);
    queue.reschedule(last, SECOND);
    assert_eq!(wakes(&consumers), [1, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn each_value_that_comes_due_wakes_one() {
    let queue = DelayQueue::new();
    for value in 1..=3 {
        queue.push(value, value * SECOND);
    }
    let mut consumers = waiting(&queue);
    advance(SECOND).await;
    assert_eq!(wakes(&consumers), [1, 0, 0]);
    assert_eq!(consumers[0].poll(), Poll::Ready(Some(1)));
    assert_eq!(wakes(&consumers), [0, 1, 0], "somebody must keep the time");
    assert!(consumers[1].poll().is_pending());
    advance(SECOND).await;
    assert_eq!(wakes(&consumers), [0, 1, 0]);
    assert_eq!(consumers[1].poll(), Poll::Ready(Some(2)));
    assert_eq!(wakes(&consumers), [0, 0, 1]);
    assert!(consumers[2].poll().is_pending());
    advance(SECOND).await;
    assert_eq!(wakes(&consumers), [0, 0, 1]);
    assert_eq!(consumers[2].poll(), Poll::Ready(Some(3)));
    assert_eq!(wakes(&consumers), [0, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn values_that_come_due_together_wake_one_after_the_other() {
    let queue = DelayQueue::new();
    for value in 1..=3 {
        queue.push(value, SECOND);
    }
    let mut consumers = waiting(&queue);
    advance(SECOND).await;
    assert_eq!(wakes(&consumers), [1, 0, 0]);
    assert_eq!(consumers[0].poll(), Poll::Ready(Some(1)));
    assert_eq!(wakes(&consumers), [0, 1, 0]);
    assert_eq!(consumers[1].poll(), Poll::Ready(Some(2)));
    assert_eq!(wakes(&consumers), [0, 0, 1]);
    assert_eq!(consumers[2].poll(), Poll::Ready(Some(3)));
}
