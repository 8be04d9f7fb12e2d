//! Consumers that wait, and what wakes them.

use std::collections::BTreeSet;
use std::time::Duration;

use dwell_core::limits::SWEEP;
use dwell_core::{
    LeaseFrom, LeaseRequest, NewJob, Redrive, RedriveTopic, SetPause, Target, TopicPolicy, Ttr, Verdict, When,
};

use crate::suite::bench::{BURY, Bench, NACK, RELEASE, ids, job, later, secs, soon, topic};

fn request() -> LeaseRequest {
    LeaseRequest::of(topic("t"))
}

/// A consumer that waits for topic `t`, seen to wait.
async fn waiter(bench: &Bench, request: LeaseRequest) -> tokio::task::JoinHandle<Vec<dwell_core::LeasedJob>> {
    if bench.store.topic(topic("t")).await == Ok(None) {
        bench.policy(TopicPolicy::default()).await;
    }
    let already = bench.topic("t").await.waiting;
    let task = bench.spawn_lease(request);
    bench.until_waiting("t", already + 1).await;
    task
}

pub(super) async fn ends_empty_after_its_time(bench: Bench) {
    let wait = Duration::from_millis(300);
    let begun = tokio::time::Instant::now();
    let jobs = bench.lease_with(request().waiting(wait)).await;
    assert!(jobs.is_empty());
    assert!(begun.elapsed() >= wait, "it gave up after {:?}", begun.elapsed());
    bench.put(job("a")).await;
    bench.lease().await;
}

pub(super) async fn a_put_wakes_one(bench: Bench) {
    let first = waiter(&bench, request()).await;
    let second = waiter(&bench, request()).await;
    bench.put(job("a")).await;
    assert_eq!(ids(&soon(first).await), ["a"]);
    assert_eq!(bench.topic("t").await.waiting, 1, "the other goes on waiting");
    bench.put(job("b")).await;
    assert_eq!(ids(&soon(second).await), ["b"]);
}

pub(super) async fn due_time_wakes_one(bench: Bench) {
    let waiting = waiter(&bench, request()).await;
    let due_at = bench.put(later("a", secs(600))).await.due_at;
    bench.advance_to_before(due_at).await;
    assert!(!waiting.is_finished(), "early");
    bench.advance_to(due_at).await;
    let held = soon(waiting).await;
    assert_eq!(ids(&held), ["a"]);
    assert!(bench.now().await >= due_at);
}

pub(super) async fn first_come_first_served(bench: Bench) {
    let mut waiting = Vec::new();
    for _ in 0..5 {
        waiting.push(waiter(&bench, request()).await);
    }
    for (k, task) in waiting.into_iter().enumerate() {
        let name = k.to_string();
        bench.put(job(&name)).await;
        assert_eq!(ids(&soon(task).await), [name]);
    }
}

pub(super) async fn a_dropped_consumer_loses_nothing(bench: Bench) {
    let begun = tokio::time::Instant::now();
    for round in 0..20 {
        let gone = waiter(&bench, request()).await;
        let stays = waiter(&bench, request()).await;
        let name = round.to_string();
        if round % 2 == 0 {
            gone.abort();
            bench.put(job(&name)).await;
        } else {
            bench.put(job(&name)).await;
            gone.abort();
        }
        // Either the one that went had it first, or the one that stays gets it.
        if let Ok(jobs) = gone.await {
            assert_eq!(ids(&jobs), [&name]);
            bench.settle(&jobs[0], Verdict::Release { delay: None, priority: None }).await;
        }
        let held = soon(stays).await;
        assert_eq!(ids(&held), [name]);
        assert_eq!(held[0].view.job.attempt, 1, "a lease nobody received is uncounted");
        bench.settle(&held[0], Verdict::Ack).await;
    }
    bench.until_waiting("t", 0).await;
    let took = begun.elapsed();
    assert!(took < Duration::from_millis(SWEEP * 5), "what is given back is not left to the sweep: {took:?}");
}

pub(super) async fn does_not_wait_to_fill_up(bench: Bench) {
    bench.put(job("a")).await;
    let jobs = soon(bench.spawn_lease(request().up_to(100))).await;
    assert_eq!(ids(&jobs), ["a"]);
    let waiting = waiter(&bench, request().up_to(100)).await;
    bench.put(job("b")).await;
    assert_eq!(ids(&soon(waiting).await), ["b"]);
}

pub(super) async fn a_move_wakes_one(bench: Bench) {
    bench.put(later("a", secs(3_600))).await;
    let waiting = waiter(&bench, request()).await;
    bench.move_to("a", When::In(secs(600))).await;
    bench.advance(secs(600));
    assert_eq!(ids(&soon(waiting).await), ["a"]);
}

pub(super) async fn a_nack_wakes_one(bench: Bench) {
    let held = bench.put_and_lease(super::retry::ladder("a", &[0, 600])).await;
    let waiting = waiter(&bench, request()).await;
    bench.settle(&held, NACK).await;
    let held = soon(waiting).await;
    let waiting = waiter(&bench, request()).await;
    bench.settle(&held[0], NACK).await;
    bench.advance(secs(600));
    assert_eq!(soon(waiting).await[0].view.job.attempt, 3);
}

pub(super) async fn a_lease_that_runs_out_wakes_one(bench: Bench) {
    let held = bench.put_and_lease(super::retry::ladder("a", &[0])).await;
    let waiting = waiter(&bench, request()).await;
    bench.advance(secs(60));
    let again = soon(waiting).await;
    assert_eq!((ids(&again), again[0].view.job.attempt), (vec!["a"], 2));
    assert!(bench.try_settle(crate::suite::bench::token(&held), Verdict::Ack).await.is_err());
}

pub(super) async fn waits_for_a_topic_never_seen(bench: Bench) {
    let both = LeaseFrom::Pull(vec![topic("t"), topic("never")]);
    let waiting = waiter(&bench, LeaseRequest::from(both)).await;
    bench.put(NewJob { topic: topic("never"), ..job("a") }).await;
    assert_eq!(ids(&soon(waiting).await), ["a"]);
}

pub(super) async fn many_consumers_get_each_job_once(bench: Bench) {
    const JOBS: usize = 300;
    // The clock is moved while consumers hold jobs: their leases must outlast that.
    bench.policy(TopicPolicy { ttr: Some(Ttr::MAX), ..TopicPolicy::default() }).await;
    let consumers: Vec<_> = (0..10)
        .map(|_| {
            let bench = bench.clone();
            tokio::spawn(async move {
                let mut seen = Vec::new();
                loop {
                    let jobs = bench.lease_with(request().up_to(3).waiting(Duration::from_secs(20))).await;
                    for job in jobs {
                        if job.view.job.id.as_str().starts_with("stop") {
                            bench.settle(&job, Verdict::Ack).await;
                            return seen;
                        }
                        seen.push(job.view.job.id.as_str().to_owned());
                        bench.settle(&job, Verdict::Ack).await;
                    }
                }
            })
        })
        .collect();
    for k in 0..JOBS {
        bench.put(later(&k.to_string(), secs(60 * (k as u64 % 3)))).await;
        if k % 50 == 0 {
            bench.advance(secs(60));
        }
    }
    bench.advance(secs(120));
    bench.until("t", "every job is done", |info| info.totals.acked == JOBS as u64).await;
    // One stop for each consumer, one at a time: a consumer that takes two would leave another without.
    let mut seen = Vec::new();
    for (k, consumer) in consumers.into_iter().enumerate() {
        bench.put(job(&format!("stop-{k}"))).await;
        bench.until("t", "a stop is taken", |info| info.counts.live() == 0).await;
        seen.push(consumer);
    }
    let mut jobs = Vec::new();
    for consumer in seen {
        jobs.extend(soon(consumer).await);
    }
    let distinct: BTreeSet<&String> = jobs.iter().collect();
    assert_eq!((jobs.len(), distinct.len()), (JOBS, JOBS), "each job once");
}

pub(super) async fn serves_whoever_the_job_is_for(bench: Bench) {
    let first = waiter(&bench, request()).await;
    let mut more = Vec::new();
    for _ in 0..5 {
        more.push(waiter(&bench, request()).await);
    }
    let answer = bench.store.set_policy(topic("u"), TopicPolicy::default()).await;
    assert_eq!(answer, Ok(Ok(())));
    let other = bench.spawn_lease(LeaseRequest::of(topic("u")));
    bench.until_waiting("u", 1).await;
    bench.put(NewJob { topic: topic("u"), ..job("a") }).await;
    assert_eq!(ids(&soon(other).await), ["a"], "those who wait in front for another topic are not in the way");
    bench.put(job("b")).await;
    assert_eq!(ids(&soon(first).await), ["b"]);
    for waiting in more {
        waiting.abort();
    }
}

/// Six things that make a job ready, each seen by one who waits. A wake-up that were left to the sweep would take about
/// a second.
pub(super) async fn a_wake_up_does_not_wait_for_the_sweep(bench: Bench) {
    let far = || later("a", secs(3_600));
    let mut slept = Duration::ZERO;
    for cause in ["put", "move", "release", "redrive", "resume", "policy"] {
        let held = match cause {
            "release" | "redrive" => Some(bench.put_and_lease(job("a")).await),
            _ => None,
        };
        match cause {
            "move" => drop(bench.put(far()).await),
            "redrive" => bench.settle(held.as_ref().expect("leased above"), BURY).await,
            "resume" => assert_eq!(bench.store.pause(topic("t"), SetPause::On).await, Ok(Ok(()))),
            "policy" => bench.policy(TopicPolicy { deliver_to: Some(target()), ..TopicPolicy::default() }).await,
            _ => {}
        }
        if matches!(cause, "resume" | "policy") {
            bench.put(job("a")).await;
        }
        let waiting = waiter(&bench, request()).await;
        let begun = tokio::time::Instant::now();
        match cause {
            "put" => drop(bench.put(job("a")).await),
            "move" => drop(bench.move_to("a", When::NOW).await),
            "release" => bench.settle(held.as_ref().expect("leased above"), RELEASE).await,
            "redrive" => drop(bench.store.redrive(Redrive::Topic(RedriveTopic::all(topic("t")))).await),
            "resume" => drop(bench.store.pause(topic("t"), SetPause::Off).await),
            _ => bench.policy(TopicPolicy::default()).await,
        }
        let got = soon(waiting).await;
        slept += begun.elapsed();
        bench.settle(&got[0], Verdict::Ack).await;
    }
    assert!(slept < Duration::from_millis(SWEEP * 3), "six wake-ups took {slept:?}");
}

fn target() -> Target {
    Target::new("https://a.example/hook", "https://a.example:443").expect("a good target")
}
