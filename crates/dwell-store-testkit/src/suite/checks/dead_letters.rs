//! Bringing dead letters back.

use std::collections::BTreeSet;

use dwell_core::{NewJob, Rate, Reason, Redrive, RedriveTopic, Redriven, State, Timestamp, TopicError, Verdict, When};

use crate::suite::bench::{BURY, Bench, NACK, id, ids, job, later, secs, topic};

async fn redrive(bench: &Bench, what: RedriveTopic) -> Redriven {
    bench.store.redrive(Redrive::Topic(what)).await.expect("redrive answers").expect("the topic is there")
}

/// Buries jobs of these names, due an hour apart, the last one first.
async fn bury(bench: &Bench, names: &[&str]) {
    for (k, name) in (0..).zip(names).collect::<Vec<_>>().into_iter().rev() {
        let at = Timestamp::from_millis(1_000_000_000 + k * 3_600_000).expect("in range");
        let held = bench.put_and_lease(NewJob { when: When::At(at), ..job(name) }).await;
        bench.settle(&held, BURY).await;
    }
}

fn all() -> RedriveTopic {
    RedriveTopic::all(topic("t"))
}

pub(super) async fn redrive_gives_fresh_attempts(bench: Bench) {
    bury(&bench, &["a"]).await;
    let before = bench.now().await;
    assert_eq!(redrive(&bench, all()).await, Redriven { redriven: 1, remaining: 0 });
    let view = bench.get("a").await;
    bench.assert_counts_from_call(before, secs(0), view.job.due_at).await;
    assert_eq!((view.state, view.job.attempt, view.job.counters.kicks), (State::Ready, 0, 1));
    assert_eq!(bench.lease().await.view.job.attempt, 1);
    let unknown = bench.store.redrive(Redrive::Topic(RedriveTopic::all(topic("nobody")))).await;
    assert_eq!(unknown, Ok(Err(TopicError::NotFound)));
}

pub(super) async fn redrive_by_due_time(bench: Bench) {
    bury(&bench, &["a", "b", "c", "d"]).await;
    assert_eq!(redrive(&bench, RedriveTopic { max: 3, ..all() }).await, Redriven { redriven: 3, remaining: 1 });
    let mut back: Vec<String> = Vec::new();
    for job in bench.lease_up_to("t", 10).await {
        back.push(job.view.job.id.as_str().to_owned());
    }
    back.sort();
    assert_eq!(back, ["a", "b", "c"]);
    assert_eq!(bench.state("d").await, State::Buried);
}

pub(super) async fn redrive_filters(bench: Bench) {
    bury(&bench, &["a", "b", "c"]).await;
    let reason = Reason::new("bad address").expect("a good reason");
    let held = bench.put_and_lease(job("d")).await;
    bench.settle(&held, Verdict::Bury { reason: Some(reason.clone()), priority: None }).await;

    let some = || Some(BTreeSet::from([id("b"), id("c"), id("nobody")]));
    let answer = redrive(&bench, RedriveTopic { ids: some(), max: 1, ..all() }).await;
    assert_eq!(answer, Redriven { redriven: 1, remaining: 1 }, "only those that were meant remain");
    let answer = redrive(&bench, RedriveTopic { ids: some(), ..all() }).await;
    assert_eq!(answer, Redriven { redriven: 1, remaining: 0 });
    let answer = redrive(&bench, RedriveTopic { reason: Some(reason), ..all() }).await;
    assert_eq!(answer, Redriven { redriven: 1, remaining: 0 });
    assert_eq!(bench.state("a").await, State::Buried);
    assert_eq!(bench.topic("t").await.counts[State::Ready], 3);
}

pub(super) async fn redrive_spreads(bench: Bench) {
    bury(&bench, &["a", "b", "c"]).await;
    let rate = Rate::per_second(0.01);
    let before = bench.now().await;
    redrive(&bench, RedriveTopic { rate, delay: secs(1_000), ..all() }).await;
    for (name, offset) in [("a", 1_000), ("b", 1_100), ("c", 1_200)] {
        bench.assert_counts_from_call(before, secs(offset), bench.get(name).await.job.due_at).await;
    }
    bench.advance(secs(1_110));
    assert_eq!(ids(&bench.lease_up_to("t", 10).await), ["a", "b"]);
}

pub(super) async fn kick_takes_buried_before_delayed(bench: Bench) {
    bench.put(later("soon", secs(600))).await;
    bench.put(later("later", secs(900))).await;
    bury(&bench, &["a"]).await;
    let kick = RedriveTopic { else_delayed: true, max: 1, ..all() };
    let other = RedriveTopic { ids: Some(BTreeSet::from([id("nobody")])), ..kick.clone() };
    assert_eq!(redrive(&bench, other).await, Redriven::default(), "while one is buried, no delayed job is meant");
    assert_eq!(redrive(&bench, kick.clone()).await.redriven, 1);
    assert_eq!((bench.state("a").await, bench.state("soon").await), (State::Ready, State::Delayed));
    assert_eq!(redrive(&bench, kick).await.redriven, 1);
    assert_eq!((bench.state("soon").await, bench.state("later").await), (State::Ready, State::Delayed));
    assert_eq!(redrive(&bench, all()).await.redriven, 0, "a plain redrive leaves delayed jobs alone");
}

pub(super) async fn kick_by_number(bench: Bench) {
    let delayed = bench.put(later("a", secs(600))).await.number;
    let kick = Redrive::Number(delayed);
    assert_eq!(bench.store.redrive(kick.clone()).await, Ok(Ok(Redriven { redriven: 1, remaining: 0 })));
    assert_eq!(bench.state("a").await, State::Ready);
    assert_eq!(bench.store.redrive(kick.clone()).await, Ok(Ok(Redriven::default())), "ready already");
    bench.lease().await;
    assert_eq!(bench.store.redrive(kick).await, Ok(Ok(Redriven::default())), "held");
}

pub(super) async fn a_kicked_retry_is_still_that_retry(bench: Bench) {
    let held = bench.put_and_lease(super::retry::ladder("a", &[600])).await;
    bench.settle(&held, NACK).await;
    let kick = Redrive::Number(held.view.job.number);
    assert_eq!(bench.store.redrive(kick).await, Ok(Ok(Redriven { redriven: 1, remaining: 0 })));
    assert_eq!(bench.lease().await.view.job.attempt, 2, "only a dead letter starts afresh");
}
