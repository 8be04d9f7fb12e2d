//! Removing many at once.

use dwell_core::{ListQuery, Lookup, NewJob, Purge, SetPause, State, TopicError, TopicPolicy, Ttr, Verdict};

use crate::suite::bench::{BURY, Bench, job, later, named, secs, token, topic};

async fn one_of_each(bench: &Bench) -> dwell_core::LeasedJob {
    let buried = bench.put_and_lease(job("buried")).await;
    bench.settle(&buried, BURY).await;
    let held = bench.put_and_lease(job("leased")).await;
    bench.put(later("delayed", secs(600))).await;
    bench.put(job("ready")).await;
    held
}

async fn purge(bench: &Bench, what: Purge) -> Result<u64, TopicError> {
    bench.store.purge(topic("t"), what).await.expect("purge answers")
}

pub(super) async fn removes_one_state(bench: Bench) {
    one_of_each(&bench).await;
    bench.put(NewJob { topic: topic("u"), ..job("other") }).await;
    let all = [(State::Delayed, "delayed"), (State::Ready, "ready"), (State::Buried, "buried")];
    for (k, (state, name)) in all.into_iter().enumerate() {
        assert_eq!(purge(&bench, Purge::Jobs(state)).await, Ok(1));
        assert_eq!(bench.find(name).await, None, "{name}");
        assert_eq!(bench.topic("t").await.counts.live(), 3 - k as u64);
        assert_eq!(purge(&bench, Purge::Jobs(state)).await, Ok(0));
    }
    bench.put(job("ready")).await;
    assert_eq!(bench.lease().await.view.job.id.as_str(), "ready", "what comes after a purge stays");
    assert_eq!(bench.lease_up_to("u", 1).await.len(), 1);
}

pub(super) async fn purging_leased_jobs_loses_their_leases(bench: Bench) {
    let held = one_of_each(&bench).await;
    assert_eq!(purge(&bench, Purge::Jobs(State::Leased)).await, Ok(1));
    assert!(bench.try_settle(token(&held), Verdict::Ack).await.is_err());
    assert_eq!(bench.find("leased").await, None);
    assert_eq!(bench.topic("t").await.counts.live(), 3);
}

pub(super) async fn a_deleted_topic_is_gone(bench: Bench) {
    assert_eq!(purge(&bench, Purge::Topic).await, Err(TopicError::NotFound));
    let held = one_of_each(&bench).await;
    bench.policy(TopicPolicy { ttr: Some(Ttr::MAX), ..TopicPolicy::default() }).await;
    assert_eq!(bench.store.pause(topic("t"), SetPause::On).await, Ok(Ok(())));
    assert_eq!(purge(&bench, Purge::Topic).await, Ok(4));
    assert_eq!(bench.store.topic(topic("t")).await, Ok(None));
    assert!(bench.try_settle(token(&held), Verdict::Ack).await.is_err());
    for name in ["delayed", "ready", "leased", "buried"] {
        assert_eq!(bench.find(name).await, None, "{name}");
    }
    assert_eq!(bench.store.list(ListQuery::of(topic("t"))).await, Ok(Err(TopicError::NotFound)));
    let again = bench.put_and_lease(job("ready")).await.view.job;
    assert!(again.number > held.view.job.number && again.version > held.view.job.version, "neither starts again");
    let fresh = bench.topic("t").await;
    assert_eq!((fresh.policy, fresh.counts.live(), fresh.totals.put), (TopicPolicy::default(), 1, 1));
}

pub(super) async fn a_deleted_topic_forgets_acked_ids(bench: Bench) {
    let keep = || TopicPolicy { keep_done: Some(secs(600)), ..TopicPolicy::default() };
    bench.policy(keep()).await;
    let held = bench.put_and_lease(job("a")).await;
    bench.settle(&held, Verdict::Ack).await;
    assert_eq!(purge(&bench, Purge::Topic).await, Ok(0));
    bench.policy(keep()).await;
    assert_eq!(bench.look(Lookup::Job(named("a"))).await, None);
    bench.put(job("a")).await;
}
