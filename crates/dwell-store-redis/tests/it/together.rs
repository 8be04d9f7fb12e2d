//! Calls that come together: they share calls of scripts, and nobody notices.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use dwell_core::{
    Body, Consumer, Delay, IfExists, JobId, LeaseRequest, LeasedJob, NewJob, PutError, PutOutcome, Settle, State,
    Store, TopicName, Ttr, Verdict, When,
};
use dwell_store_redis::{Address, Config, RedisStore};
use futures_util::future::join_all;

use crate::server::Server;
use crate::subject::prefix;

const CALLERS: usize = 200;

fn topic() -> TopicName {
    TopicName::new("t").unwrap()
}

fn job(id: &str) -> NewJob {
    NewJob::new(topic(), JobId::new(id).unwrap(), When::NOW)
}

fn patient() -> LeaseRequest {
    LeaseRequest::of(topic()).waiting(Duration::from_secs(20))
}

async fn open(server: &Server) -> Arc<dyn Store> {
    let address = Address::parse(&server.url()).unwrap();
    Arc::new(RedisStore::open(&Config { prefix: prefix(), ..Config::new(address) }).await.unwrap())
}

/// How many calls of scripts the engine has had.
fn calls(server: &Server) -> usize {
    let stats = server.ask(&["INFO", "commandstats"]);
    let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    line.and_then(|line| line.split(',').next()?.parse().ok()).unwrap_or(0)
}

/// Begins calls that wait, one after the other, so that they stand in line in this order.
fn begin(store: &Arc<dyn Store>, requests: Vec<LeaseRequest>) -> Vec<tokio::task::JoinHandle<Vec<LeasedJob>>> {
    let begin = |request: LeaseRequest| {
        let store = Arc::clone(store);
        tokio::spawn(async move { store.lease(request).await.unwrap() })
    };
    requests.into_iter().map(begin).collect()
}

/// Waits until so many stand in line.
async fn in_line(store: &Arc<dyn Store>, consumers: u64) {
    while store.topic(topic()).await.unwrap().is_none_or(|info| info.waiting < consumers) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_at_a_time_share_calls_and_each_gets_its_own_answer() {
    let server = Server::start();
    let store = open(&server).await;
    store.put(vec![job("taken")]).await.unwrap();
    store.lease(LeaseRequest { auto_ack: true, ..LeaseRequest::of(topic()) }).await.unwrap();
    store.put(vec![NewJob { when: When::In(Delay::MAX), ..job("taken") }]).await.unwrap();
    let before = calls(&server);

    // Every tenth is refused; each is told so and no other.
    let puts = (0..CALLERS).map(|k| {
        let id = if k % 10 == 0 { "taken".to_owned() } else { k.to_string() };
        store.put(vec![NewJob { if_exists: IfExists::Reject, ..job(&id) }])
    });
    for (k, answer) in join_all(puts).await.into_iter().enumerate() {
        let answer = answer.unwrap().remove(0);
        match k % 10 {
            0 => assert!(matches!(answer, Err(PutError::JobExists)), "{k}: {answer:?}"),
            _ => assert!(matches!(answer, Ok(PutOutcome::Created(_))), "{k}: {answer:?}"),
        }
    }
    let after_puts = calls(&server);
    let put = CALLERS - CALLERS / 10;

    let leases = join_all((0..put).map(|_| store.lease(patient()))).await;
    let held: Vec<LeasedJob> = leases.into_iter().flat_map(|jobs| jobs.unwrap()).collect();
    let ids: BTreeSet<String> = held.iter().map(|job| job.view.job.id.to_string()).collect();
    assert_eq!((held.len(), ids.len()), (put, put), "each job to one of them");
    let after_leases = calls(&server);

    // Every seventh acks with a token that is another's no more.
    let acks = held.iter().enumerate().map(|(k, job)| {
        let mut token = job.token.unwrap();
        token.secret ^= u64::from(k % 7 == 0);
        store.settle(vec![Settle::new(token, Verdict::Ack)])
    });
    for (k, answer) in join_all(acks).await.into_iter().enumerate() {
        assert_eq!(answer.unwrap()[0].is_ok(), k % 7 != 0, "{k}");
    }
    let after_acks = calls(&server);
    let info = store.topic(topic()).await.unwrap().unwrap();
    let lost = put.div_ceil(7) as u64;
    assert_eq!((info.counts[State::Leased], info.totals.acked), (lost, put as u64 + 1 - lost));

    // A refused put looks again at what it met, which is a call of its own.
    let shared = [after_puts - before - CALLERS / 10, after_leases - after_puts, after_acks - after_leases];
    println!("calls for {CALLERS} puts, leases and acks: {shared:?}");
    assert!(shared.iter().all(|calls| *calls < CALLERS / 4), "calls are not shared: {shared:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_behind_others_gets_what_it_asked_for_in_its_turn() {
    let server = Server::start();
    let store = open(&server).await;
    store.put(vec![NewJob { when: When::In(Delay::MAX), ..job("later") }]).await.unwrap();
    let ask = |k: u32| LeaseRequest {
        ttr: Some(Ttr::from_millis(u64::from(k) * 10_000).unwrap()),
        consumer: Some(Consumer::new(&format!("consumer-{k}")).unwrap()),
        ..patient().up_to(k)
    };
    let mut waiting = Vec::new();
    for k in 1..=4 {
        waiting.extend(begin(&store, vec![ask(k)]));
        in_line(&store, u64::from(k)).await;
    }
    // Enough for the first three, and one for the fourth.
    store.put((0..7).map(|k| job(&k.to_string())).collect()).await.unwrap();
    let mut next = 0;
    for (k, consumer) in (1_u32..).zip(waiting) {
        let jobs = consumer.await.unwrap();
        assert_eq!(jobs.len(), if k == 4 { 1 } else { k as usize }, "the {k}th in line");
        for held in jobs {
            let dwell_core::Phase::Leased(lease) = &held.view.job.phase else { panic!("not leased: {held:?}") };
            assert_eq!(held.view.job.id.as_str(), next.to_string(), "first come, first served");
            assert_eq!(lease.consumer.as_ref().map(Consumer::as_str), Some(&*format!("consumer-{k}")));
            assert_eq!(lease.ttr.as_millis(), u64::from(k) * 10_000);
            next += 1;
        }
    }
    assert_eq!(next, 7);
}

/// A look for several may find jobs for one who has gone by then: they are given back, and nobody else misses anything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_found_for_one_who_has_gone_goes_to_the_others() {
    let server = Server::start();
    let store = open(&server).await;
    store.put(vec![NewJob { when: When::In(Delay::MAX), ..job("later") }]).await.unwrap();
    for round in 0..50 {
        let mut leases: Vec<_> = (0..10).map(|_| store.lease(patient())).collect();
        std::future::poll_fn(|context| {
            assert!(leases.iter_mut().all(|lease| lease.as_mut().poll(context).is_pending()));
            Poll::Ready(())
        })
        .await;
        let jobs = (0..6).map(|k| job(&format!("{round}-{k}"))).collect();
        let (others, put) = tokio::join!(
            async {
                // The first goes while it looks for the others; so do two of those.
                let mut others = leases.split_off(1);
                drop(leases);
                tokio::task::yield_now().await;
                drop(others.split_off(7));
                others
            },
            store.put(jobs),
        );
        assert!(put.unwrap().iter().all(Result::is_ok));
        let served = join_all(others.into_iter().take(6)).await;
        let held: Vec<LeasedJob> = served.into_iter().flat_map(|jobs| jobs.unwrap()).collect();
        assert_eq!(held.len(), 6, "in round {round}");
        let acks = held.iter().map(|job| Settle::new(job.token.unwrap(), Verdict::Ack)).collect();
        assert!(store.settle(acks).await.unwrap().iter().all(Result::is_ok), "in round {round}");
    }
}

/// Who asks for more than fits one call gets it by several, also beside others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_that_do_not_fit_one_call_come_by_several() {
    let server = Server::start();
    let store = open(&server).await;
    store.put(vec![NewJob { when: When::In(Delay::MAX), ..job("later") }]).await.unwrap();
    let mut waiting = begin(&store, vec![patient().up_to(3)]);
    in_line(&store, 1).await;
    waiting.extend(begin(&store, vec![patient().up_to(1)]));
    in_line(&store, 2).await;
    let body = Body::Bytes(vec![7; 400 << 10].into());
    store.put((0..4).map(|k| NewJob { body: body.clone(), ..job(&k.to_string()) }).collect()).await.unwrap();
    let mut got = BTreeSet::new();
    for consumer in waiting {
        let jobs = consumer.await.unwrap();
        assert!(!jobs.is_empty() && jobs.iter().all(|job| job.view.job.body == body));
        got.extend(jobs.into_iter().map(|job| job.view.job.id.to_string()));
    }
    got.extend(
        store.lease(LeaseRequest::of(topic()).up_to(10)).await.unwrap().iter().map(|job| job.view.job.id.to_string()),
    );
    assert_eq!(got.len(), 4, "{got:?}");
}
