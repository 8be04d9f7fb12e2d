//! Bounds that a topic or a store sets.

use std::num::NonZeroU32;

use dwell_core::{
    LeaseFrom, LeaseRequest, NewJob, Options, PushLines, PutError, Rate, SetPause, State, Target, TopicError,
    TopicPolicy, Verdict,
};

use crate::Setup;
use crate::suite::bench::{Bench, RELEASE, job, secs, soon, topic};

fn at_most(max: u32) -> TopicPolicy {
    TopicPolicy { max_in_flight: NonZeroU32::new(max), ..TopicPolicy::default() }
}

pub(super) async fn in_flight_is_bounded(bench: Bench) {
    bench.policy(at_most(2)).await;
    for name in ["a", "b", "c"] {
        bench.put(job(name)).await;
    }
    let held = bench.lease_up_to("t", 10).await;
    assert_eq!(held.len(), 2);
    assert!(bench.try_lease().await.is_none());
    bench.settle(&held[0], Verdict::Ack).await;
    let third = bench.lease().await;
    assert_eq!(third.view.job.id.as_str(), "c");
    bench.settle(&third, RELEASE).await;
    bench.policy(at_most(1)).await;
    assert!(bench.try_lease().await.is_none(), "one is held already");
    bench.advance(secs(60));
    assert_eq!(bench.lease_up_to("t", 10).await.len(), 1, "a lease that ran out is no longer in flight");
}

pub(super) async fn in_flight_frees_waiting_consumers(bench: Bench) {
    bench.policy(at_most(1)).await;
    bench.put(job("a")).await;
    bench.put(job("b")).await;
    let held = bench.lease().await;
    let waiter = bench.spawn_lease(LeaseRequest::of(topic("t")));
    bench.until_waiting("t", 1).await;
    bench.settle(&held, Verdict::Ack).await;
    assert_eq!(soon(waiter).await[0].view.job.id.as_str(), "b");
}

pub(super) async fn the_rate_is_bounded(bench: Bench) {
    let rate = Rate::per_second(0.01).expect("in range");
    bench.policy(TopicPolicy { max_rate: Some(rate), ..TopicPolicy::default() }).await;
    for k in 0..3 {
        bench.put(job(&k.to_string())).await;
    }
    assert_eq!(bench.lease_up_to("t", 10).await.len(), 1, "a bucket holds at least one job");
    bench.advance(secs(60));
    assert!(bench.try_lease().await.is_none());
    bench.advance(secs(40));
    assert_eq!(bench.lease_up_to("t", 10).await.len(), 1);
    bench.policy(TopicPolicy::default()).await;
    bench.advance(secs(60));
    assert!(!bench.lease_up_to("t", 10).await.is_empty(), "no rate, no bound");
}

pub(super) async fn topics_are_bounded(bench: Bench) {
    let bench = bench.with(Setup { max_topics: 2, ..Setup::default() }).await;
    let into = |name: &str| NewJob { topic: topic(name), ..job("a") };
    bench.put(into("one")).await;
    let answer = bench.store.pause(topic("two"), SetPause::On).await.expect("pause answers");
    assert_eq!(answer, Ok(()));
    assert_eq!(bench.try_put(into("three")).await, Err(PutError::TooManyTopics));
    let answer = bench.store.set_policy(topic("three"), TopicPolicy::default()).await.expect("set_policy answers");
    assert_eq!(answer, Err(TopicError::TooManyTopics));
    bench.put(NewJob { topic: topic("one"), ..job("b") }).await;
    assert_eq!(bench.topic("one").await.counts[State::Ready], 2, "topics that are there go on");
}

pub(super) async fn in_flight_is_by_topic_pull_and_push_together(bench: Bench) {
    bench.put(NewJob { topic: topic("u"), ..job("other") }).await;
    bench.lease_up_to("u", 1).await;
    bench.policy(at_most(2)).await;
    let target = Target::new("https://a.example/hook", "https://a.example:443").expect("a good target");
    let options = Options { deliver_to: Some(target), ..Options::default() };
    bench.put(NewJob { options, ..job("pushed") }).await;
    for name in ["a", "b"] {
        bench.put(job(name)).await;
    }
    let courier = LeaseRequest::from(LeaseFrom::Push(PushLines::default()));
    assert_eq!(bench.lease_with(courier).await.len(), 1);
    assert_eq!(bench.lease_up_to("t", 10).await.len(), 1, "what is held elsewhere does not count, what is pushed does");
}

pub(super) async fn a_burst_is_one_seconds_worth(bench: Bench) {
    let rate = |jobs| TopicPolicy { max_rate: Rate::per_second(jobs), ..TopicPolicy::default() };
    bench.store.put((0..20).map(|k| job(&k.to_string())).collect()).await.expect("put answers");
    bench.policy(rate(4.0)).await;
    assert_eq!(bench.lease_up_to("t", 20).await.len(), 4);
    bench.policy(rate(0.01)).await;
    assert_eq!(bench.lease_up_to("t", 20).await.len(), 1, "a new rate begins with a full bucket");
    bench.policy(rate(0.01)).await;
    assert!(bench.try_lease().await.is_none(), "saying the same again fills no bucket");
    bench.policy(rate(0.02)).await;
    let request = LeaseRequest { auto_ack: true, ..LeaseRequest::of(topic("t")) };
    assert_eq!(bench.lease_with(request.up_to(20)).await.len(), 1, "what is acked at once goes at the same rate");
    let number = bench.get("19").await.job.number;
    bench.policy(rate(0.03)).await;
    bench.advance(secs(60));
    let by_number = LeaseRequest::from(LeaseFrom::Number(number));
    assert_eq!(bench.lease_with(by_number).await.len(), 1, "who names a job gets it");
    assert!(bench.try_lease().await.is_none(), "and it counts");
}
