//! Settling leases.

use dwell_core::{ErrorText, LeaseRequest, LeaseToken, Phase, Priority, Reason, State, Ttr, Verdict};

use crate::suite::bench::{BURY, Bench, EXTEND, NACK, RELEASE, job, later, secs, token, topic};

pub(super) async fn ack_removes(bench: Bench) {
    let held = bench.put_and_lease(job("a")).await;
    bench.settle(&held, Verdict::Ack).await;
    assert_eq!(bench.find("a").await, None);
    bench.advance(secs(86_400));
    assert!(bench.try_lease().await.is_none(), "what is acked never comes again");
}

pub(super) async fn nack_waits_as_the_ladder_says(bench: Bench) {
    let held = bench.put_and_lease(super::retry::ladder("a", &[15, 180])).await;
    let before = bench.now().await;
    bench.settle(&held, Verdict::Nack { error: Some(ErrorText::new("no route")), delay: None }).await;
    let view = bench.get("a").await;
    bench.assert_counts_from_call(before, secs(15), view.job.due_at).await;
    assert_eq!((view.state, view.job.attempt), (State::Delayed, 1));
    assert_eq!(view.job.last_error, Some(ErrorText::new("no route")));
    assert!(bench.try_lease().await.is_none());
}

pub(super) async fn nack_with_a_delay(bench: Bench) {
    let held = bench.put_and_lease(super::retry::ladder("a", &[15])).await;
    let before = bench.now().await;
    bench.settle(&held, Verdict::Nack { error: None, delay: Some(secs(700)) }).await;
    bench.assert_counts_from_call(before, secs(700), bench.get("a").await.job.due_at).await;
    bench.advance(secs(700));
    let held = bench.lease().await;
    bench.settle(&held, Verdict::Nack { error: None, delay: Some(secs(700)) }).await;
    assert_eq!(bench.state("a").await, State::Buried, "a delay of one's own buys no attempts");
}

pub(super) async fn release_uncounts(bench: Bench) {
    let held = bench.put_and_lease(job("a")).await;
    bench.settle(&held, RELEASE).await;
    let view = bench.get("a").await;
    assert_eq!((view.state, view.job.attempt, view.job.counters.releases), (State::Ready, 0, 1));
    assert_eq!(view.job.due_at, held.view.job.due_at, "it keeps its place");
}

pub(super) async fn release_with_delay_and_priority(bench: Bench) {
    let held = bench.put_and_lease(job("a")).await;
    bench.advance(secs(20));
    let before = bench.now().await;
    bench.settle(&held, Verdict::Release { delay: Some(secs(50)), priority: Some(Priority(3)) }).await;
    let view = bench.get("a").await;
    bench.assert_counts_from_call(before, secs(50), view.job.due_at).await;
    assert_eq!((view.state, view.job.priority, view.job.attempt), (State::Delayed, Priority(3), 0));
}

pub(super) async fn bury_with_reason_and_priority(bench: Bench) {
    let held = bench.put_and_lease(job("a")).await;
    let reason = Reason::new("bad address").expect("a good reason");
    let before = bench.now().await;
    bench.settle(&held, Verdict::Bury { reason: Some(reason.clone()), priority: Some(Priority(3)) }).await;
    let view = bench.get("a").await;
    assert_eq!((view.state, view.job.priority, view.job.counters.buries), (State::Buried, Priority(3), 1));
    let Phase::Buried(burial) = view.job.phase else { panic!("not buried") };
    assert_eq!(burial.reason, reason);
    bench.assert_counts_from_call(before, secs(0), burial.at).await;
    bench.advance(secs(86_400));
    assert!(bench.try_lease().await.is_none(), "a dead letter is not handed out");
}

pub(super) async fn extend_moves_the_end(bench: Bench) {
    let held = bench.put_and_lease(job("a")).await;
    let hour = Ttr::from_millis(3_600_000).expect("in range");
    let before = bench.now().await;
    bench.settle(&held, Verdict::Extend { ttr: Some(hour) }).await;
    let view = bench.get("a").await;
    let Phase::Leased(lease) = view.job.phase else { panic!("not leased") };
    bench.assert_counts_from_call(before, secs(3_600), lease.expires_at).await;
    assert!(view.job.version > held.view.job.version, "every change raises the version");
    bench.advance(secs(3_000));
    assert!(bench.try_lease().await.is_none(), "still held");
    let before = bench.now().await;
    bench.settle(&held, EXTEND).await;
    let Phase::Leased(lease) = bench.get("a").await.job.phase else { panic!("not leased") };
    bench.assert_counts_from_call(before, secs(60), lease.expires_at).await;
    bench.settle(&held, Verdict::Ack).await;
}

/// Every verdict, with a token that was good once, on a job in every other state: lost, and nothing changes.
pub(super) async fn every_verb_in_every_state(bench: Bench) {
    let verdicts = [Verdict::Ack, NACK, RELEASE, BURY, EXTEND];
    for (k, verdict) in verdicts.into_iter().enumerate() {
        let name = |state: &str| format!("{state}-{k}");
        bench.put(later(&name("delayed"), secs(7_200))).await;
        let ready = bench.put_and_lease(job(&name("ready"))).await;
        bench.settle(&ready, RELEASE).await;
        let mut made_up = token(&ready);
        made_up.number = bench.get(&name("delayed")).await.job.number;
        assert_lost(&bench, made_up, &verdict, &name("delayed")).await;
        assert_lost(&bench, token(&ready), &verdict, &name("ready")).await;
        let leased = bench.lease().await;
        assert_eq!(leased.view.job.id, ready.view.job.id);
        assert_lost(&bench, token(&ready), &verdict, &name("ready")).await;
        let buried = bench.put_and_lease(job(&name("buried"))).await;
        bench.settle(&buried, BURY).await;
        assert_lost(&bench, token(&buried), &verdict, &name("buried")).await;
        let gone = bench.put_and_lease(job(&name("gone"))).await;
        bench.settle(&gone, Verdict::Ack).await;
        assert_lost(&bench, token(&gone), &verdict, &name("gone")).await;
        bench.settle(&leased, Verdict::Ack).await;
    }
}

async fn assert_lost(bench: &Bench, stale: LeaseToken, verdict: &Verdict, name: &str) {
    let before = bench.find(name).await;
    assert!(bench.try_settle(stale, verdict.clone()).await.is_err(), "{verdict:?} of {name}");
    assert_eq!(bench.find(name).await, before, "{verdict:?} of {name} changed it");
}

pub(super) async fn bury_needs_no_reason(bench: Bench) {
    let held = bench.put_and_lease(job("a")).await;
    bench.settle(&held, BURY).await;
    let Phase::Buried(burial) = bench.get("a").await.job.phase else { panic!("not buried") };
    assert_eq!(burial.reason.as_str(), Reason::BURIED);
}

pub(super) async fn extend_asks_for_the_leases_own_ttr(bench: Bench) {
    bench.put(job("a")).await;
    let ttr = Some(Ttr::from_millis(7_000_000).expect("in range"));
    let held = bench.lease_with(LeaseRequest { ttr, ..LeaseRequest::of(topic("t")) }).await;
    bench.settle(&held[0], Verdict::Extend { ttr: Some(Ttr::MAX) }).await;
    let before = bench.now().await;
    bench.settle(&held[0], EXTEND).await;
    let Phase::Leased(lease) = bench.get("a").await.job.phase else { panic!("not leased") };
    bench.assert_counts_from_call(before, secs(7_000), lease.expires_at).await;
}
