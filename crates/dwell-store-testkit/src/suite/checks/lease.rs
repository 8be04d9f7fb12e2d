//! Handing out.

use std::sync::Arc;

use dwell_core::{Body, Consumer, LeaseFrom, LeaseRequest, NewJob, Options, Phase, State, Ttr, Verdict, limits};

use crate::suite::bench::{Bench, RELEASE, ids, job, secs, token, topic};

pub(super) async fn hands_out_once(bench: Bench) {
    let held = bench.put_and_lease(job("a")).await;
    assert_eq!(held.view.state, State::Leased);
    let (token, job) = (token(&held), &held.view.job);
    assert_eq!((token.number, token.version), (job.number, job.version), "the fence is the version of this lease");
    assert!(bench.try_lease().await.is_none(), "two consumers hold one job");
    assert_eq!(bench.state("a").await, State::Leased);
}

pub(super) async fn counts_attempts_and_leases(bench: Bench) {
    let first = bench.put_and_lease(job("a")).await;
    assert_eq!((first.view.job.attempt, first.view.job.counters.leases), (1, 1));
    bench.settle(&first, Verdict::Nack { error: None, delay: Some(secs(0)) }).await;
    let second = bench.lease().await;
    assert_eq!((second.view.job.attempt, second.view.job.counters.leases), (2, 2));
    bench.settle(&second, RELEASE).await;
    let third = bench.lease().await;
    assert_eq!((third.view.job.attempt, third.view.job.counters.leases), (2, 3));
}

pub(super) async fn honours_ttr(bench: Bench) {
    let own = Options { ttr: Some(Ttr::from_millis(300_000).expect("in range")), ..Options::default() };
    let before = bench.now().await;
    let held = bench.put_and_lease(NewJob { options: own, ..job("a") }).await;
    let Phase::Leased(lease) = &held.view.job.phase else { panic!("not leased: {held:?}") };
    bench.assert_counts_from_call(before, secs(300), lease.expires_at).await;

    bench.put(job("b")).await;
    let asked =
        LeaseRequest { ttr: Some(Ttr::from_millis(7_000_000).expect("in range")), ..LeaseRequest::of(topic("t")) };
    let before = bench.now().await;
    let held = bench.lease_with(asked).await.pop().expect("b is ready");
    let Phase::Leased(lease) = &held.view.job.phase else { panic!("not leased: {held:?}") };
    bench.assert_counts_from_call(before, secs(7_000), lease.expires_at).await;
    assert_eq!(held.view.ttr, Ttr::DEFAULT, "a given ttr holds for this lease only");
}

pub(super) async fn says_who_holds(bench: Bench) {
    bench.put(job("a")).await;
    let consumer = Some(Consumer::new("worker-7").expect("a good name"));
    bench.lease_with(LeaseRequest { consumer: consumer.clone(), ..LeaseRequest::of(topic("t")) }).await;
    let Phase::Leased(lease) = bench.get("a").await.job.phase else { panic!("not leased") };
    assert_eq!(lease.consumer, consumer);
}

pub(super) async fn auto_ack_leaves_nothing(bench: Bench) {
    for name in ["a", "b"] {
        bench.put(job(name)).await;
    }
    let request = LeaseRequest { auto_ack: true, ..LeaseRequest::of(topic("t")) };
    let taken = bench.lease_with(request.up_to(10)).await;
    assert_eq!(ids(&taken), ["a", "b"]);
    assert!(taken.iter().all(|job| job.token.is_none()), "no token");
    assert_eq!(bench.find("a").await, None);
    let info = bench.topic("t").await;
    assert_eq!((info.counts.live(), info.totals.leased, info.totals.acked), (0, 2, 2));
}

pub(super) async fn gives_no_more_than_asked(bench: Bench) {
    for k in 0..5 {
        bench.put(job(&k.to_string())).await;
    }
    assert_eq!(bench.lease_up_to("t", 3).await.len(), 3);
    assert_eq!(bench.lease_up_to("t", 3).await.len(), 2);
    assert_eq!(bench.lease_up_to("t", 3).await.len(), 0);
}

pub(super) async fn stays_under_the_byte_limit(bench: Bench) {
    let third = limits::MAX_ANSWER_BYTES / 3 + 1;
    for name in ["a", "b", "c"] {
        bench.put(NewJob { body: Body::Bytes(Arc::from(vec![7; third])), ..job(name) }).await;
    }
    assert_eq!(ids(&bench.lease_up_to("t", 10).await), ["a", "b"]);
    let huge =
        NewJob { body: Body::Bytes(Arc::from(vec![7; limits::MAX_ANSWER_BYTES + 1])), topic: topic("u"), ..job("x") };
    bench.put(huge).await;
    assert_eq!(bench.lease_up_to("u", 10).await.len(), 1, "one job always fits");
    assert_eq!(ids(&bench.lease_up_to("t", 10).await), ["c"]);
    for name in ["y", "z"] {
        let half = Body::Bytes(Arc::from(vec![7; limits::MAX_ANSWER_BYTES / 2]));
        bench.put(NewJob { body: half, topic: topic("v"), ..job(name) }).await;
    }
    assert_eq!(bench.lease_up_to("v", 10).await.len(), 2, "what fills the answer exactly still fits");
}

pub(super) async fn of_an_unknown_topic_is_empty(bench: Bench) {
    assert!(bench.lease_up_to("nobody", 1).await.is_empty());
    assert_eq!(bench.store.topic(topic("nobody")).await, Ok(None), "asking does not create a topic");
}

pub(super) async fn takes_from_several_topics(bench: Bench) {
    for name in ["a", "b", "c"] {
        bench.put(NewJob { topic: topic(name), ..job(name) }).await;
    }
    let two = LeaseFrom::Pull(vec![topic("a"), topic("c"), topic("nobody")]);
    assert_eq!(ids(&bench.lease_with(LeaseRequest::from(two).up_to(10)).await), ["a", "c"]);
    assert_eq!(ids(&bench.lease_up_to("b", 10).await), ["b"]);
}
