//! Consumers that give up waiting, at every point where they can.

use std::task::Poll;
use std::time::Duration;

use delay_queue::DelayQueue;
use tokio::time::{advance, timeout};

use crate::consumer::Consumer;

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_dropped_while_asleep_is_succeeded() {
    let queue = DelayQueue::new();
    queue.push(1, SECOND);
    let leader = Consumer::waiting(&queue);
    let mut follower = Consumer::waiting(&queue);
    drop(leader);
    assert_eq!(follower.wakes(), 1);
    assert!(follower.poll().is_pending());
    advance(SECOND).await;
    assert_eq!(follower.wakes(), 1);
    assert_eq!(follower.poll(), Poll::Ready(Some(1)));
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_dropped_between_its_wake_up_and_its_turn_is_succeeded() {
    let queue = DelayQueue::new();
    queue.push(1, SECOND);
    let leader = Consumer::waiting(&queue);
    let mut follower = Consumer::waiting(&queue);
    advance(SECOND).await;
    assert_eq!((leader.wakes(), follower.wakes()), (1, 0));
    drop(leader);
    assert_eq!(follower.wakes(), 1);
    assert_eq!(follower.poll(), Poll::Ready(Some(1)));
}

#[tokio::test(start_paused = true)]
async fn one_that_is_dropped_between_a_push_and_its_turn_is_succeeded() {
    let queue = DelayQueue::new();
    let chosen = Consumer::waiting(&queue);
    let mut follower = Consumer::waiting(&queue);
    queue.push(1, Duration::ZERO);
    assert_eq!((chosen.wakes(), follower.wakes()), (1, 0));
    drop(chosen);
    assert_eq!(follower.wakes(), 1);
    assert_eq!(follower.poll(), Poll::Ready(Some(1)));
}

#[tokio::test(start_paused = true)]
async fn one_that_was_parked_is_dropped_without_a_trace() {
    let queue = DelayQueue::new();
    queue.push(1, SECOND);
    let mut leader = Consumer::waiting(&queue);
    let parked = Consumer::waiting(&queue);
    let mut last = Consumer::waiting(&queue);
    drop(parked);
    assert_eq!((leader.wakes(), last.wakes()), (0, 0));
    queue.push(2, SECOND);
    advance(SECOND).await;
    assert_eq!(leader.poll(), Poll::Ready(Some(1)));
    assert_eq!(last.wakes(), 1, "not the one that is gone");
    assert_eq!(last.poll(), Poll::Ready(Some(2)));
}

#[tokio::test(start_paused = true)]
async fn the_last_one_to_give_up_leaves_the_value_for_whoever_comes() {
    let queue = DelayQueue::new();
    queue.push(1, SECOND);
    drop(Consumer::waiting(&queue));
    assert!(timeout(SECOND / 2, queue.pop()).await.is_err());
    assert_eq!(queue.pop().await, Some(1));
}

#[tokio::test(start_paused = true)]
async fn a_pop_that_is_never_polled_takes_no_part() {
    let queue = DelayQueue::new();
    let unused = queue.pop();
    queue.push(1, Duration::ZERO);
    assert_eq!(queue.pop().await, Some(1));
    drop(unused);
}
