//! A great many jobs due in the same instant, and what they take.

use std::sync::Arc;

use dwell_core::{Body, Delay, JobId, LeaseRequest, NewJob, Settle, State, Store, TopicName, Verdict, When};
use dwell_store_redis::{Address, Clock, Config, RedisStore};

use crate::server::Server;
use crate::subject::{prefix, standing};

const JOBS: usize = 50_000;

fn topic() -> TopicName {
    TopicName::new("herd").unwrap()
}

/// Puts the herd, in batches as large as a caller may send.
async fn put(store: &dyn Store, delay: Delay) {
    let body = Body::Bytes(vec![7; 256].into());
    let numbers: Vec<usize> = (0..JOBS).collect();
    for batch in numbers.chunks(10_000) {
        let job = |k: &usize| NewJob {
            body: body.clone(),
            ..NewJob::new(topic(), JobId::new(&format!("order-{k:08}")).unwrap(), When::In(delay))
        };
        assert!(store.put(batch.iter().map(job).collect()).await.unwrap().iter().all(Result::is_ok));
    }
}

fn memory(server: &Server) -> usize {
    let info = server.ask(&["INFO", "memory"]);
    let line = info.lines().find_map(|line| line.strip_prefix("used_memory:"));
    line.and_then(|bytes| bytes.trim().parse().ok()).expect("Redis tells how much it uses")
}

async fn open(server: &Server, clock: Arc<Clock>) -> Arc<dyn Store> {
    let address = Address::parse(&server.url()).unwrap();
    Arc::new(RedisStore::open(&Config { prefix: prefix(), clock, ..Config::new(address) }).await.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_keeps_redis_from_others_for_long() {
    let server = Server::start();
    let clock = Arc::new(standing());
    let store = open(&server, Arc::clone(&clock)).await;
    put(&*store, Delay::from_millis(60_000).unwrap()).await;
    clock.advance(60_000);
    let consumers = (0..4).map(|_| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            let mut acked = 0;
            loop {
                let jobs = store.lease(LeaseRequest::of(topic()).up_to(1_000)).await.unwrap();
                if jobs.is_empty() {
                    return acked;
                }
                acked += jobs.len();
                let acks = jobs.iter().map(|job| Settle::new(job.token.unwrap(), Verdict::Ack)).collect();
                assert!(store.settle(acks).await.unwrap().iter().all(Result::is_ok));
            }
        })
    });
    let mut acked = 0;
    for consumer in consumers.collect::<Vec<_>>() {
        acked += consumer.await.unwrap();
    }
    assert_eq!(acked, JOBS, "each once");
    // Leases that run out all at once, a purge and the end of a topic are cut into short calls, too.
    put(&*store, Delay::ZERO).await;
    while !store.lease(LeaseRequest::of(topic()).up_to(1_000)).await.unwrap().is_empty() {}
    clock.advance(60_000);
    while store.topic(topic()).await.unwrap().unwrap().counts[State::Leased] > 0 {}
    assert_eq!(store.purge(topic(), dwell_core::Purge::Topic).await.unwrap(), Ok(JOBS as u64));
    // Single calls may have been held up by what else this machine does; all of them together were not.
    let stats = server.ask(&["INFO", "commandstats"]);
    let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:")).expect("scripts were run");
    let average = line.split(',').find_map(|field| field.strip_prefix("usec_per_call=")).expect("calls are timed");
    let average: f64 = average.parse().unwrap();
    println!("a call kept Redis busy for {average} µs on the average");
    assert!(average < 5_000.0, "a call keeps Redis from others for {average} µs");
    let keys = server.ask(&["KEYS", "*:t:*"]);
    assert!(keys.trim().is_empty(), "an ended topic leaves nothing behind: {keys}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_job_takes_no_more_than_six_hundred_bytes() {
    let server = Server::start();
    let store = open(&server, Arc::new(standing())).await;
    let before = memory(&server);
    put(&*store, Delay::MAX).await;
    let bytes = (memory(&server) - before) / JOBS;
    println!("{bytes} bytes a waiting job with a body of 256");
    assert!(bytes <= 600, "{bytes} bytes a job");
}

/// Leases of a great many jobs run out at once; what time does elsewhere does not wait for that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn much_to_do_in_one_partition_keeps_no_other_waiting() {
    let server = Server::start();
    let clock = Arc::new(standing());
    let store = open(&server, Arc::clone(&clock)).await;
    put(&*store, Delay::ZERO).await;
    // The topics are in partitions 19 and 33: the first is swept first.
    let other = TopicName::new("other").unwrap();
    store.put(vec![NewJob::new(other.clone(), JobId::new("a").unwrap(), When::NOW)]).await.unwrap();
    for topic in [topic(), other] {
        while !store.lease(LeaseRequest::of(topic.clone()).up_to(1_000)).await.unwrap().is_empty() {}
    }
    let key = |topic: &str| server.ask(&["KEYS", &format!("*:t:{topic}:leased")]).trim().to_owned();
    let (many, one) = (key("herd"), key("other"));
    // Both at one instant, and without a program to be started for each look.
    let mut engine = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let mut leased = || -> (usize, usize) {
        let counts = "return {redis.call('ZCARD', KEYS[1]), redis.call('ZCARD', KEYS[2])}";
        redis::cmd("EVAL").arg(counts).arg(2).arg(&many).arg(&one).query(&mut engine).unwrap()
    };
    assert_eq!(leased(), (JOBS, 1));
    clock.advance(60_000);
    let left = tokio::task::block_in_place(|| {
        loop {
            if let (left, 0) = leased() {
                return left;
            }
        }
    });
    println!("{left} of {JOBS} leases were left");
    assert!(left > JOBS * 4 / 5, "the other waited while {} of the herd were seen to", JOBS - left);
}
