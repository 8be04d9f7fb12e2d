//! What is known of topics.

use dwell_core::{
    Change, ChangeItem, LeaseRequest, NewJob, Priority, Purge, Redrive, RedriveTopic, SetPause, State, TopicPolicy,
    TopicsQuery, Totals, Verdict,
};

use crate::suite::bench::{BURY, Bench, NACK, RELEASE, job, later, named, secs, topic};

async fn names(bench: &Bench, query: TopicsQuery) -> Vec<String> {
    let topics = bench.store.topics(query).await.expect("topics answers");
    topics.into_iter().map(|info| info.name.as_str().to_owned()).collect()
}

pub(super) async fn appear_with_their_first_job_policy_or_pause(bench: Bench) {
    assert_eq!(names(&bench, TopicsQuery::default()).await, [""; 0]);
    bench.put(NewJob { topic: topic("job"), ..job("a") }).await;
    let answer = bench.store.set_policy(topic("policy"), TopicPolicy::default()).await;
    assert_eq!(answer, Ok(Ok(())));
    assert_eq!(bench.store.pause(topic("pause"), SetPause::On).await, Ok(Ok(())));
    assert_eq!(names(&bench, TopicsQuery::default()).await, ["job", "pause", "policy"]);
    let held = bench.lease_up_to("job", 1).await;
    bench.settle(&held[0], Verdict::Ack).await;
    assert_eq!(bench.topic("job").await.counts.live(), 0, "a topic outlives its jobs");
}

pub(super) async fn count_by_state(bench: Bench) {
    let late = bench.put(later("late", secs(900))).await;
    let soon = bench.put(later("soon", secs(600))).await;
    let buried = bench.put_and_lease(job("buried")).await;
    bench.settle(&buried, BURY).await;
    bench.put_and_lease(job("leased")).await;
    let ready = bench.put(job("ready")).await;
    let info = bench.topic("t").await;
    let counts = State::ALL.map(|state| info.counts[state]);
    assert_eq!(counts, [2, 1, 1, 1]);
    assert_eq!((info.next_due_at, info.oldest_ready_at), (Some(soon.due_at), Some(ready.due_at)));
    bench.advance_to(late.due_at).await;
    let info = bench.topic("t").await;
    assert_eq!((info.counts[State::Delayed], info.counts[State::Ready]), (0, 3 + u64::from(retried(&bench).await)));
    assert_eq!(info.oldest_ready_at, Some(ready.due_at));
}

pub(super) async fn count_ready_jobs_that_are_urgent(bench: Bench) {
    let of = |name: &str, priority| NewJob { priority: Priority(priority), ..job(name) };
    let urgent = |info: dwell_core::TopicInfo| info.urgent;
    bench.put(of("ordinary", 1_024)).await;
    bench.put(of("urgent", 1_023)).await;
    let late = bench.put(NewJob { priority: Priority(0), ..later("late", secs(60)) }).await;
    assert_eq!(urgent(bench.topic("t").await), 1, "what is delayed is not urgent yet");
    bench.advance_to(late.due_at).await;
    assert_eq!(urgent(bench.topic("t").await), 2);
    let held = bench.lease().await;
    assert_eq!(held.view.job.id, late_id(), "what is leased is urgent no more");
    assert_eq!(urgent(bench.topic("t").await), 1);
    bench.settle(&held, Verdict::Release { delay: None, priority: Some(Priority(2_000)) }).await;
    assert_eq!(urgent(bench.topic("t").await), 1, "its new priority is not urgent");
    bench.cancel("urgent").await.expect("it waits");
    assert_eq!(urgent(bench.topic("t").await), 0);
}

fn late_id() -> dwell_core::JobId {
    dwell_core::JobId::new("late").expect("a good id")
}

/// Whether the leased job has come back by now: its lease ran out, and its first rest is a second.
async fn retried(bench: &Bench) -> bool {
    bench.state("leased").await == State::Ready
}

pub(super) async fn total_what_happened(bench: Bench) {
    let acked = bench.put_and_lease(job("acked")).await;
    bench.settle(&acked, Verdict::Ack).await;
    let held = bench.put_and_lease(super::retry::ladder("a", &[0])).await;
    bench.settle(&held, RELEASE).await;
    let held = bench.lease().await;
    bench.settle(&held, NACK).await;
    bench.lease().await;
    bench.advance(secs(60));
    assert_eq!(bench.state("a").await, State::Buried);
    bench.replace(job("a")).await;
    bench.cancel("a").await.expect("it waits");
    let expected = Totals {
        put: 3,
        leased: 4,
        acked: 1,
        nacked: 1,
        timed_out: 1,
        released: 1,
        buried: 1,
        redriven: 0,
        cancelled: 1,
        purged: 0,
    };
    assert_eq!(bench.topic("t").await.totals, expected);
}

pub(super) async fn are_paged_by_name(bench: Bench) {
    for name in ["b.2", "a", "b.1", "c", "b.3", "ab.4"] {
        bench.put(NewJob { topic: topic(name), ..job("a") }).await;
    }
    let prefix = || TopicsQuery { prefix: "b.".to_owned(), limit: 2, after: None };
    assert_eq!(names(&bench, prefix()).await, ["b.1", "b.2"]);
    let second = TopicsQuery { after: Some(topic("b.2")), ..prefix() };
    assert_eq!(names(&bench, second).await, ["b.3"]);
    assert_eq!(names(&bench, TopicsQuery { limit: 3, ..TopicsQuery::default() }).await, ["a", "ab.4", "b.1"]);
}

pub(super) async fn total_burials_redrives_and_purges(bench: Bench) {
    for name in ["a", "b"] {
        let held = bench.put_and_lease(job(name)).await;
        bench.settle(&held, BURY).await;
    }
    let change = Change { priority: Some(Priority(1)), ..Change::default() };
    bench.try_change(ChangeItem::new(named("a"), change)).await.expect("a dead letter can be changed");
    let one = RedriveTopic { max: 1, ..RedriveTopic::all(topic("t")) };
    bench.store.redrive(Redrive::Topic(one)).await.expect("redrive answers").expect("the topic is there");
    let kicked = bench.put(later("c", secs(900))).await.number;
    bench.store.redrive(Redrive::Number(kicked)).await.expect("redrive answers").expect("it is delayed");
    assert_eq!(bench.store.purge(topic("t"), Purge::Jobs(State::Ready)).await, Ok(Ok(2)));
    bench.policy(TopicPolicy { keep_buried: Some(secs(0)), ..TopicPolicy::default() }).await;
    bench.until("t", "the other dead letter is dropped", |info| info.counts.live() == 0).await;
    let expected = Totals { put: 3, leased: 2, buried: 2, redriven: 2, purged: 3, ..Totals::default() };
    assert_eq!(bench.topic("t").await.totals, expected);
}

pub(super) async fn a_page_shows_what_a_look_at_each_shows(bench: Bench) {
    bench.put(later("a", secs(600))).await;
    bench.put(NewJob { topic: topic("u"), ..job("b") }).await;
    let waiting = bench.spawn_lease(LeaseRequest::of(topic("t")));
    bench.until_waiting("t", 1).await;
    let page = bench.store.topics(TopicsQuery::default()).await.expect("topics answers");
    assert_eq!(page, [bench.topic("t").await, bench.topic("u").await]);
    assert_eq!((page[0].waiting, page[1].waiting), (1, 0));
    waiting.abort();
}
