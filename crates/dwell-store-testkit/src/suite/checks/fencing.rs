//! A stale token, a stale version: worth nothing.

use dwell_core::{CancelItem, Change, ChangeItem, LeaseToken, NewJob, Options, State, Ttl, Verdict, When};

use crate::suite::bench::{BURY, Bench, EXTEND, NACK, RELEASE, job, named, secs, token};

pub(super) async fn a_stale_token_changes_nothing(bench: Bench) {
    let first = bench.put_and_lease(job("a")).await;
    bench.settle(&first, RELEASE).await;
    let second = bench.lease().await;
    for verdict in [Verdict::Ack, NACK, RELEASE, BURY, EXTEND] {
        assert!(bench.try_settle(token(&first), verdict.clone()).await.is_err(), "{verdict:?} by the former holder");
    }
    assert_eq!(bench.get("a").await.job, second.view.job);
    bench.settle(&second, Verdict::Ack).await;
}

pub(super) async fn a_lease_that_ran_out_is_lost(bench: Bench) {
    let held = bench.put_and_lease(job("a")).await;
    bench.advance(secs(60));
    for verdict in [EXTEND, RELEASE, Verdict::Ack] {
        assert!(bench.try_settle(token(&held), verdict.clone()).await.is_err(), "{verdict:?} after its end");
    }
    assert!(bench.find("a").await.is_some(), "the late ack removed nothing");
}

pub(super) async fn a_settled_lease_is_lost(bench: Bench) {
    for verdict in [Verdict::Ack, NACK, RELEASE, BURY] {
        let held = bench.put_and_lease(job("a")).await;
        bench.settle(&held, verdict.clone()).await;
        assert!(bench.try_settle(token(&held), Verdict::Ack).await.is_err(), "an ack after {verdict:?}");
        let left = bench.try_cancel(CancelItem::new(named("a"))).await;
        assert_eq!(left.is_ok(), verdict != Verdict::Ack, "after {verdict:?}");
    }
}

pub(super) async fn tokens_of_other_jobs_do_not_fit(bench: Bench) {
    let a = bench.put_and_lease(job("a")).await;
    let b = bench.put_and_lease(job("b")).await;
    let (a, b) = (token(&a), token(&b));
    let crossed = [
        LeaseToken { secret: b.secret, ..a },
        LeaseToken { version: b.version, ..a },
        LeaseToken { number: b.number, ..a },
        LeaseToken { secret: a.secret ^ 1, ..a },
    ];
    for token in crossed {
        assert!(bench.try_settle(token, Verdict::Ack).await.is_err(), "{token} is nobody's");
    }
    assert_eq!(bench.topic("t").await.counts[State::Leased], 2);
}

pub(super) async fn a_forced_change_revokes_the_lease(bench: Bench) {
    let held = bench.put_and_lease(job("a")).await;
    let change = Change { when: Some(When::In(secs(50))), ..Change::default() };
    let view = bench.try_change(ChangeItem { force: true, ..ChangeItem::new(named("a"), change) }).await;
    let view = view.expect("force is force");
    assert_eq!((view.state, view.job.attempt), (State::Delayed, 1), "the attempt stays counted");
    assert!(bench.try_settle(token(&held), Verdict::Ack).await.is_err());
}

pub(super) async fn versions_only_grow(bench: Bench) {
    let mut last = bench.put(job("a")).await.version;
    let mut grown = |what: &str, version| {
        assert!(version > last, "{what}: {version} after {last}");
        last = version;
    };
    let held = bench.lease().await;
    grown("lease", held.view.job.version);
    bench.settle(&held, EXTEND).await;
    grown("extend", bench.get("a").await.job.version);
    bench.settle(&held, RELEASE).await;
    grown("release", bench.get("a").await.job.version);
    grown("change", bench.move_to("a", When::NOW).await.job.version);
    grown("a second lease", bench.lease().await.view.job.version);
    bench.advance(secs(60));
    grown("a lease that ran out", bench.get("a").await.job.version);
    bench.cancel("a").await.expect("it waits");
    let ttl = Some(Ttl::from_millis(60_000).expect("in range"));
    let again = NewJob { options: Options { ttl, ..Options::default() }, ..job("a") };
    grown("the same id again", bench.put(again).await.version);
    bench.advance(secs(60));
    grown("a ttl that ran out", bench.get("a").await.job.version);
}
