//! Many items in one call: each judged on its own, in order.

use dwell_core::{
    CancelError, CancelItem, IfExists, LeaseLost, NewJob, PutError, PutOutcome, Settle, State, Timestamp, Verdict, When,
};

use crate::suite::bench::{Bench, ids, job, later, named, secs, token};

pub(super) async fn answers_item_by_item(bench: Bench) {
    bench.put(job("b")).await;
    let batch = ["a", "b", "c"].map(job).to_vec();
    let answers = bench.store.put(batch).await.expect("put answers");
    assert!(matches!(answers[0], Ok(PutOutcome::Created(_))), "{answers:?}");
    assert_eq!(answers[1], Err(PutError::JobExists));
    assert!(matches!(answers[2], Ok(PutOutcome::Created(_))), "{answers:?}");
    assert_eq!(bench.topic("t").await.counts[State::Ready], 3);
}

pub(super) async fn items_see_each_other(bench: Bench) {
    let twice = vec![job("a"), job("a"), NewJob { if_exists: IfExists::Replace, ..later("a", secs(50)) }];
    let answers = bench.store.put(twice).await.expect("put answers");
    assert_eq!(answers[1], Err(PutError::JobExists));
    assert!(matches!(answers[2], Ok(PutOutcome::Replaced(_))), "{answers:?}");
    assert_eq!(bench.state("a").await, State::Delayed);
}

pub(super) async fn a_bad_item_spoils_no_other(bench: Bench) {
    let bad = NewJob { when: When::At(Timestamp::MAX), ..job("bad") };
    let answers = bench.store.put(vec![job("a"), bad, job("b")]).await.expect("put answers");
    assert!(matches!(answers[1], Err(PutError::Time(_))), "{answers:?}");
    assert_eq!(ids(&bench.lease_up_to("t", 10).await), ["a", "b"]);
}

pub(super) async fn settles_item_by_item(bench: Bench) {
    for name in ["a", "b"] {
        bench.put(job(name)).await;
    }
    let held = bench.lease_up_to("t", 2).await;
    let twice = vec![
        Settle::new(token(&held[0]), Verdict::Ack),
        Settle::new(token(&held[0]), Verdict::Ack),
        Settle::new(token(&held[1]), Verdict::Ack),
    ];
    let answers = bench.store.settle(twice).await.expect("settle answers");
    assert_eq!(answers, [Ok(()), Err(LeaseLost), Ok(())]);
    assert_eq!(bench.topic("t").await.counts.live(), 0);
}

pub(super) async fn cancels_item_by_item(bench: Bench) {
    bench.put_and_lease(job("held")).await;
    bench.put(job("a")).await;
    let items = ["a", "a", "held", "nobody"].map(|name| CancelItem::new(named(name)));
    let answers = bench.store.cancel(items.to_vec()).await.expect("cancel answers");
    assert_eq!(answers, [Ok(()), Err(CancelError::NotFound), Err(CancelError::JobLeased), Err(CancelError::NotFound)]);
}

pub(super) async fn empty_batches_are_fine(bench: Bench) {
    assert_eq!(bench.store.put(Vec::new()).await, Ok(Vec::new()));
    assert_eq!(bench.store.settle(Vec::new()).await, Ok(Vec::new()));
    assert_eq!(bench.store.change(Vec::new()).await, Ok(Vec::new()));
    assert_eq!(bench.store.cancel(Vec::new()).await, Ok(Vec::new()));
    assert_eq!(bench.store.get(Vec::new()).await, Ok(Vec::new()));
}
