//! How many jobs are due when.

use dwell_core::{NewJob, TimelineQuery, Timestamp, TopicError, When, limits};

use crate::suite::bench::{BURY, Bench, job, topic};

/// A whole minute some hours ahead.
async fn start(bench: &Bench) -> Timestamp {
    let minutes = bench.now().await.as_millis() / limits::MINUTE + 300;
    Timestamp::from_millis(minutes * limits::MINUTE).expect("in range")
}

async fn put_at(bench: &Bench, place: &str, name: &str, at: Timestamp) {
    bench.put(NewJob { topic: topic(place), when: When::At(at), ..job(name) }).await;
}

async fn counts(bench: &Bench, place: Option<&str>, from: Timestamp, step: u64, buckets: u32) -> Vec<u64> {
    let query = TimelineQuery::new(place.map(topic), from, step, buckets).expect("a good query");
    bench.store.timeline(query).await.expect("timeline answers").expect("the topic is there")
}

pub(super) async fn counts_waiting_jobs_by_minute(bench: Bench) {
    let from = start(&bench).await;
    let before = Timestamp::from_millis(from.as_millis() - 1).expect("in range");
    for (name, at) in [
        ("before", before),
        ("first", from),
        ("last-of-first", from.plus(59_999)),
        ("second", from.plus(60_000)),
        ("fourth", from.plus(200_000)),
        ("after", from.plus(240_000)),
    ] {
        put_at(&bench, "t", name, at).await;
    }
    assert_eq!(counts(&bench, Some("t"), from, 60_000, 4).await, [2, 1, 0, 1]);
    assert_eq!(counts(&bench, Some("t"), from, 120_000, 2).await, [3, 1]);
    bench.cancel("second").await.expect("it waits");
    bench.move_to("fourth", When::At(from)).await;
    assert_eq!(counts(&bench, Some("t"), from, 60_000, 4).await, [3, 0, 0, 0]);
    bench.advance_to(from).await;
    assert_eq!(counts(&bench, Some("t"), from, 60_000, 1).await, [3], "ready jobs count, by their due time");
    let held = bench.lease_up_to("t", 3).await;
    assert_eq!(counts(&bench, Some("t"), from, 60_000, 1).await, [1], "leased ones do not");
    for held in &held {
        bench.settle(held, BURY).await;
    }
    assert_eq!(counts(&bench, Some("t"), from, 60_000, 1).await, [1], "nor do dead letters");
}

pub(super) async fn of_all_topics(bench: Bench) {
    let from = start(&bench).await;
    put_at(&bench, "t", "a", from).await;
    put_at(&bench, "u", "a", from.plus(1)).await;
    put_at(&bench, "u", "b", from.plus(3_600_000)).await;
    assert_eq!(counts(&bench, None, from, 3_600_000, 3).await, [2, 1, 0]);
    assert_eq!(counts(&bench, Some("u"), from, 3_600_000, 3).await, [1, 1, 0]);
    let unknown = TimelineQuery::new(Some(topic("nobody")), from, 60_000, 1).expect("a good query");
    assert_eq!(bench.store.timeline(unknown).await, Ok(Err(TopicError::NotFound)));
}
