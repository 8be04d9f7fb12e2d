//! Cancelling and moving.

use std::time::Duration;

use delay_queue::DelayQueue;

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_cancelled_value_does_not_come_out() {
    let queue = DelayQueue::new();
    let key = queue.push('a', SECOND);
    queue.push('b', 2 * SECOND);
    assert_eq!(queue.cancel(key), Some('a'));
    assert_eq!(queue.cancel(key), None);
    assert_eq!(queue.pop().await, Some('b'));
    assert!(queue.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_value_that_is_due_can_be_cancelled_until_somebody_takes_it() {
    let queue = DelayQueue::new();
    let keys = ['a', 'b'].map(|value| queue.push(value, Duration::ZERO));
    assert_eq!(queue.len(), 2);
    assert_eq!(queue.try_pop(), Some('a'));
    assert_eq!(queue.cancel(keys[1]), Some('b'));
    assert_eq!(queue.try_pop(), None);
    assert_eq!(queue.cancel(keys[0]), None);
}

#[tokio::test(start_paused = true)]
async fn a_moved_value_comes_out_at_its_new_time_and_keeps_its_key() {
    let queue = DelayQueue::new();
    let key = queue.push('a', SECOND);
    queue.push('b', 2 * SECOND);
    assert!(queue.reschedule(key, 3 * SECOND));
    assert_eq!(queue.pop().await, Some('b'));
    assert!(queue.reschedule(key, Duration::ZERO));
    assert_eq!(queue.try_pop(), Some('a'));
    assert!(!queue.reschedule(key, SECOND));
}
