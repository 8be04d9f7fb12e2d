//! Lines: what is pushed, and to whom it is given.

use std::num::NonZeroU32;

use dwell_core::{
    Change, ChangeItem, Delay, Delivery, DeliveryAnswer, Edit, LeaseFrom, LeaseRequest, LeasedJob, Line, NewJob,
    Options, Priority, PushLines, Rate, Redrive, RedriveTopic, Secret, SetPause, Settle, State, Target, Timestamp,
    TopicPolicy, Verdict, When,
};

use crate::suite::bench::{BURY, Bench, NACK, RELEASE, ids, job, named, secs, soon, token, topic};

fn target(host: &str) -> Target {
    Target::new(&format!("https://{host}/hook"), &format!("https://{host}:443")).expect("a good target")
}

/// Puts jobs for a host into topic `t`, named `host-0`, `host-1` …
async fn put_for(bench: &Bench, host: &str, jobs: usize) {
    for k in 0..jobs {
        let options = Options { deliver_to: Some(target(host)), ..Options::default() };
        bench.put(NewJob { options, ..job(&format!("{host}-{k}")) }).await;
    }
}

async fn courier(bench: &Bench, lines: PushLines) -> Vec<LeasedJob> {
    bench.lease_with(LeaseRequest::from(LeaseFrom::Push(lines)).up_to(100)).await
}

fn shares(per_line: u32) -> PushLines {
    PushLines { per_line, ..PushLines::default() }
}

pub(super) async fn pull_consumers_never_see_pushed_jobs(bench: Bench) {
    put_for(&bench, "a.example", 2).await;
    bench.put(job("pulled")).await;
    assert_eq!(ids(&bench.lease_up_to("t", 10).await), ["pulled"]);
    let pushed = courier(&bench, shares(10)).await;
    assert_eq!(ids(&pushed), ["a.example-0", "a.example-1"]);
    assert_eq!(pushed[0].view.deliver_to, Some(target("a.example")));
    bench.settle(&pushed[0], Verdict::Ack).await;
    assert!(bench.try_lease().await.is_none());
}

pub(super) async fn a_topic_can_push_all_its_jobs(bench: Bench) {
    bench.put(job("a")).await;
    assert!(courier(&bench, shares(10)).await.is_empty());
    bench.policy(TopicPolicy { deliver_to: Some(target("t.example")), ..TopicPolicy::default() }).await;
    assert!(bench.try_lease().await.is_none(), "decided when it is handed out, not when it is put");
    let blocked = PushLines { blocked_topics: vec![topic("t")], ..shares(10) };
    assert!(courier(&bench, blocked).await.is_empty());
    let pushed = courier(&bench, shares(10)).await;
    assert_eq!(ids(&pushed), ["a"]);
    assert_eq!(pushed[0].view.deliver_to, Some(target("t.example")));

    bench.put(job("b")).await;
    bench.policy(TopicPolicy::default()).await;
    assert!(courier(&bench, shares(10)).await.is_empty());
    assert_eq!(bench.lease().await.view.job.id.as_str(), "b");
}

pub(super) async fn couriers_skip_blocked_lines(bench: Bench) {
    put_for(&bench, "dead.example", 5).await;
    put_for(&bench, "fine.example", 1).await;
    let dead = Line::of(Some(&target("dead.example")));
    assert_ne!(dead, Line::of(Some(&target("fine.example"))));
    let lines = PushLines { blocked_lines: vec![dead], ..shares(10) };
    assert_eq!(ids(&courier(&bench, lines).await), ["fine.example-0"], "a dead target is in nobody's way");
    assert_eq!(courier(&bench, shares(10)).await.len(), 5);
}

pub(super) async fn no_line_takes_more_than_its_share(bench: Bench) {
    put_for(&bench, "busy.example", 20).await;
    put_for(&bench, "calm.example", 1).await;
    bench.put(NewJob { topic: topic("u"), when: When::NOW, ..job("pulled") }).await;
    let first = courier(&bench, shares(3)).await;
    assert_eq!(ids(&first), ["busy.example-0", "busy.example-1", "busy.example-2", "calm.example-0"]);
    assert_eq!(courier(&bench, shares(0)).await.len(), 1, "no share means one");
    assert_eq!(courier(&bench, shares(100)).await.len(), 16);
}

pub(super) async fn couriers_keep_to_a_topics_bounds(bench: Bench) {
    put_for(&bench, "a.example", 2).await;
    assert_eq!(bench.store.pause(topic("t"), SetPause::On).await, Ok(Ok(())));
    assert!(courier(&bench, shares(10)).await.is_empty(), "paused is paused");
    assert_eq!(bench.store.pause(topic("t"), SetPause::Off).await, Ok(Ok(())));
    bench.policy(TopicPolicy { max_in_flight: NonZeroU32::new(1), ..TopicPolicy::default() }).await;
    assert_eq!(ids(&courier(&bench, shares(10)).await), ["a.example-0"]);
    bench.policy(TopicPolicy { max_rate: Rate::per_second(0.01), ..TopicPolicy::default() }).await;
    put_for(&bench, "b.example", 2).await;
    assert_eq!(courier(&bench, shares(10)).await.len(), 1, "a push takes from the same bucket");
}

pub(super) async fn a_blocked_topic_still_pushes_to_its_jobs_own_targets(bench: Bench) {
    bench.policy(TopicPolicy { deliver_to: Some(target("t.example")), ..TopicPolicy::default() }).await;
    bench.put(job("topics")).await;
    put_for(&bench, "own.example", 1).await;
    let blocked = PushLines { blocked_topics: vec![topic("t")], ..shares(10) };
    assert_eq!(ids(&courier(&bench, blocked).await), ["own.example-0"]);
}

pub(super) async fn shares_are_by_topic_and_line(bench: Bench) {
    for place in ["t", "u"] {
        for name in ["a", "b"] {
            let options = Options { deliver_to: Some(target("a.example")), ..Options::default() };
            bench.put(NewJob { topic: topic(place), options, ..job(name) }).await;
        }
    }
    let first = courier(&bench, shares(1)).await;
    let places: Vec<&str> = first.iter().map(|job| job.view.job.topic.as_str()).collect();
    assert_eq!((places, ids(&first)), (vec!["t", "u"], vec!["a", "a"]));
}

pub(super) async fn a_changed_target_changes_who_gets_the_job(bench: Bench) {
    let edit = |deliver_to| ChangeItem::new(named("a"), Change { deliver_to, ..Change::default() });
    bench.put(job("a")).await;
    let view = bench.try_change(edit(Edit::Set(target("a.example")))).await.expect("it waits");
    assert_eq!(view.deliver_to, Some(target("a.example")));
    assert!(bench.try_lease().await.is_none(), "no longer for pull consumers");
    let dead = PushLines { blocked_lines: vec![Line::of(Some(&target("a.example")))], ..shares(10) };
    assert!(courier(&bench, dead).await.is_empty(), "it queues on its new line");
    bench.try_change(edit(Edit::Clear)).await.expect("it waits");
    assert!(courier(&bench, shares(10)).await.is_empty());
    assert_eq!(bench.lease().await.view.deliver_to, None);
}

pub(super) async fn deliveries_are_kept_beside_the_job(bench: Bench) {
    put_for(&bench, "a.example", 1).await;
    let pushed = courier(&bench, shares(1)).await;
    let answer = DeliveryAnswer::new(b"try again");
    let delivery = Delivery { at: bench.now().await, took: 12, status: Some(503), answer };
    let settle = Settle { delivery: Some(delivery.clone()), ..Settle::new(token(&pushed[0]), NACK) };
    assert_eq!(bench.store.settle(vec![settle]).await, Ok(vec![Ok(())]));
    assert_eq!(bench.get("a.example-0").await.job.deliveries, [delivery]);
}

pub(super) async fn a_consumer_in_front_is_not_in_a_couriers_way(bench: Bench) {
    bench.policy(TopicPolicy::default()).await;
    let consumer = bench.spawn_lease(LeaseRequest::of(topic("t")));
    bench.until_waiting("t", 1).await;
    let courier = bench.spawn_lease(LeaseRequest::from(LeaseFrom::Push(shares(10))));
    // Nothing tells when a courier waits: other calls go by until it must.
    for _ in 0..100 {
        tokio::task::yield_now().await;
        bench.topic("t").await;
    }
    put_for(&bench, "a.example", 1).await;
    assert_eq!(ids(&soon(courier).await), ["a.example-0"]);
    bench.put(job("pulled")).await;
    assert_eq!(ids(&soon(consumer).await), ["pulled"]);
}

/// A courier that waits, and has had time to begin to: nothing tells when one does.
async fn waiting_courier(bench: &Bench, lines: PushLines) -> tokio::task::JoinHandle<Vec<LeasedJob>> {
    bench.policy(TopicPolicy::default()).await;
    let courier = bench.spawn_lease(LeaseRequest::from(LeaseFrom::Push(lines)).up_to(100));
    for _ in 0..100 {
        tokio::task::yield_now().await;
        bench.topic("t").await;
    }
    courier
}

fn pushed(name: &str, host: &str, when: When) -> NewJob {
    let options = Options { deliver_to: Some(target(host)), ..Options::default() };
    NewJob { options, when, ..job(name) }
}

pub(super) async fn a_courier_is_woken_by_the_due_time(bench: Bench) {
    let courier = waiting_courier(&bench, shares(10)).await;
    let due_at = bench.put(pushed("a", "a.example", When::In(secs(600)))).await.due_at;
    bench.advance_to_before(due_at).await;
    assert!(!courier.is_finished(), "early");
    bench.advance_to(due_at).await;
    assert_eq!(ids(&soon(courier).await), ["a"]);
}

pub(super) async fn a_courier_is_woken_by_a_topic_that_begins_to_push(bench: Bench) {
    let courier = waiting_courier(&bench, shares(10)).await;
    bench.put(job("a")).await;
    assert!(!courier.is_finished(), "it is for those who pull");
    bench.policy(TopicPolicy { deliver_to: Some(target("t.example")), ..TopicPolicy::default() }).await;
    assert_eq!(ids(&soon(courier).await), ["a"]);
}

pub(super) async fn a_waiting_courier_is_not_given_what_it_blocks(bench: Bench) {
    let dead = Line::of(Some(&target("dead.example")));
    let lines = PushLines { blocked_lines: vec![dead], ..shares(10) };
    let courier = waiting_courier(&bench, lines).await;
    put_for(&bench, "dead.example", 3).await;
    put_for(&bench, "fine.example", 1).await;
    assert_eq!(ids(&soon(courier).await), ["fine.example-0"]);
    assert_eq!(bench.topic("t").await.counts[State::Ready], 3, "what is blocked stays where it is");
}

pub(super) async fn several_couriers_get_each_job_once(bench: Bench) {
    let first = waiting_courier(&bench, shares(1)).await;
    let second = waiting_courier(&bench, shares(1)).await;
    put_for(&bench, "a.example", 2).await;
    let (first, second) = (soon(first).await, soon(second).await);
    let mut seen = [ids(&first), ids(&second)].concat();
    seen.sort_unstable();
    assert_eq!(seen, ["a.example-0", "a.example-1"]);
}

pub(super) async fn a_dropped_courier_loses_nothing(bench: Bench) {
    for round in 0..10 {
        let courier = waiting_courier(&bench, shares(10)).await;
        if round % 2 == 0 {
            courier.abort();
        }
        let name = round.to_string();
        bench.put(pushed(&name, "a.example", When::NOW)).await;
        courier.abort();
        // It may have got the job before it was dropped; then it holds it.
        let held = match courier.await {
            Ok(held) => held,
            Err(_) => soon(bench.spawn_lease(LeaseRequest::from(LeaseFrom::Push(shares(10))))).await,
        };
        assert_eq!((ids(&held), held[0].view.job.attempt), (vec![name.as_str()], 1), "released uncounted");
        bench.settle(&held[0], Verdict::Ack).await;
    }
}

pub(super) async fn a_line_is_in_order(bench: Bench) {
    let now = bench.now().await;
    let at = |millis: u64| When::At(Timestamp::from_millis(now.as_millis() - millis).expect("in the past"));
    bench.put(pushed("late", "a.example", at(1_000))).await;
    bench.put(pushed("early", "a.example", at(5_000))).await;
    bench.put(NewJob { priority: Priority(1), ..pushed("first", "a.example", at(10)) }).await;
    assert_eq!(ids(&courier(&bench, shares(10)).await), ["first", "early", "late"]);
}

pub(super) async fn what_fails_or_comes_back_stays_on_its_line(bench: Bench) {
    put_for(&bench, "a.example", 1).await;
    let line = Line::of(Some(&target("a.example")));
    let blocked = || PushLines { blocked_lines: vec![line], ..shares(10) };
    let held = courier(&bench, shares(1)).await;
    bench.settle(&held[0], RELEASE).await;
    assert!(courier(&bench, blocked()).await.is_empty());
    let held = courier(&bench, shares(1)).await;
    assert_eq!(held[0].view.job.attempt, 1, "a release is not counted");
    bench.settle(&held[0], BURY).await;
    let redrive = Redrive::Topic(RedriveTopic::all(topic("t")));
    assert_eq!(bench.store.redrive(redrive).await.expect("it answers").map(|done| done.redriven), Ok(1));
    assert!(bench.try_lease().await.is_none() && courier(&bench, blocked()).await.is_empty());
    assert_eq!(ids(&courier(&bench, shares(1)).await), ["a.example-0"]);
}

pub(super) async fn the_last_deliveries_are_kept_and_no_more(bench: Bench) {
    put_for(&bench, "a.example", 1).await;
    for number in 0..25 {
        let held = courier(&bench, shares(1)).await;
        let delivery =
            Delivery { at: bench.now().await, took: number, status: None, answer: DeliveryAnswer::default() };
        let verdict = Verdict::Nack { error: None, delay: Some(Delay::ZERO) };
        let verdict = if number < 15 { verdict } else { RELEASE };
        let settle = Settle { delivery: Some(delivery), ..Settle::new(token(&held[0]), verdict) };
        assert_eq!(bench.store.settle(vec![settle]).await, Ok(vec![Ok(())]));
    }
    let kept: Vec<u64> = bench.get("a.example-0").await.job.deliveries.iter().map(|kept| kept.took).collect();
    assert_eq!(kept, (5..25).collect::<Vec<_>>(), "twenty, newest last");
}

pub(super) async fn a_push_is_signed_with_what_its_topic_has_now(bench: Bench) {
    let secret = |key: &[u8]| Secret::new(key).expect("a good key");
    put_for(&bench, "a.example", 2).await;
    assert!(bench.get("a.example-0").await.deliver_secrets.is_empty());
    let secrets = vec![secret(b"new"), secret(b"old")];
    bench.policy(TopicPolicy { deliver_secrets: secrets.clone(), ..TopicPolicy::default() }).await;
    let held = courier(&bench, shares(10)).await;
    assert!(held.iter().all(|job| job.view.deliver_secrets == secrets), "jobs that wait already, too");
}
