//! Pages of jobs.

use std::sync::Arc;

use dwell_core::{Body, ListQuery, Lookup, NewJob, Options, Phase, Priority, State, Target, TopicError, Ttr, Verdict};

use crate::suite::bench::{BURY, Bench, job, later, secs, topic};

fn query() -> ListQuery {
    ListQuery::of(topic("t"))
}

/// Eight jobs, two in each state, put in an order that is not that of their due times.
async fn two_of_each(bench: &Bench) {
    for name in ["buried-1", "buried-2", "leased-1", "leased-2"] {
        let held = bench.put_and_lease(job(name)).await;
        if name.starts_with("buried") {
            bench.settle(&held, BURY).await;
        }
        bench.advance(secs(1));
    }
    bench.put(later("delayed-2", secs(900))).await;
    bench.put(later("delayed-1", secs(600))).await;
    bench.put(NewJob { priority: Priority(9_999), ..job("ready-1") }).await;
    bench.advance(secs(1));
    bench.put(job("ready-2")).await;
}

pub(super) async fn in_due_order_by_section(bench: Bench) {
    assert_eq!(bench.store.list(query()).await, Ok(Err(TopicError::NotFound)));
    two_of_each(&bench).await;
    bench.put(NewJob { topic: topic("u"), ..job("elsewhere") }).await;
    let order = ["ready-1", "ready-2", "delayed-1", "delayed-2", "leased-1", "leased-2", "buried-1", "buried-2"];
    assert_eq!(bench.list_ids(query()).await, order);
    for limit in 1..=8 {
        assert_eq!(bench.list_ids(ListQuery { limit, ..query() }).await, order, "pages of {limit}");
    }
}

pub(super) async fn filters_by_state(bench: Bench) {
    two_of_each(&bench).await;
    let names =
        [(State::Delayed, "delayed"), (State::Ready, "ready"), (State::Leased, "leased"), (State::Buried, "buried")];
    for (state, name) in names {
        let expected = [format!("{name}-1"), format!("{name}-2")];
        assert_eq!(bench.list_ids(ListQuery { state: Some(state), limit: 1, ..query() }).await, expected);
    }
}

pub(super) async fn pages_show_each_job_once(bench: Bench) {
    let same = dwell_core::When::At(bench.now().await.plus(3_600_000));
    for k in 10..40 {
        bench.put(NewJob { when: same, ..job(&k.to_string()) }).await;
    }
    let mut seen = Vec::new();
    let mut page = ListQuery { limit: 7, ..query() };
    while let Some(next) = {
        let found = bench.store.list(page.clone()).await.expect("list answers").expect("the topic is there");
        seen.extend(found.jobs.into_iter().map(|view| view.job.id.as_str().to_owned()));
        found.next
    } {
        // Others come and go, and the due time passes, between two pages.
        bench.put(NewJob { when: same, ..job(&format!("new-{}", seen.len())) }).await;
        bench.cancel(&seen[0]).await.ok();
        bench.advance(secs(1_800));
        page.after = Some(next);
    }
    seen.retain(|name| !name.starts_with("new"));
    let all: Vec<String> = (10..40).map(|k| k.to_string()).collect();
    assert_eq!(seen, all, "each once, in put order");
}

pub(super) async fn pages_are_bounded_in_bytes(bench: Bench) {
    for name in ["a", "b", "c"] {
        bench.put(NewJob { body: Body::Bytes(Arc::from(vec![7; 1_000])), ..job(name) }).await;
    }
    let pages = |max_bytes| ListQuery { max_bytes, ..query() };
    let page = bench.store.list(pages(2_500)).await.expect("list answers").expect("the topic is there");
    assert_eq!(page.jobs.len(), 2);
    let page = bench.store.list(pages(2_000)).await.expect("list answers").expect("the topic is there");
    assert_eq!(page.jobs.len(), 2, "what fills the page exactly still fits");
    let page = bench.store.list(pages(1)).await.expect("list answers").expect("the topic is there");
    assert_eq!(page.jobs.len(), 1, "one job always fits");
    assert_eq!(bench.list_ids(pages(1)).await, ["a", "b", "c"]);
}

pub(super) async fn finds_the_next_of_each_state(bench: Bench) {
    two_of_each(&bench).await;
    assert_eq!(next(&bench, State::Delayed).await.as_deref(), Some("delayed-1"));
    assert_eq!(next(&bench, State::Ready).await.as_deref(), Some("ready-2"), "by priority, as it would be handed out");
    assert_eq!(next(&bench, State::Leased).await.as_deref(), Some("leased-1"));
    assert_eq!(next(&bench, State::Buried).await.as_deref(), Some("buried-1"));
    let held = bench.lease().await;
    assert_eq!(held.view.job.id.as_str(), "ready-2");
    bench.settle(&held, Verdict::Ack).await;
    assert_eq!(bench.look(Lookup::Next(topic("nobody"), State::Ready)).await, None);
}

async fn next(bench: &Bench, state: State) -> Option<String> {
    let found = bench.look(Lookup::Next(topic("t"), state)).await;
    found.and_then(dwell_core::Found::live).map(|view| view.job.id.as_str().to_owned())
}

pub(super) async fn each_state_has_its_own_next(bench: Bench) {
    for name in ["leased-1", "leased-2"] {
        bench.put_and_lease(job(name)).await;
        bench.advance(secs(1));
    }
    let Phase::Leased(lease) = bench.get("leased-1").await.job.phase else { panic!("not leased") };
    assert_eq!(bench.try_settle(lease.token, Verdict::Extend { ttr: Some(Ttr::MAX) }).await, Ok(()));
    assert_eq!(next(&bench, State::Leased).await.as_deref(), Some("leased-2"), "the lease that ends next");

    bench.put(later("soon", secs(600))).await;
    bench.put(NewJob { priority: Priority(0), ..later("later", secs(900)) }).await;
    assert_eq!(next(&bench, State::Delayed).await.as_deref(), Some("soon"), "by due time, whatever the priority");

    let target = Target::new("https://a.example/hook", "https://a.example:443").expect("a good target");
    let options = Options { deliver_to: Some(target), ..Options::default() };
    let pushed = bench.put(NewJob { options, priority: Priority(0), ..job("pushed") }).await.number;
    assert_eq!(next(&bench, State::Ready).await, None, "of line 0 only");
    assert_eq!(bench.find_number(pushed).await.expect("live").state, State::Ready);
}
