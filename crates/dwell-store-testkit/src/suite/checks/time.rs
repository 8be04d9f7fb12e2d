//! Never early, and on time.

use std::num::NonZeroU32;

use dwell_core::{
    Backoff, Delay, ListQuery, NewJob, Options, Purge, Redrive, RedriveTopic, Redriven, RetryPolicy, State,
    TimelineQuery, TopicPolicy, Verdict, When,
};

use crate::suite::bench::{BURY, Bench, job, later, millis, secs, topic};

pub(super) async fn is_never_early(bench: Bench) {
    for (k, delay) in [millis(1), secs(1), secs(60), secs(86_400), secs(30 * 86_400)].into_iter().enumerate() {
        let name = k.to_string();
        let due_at = bench.put(later(&name, delay)).await.due_at;
        bench.advance_to_before(due_at).await;
        let early = bench.try_lease().await;
        let now = bench.now().await;
        assert!(early.is_none() || now >= due_at, "handed out at {now:?}, due at {due_at:?}");
        bench.advance_to(due_at).await;
        let held = if let Some(held) = early { held } else { bench.lease().await };
        assert_eq!((held.view.job.id.as_str(), held.view.job.due_at), (&*name, due_at));
        bench.settle(&held, Verdict::Ack).await;
    }
}

pub(super) async fn is_due_at_its_instant(bench: Bench) {
    let at = bench.now().await.plus(3_600_000);
    bench.put(NewJob { when: When::At(at), ..job("a") }).await;
    bench.advance_to_before(at).await;
    assert!(bench.try_lease().await.is_none(), "early");
    bench.advance_to(at).await;
    assert_eq!(bench.lease().await.view.job.due_at, at);
}

pub(super) async fn never_goes_back(bench: Bench) {
    let mut last = bench.now().await;
    for _ in 0..20 {
        bench.advance(millis(7));
        let now = bench.now().await;
        assert!(now >= last.plus(7), "{now:?} after {last:?} and 7 ms");
        last = now;
    }
}

const DAY: u64 = 86_400;

/// A job whose lease has run out, which nobody has noticed yet.
async fn unseen_end(bench: &Bench, new: NewJob) {
    bench.put_and_lease(new).await;
    bench.advance(secs(60));
}

/// One that is tried again a day later.
async fn unseen_failure(bench: &Bench, name: &str) {
    unseen_end(bench, super::retry::ladder(name, &[DAY])).await;
}

/// One that is buried.
async fn unseen_burial(bench: &Bench, name: &str) {
    let retry = RetryPolicy { attempts: NonZeroU32::MIN, backoff: Backoff::default() };
    unseen_end(bench, NewJob { options: Options { retry: Some(retry), ..Options::default() }, ..job(name) }).await;
}

pub(super) async fn has_passed_for_verbs_on_a_job(bench: Bench) {
    unseen_failure(&bench, "replaced").await;
    bench.replace(later("replaced", secs(DAY))).await;
    unseen_failure(&bench, "moved").await;
    bench.move_to("moved", When::In(secs(DAY))).await;
    unseen_failure(&bench, "cancelled").await;
    assert_eq!(bench.cancel("cancelled").await, Ok(()));
}

pub(super) async fn has_passed_for_verbs_on_a_topic(bench: Bench) {
    unseen_burial(&bench, "redriven").await;
    let redrive = RedriveTopic { delay: secs(DAY), ..RedriveTopic::all(topic("t")) };
    let answer = bench.store.redrive(Redrive::Topic(redrive)).await;
    assert_eq!(answer, Ok(Ok(Redriven { redriven: 1, remaining: 0 })));
    unseen_burial(&bench, "purged").await;
    assert_eq!(bench.store.purge(topic("t"), Purge::Jobs(State::Buried)).await, Ok(Ok(1)));
    unseen_burial(&bench, "listed").await;
    let buried = ListQuery { state: Some(State::Buried), ..ListQuery::of(topic("t")) };
    assert_eq!(bench.list_ids(buried).await, ["listed"]);
    unseen_failure(&bench, "counted").await;
    let week = TimelineQuery::new(Some(topic("t")), bench.now().await, 7 * DAY * 1_000, 1).expect("a good query");
    assert_eq!(bench.store.timeline(week).await, Ok(Ok(vec![2])), "the one redriven, the one tried again");
}

pub(super) async fn has_passed_for_what_a_put_meets(bench: Bench) {
    let keep = |keep_buried, keep_done| TopicPolicy { keep_buried, keep_done, ..TopicPolicy::default() };
    bench.policy(keep(Some(secs(600)), Some(secs(600)))).await;
    for verdict in [BURY, Verdict::Ack] {
        let held = bench.put_and_lease(job("a")).await;
        bench.settle(&held, verdict).await;
        bench.advance(secs(600));
        bench.put(later("a", Delay::ZERO)).await;
        bench.cancel("a").await.expect("it waits");
    }
}
