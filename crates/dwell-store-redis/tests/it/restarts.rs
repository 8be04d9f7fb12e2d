//! The engine ends and comes back; servers come and go.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use dwell_core::{
    Delay, JobId, LeaseRequest, Lookup, NewJob, PutOutcome, Settle, State, Store, StoreError, TopicName, Ttr, Verdict,
    When,
};
use dwell_store_redis::{Address, Config, OpenError, RedisStore};

use crate::server::Server;
use crate::subject::prefix;

fn topic() -> TopicName {
    TopicName::new("t").unwrap()
}

fn job(id: &str, delay: u64) -> NewJob {
    NewJob::new(topic(), JobId::new(id).unwrap(), When::In(Delay::from_millis(delay).unwrap()))
}

fn config(server: &Server) -> Config {
    Config { prefix: prefix(), ..Config::new(Address::parse(&server.url()).unwrap()) }
}

async fn open(config: &Config) -> Arc<dyn Store> {
    Arc::new(RedisStore::open(config).await.unwrap())
}

fn patient() -> LeaseRequest {
    LeaseRequest::of(topic()).waiting(Duration::from_secs(30))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_is_killed_and_comes_back_has_everything() {
    // With `everysec` a disk that is busy may cost the last second.
    let mut server = Server::with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let store = open(&config(&server)).await;
    let jobs = (0..500).map(|k| job(&k.to_string(), 0)).collect();
    assert!(store.put(jobs).await.unwrap().iter().all(Result::is_ok));
    let held = store.lease(LeaseRequest::of(topic()).up_to(100)).await.unwrap();
    let acks = held[..50].iter().map(|job| Settle::new(job.token.unwrap(), Verdict::Ack)).collect();
    store.settle(acks).await.unwrap();
    server.kill();
    server.start_again();
    let info = store.topic(topic()).await.unwrap().unwrap();
    assert_eq!((info.counts[State::Ready], info.counts[State::Leased]), (400, 50));
    let acks = held[50..].iter().map(|job| Settle::new(job.token.unwrap(), Verdict::Ack)).collect();
    assert!(store.settle(acks).await.unwrap().iter().all(Result::is_ok), "leases outlive the engine's restart");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_who_wait_are_served_after_the_engine_came_back() {
    let mut server = Server::start();
    let config = config(&server);
    let store = open(&config).await;
    store.put(vec![job("later", 1_500)]).await.unwrap();
    let waiting = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.lease(patient()).await }
    });
    server.kill();
    server.start_again();
    let got = waiting.await.unwrap().unwrap();
    assert_eq!(got[0].view.job.id.as_str(), "later");
    // And what is put by another server afterwards is heard of, too.
    let other = open(&config).await;
    let waiting = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.lease(patient()).await }
    });
    other.put(vec![job("now", 0)]).await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap()[0].view.job.id.as_str(), "now");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wake_up_goes_from_one_server_to_another() {
    let server = Server::start();
    let config = config(&server);
    let (one, other) = (open(&config).await, open(&config).await);
    let mut slept = Duration::ZERO;
    for k in 0..6 {
        let waiting = tokio::spawn({
            let one = Arc::clone(&one);
            async move { one.lease(patient()).await }
        });
        while one.topic(topic()).await.unwrap().is_none_or(|info| info.waiting == 0) && k > 0 {
            tokio::task::yield_now().await;
        }
        let begun = tokio::time::Instant::now();
        other.put(vec![job(&k.to_string(), 0)]).await.unwrap();
        let got = waiting.await.unwrap().unwrap();
        slept += begun.elapsed();
        other.settle(vec![Settle::new(got[0].token.unwrap(), Verdict::Ack)]).await.unwrap();
    }
    assert!(slept < Duration::from_secs(3), "six wake-ups took {slept:?}: they were left to the sweep");
}

/// A job that comes back to its old place is behind what has been promoted; those who wait hear of it all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_is_given_back_wakes_whoever_waits() {
    let server = Server::start();
    let config = config(&server);
    let (one, other) = (open(&config).await, open(&config).await);
    other.put(vec![job("a", 0)]).await.unwrap();
    let mut held = other.lease(LeaseRequest::of(topic())).await.unwrap();
    let release = Verdict::Release { delay: None, priority: None };
    let begun = tokio::time::Instant::now();
    for _ in 0..10 {
        let waiting = tokio::spawn({
            let one = Arc::clone(&one);
            async move { one.lease(patient()).await }
        });
        while one.topic(topic()).await.unwrap().unwrap().waiting == 0 {
            tokio::task::yield_now().await;
        }
        other.settle(vec![Settle::new(held[0].token.unwrap(), release.clone())]).await.unwrap();
        held = waiting.await.unwrap().unwrap();
    }
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(3), "ten wake-ups took {took:?}: they were left to the sweep");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_jobs_of_a_server_that_died_are_handed_out_again() {
    let server = Server::start();
    let config = config(&server);
    let (dead, alive) = (open(&config).await, open(&config).await);
    dead.put(vec![job("a", 0)]).await.unwrap();
    let request = LeaseRequest { ttr: Some(Ttr::MIN), ..LeaseRequest::of(topic()) };
    let begun = tokio::time::Instant::now();
    assert_eq!(dead.lease(request).await.unwrap().len(), 1);
    drop(dead);
    // The first rest is a second, and a tenth of it at most.
    let again = alive.lease(patient()).await.unwrap();
    assert_eq!(again[0].view.job.attempt, 2);
    let took = begun.elapsed();
    assert!(took >= Duration::from_secs(2) && took < Duration::from_secs(4), "ttr and rest took {took:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_does_not_answer_is_out_of_reach_and_said_so() {
    let mut server = Server::start();
    let store = open(&config(&server)).await;
    store.put(vec![job("a", 0)]).await.unwrap();
    server.kill();
    let error = store.put(vec![job("b", 0)]).await.unwrap_err().to_string();
    assert!(error.contains("out of reach") && error.contains("outcome of this call is unknown"), "{error}");
    let status = store.status().await.unwrap();
    assert!(!status.troubles.is_empty(), "{status:?}");
    server.start_again();
    assert_eq!(store.get(vec![Lookup::Next(topic(), State::Ready)]).await.unwrap().len(), 1, "it comes back by itself");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_refuses_what_it_cannot_keep_its_promises_on() {
    let server = Server::with(&["--maxmemory", "50mb", "--maxmemory-policy", "allkeys-lru"]);
    let refused = RedisStore::open(&config(&server)).await.err().unwrap().to_string();
    assert!(refused.contains("allkeys-lru") && refused.contains("set noeviction"), "{refused}");

    let server = Server::start();
    let config = config(&server);
    RedisStore::open(&config).await.unwrap();
    let other = Config { partitions: 7, ..config.clone() };
    assert!(matches!(RedisStore::open(&other).await.err().unwrap(), OpenError::Layout { .. }));
    server.ask(&["SET", &format!("{}:layout", config.prefix), "1 partitions=64"]);
    let refused = RedisStore::open(&config).await.err().unwrap().to_string();
    assert!(refused.contains("\"1 partitions=64\"") && refused.contains("\"3 partitions=64\""), "{refused}");
    assert!(refused.contains("let the release that wrote it"), "{refused}");
    for (prefix, partitions) in [("", 64), ("a{b", 64), ("a}", 64), ("a", 0), ("a", 257)] {
        let wrong = Config { prefix: prefix.to_owned(), partitions, ..config.clone() };
        assert!(RedisStore::open(&wrong).await.is_err(), "{prefix:?} {partitions}");
    }
    let nowhere = Config::new(Address::parse(&format!("redis://127.0.0.1:{}", crate::server::free_port())).unwrap());
    let refused = RedisStore::open(&nowhere).await.err().unwrap().to_string();
    assert!(refused.starts_with("cannot reach redis at 127.0.0.1:"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_memory_refuses_puts_and_nothing_else() {
    let server = Server::with(&["--maxmemory", "20mb", "--maxmemory-policy", "noeviction"]);
    let store = open(&config(&server)).await;
    let body = dwell_core::Body::Bytes(vec![7; 900].into());
    let mut full = false;
    for batch in 0..400 {
        let jobs = (0..100).map(|k| NewJob { body: body.clone(), ..job(&format!("{batch}-{k}"), 0) }).collect();
        let answers = store.put(jobs).await.unwrap();
        full = answers.contains(&Err(dwell_core::PutError::StorageFull));
        if full {
            break;
        }
    }
    assert!(full, "memory is never full");
    let held = store.lease(LeaseRequest::of(topic()).up_to(100)).await.unwrap();
    assert_eq!(held.len(), 100);
    let nack = Verdict::Nack { error: None, delay: None };
    let nacks = held[..50].iter().map(|job| Settle::new(job.token.unwrap(), nack.clone())).collect();
    assert!(store.settle(nacks).await.unwrap().iter().all(Result::is_ok));
    let acks = held[50..].iter().map(|job| Settle::new(job.token.unwrap(), Verdict::Ack)).collect();
    assert!(store.settle(acks).await.unwrap().iter().all(Result::is_ok));
    let all = LeaseRequest { auto_ack: true, ..LeaseRequest::of(topic()).up_to(1_000) };
    while !store.lease(all.clone()).await.unwrap().is_empty() {}
    assert!(store.put(vec![job("again", 0)]).await.unwrap()[0].is_ok(), "it resumes by itself");
}

/// A look that is under way when its consumer goes may still find a job. A store that ends gives it back first.
#[test]
fn what_was_found_for_nobody_is_given_back_before_the_end() {
    let server = Server::start();
    let config = config(&server);
    let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let lasting = runtime();
    let other = lasting.block_on(open(&config));
    for round in 0..20 {
        lasting.block_on(other.put(vec![job(&round.to_string(), 0)])).unwrap();
        let passing = runtime();
        passing.block_on(async {
            let store = open(&config).await;
            let mut gone = Box::pin(store.lease(patient()));
            let begun = std::future::poll_fn(|context| Poll::Ready(gone.as_mut().poll(context))).await;
            drop(gone);
            if let Poll::Ready(found) = begun {
                // The machine was busy elsewhere, and the look over before we went: then we give back ourselves.
                let release = Verdict::Release { delay: None, priority: None };
                let tokens = found.unwrap().into_iter().filter_map(|job| job.token);
                store.settle(tokens.map(|token| Settle::new(token, release.clone())).collect()).await.unwrap();
            }
            store.close().await.unwrap();
        });
        passing.shutdown_background();
        let info = lasting.block_on(other.topic(topic())).unwrap().unwrap();
        assert_eq!((info.counts[State::Ready], info.counts[State::Leased]), (round + 1, 0), "in round {round}");
    }
}

/// A replica that becomes the master may not have got the newest. What a server has seen of them is not given out again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_and_versions_do_not_come_again_though_the_engine_forgot_them() {
    let server = Server::start();
    let config = config(&server);
    let store = open(&config).await;
    store.put(vec![job("first", 0)]).await.unwrap();
    let key = server.ask(&["KEYS", &format!("{}:*:t:t", config.prefix)]);
    let counter = key.trim().strip_suffix(":t:t").unwrap();
    // So many that the counter is ahead of the engine's time, as after a great many puts.
    let ahead = 1_u64 << 52;
    let forget = |count: u64| server.ask(&["SET", counter, &count.to_string()]);
    forget(ahead);
    let PutOutcome::Created(put) = store.put(vec![job("a", 0)]).await.unwrap().remove(0).unwrap() else {
        panic!("not created")
    };
    assert!(put.number.get() > ahead && put.version.get() == put.number.get(), "{put:?}");
    forget(1);
    let PutOutcome::Created(again) = store.put(vec![job("b", 0)]).await.unwrap().remove(0).unwrap() else {
        panic!("not created")
    };
    assert!(again.number > put.number, "{} and then {}", put.number, again.number);
    assert_eq!(again.number.get() % 64, put.number.get() % 64, "a number names its partition");
    forget(1);
    let held = store.lease(LeaseRequest::of(topic()).up_to(3)).await.unwrap();
    let version = held.iter().map(|job| job.view.job.version).max().unwrap();
    assert!(held.iter().all(|job| job.view.job.version > again.version), "{held:?}");
    forget(1);
    let release = Verdict::Release { delay: None, priority: None };
    store.settle(vec![Settle::new(held[0].token.unwrap(), release)]).await.unwrap();
    let held = store.lease(LeaseRequest::of(topic())).await.unwrap();
    assert!(held[0].view.job.version > version, "{held:?}");
}

/// Each of them would try to connect for seconds, after all who came before it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_who_call_an_engine_that_does_not_answer_are_told_so_at_once() {
    let server = Server::start();
    let store = open(&config(&server)).await;
    server.freeze(true);
    let calls = (0..30).map(|k| {
        let store = Arc::clone(&store);
        tokio::spawn(async move { store.topic(TopicName::new(&format!("t{k}")).unwrap()).await })
    });
    let told = tokio::time::timeout(Duration::from_secs(20), futures_util::future::join_all(calls)).await;
    let told = told.expect("nobody waits for the others' attempts");
    assert!(told.iter().all(|told| matches!(told, Ok(Err(StoreError::Unreachable { .. })))), "{told:?}");
    server.freeze(false);
    assert_eq!(store.topic(topic()).await, Ok(None), "it is back");
}
