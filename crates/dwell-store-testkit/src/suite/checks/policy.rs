//! What a topic says for all its jobs.

use dwell_core::{
    Defaults, Found, IfExists, Ladder, LeaseRequest, Lookup, NewJob, Options, Phase, PutError, PutOutcome, State,
    TopicPolicy, Ttl, Ttr, Verdict,
};

use crate::Setup;
use crate::suite::bench::{Bench, NACK, job, later, named, secs, topic};

fn strict() -> TopicPolicy {
    TopicPolicy {
        ttr: Some(Ttr::from_millis(500_000).expect("in range")),
        retry: Some(Ladder::new(&[secs(77)]).expect("a good ladder").into_policy()),
        ttl: Some(Ttl::from_millis(90_000_000).expect("in range")),
        ..TopicPolicy::default()
    }
}

pub(super) async fn applies_to_waiting_jobs(bench: Bench) {
    let receipt = bench.put(job("a")).await;
    assert_eq!(receipt.expires_at, None);
    bench.policy(strict()).await;
    assert_eq!(bench.topic("t").await.policy, strict());
    let view = bench.get("a").await;
    assert_eq!((Some(view.ttr), Some(view.retry)), (strict().ttr, strict().retry));
    assert_eq!(view.expires_at, Some(receipt.due_at.plus(90_000_000)));

    let before = bench.now().await;
    let held = bench.lease().await;
    let Phase::Leased(lease) = &held.view.job.phase else { panic!("not leased") };
    bench.assert_counts_from_call(before, secs(500), lease.expires_at).await;
    let before = bench.now().await;
    bench.settle(&held, NACK).await;
    bench.assert_counts_from_call(before, secs(77), bench.get("a").await.job.due_at).await;

    bench.policy(TopicPolicy::default()).await;
    assert_eq!(bench.get("a").await.ttr, Ttr::DEFAULT, "replaced as a whole");
}

pub(super) async fn a_jobs_own_fields_win(bench: Bench) {
    bench.policy(strict()).await;
    let retry = Ladder::new(&[secs(5)]).expect("a good ladder").into_policy();
    let own = Options { ttr: Some(Ttr::MIN), ttl: Some(Ttl::MIN), ..Options::default() };
    let receipt = bench.put(NewJob { options: own, ..later("a", secs(50)) }).await;
    let view = bench.get("a").await;
    assert_eq!((view.ttr, view.expires_at), (Ttr::MIN, Some(receipt.due_at.plus(1))));
    assert_eq!(Some(view.retry), strict().retry, "field by field");
    let own = Options { retry: Some(retry.clone()), ..Options::default() };
    bench.put(NewJob { options: own, ..job("b") }).await;
    let view = bench.get("b").await;
    assert_eq!((view.retry, Some(view.ttr)), (retry, strict().ttr));
}

pub(super) async fn remembers_acked_ids(bench: Bench) {
    bench.policy(TopicPolicy { keep_done: Some(secs(600)), ..TopicPolicy::default() }).await;
    let held = bench.put_and_lease(job("a")).await;
    bench.advance(secs(20));
    let before = bench.now().await;
    bench.settle(&held, Verdict::Ack).await;
    let found = bench.look(Lookup::Job(named("a"))).await;
    let Some(Found::Done(done)) = found else { panic!("not remembered: {found:?}") };
    let was = &held.view.job;
    assert_eq!((done.number, done.attempt), (was.number, 1));
    assert_eq!(
        (&done.topic, &done.id, done.created_at, done.due_at),
        (&was.topic, &was.id, was.created_at, was.due_at)
    );
    assert!(done.version > was.version, "the ack is a change");
    bench.assert_counts_from_call(before, secs(0), done.done_at).await;
    let matching = NewJob { if_match: Some(done.version), if_exists: IfExists::Replace, ..job("a") };
    assert_eq!(bench.try_put(matching).await, Err(PutError::VersionMismatch), "only a live job has a version to match");
    assert_eq!(bench.try_put(job("a")).await, Err(PutError::JobExists));
    let kept = bench.try_put(NewJob { if_exists: IfExists::Keep, ..job("a") }).await;
    assert_eq!(kept, Ok(PutOutcome::Kept(Found::Done(done))));
    assert_eq!(bench.topic("t").await.counts.live(), 0, "it is not live");
    assert!(bench.cancel("a").await.is_err());

    bench.advance(secs(600));
    assert_eq!(bench.look(Lookup::Job(named("a"))).await, None);
    bench.put(job("a")).await;
    let held = bench.lease().await;
    bench.settle(&held, Verdict::Ack).await;
    let replaced = bench.try_put(NewJob { if_exists: IfExists::Replace, ..job("a") }).await;
    assert!(matches!(replaced, Ok(PutOutcome::Created(_))), "{replaced:?}");
    assert_eq!(bench.state("a").await, State::Ready);
    bench.cancel("a").await.expect("it waits");
    assert_eq!(bench.look(Lookup::Job(named("a"))).await, None, "the new job took the place of the memory");
}

pub(super) async fn remembers_ids_acked_as_they_were_handed_out(bench: Bench) {
    bench.policy(TopicPolicy { keep_done: Some(secs(600)), ..TopicPolicy::default() }).await;
    bench.put(job("a")).await;
    bench.lease_with(LeaseRequest { auto_ack: true, ..LeaseRequest::of(topic("t")) }).await;
    let found = bench.look(Lookup::Job(named("a"))).await;
    assert!(matches!(found, Some(Found::Done(_))), "{found:?}");
    assert_eq!(bench.try_put(job("a")).await, Err(PutError::JobExists));
    bench.policy(TopicPolicy::default()).await;
    assert_eq!(bench.look(Lookup::Job(named("a"))).await, None, "what is remembered goes by today's policy");
    bench.put(job("a")).await;
}

pub(super) async fn the_servers_defaults_come_last(bench: Bench) {
    let retry = Ladder::new(&[secs(33)]).expect("a good ladder").into_policy();
    let defaults = Defaults { ttr: Ttr::from_millis(444_000).expect("in range"), retry };
    let bench = bench.with(Setup { defaults: defaults.clone(), ..Setup::default() }).await;
    bench.put(job("a")).await;
    let before = bench.now().await;
    let held = bench.lease().await;
    assert_eq!((held.view.ttr, &held.view.retry), (defaults.ttr, &defaults.retry));
    let Phase::Leased(lease) = &held.view.job.phase else { panic!("not leased") };
    bench.assert_counts_from_call(before, secs(444), lease.expires_at).await;
    let before = bench.now().await;
    bench.settle(&held, NACK).await;
    bench.assert_counts_from_call(before, secs(33), bench.get("a").await.job.due_at).await;
    bench.policy(strict()).await;
    assert_eq!(Some(bench.get("a").await.ttr), strict().ttr, "the topic's word goes before the server's");
}

pub(super) async fn what_has_happened_stays_so(bench: Bench) {
    bench
        .policy(TopicPolicy { ttl: Some(Ttl::from_millis(60_000).expect("in range")), ..TopicPolicy::default() })
        .await;
    bench.put(job("a")).await;
    bench.advance(secs(60));
    bench.policy(TopicPolicy::default()).await;
    assert_eq!(bench.state("a").await, State::Buried, "it expired under the old policy, noticed or not");
}
