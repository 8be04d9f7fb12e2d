//! Jobs that are not worth handing over for ever.

use dwell_core::{NewJob, Options, Phase, Reason, State, Timestamp, TopicPolicy, Ttl, Verdict, When};

use crate::suite::bench::{BURY, Bench, RELEASE, job, later, secs};

fn with_ttl(new: NewJob, ttl: u64) -> NewJob {
    let ttl = Some(Ttl::from_millis(ttl * 1_000).expect("in range"));
    NewJob { options: Options { ttl, ..new.options }, ..new }
}

/// Asserts that a job was buried for its ttl; when.
async fn assert_expired(bench: &Bench, name: &str) -> Timestamp {
    let view = bench.get(name).await;
    let Phase::Buried(burial) = &view.job.phase else { panic!("{name} is not buried: {view:?}") };
    assert_eq!((view.state, burial.reason.as_str()), (State::Buried, Reason::EXPIRED));
    burial.at
}

pub(super) async fn buries_what_waits_too_long(bench: Bench) {
    let expires_at = bench.put(with_ttl(later("a", secs(100)), 200)).await.expires_at.expect("it has a ttl");
    bench.advance_to_before(expires_at).await;
    assert_eq!(bench.state("a").await, State::Ready, "worth it to the last");
    bench.advance_to(expires_at).await;
    assert!(bench.try_lease().await.is_none(), "handed out past its ttl");
    bench.advance(secs(100));
    assert_eq!(assert_expired(&bench, "a").await, expires_at, "not when it was noticed");
    bench.until("t", "it is counted as buried", |info| info.counts[State::Buried] == 1).await;
    assert_eq!(bench.topic("t").await.totals.buried, 1);
}

pub(super) async fn spares_what_is_held(bench: Bench) {
    let held = bench.put_and_lease(with_ttl(job("a"), 50)).await;
    bench.settle(&held, Verdict::Extend { ttr: Some(dwell_core::Ttr::MAX) }).await;
    bench.advance(secs(3_600));
    assert_eq!(bench.state("a").await, State::Leased);
    bench.settle(&held, Verdict::Ack).await;

    let held = bench.put_and_lease(with_ttl(job("b"), 50)).await;
    bench.settle(&held, Verdict::Extend { ttr: Some(dwell_core::Ttr::MAX) }).await;
    bench.advance(secs(3_600));
    let before = bench.now().await;
    bench.settle(&held, RELEASE).await;
    let buried_at = assert_expired(&bench, "b").await;
    bench.assert_counts_from_call(before, secs(0), buried_at).await;
}

pub(super) async fn counts_anew_when_moved(bench: Bench) {
    bench.put(with_ttl(job("a"), 100)).await;
    bench.advance(secs(50));
    let moved = bench.move_to("a", When::In(secs(1_000))).await;
    assert_eq!(moved.expires_at, Some(moved.job.due_at.plus(100_000)));
    bench.advance(secs(1_010));
    assert_eq!(bench.state("a").await, State::Ready);
    bench.advance(secs(100));
    assert_expired(&bench, "a").await;
    let revived = bench.move_to("a", When::NOW).await;
    assert_eq!(revived.state, State::Ready);
}

pub(super) async fn retries_do_not_extend_it(bench: Bench) {
    let receipt = bench.put(with_ttl(job("a"), 500)).await;
    let held = bench.lease().await;
    bench.settle(&held, Verdict::Nack { error: None, delay: Some(secs(900)) }).await;
    assert_eq!(bench.get("a").await.expires_at, receipt.expires_at);
    bench.advance(secs(600));
    assert_expired(&bench, "a").await;
}

pub(super) async fn dead_letters_can_be_dropped(bench: Bench) {
    let held = bench.put_and_lease(job("a")).await;
    bench.settle(&held, BURY).await;
    bench.policy(TopicPolicy { keep_buried: Some(secs(600)), ..TopicPolicy::default() }).await;
    bench.advance(secs(500));
    assert_eq!(bench.state("a").await, State::Buried);
    bench.advance(secs(100));
    assert_eq!(bench.find("a").await, None);
    bench.until("t", "it is no longer counted", |info| info.counts.live() == 0).await;
    bench.put(job("a")).await;
}

pub(super) async fn a_release_does_not_extend_it(bench: Bench) {
    let receipt = bench.put(with_ttl(job("a"), 500)).await;
    let held = bench.lease().await;
    bench.settle(&held, Verdict::Release { delay: Some(secs(400)), priority: None }).await;
    assert_eq!(bench.get("a").await.expires_at, receipt.expires_at);
}

pub(super) async fn counts_from_creation_at_the_earliest(bench: Bench) {
    let receipt = bench.put(with_ttl(later("a", secs(900)), 500)).await;
    let long_ago = When::At(Timestamp::from_millis(1_000).expect("1970"));
    let view = bench.move_to("a", long_ago).await;
    assert_eq!((view.state, view.expires_at), (State::Ready, Some(receipt.created_at.plus(500_000))));
    let receipt = bench.put(NewJob { when: long_ago, ..with_ttl(job("b"), 500) }).await;
    assert_eq!((receipt.state, receipt.expires_at), (State::Ready, Some(receipt.created_at.plus(500_000))));
}
