//! Who goes first.

use dwell_core::{Change, ChangeItem, LeaseFrom, LeaseRequest, NewJob, Priority, Verdict, When};

use crate::suite::bench::{Bench, RELEASE, ids, job, named, secs, topic};

/// A job of topic `t` with a priority, due that many seconds ago.
async fn put(bench: &Bench, name: &str, priority: u32, overdue: u64) {
    let at = bench.now().await.as_millis() - overdue * 1_000;
    let when = When::At(dwell_core::Timestamp::from_millis(at).expect("in range"));
    bench.put(NewJob { priority: Priority(priority), when, ..job(name) }).await;
}

pub(super) async fn by_priority_then_due_then_put(bench: Bench) {
    let same = When::At(dwell_core::Timestamp::from_millis(1_000_000).expect("in range"));
    put(&bench, "late-low", 2_000, 9_000).await;
    put(&bench, "newer", 5, 100).await;
    put(&bench, "older", 5, 900).await;
    for name in ["x", "y", "z"] {
        bench.put(NewJob { priority: Priority(5), when: same, ..job(name) }).await;
    }
    put(&bench, "first", 0, 0).await;
    put(&bench, "last", u32::MAX, 90_000).await;
    let got = bench.lease_up_to("t", 10).await;
    assert_eq!(ids(&got), ["first", "x", "y", "z", "older", "newer", "late-low", "last"]);
}

pub(super) async fn over_topics_the_best_head_wins(bench: Bench) {
    for (place, name, priority) in [("a", "a1", 5), ("b", "b1", 3), ("a", "a2", 1), ("b", "b2", 9), ("c", "c1", 4)] {
        bench.put(NewJob { topic: topic(place), priority: Priority(priority), ..job(name) }).await;
    }
    let all = LeaseFrom::Pull(["c", "b", "a"].map(topic).to_vec());
    let got = bench.lease_with(LeaseRequest::from(all).up_to(10)).await;
    assert_eq!(ids(&got), ["a2", "b1", "c1", "a1", "b2"]);

    let dues = [("a", "late", 3_000), ("b", "early", 1_000), ("c", "middle", 2_000), ("a", "put later", 2_000)];
    for (place, name, due) in dues {
        let when = When::At(dwell_core::Timestamp::from_millis(due).expect("1970"));
        bench.put(NewJob { topic: topic(place), when, ..job(name) }).await;
    }
    let all = LeaseFrom::Pull(["a", "b", "c"].map(topic).to_vec());
    let got = bench.lease_with(LeaseRequest::from(all).up_to(10)).await;
    assert_eq!(ids(&got), ["early", "middle", "put later", "late"]);
}

pub(super) async fn release_keeps_the_place(bench: Bench) {
    for (name, overdue) in [("a", 300), ("b", 200), ("c", 100)] {
        put(&bench, name, 5, overdue).await;
    }
    let first = bench.lease().await;
    bench.settle(&first, RELEASE).await;
    assert_eq!(ids(&bench.lease_up_to("t", 3).await), ["a", "b", "c"]);
    let when = When::At(dwell_core::Timestamp::from_millis(1_000_000).expect("in range"));
    for name in ["x", "y"] {
        bench.put(NewJob { when, ..job(name) }).await;
    }
    let first = bench.lease().await;
    bench.settle(&first, RELEASE).await;
    assert_eq!(ids(&bench.lease_up_to("t", 2).await), ["x", "y"], "also among those due at one instant");
}

pub(super) async fn a_changed_priority_counts(bench: Bench) {
    for name in ["a", "b", "c"] {
        put(&bench, name, 5, 100).await;
    }
    let change = Change { priority: Some(Priority(1)), ..Change::default() };
    bench.try_change(ChangeItem::new(named("c"), change)).await.expect("it waits");
    let first = bench.lease().await;
    assert_eq!(first.view.job.id.as_str(), "c");
    bench.settle(&first, Verdict::Release { delay: None, priority: Some(Priority(9)) }).await;
    assert_eq!(ids(&bench.lease_up_to("t", 3).await), ["a", "b", "c"]);
}

pub(super) async fn a_moved_job_takes_its_new_place(bench: Bench) {
    for (name, overdue) in [("a", 300), ("b", 200), ("c", 100)] {
        put(&bench, name, 5, overdue).await;
    }
    bench.move_to("a", When::NOW).await;
    bench.move_to("b", When::In(secs(500))).await;
    let taken = LeaseRequest { auto_ack: true, ..LeaseRequest::of(topic("t")) };
    assert_eq!(ids(&bench.lease_with(taken.up_to(3)).await), ["c", "a"]);
    bench.advance(secs(500));
    assert_eq!(ids(&bench.lease_up_to("t", 3).await), ["b"]);
}
