//! Putting jobs.

use std::sync::Arc;

use dwell_core::{
    Body, Counters, Delay, ErrorText, Found, Headers, IfExists, NewId, NewJob, Options, Priority, PutError, PutOutcome,
    RetryPolicy, State, Ttl, Ttr, Verdict, When, limits,
};

use crate::suite::bench::{BURY, Bench, job, later, secs, topic};

pub(super) async fn creates_what_was_sent(bench: Bench) {
    let sent = NewJob {
        priority: Priority(7),
        options: Options {
            ttr: Some(Ttr::from_millis(5_000).expect("in range")),
            retry: Some(RetryPolicy::default()),
            ttl: Some(Ttl::from_millis(60_000).expect("in range")),
            deliver_to: None,
        },
        headers: Headers::new([("traceparent".to_owned(), "00-1".to_owned())]).expect("fits"),
        body: Body::Json(Arc::from(*b"{\"n\":12345678901234567890, \"a\":1}")),
        ..later("a", secs(90))
    };
    let before = bench.now().await;
    let receipt = bench.put(sent.clone()).await;
    bench.assert_counts_from_call(before, secs(90), receipt.due_at).await;
    bench.assert_counts_from_call(before, Delay::ZERO, receipt.created_at).await;
    assert_eq!(receipt.state, State::Delayed);
    assert_eq!(receipt.expires_at, Some(receipt.due_at.plus(60_000)));

    let view = bench.get("a").await;
    assert_eq!((view.state, view.expires_at), (State::Delayed, receipt.expires_at));
    let kept = view.job;
    assert_eq!((kept.number, kept.version), (receipt.number, receipt.version));
    assert_eq!((kept.due_at, kept.created_at, kept.attempt), (receipt.due_at, receipt.created_at, 0));
    assert_eq!((kept.priority, kept.options, kept.headers), (sent.priority, sent.options, sent.headers));
    assert_eq!(kept.body, sent.body, "kept exactly as sent");
}

pub(super) async fn rejects_a_live_id(bench: Bench) {
    let first = bench.put(later("a", secs(90))).await;
    assert_eq!(bench.try_put(job("a")).await, Err(PutError::JobExists));
    assert_eq!(bench.get("a").await.job.version, first.version, "a refused put changes nothing");
}

pub(super) async fn replaces_everything(bench: Bench) {
    let old = NewJob { priority: Priority(1), body: Body::Bytes(Arc::from(*b"old")), ..later("a", secs(90)) };
    let first = bench.put(old).await;
    bench.advance(secs(10));
    let second = bench.replace(job("a")).await;
    assert!(second.number > first.number && second.version > first.version);
    let view = bench.get("a").await;
    assert_eq!((view.state, view.job.priority, view.job.body), (State::Ready, Priority::DEFAULT, Body::default()));
    assert_eq!(view.job.created_at, second.created_at);
    assert!(second.created_at > first.created_at, "a new job, not the old one changed");
    assert_eq!(bench.find_number(first.number).await, None, "the old one is gone");
    assert_eq!(bench.topic("t").await.counts.live(), 1);
}

pub(super) async fn keeps_the_old_one(bench: Bench) {
    let first = bench.put(later("a", secs(90))).await;
    let answer = bench.try_put(NewJob { if_exists: IfExists::Keep, ..job("a") }).await;
    let Ok(PutOutcome::Kept(Found::Live(kept))) = answer else { panic!("not kept: {answer:?}") };
    assert_eq!((kept.job.number, kept.job.due_at), (first.number, first.due_at));
    assert_eq!(bench.get("a").await.job.version, first.version);
    let created = bench.try_put(NewJob { if_exists: IfExists::Keep, ..job("b") }).await;
    assert!(matches!(created, Ok(PutOutcome::Created(_))), "{created:?}");
}

pub(super) async fn refuses_to_replace_a_held_job_unless_forced(bench: Bench) {
    let held = bench.put_and_lease(job("a")).await;
    let replace = NewJob { if_exists: IfExists::Replace, ..job("a") };
    assert_eq!(bench.try_put(replace.clone()).await, Err(PutError::JobLeased));
    bench.settle(&held, crate::suite::bench::EXTEND).await;
    let forced = bench.replace(NewJob { force: true, ..replace }).await;
    assert!(bench.try_settle(crate::suite::bench::token(&held), Verdict::Ack).await.is_err());
    assert_eq!(bench.get("a").await.job.number, forced.number);
    assert_eq!(bench.state("a").await, State::Ready);
}

pub(super) async fn replacing_a_buried_job_starts_afresh(bench: Bench) {
    let held = bench.put_and_lease(job("a")).await;
    let nack = Verdict::Nack { error: Some(ErrorText::new("boom")), delay: Some(Delay::ZERO) };
    bench.settle(&held, nack).await;
    let held = bench.lease().await;
    bench.settle(&held, BURY).await;
    bench.replace(job("a")).await;
    let view = bench.get("a").await;
    assert_eq!((view.state, view.job.attempt, view.job.counters), (State::Ready, 0, Counters::default()));
    assert_eq!(view.job.last_error, None);
}

pub(super) async fn honours_if_match(bench: Bench) {
    let first = bench.put(job("a")).await;
    let matching = |version| NewJob { if_match: Some(version), if_exists: IfExists::Replace, ..job("a") };
    let second = bench.replace(matching(first.version)).await;
    assert_eq!(bench.try_put(matching(first.version)).await, Err(PutError::VersionMismatch));
    let unheard_of = dwell_core::Version::new(second.version.get() + 1_000).expect("in range");
    assert_eq!(bench.try_put(matching(unheard_of)).await, Err(PutError::VersionMismatch));
    let absent = NewJob { id: NewId::Named(crate::suite::bench::id("b")), ..matching(second.version) };
    assert_eq!(bench.try_put(absent).await, Err(PutError::VersionMismatch));
}

pub(super) async fn accepts_the_past(bench: Bench) {
    let past = dwell_core::Timestamp::from_millis(1_000).expect("1970");
    let receipt = bench.put(NewJob { when: When::At(past), ..job("a") }).await;
    assert_eq!((receipt.due_at, receipt.state), (past, State::Ready));
    assert_eq!(bench.lease().await.view.job.due_at, past);
}

pub(super) async fn refuses_more_than_ten_years(bench: Bench) {
    let now = bench.now().await;
    let too_far = When::At(now.plus(limits::MAX_DELAY).plus(3_600_000));
    let answer = bench.try_put(NewJob { when: too_far, ..job("a") }).await;
    assert!(matches!(answer, Err(PutError::Time(_))), "{answer:?}");
    assert_eq!(bench.find("a").await, None);
    assert_eq!(bench.store.topic(topic("t")).await, Ok(None), "a refused put creates no topic");
    let there = bench.put(later("b", Delay::MAX)).await;
    assert_eq!(bench.state("b").await, State::Delayed);
    let answer = bench.try_put(NewJob { when: too_far, if_exists: IfExists::Replace, ..job("b") }).await;
    assert!(matches!(answer, Err(PutError::Time(_))), "{answer:?}");
    assert_eq!(bench.find("b").await.map(|view| view.job.number), Some(there.number), "what is there stays");
}

pub(super) async fn spreads_by_jitter(bench: Bench) {
    let before = bench.now().await;
    let jobs = (0..200).map(|k| NewJob { jitter: secs(1_000), ..later(&k.to_string(), secs(100)) });
    let answers = bench.store.put(jobs.collect()).await.expect("put answers");
    let dues: Vec<_> = answers
        .into_iter()
        .map(|answer| match answer {
            Ok(PutOutcome::Created(receipt)) => receipt.due_at,
            other => panic!("not created: {other:?}"),
        })
        .collect();
    let after = bench.now().await;
    let (first, last) = (before.plus(100_000), after.plus(1_100_001));
    assert!(dues.iter().all(|due| (first..=last).contains(due)), "jitter adds 0…jitter and never takes away");
    let (soonest, latest) = (dues.iter().min().expect("200"), dues.iter().max().expect("200"));
    assert!(latest.since(*soonest) > 500_000, "200 draws from 1,000 s spread over more than half of it");
}

pub(super) async fn names_jobs_by_number_on_request(bench: Bench) {
    let receipt = bench.put(NewJob { id: NewId::FromNumber, ..job("unused") }).await;
    let view = bench.find_number(receipt.number).await.expect("it is there");
    assert_eq!(view.job.id.as_str(), format!("${}", receipt.number));
    assert_eq!(bench.get(view.job.id.as_str()).await.job.number, receipt.number);
    let cancel = dwell_core::CancelItem::new(dwell_core::JobRef::Number(receipt.number));
    assert_eq!(bench.try_cancel(cancel).await, Ok(()));
}

pub(super) async fn same_id_in_two_topics_are_two_jobs(bench: Bench) {
    bench.put(job("a")).await;
    bench.put(NewJob { topic: topic("u"), ..job("a") }).await;
    bench.cancel("a").await.expect("it waits");
    assert_eq!(bench.lease_up_to("u", 1).await.len(), 1);
}

pub(super) async fn an_id_can_be_used_again(bench: Bench) {
    let held = bench.put_and_lease(job("a")).await;
    bench.settle(&held, Verdict::Ack).await;
    let again = bench.put(job("a")).await;
    assert!(again.version > held.view.job.version, "the version goes on where it was");
    assert!(again.number > held.view.job.number);
}
