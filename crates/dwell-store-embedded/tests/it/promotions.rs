//! Delayed jobs become ready when they are due, however many there are and whatever became of the first of them.

use std::time::Duration;

use dwell_core::{CancelItem, Delay, JobId, JobRef, LeaseRequest, NewJob, State, When};
use dwell_store_testkit::Setup;

use crate::subject::in_memory;
use crate::world::{new_job, topic};

fn delayed(name: &str, millis: u64) -> NewJob {
    NewJob { when: When::In(Delay::from_millis(millis).unwrap()), ..new_job(name) }
}

fn cancel(name: &str) -> CancelItem {
    let job = JobRef::Named(topic(), JobId::new(name).unwrap());
    CancelItem { job, if_match: None, force: false }
}

/// More than one turn promotes, with ready jobs of the same millisecond among them.
#[tokio::test]
async fn a_herd_is_promoted_to_the_last_job() {
    const HERD: usize = 10_000;
    let subject = in_memory(&Setup::default());
    let store = &subject.store;
    store.put((0..HERD).map(|k| delayed(&format!("herd-{k}"), 1_000)).collect()).await.unwrap();
    store.put(vec![delayed("later", 2_000)]).await.unwrap();
    subject.clock.advance(1_000);
    store.put((0..100).map(|k| delayed(&format!("now-{k}"), 0)).collect()).await.unwrap();
    let mut handed = 0;
    while handed < HERD + 100 {
        let request = LeaseRequest::of(topic()).up_to(1_000).waiting(Duration::from_secs(20));
        let jobs = store.lease(request).await.unwrap();
        assert!(!jobs.is_empty(), "{handed} of {HERD} were handed out");
        handed += jobs.len();
    }
    let counts = store.topic(topic()).await.unwrap().unwrap().counts;
    assert_eq!((counts[State::Delayed], counts[State::Ready]), (1, 0));
    subject.clock.advance(1_000);
    let jobs = store.lease(LeaseRequest::of(topic()).waiting(Duration::from_secs(20))).await.unwrap();
    assert_eq!(jobs.len(), 1, "the one that was due later");
}

#[tokio::test]
async fn what_comes_after_a_cancelled_job_is_promoted_too() {
    let subject = in_memory(&Setup::default());
    let store = &subject.store;
    for (name, millis) in [("second", 2_000), ("first", 1_000), ("third", 3_000)] {
        store.put(vec![delayed(name, millis)]).await.unwrap();
    }
    store.cancel(vec![cancel("first")]).await.unwrap();
    for name in ["second", "third"] {
        subject.clock.advance(if name == "second" { 2_000 } else { 1_000 });
        let jobs = store.lease(LeaseRequest::of(topic()).waiting(Duration::from_secs(20))).await.unwrap();
        let ids: Vec<&str> = jobs.iter().map(|job| job.view.job.id.as_str()).collect();
        assert_eq!(ids, [name]);
    }
}

#[tokio::test]
async fn what_is_put_last_and_due_first_is_not_kept_waiting() {
    let subject = in_memory(&Setup::default());
    let store = &subject.store;
    for (name, millis) in [("late", 10_000), ("early", 1_000)] {
        store.put(vec![delayed(name, millis)]).await.unwrap();
    }
    subject.clock.advance(1_000);
    let jobs = store.lease(LeaseRequest::of(topic()).waiting(Duration::from_secs(5))).await.unwrap();
    let ids: Vec<&str> = jobs.iter().map(|job| job.view.job.id.as_str()).collect();
    assert_eq!(ids, ["early"]);
}
