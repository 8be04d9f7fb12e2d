//! Changing and moving live jobs.

use std::sync::Arc;

use dwell_core::{
    Body, Change, ChangeError, ChangeItem, Edit, Headers, NewJob, Options, Priority, RetryPolicy, State, Timestamp,
    Ttl, Ttr, Version, When,
};

use crate::suite::bench::{BURY, Bench, job, later, named, secs, token};

fn ttr(secs: u64) -> Ttr {
    Ttr::from_millis(secs * 1_000).expect("in range")
}

pub(super) async fn moves_earlier_and_later(bench: Bench) {
    bench.put(later("a", secs(600))).await;
    let before = bench.now().await;
    let view = bench.move_to("a", When::In(secs(100))).await;
    bench.assert_counts_from_call(before, secs(100), view.job.due_at).await;
    bench.advance(secs(50));
    let view = bench.move_to("a", When::In(secs(1_000))).await;
    bench.advance(secs(900));
    assert!(bench.try_lease().await.is_none(), "moved later: neither old time holds");
    bench.advance_to(view.job.due_at).await;
    assert_eq!(bench.lease().await.view.job.due_at, view.job.due_at);
}

pub(super) async fn fires_now(bench: Bench) {
    bench.put(later("a", secs(600))).await;
    let view = bench.move_to("a", When::NOW).await;
    assert_eq!(view.state, State::Ready);
    assert_eq!(bench.lease().await.view.job.id.as_str(), "a");
    let refused = Change { when: Some(When::At(Timestamp::MAX)), ..Change::default() };
    bench.put(later("b", secs(600))).await;
    let answer = bench.try_change(ChangeItem::new(named("b"), refused)).await;
    assert!(matches!(answer, Err(ChangeError::Time(_))), "{answer:?}");
    assert_eq!(bench.state("b").await, State::Delayed, "a refused move changes nothing");
}

pub(super) async fn changes_every_field(bench: Bench) {
    let first = bench.put(later("a", secs(600))).await;
    let change = Change {
        when: None,
        priority: Some(Priority(3)),
        body: Some(Body::Bytes(Arc::from(*b"new"))),
        headers: Some(Headers::new([("k".to_owned(), "v".to_owned())]).expect("fits")),
        ttr: Edit::Set(ttr(9)),
        retry: Edit::Set(RetryPolicy::default()),
        ttl: Edit::Set(Ttl::from_millis(5_000).expect("in range")),
        deliver_to: Edit::Keep,
    };
    let view = bench.try_change(ChangeItem::new(named("a"), change.clone())).await.expect("it waits");
    assert_eq!(bench.get("a").await, view, "the answer is what a read shows");
    let now = view.job;
    assert_eq!((now.due_at, now.number), (first.due_at, first.number), "what is not named stays");
    assert_eq!((Some(now.priority), Some(now.body), Some(now.headers)), (change.priority, change.body, change.headers));
    assert_eq!(now.options.ttr, Some(ttr(9)));
    assert_eq!(now.options.retry, Some(RetryPolicy::default()));
    assert_eq!(view.expires_at, Some(first.due_at.plus(5_000)));
}

pub(super) async fn clears_fields(bench: Bench) {
    let options = Options { ttr: Some(ttr(9)), ttl: Some(Ttl::MAX), ..Options::default() };
    bench.put(NewJob { options, ..job("a") }).await;
    let change = Change { ttr: Edit::Clear, ttl: Edit::Clear, ..Change::default() };
    let view = bench.try_change(ChangeItem::new(named("a"), change)).await.expect("it waits");
    assert_eq!((view.job.options, view.ttr, view.expires_at), (Options::default(), Ttr::DEFAULT, None));
}

pub(super) async fn refuses_a_held_job_unless_forced(bench: Bench) {
    let held = bench.put_and_lease(job("a")).await;
    let change = ChangeItem::new(named("a"), Change { priority: Some(Priority(1)), ..Change::default() });
    assert_eq!(bench.try_change(change.clone()).await, Err(ChangeError::JobLeased));
    assert_eq!(bench.get("a").await.job, held.view.job);
    let view = bench.try_change(ChangeItem { force: true, ..change }).await.expect("force is force");
    assert_eq!((view.state, view.job.attempt), (State::Ready, 1));
    assert!(bench.try_settle(token(&held), dwell_core::Verdict::Ack).await.is_err(), "the lease is revoked");
}

pub(super) async fn revives_a_buried_job(bench: Bench) {
    let held = bench.put_and_lease(job("a")).await;
    bench.settle(&held, BURY).await;
    let change = Change { priority: Some(Priority(1)), ..Change::default() };
    let view = bench.try_change(ChangeItem::new(named("a"), change)).await.expect("a dead letter can be changed");
    assert_eq!(view.state, State::Buried, "only a due time revives");
    let view = bench.move_to("a", When::In(secs(10))).await;
    assert_eq!((view.state, view.job.attempt), (State::Delayed, 0));
    bench.advance_to(view.job.due_at).await;
    assert_eq!(bench.lease().await.view.job.attempt, 1);
}

pub(super) async fn honours_if_match(bench: Bench) {
    let first = bench.put(job("a")).await.version;
    let change = Change { priority: Some(Priority(1)), ..Change::default() };
    let matching = |version| ChangeItem { if_match: Some(version), ..ChangeItem::new(named("a"), change.clone()) };
    let second = bench.try_change(matching(first)).await.expect("the version fits").job.version;
    assert_eq!(bench.try_change(matching(first)).await, Err(ChangeError::VersionMismatch));
    let unheard_of = Version::new(second.get() + 1_000).expect("in range");
    assert_eq!(bench.try_change(matching(unheard_of)).await, Err(ChangeError::VersionMismatch));
    bench.lease().await;
    assert_eq!(bench.try_change(matching(second)).await, Err(ChangeError::VersionMismatch), "judged before the lease");
}

pub(super) async fn unknown_jobs_are_not_found(bench: Bench) {
    let change = ChangeItem::new(named("nobody"), Change::default());
    assert_eq!(bench.try_change(change.clone()).await, Err(ChangeError::NotFound));
    bench.put(job("a")).await;
    assert_eq!(bench.try_change(change).await, Err(ChangeError::NotFound));
}
