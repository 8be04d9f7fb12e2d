//! Cancelling: after success the job never comes.

use dwell_core::{CancelError, CancelItem, State, Verdict, Version, When};

use crate::suite::bench::{BURY, Bench, NACK, job, later, named, secs, token};

pub(super) async fn removes_in_every_waiting_state(bench: Bench) {
    bench.put(later("delayed", secs(60))).await;
    let buried = bench.put_and_lease(job("buried")).await;
    bench.settle(&buried, BURY).await;
    let retried = bench.put_and_lease(super::retry::ladder("retried", &[60])).await;
    bench.settle(&retried, NACK).await;
    bench.put(job("ready")).await;
    for name in ["delayed", "ready", "buried", "retried"] {
        assert_eq!(bench.cancel(name).await, Ok(()), "{name}");
        assert_eq!(bench.find(name).await, None, "{name}");
        assert_eq!(bench.cancel(name).await, Err(CancelError::NotFound), "{name}, again");
    }
    assert_eq!(bench.topic("t").await.counts.live(), 0);
    assert_eq!(bench.topic("t").await.totals.cancelled, 4);
}

pub(super) async fn refuses_a_held_job_unless_forced(bench: Bench) {
    let held = bench.put_and_lease(job("a")).await;
    assert_eq!(bench.cancel("a").await, Err(CancelError::JobLeased));
    assert_eq!(bench.state("a").await, State::Leased);
    let forced = CancelItem { force: true, ..CancelItem::new(named("a")) };
    assert_eq!(bench.try_cancel(forced).await, Ok(()));
    assert_eq!(bench.topic("t").await.totals.cancelled, 1);
    assert!(bench.try_settle(token(&held), Verdict::Ack).await.is_err(), "the lease is revoked");
    bench.advance(secs(3_600));
    assert!(bench.try_lease().await.is_none());
}

pub(super) async fn honours_if_match(bench: Bench) {
    let first = bench.put(later("a", secs(60))).await.version;
    let second = bench.move_to("a", When::NOW).await.job.version;
    let matching = |version| CancelItem { if_match: Some(version), ..CancelItem::new(named("a")) };
    assert_eq!(bench.try_cancel(matching(first)).await, Err(CancelError::VersionMismatch));
    let unheard_of = Version::new(second.get() + 1_000).expect("in range");
    assert_eq!(bench.try_cancel(matching(unheard_of)).await, Err(CancelError::VersionMismatch));
    assert_eq!(bench.try_cancel(matching(second)).await, Ok(()));
    assert_eq!(bench.try_cancel(matching(second)).await, Err(CancelError::NotFound));
}

pub(super) async fn what_was_cancelled_never_comes(bench: Bench) {
    let names: Vec<String> = (0..40).map(|k| k.to_string()).collect();
    for (k, name) in (0..).zip(&names) {
        bench.put(later(name, secs(10 * (k % 4)))).await;
    }
    for name in names.iter().step_by(2) {
        assert_eq!(bench.cancel(name).await, Ok(()));
    }
    bench.advance(secs(3_600));
    let come = bench.lease_up_to("t", 100).await;
    assert_eq!(come.len(), 20);
    assert!(come.iter().all(|job| job.view.job.id.as_str().parse::<u32>().expect("a number") % 2 == 1));
}

pub(super) async fn unknown_jobs_are_not_found(bench: Bench) {
    assert_eq!(bench.cancel("nobody").await, Err(CancelError::NotFound));
    let done = bench.put_and_lease(job("done")).await;
    bench.settle(&done, Verdict::Ack).await;
    assert_eq!(bench.cancel("done").await, Err(CancelError::NotFound));
}
