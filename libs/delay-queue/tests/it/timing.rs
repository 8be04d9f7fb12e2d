//! When values come out.

use std::time::Duration;

use delay_queue::DelayQueue;
use tokio::time::{Instant, advance};

const MILLI: Duration = Duration::from_millis(1);

#[tokio::test(start_paused = true)]
async fn values_come_in_the_order_of_their_deadlines() {
    let queue = DelayQueue::new();
    let start = Instant::now();
    for seconds in [86_400, 3, 1, 100, 2] {
        queue.push(seconds, Duration::from_secs(seconds));
    }
    for seconds in [1, 2, 3, 100, 86_400] {
        assert_eq!(queue.pop().await, Some(seconds));
        assert_eq!(start.elapsed(), Duration::from_secs(seconds));
    }
}

#[tokio::test(start_paused = true)]
async fn part_of_a_millisecond_counts_as_a_whole_one() {
    advance(Duration::from_micros(300)).await;
    let queue = DelayQueue::new();
    advance(Duration::from_micros(400)).await;
    queue.push('a', Duration::from_micros(1_700));
    advance(Duration::from_micros(1_699)).await;
    assert_eq!(queue.try_pop(), None);
    advance(MILLI).await;
    assert_eq!(queue.try_pop(), Some('a'));
}

#[tokio::test(start_paused = true)]
async fn an_instant_is_kept_as_a_delay_is() {
    let queue = DelayQueue::new();
    let instant = Instant::now() + Duration::from_micros(2_500);
    queue.push_at('a', instant);
    advance(Duration::from_micros(2_499)).await;
    assert_eq!(queue.try_pop(), None);
    assert_eq!(queue.pop().await, Some('a'));
    assert!(Instant::now() >= instant && instant.elapsed() < MILLI);
    let key = queue.push_at('b', instant - MILLI);
    assert!(queue.reschedule_at(key, Instant::now() + MILLI));
    assert_eq!(queue.try_pop(), None);
    assert!(queue.reschedule_at(key, instant));
    assert_eq!(queue.try_pop(), Some('b'));
}

#[tokio::test(start_paused = true)]
async fn the_longest_delay_is_no_trouble() {
    let queue = DelayQueue::new();
    let key = queue.push('a', Duration::MAX);
    queue.push('c', Duration::from_hours(24 * 365 * 1_000));
    assert!(tokio::time::timeout(Duration::from_hours(1_000), queue.pop()).await.is_err());
    queue.push('b', Duration::from_hours(100));
    assert_eq!(queue.pop().await, Some('b'));
    assert_eq!(queue.cancel(key), Some('a'));
}

/// The only test that runs on the real clock for its own sake.
#[tokio::test]
async fn nothing_is_early_by_the_real_clock_either() {
    let queue = DelayQueue::new();
    for micros in (0..20_000).step_by(770) {
        let due = Instant::now() + Duration::from_micros(micros);
        queue.push(due, Duration::from_micros(micros));
    }
    queue.close();
    while let Some(due) = queue.pop().await {
        assert!(Instant::now() >= due);
    }
}
