//! Stopping hand-outs.

use dwell_core::{LeaseRequest, NewJob, Pause, SetPause, State, TopicError, TopicPolicy, Ttr, Verdict};

use crate::suite::bench::{Bench, job, later, secs, soon, topic};

async fn set(bench: &Bench, pause: SetPause) {
    assert_eq!(bench.store.pause(topic("t"), pause).await, Ok(Ok(())));
}

pub(super) async fn stops_hand_outs_and_nothing_else(bench: Bench) {
    let held = bench.put_and_lease(job("held")).await;
    bench.put(later("a", secs(50))).await;
    let policy = TopicPolicy { ttr: Some(Ttr::MAX), ..TopicPolicy::default() };
    bench.policy(policy.clone()).await;
    set(&bench, SetPause::On).await;
    let info = bench.topic("t").await;
    assert_eq!((info.pause, info.policy), (Pause::On, policy.clone()));
    bench.policy(policy).await;
    assert_eq!(bench.topic("t").await.pause, Pause::On, "a policy does not end a pause");
    bench.put(job("b")).await;
    bench.advance(secs(50));
    assert_eq!(bench.state("a").await, State::Ready, "due jobs become ready");
    assert!(bench.try_lease().await.is_none());
    bench.settle(&held, Verdict::Ack).await;
    bench.put(NewJob { topic: topic("u"), ..job("other") }).await;
    assert_eq!(bench.lease_up_to("u", 1).await.len(), 1, "other topics go on");
    set(&bench, SetPause::Off).await;
    assert_eq!(bench.lease_up_to("t", 10).await.len(), 2);
    let unknown = bench.store.pause(topic("nobody"), SetPause::Off).await;
    assert_eq!(unknown, Ok(Err(TopicError::NotFound)));
}

pub(super) async fn ends_by_itself(bench: Bench) {
    bench.put(job("a")).await;
    set(&bench, SetPause::For(secs(600))).await;
    let Pause::Until(until) = bench.topic("t").await.pause else { panic!("not paused") };
    bench.advance_to_before(until).await;
    assert!(bench.try_lease().await.is_none());
    bench.advance_to(until).await;
    assert_eq!(bench.topic("t").await.pause, Pause::Off);
    assert_eq!(bench.lease().await.view.job.id.as_str(), "a");
}

pub(super) async fn keeps_consumers_waiting(bench: Bench) {
    for end in ["resumed", "over"] {
        set(&bench, SetPause::For(secs(600))).await;
        let waiter = bench.spawn_lease(LeaseRequest::of(topic("t")));
        bench.until_waiting("t", 1).await;
        bench.put(job(end)).await;
        assert_eq!(bench.topic("t").await.waiting, 1, "a job of a paused topic wakes nobody");
        if end == "over" {
            bench.advance(secs(600));
        } else {
            set(&bench, SetPause::Off).await;
        }
        assert_eq!(soon(waiter).await[0].view.job.id.as_str(), end);
    }
}
