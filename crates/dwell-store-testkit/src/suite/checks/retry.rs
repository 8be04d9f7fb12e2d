//! Failures, ladders, dead letters.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use dwell_core::{
    Backoff, ErrorText, Ladder, NewJob, Options, Phase, Reason, Redrive, RetryPolicy, Settle, State, Verdict,
};

use crate::suite::bench::{BURY, Bench, NACK, job, secs, token};

/// A job of topic `t` with a ladder of whole seconds.
pub(super) fn ladder(name: &str, steps: &[u64]) -> NewJob {
    let steps: Vec<_> = steps.iter().map(|&step| secs(step)).collect();
    let retry = Ladder::new(&steps).expect("a good ladder").into_policy();
    NewJob { options: Options { retry: Some(retry), ..Options::default() }, ..job(name) }
}

pub(super) async fn a_lease_that_runs_out_counts_as_a_failure(bench: Bench) {
    let held = bench.put_and_lease(ladder("a", &[900, 900])).await;
    let Phase::Leased(lease) = &held.view.job.phase else { panic!("not leased") };
    bench.advance_to_before(lease.expires_at).await;
    assert_eq!(bench.state("a").await, State::Leased, "held to the end");
    bench.advance(secs(300));
    let view = bench.get("a").await;
    assert_eq!((view.state, view.job.attempt, view.job.counters.timeouts), (State::Delayed, 1, 1));
    assert_eq!(view.job.last_error, Some(ErrorText::new("lease expired")));
    assert_eq!(
        view.job.due_at,
        lease.expires_at.plus(900_000),
        "counted from the failure, not from when it was noticed"
    );
}

pub(super) async fn the_ladder_ends_in_a_burial(bench: Bench) {
    bench.put(ladder("a", &[15, 180, 600])).await;
    for (attempt, step) in [(1, 15), (2, 180), (3, 600)] {
        let held = bench.lease().await;
        assert_eq!(held.view.job.attempt, attempt);
        let before = bench.now().await;
        bench.settle(&held, NACK).await;
        let due_at = bench.get("a").await.job.due_at;
        bench.assert_counts_from_call(before, secs(step), due_at).await;
        bench.advance_to(due_at).await;
    }
    let last = bench.lease().await;
    bench.settle(&last, Verdict::Nack { error: Some(ErrorText::new("the last straw")), delay: None }).await;
    let view = bench.get("a").await;
    let Phase::Buried(burial) = &view.job.phase else { panic!("not buried: {view:?}") };
    assert_eq!(burial.reason.as_str(), Reason::ATTEMPTS_EXHAUSTED);
    assert_eq!((view.job.attempt, view.job.counters.buries), (4, 1));
    assert_eq!(view.job.last_error, Some(ErrorText::new("the last straw")));
}

pub(super) async fn attempts_survive_until_they_are_exhausted(bench: Bench) {
    let retry = RetryPolicy { attempts: NonZeroU32::new(4).expect("four"), backoff: Backoff::default() };
    bench.put(NewJob { options: Options { retry: Some(retry), ..Options::default() }, ..job("a") }).await;
    let mut seen = Vec::new();
    while let Some(held) = bench.try_lease().await
        && seen.len() < 9
    {
        seen.push(held.view.job.attempt);
        bench.settle(&held, Verdict::Nack { error: None, delay: Some(secs(0)) }).await;
    }
    assert_eq!(seen, [1, 2, 3, 4]);
    assert_eq!(bench.state("a").await, State::Buried);
}

pub(super) async fn the_default_backs_off_exponentially(bench: Bench) {
    bench.put(job("a")).await;
    for failure in 0..6 {
        let held = bench.lease().await;
        let before = bench.now().await;
        bench.settle(&held, NACK).await;
        let due_at = bench.get("a").await.job.due_at;
        let (least, after) = (1_000 << failure, bench.now().await);
        let most = least + least / 10 + 1;
        assert!((before.plus(least)..=after.plus(most)).contains(&due_at), "failure {failure}: due at {due_at:?}");
        bench.advance_to(due_at).await;
    }
}

pub(super) async fn one_attempt_buries_at_once(bench: Bench) {
    let retry = RetryPolicy { attempts: NonZeroU32::MIN, backoff: Backoff::default() };
    let options = Options { retry: Some(retry), ..Options::default() };
    let held = bench.put_and_lease(NewJob { options: options.clone(), ..job("a") }).await;
    bench.settle(&held, NACK).await;
    assert_eq!(bench.state("a").await, State::Buried);
    let held = bench.put_and_lease(NewJob { options, ..job("b") }).await;
    let Phase::Leased(lease) = &held.view.job.phase else { panic!("not leased") };
    bench.advance(secs(600));
    let Phase::Buried(burial) = bench.get("b").await.job.phase else {
        panic!("a lease that runs out is a failure too")
    };
    assert_eq!(burial.at, lease.expires_at, "when it failed, not when that was noticed");
}

pub(super) async fn the_default_spreads_a_herd(bench: Bench) {
    let jobs = (0..50).map(|k| job(&k.to_string())).collect();
    bench.store.put(jobs).await.expect("put answers");
    let held = bench.lease_up_to("t", 50).await;
    let items = held.iter().map(|held| Settle::new(token(held), NACK)).collect();
    bench.store.settle(items).await.expect("settle answers");
    let mut dues = BTreeSet::new();
    for held in &held {
        dues.insert(bench.get(held.view.job.id.as_str()).await.job.due_at);
    }
    assert!(dues.len() > 5, "fifty rests of 1,000 to 1,100 ms that began together end at {dues:?}");
}

pub(super) async fn an_error_is_known_until_the_next_one(bench: Bench) {
    let held = bench.put_and_lease(ladder("a", &[0, 0])).await;
    let boom = ErrorText::new("boom");
    bench.settle(&held, Verdict::Nack { error: Some(boom.clone()), delay: None }).await;
    let held = bench.lease().await;
    bench.settle(&held, NACK).await;
    assert_eq!(bench.get("a").await.job.last_error, Some(boom.clone()), "a failure without words takes none away");
    let held = bench.lease().await;
    bench.settle(&held, NACK).await;
    bench.move_to("a", dwell_core::When::NOW).await;
    let held = bench.lease().await;
    bench.settle(&held, BURY).await;
    bench.store.redrive(Redrive::Number(held.view.job.number)).await.expect("redrive answers").expect("it is buried");
    let view = bench.get("a").await;
    assert_eq!((view.job.attempt, view.job.last_error), (0, Some(boom)), "nor does a new start");
}
