//! Closing: what is in the queue comes out, then consumers go home.

use std::task::Poll;
use std::time::Duration;

use delay_queue::DelayQueue;
use tokio::time::advance;

use crate::consumer::{Consumer, wakes};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn closing_an_empty_queue_sends_everyone_home() {
    let queue = DelayQueue::<u8>::new();
    let mut consumers: [_; 3] = std::array::from_fn(|_| Consumer::waiting(&queue));
    queue.close();
    assert_eq!(wakes(&consumers), [1, 1, 1]);
    assert!(consumers.iter_mut().all(|consumer| consumer.poll() == Poll::Ready(None)));
    assert_eq!(queue.pop().await, None);
}

#[tokio::test(start_paused = true)]
async fn what_is_left_comes_out_first() {
    let queue = DelayQueue::new();
    queue.push('a', SECOND);
    let mut consumers: [_; 3] = std::array::from_fn(|_| Consumer::waiting(&queue));
    queue.close();
    assert_eq!(wakes(&consumers), [0, 0, 0]);
    advance(SECOND).await;
    assert_eq!(consumers[0].poll(), Poll::Ready(Some('a')));
    assert_eq!(wakes(&consumers)[1..], [1, 1]);
    assert_eq!(consumers[1].poll(), Poll::Ready(None));
    assert_eq!(consumers[2].poll(), Poll::Ready(None));
}

#[tokio::test(start_paused = true)]
async fn cancelling_what_is_left_sends_everyone_home_too() {
    let queue = DelayQueue::new();
    let key = queue.push('a', SECOND);
    let mut consumers: [_; 2] = std::array::from_fn(|_| Consumer::waiting(&queue));
    queue.close();
    queue.cancel(key);
    assert_eq!(wakes(&consumers), [1, 1]);
    assert!(consumers.iter_mut().all(|consumer| consumer.poll() == Poll::Ready(None)));
}

#[tokio::test(start_paused = true)]
async fn a_late_push_is_kept_for_whoever_still_pops() {
    let queue = DelayQueue::new();
    queue.close();
    queue.push('a', SECOND);
    assert_eq!(queue.pop().await, Some('a'));
    assert_eq!(queue.pop().await, None);
}
