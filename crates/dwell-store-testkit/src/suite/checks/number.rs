//! Jobs known by their number alone.

use std::num::NonZeroU32;

use dwell_core::{
    CancelItem, Change, ChangeItem, JobRef, LeaseFrom, LeaseRequest, NewJob, Number, Options, Phase, Priority,
    SetPause, State, TopicPolicy, Ttl, Verdict,
};

use crate::suite::bench::{BURY, Bench, RELEASE, job, later, secs, soon, topic};

async fn lease(bench: &Bench, number: Number) -> Option<dwell_core::LeasedJob> {
    bench.lease_with(LeaseRequest::from(LeaseFrom::Number(number))).await.pop()
}

pub(super) async fn finds_by_number(bench: Bench) {
    let a = bench.put(job("a")).await.number;
    let b = bench.put(NewJob { topic: topic("u"), ..job("a") }).await.number;
    assert_eq!(bench.find_number(a).await.expect("live").job.topic, topic("t"));
    assert_eq!(bench.find_number(b).await.expect("live").job.topic, topic("u"));
    bench.cancel("a").await.expect("it waits");
    assert_eq!(bench.find_number(a).await, None);
}

pub(super) async fn leases_by_number_whatever_the_state(bench: Bench) {
    let delayed = bench.put(later("delayed", secs(600))).await.number;
    let buried = bench.put_and_lease(job("buried")).await;
    bench.settle(&buried, BURY).await;
    let ready = bench.put(job("ready")).await.number;
    for number in [delayed, buried.view.job.number, ready] {
        let held = lease(&bench, number).await.expect("named and not held");
        assert_eq!((held.view.job.number, held.view.state), (number, State::Leased));
        assert!(lease(&bench, number).await.is_none(), "held already");
    }
    let absent = Number::new(9_000_000_000).expect("in range");
    assert!(lease(&bench, absent).await.is_none());

    let held = bench.get("delayed").await;
    assert!(held.job.due_at > bench.now().await, "the due time stays");
    let Phase::Leased(early) = held.job.phase else { panic!("not leased") };
    let before = bench.now().await;
    let nack = Verdict::Nack { error: None, delay: Some(secs(5)) };
    assert_eq!(bench.try_settle(early.token, nack).await, Ok(()));
    bench.assert_counts_from_call(before, secs(5), bench.get("delayed").await.job.due_at).await;
    let expired = Options { ttl: Some(Ttl::from_millis(50_000).expect("in range")), ..Options::default() };
    let expired = bench.put(NewJob { options: expired, ..job("expired") }).await.number;
    bench.advance(secs(100));
    assert!(lease(&bench, expired).await.is_none(), "never past its ttl");
}

pub(super) async fn changes_and_cancels_by_number(bench: Bench) {
    let number = bench.put(job("a")).await.number;
    let change = Change { priority: Some(Priority(1)), ..Change::default() };
    let view = bench.try_change(ChangeItem::new(JobRef::Number(number), change)).await.expect("it waits");
    assert_eq!((view.job.id.as_str(), view.job.priority), ("a", Priority(1)));
    bench.try_cancel(CancelItem::new(JobRef::Number(number))).await.expect("it waits");
    assert_eq!(bench.find("a").await, None);
}

pub(super) async fn numbers_are_never_reused(bench: Bench) {
    let mut last = None;
    for _ in 0..5 {
        let number = bench.put(job("a")).await.number;
        assert!(Some(number) > last, "{number} after {last:?}");
        last = Some(number);
        let replaced = bench.replace(job("a")).await.number;
        assert!(Some(replaced) > last);
        last = Some(replaced);
        let held = bench.lease().await;
        bench.settle(&held, RELEASE).await;
        assert_eq!(Some(bench.get("a").await.job.number), last, "a number is for life");
        let held = bench.lease().await;
        bench.settle(&held, Verdict::Ack).await;
    }
}

pub(super) async fn leases_by_number_whatever_the_topic_says(bench: Bench) {
    bench.policy(TopicPolicy { max_in_flight: NonZeroU32::new(1), ..TopicPolicy::default() }).await;
    for name in ["within its bounds", "over its bounds", "paused"] {
        let number = bench.put(job(name)).await.number;
        if name == "paused" {
            assert_eq!(bench.store.pause(topic("t"), SetPause::On).await, Ok(Ok(())));
        }
        assert!(lease(&bench, number).await.is_some(), "{name}: the asker names it and means it");
    }
}

pub(super) async fn a_lease_by_number_does_not_wait(bench: Bench) {
    let delayed = bench.put(later("a", secs(600))).await.number;
    lease(&bench, delayed).await.expect("named and not held");
    let again = bench.spawn_lease(LeaseRequest::from(LeaseFrom::Number(delayed)));
    assert!(soon(again).await.is_empty(), "it is held: the answer is at once, and none");
}
