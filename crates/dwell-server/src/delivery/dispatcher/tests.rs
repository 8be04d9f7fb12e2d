use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use dwell_core::{Defaults, JobId, NewJob, Options, Target, TopicName, When};
use dwell_store_testkit::{FakeClock, ModelStore, Setup};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;
use crate::delivery::{DeliveryConfig, Guard};

/// A receiver that says yes to everything and counts by job.
struct Receiver {
    url: String,
    seen: Arc<Mutex<BTreeMap<String, u32>>>,
    most_at_once: Arc<AtomicUsize>,
}

impl Receiver {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (seen, most_at_once) = (Arc::default(), Arc::default());
        let this = Self { url, seen: Arc::clone(&seen), most_at_once: Arc::clone(&most_at_once) };
        let at_once = Arc::new(AtomicUsize::new(0));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (seen, most, at_once) = (Arc::clone(&seen), Arc::clone(&most_at_once), Arc::clone(&at_once));
                tokio::spawn(async move {
                    let mut got = Vec::new();
                    while stream.read_buf(&mut got).await.is_ok_and(|length| length > 0) {
                        let text = String::from_utf8_lossy(&got).into_owned();
                        if !text.ends_with("\r\n\r\nnull") {
                            continue;
                        }
                        most.fetch_max(at_once.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        let id = text.split("dwell-job-id: ").nth(1).unwrap().split("\r\n").next().unwrap();
                        *lock(&seen).entry(id.to_owned()).or_default() += 1;
                        // Others get a turn: what may go at once does.
                        tokio::task::yield_now().await;
                        at_once.fetch_sub(1, Ordering::SeqCst);
                        stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
                        got.clear();
                    }
                });
            }
        });
        this
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn store() -> Arc<dyn Store> {
    let setup = Setup { defaults: Defaults::default(), max_topics: 10 };
    Arc::new(ModelStore::new(&setup, Arc::new(FakeClock::frozen())))
}

/// A dispatcher such as each server has one.
fn dispatcher(store: &Arc<dyn Store>) -> Arc<Dispatcher> {
    let guard = Guard { loopback: true, ..Guard::default() };
    let couriers = Arc::new(Couriers::new(&DeliveryConfig { guard, ..DeliveryConfig::default() }));
    Dispatcher::new(Arc::clone(store), couriers, Arc::default(), None, true)
}

async fn put(store: &Arc<dyn Store>, ids: std::ops::Range<usize>, url: &str) {
    let new = |id: usize| {
        let topic = TopicName::new(if id.is_multiple_of(2) { "even" } else { "odd" }).unwrap();
        let options = Options { deliver_to: Some(Target::new(url, url).unwrap()), ..Options::default() };
        NewJob { options, ..NewJob::new(topic, JobId::new(&id.to_string()).unwrap(), When::NOW) }
    };
    store.put(ids.map(new).collect()).await.unwrap();
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..2_000 {
        if holds() {
            return;
        }
        sleep(Duration::from_millis(5)).await;
    }
    panic!("still not so: {what}");
}

#[tokio::test]
async fn two_servers_share_the_work() {
    let (store, receiver, shutdown) = (store(), Receiver::start().await, Shutdown::default());
    let drain = Duration::from_secs(5);
    let servers: Vec<_> = (0..2).map(|_| tokio::spawn(dispatcher(&store).run(shutdown.clone(), drain))).collect();
    for batch in 0..10 {
        put(&store, batch * 50..(batch + 1) * 50, &receiver.url).await;
    }
    until("all have landed", || lock(&receiver.seen).len() == 500).await;
    shutdown.start();
    for server in servers {
        server.await.unwrap();
    }
    assert!(lock(&receiver.seen).values().all(|times| *times == 1), "none of them twice");
    let info = store.topic(TopicName::new("even").unwrap()).await.unwrap().unwrap();
    assert_eq!((info.totals.acked, info.totals.timed_out, info.totals.nacked), (250, 0, 0));
}

#[tokio::test]
async fn a_target_has_no_more_under_way_than_it_may() {
    let (store, receiver) = (store(), Receiver::start().await);
    put(&store, 0..400, &receiver.url).await;
    let shutdown = Shutdown::default();
    let server = tokio::spawn(dispatcher(&store).run(shutdown.clone(), Duration::from_secs(5)));
    until("all have landed", || lock(&receiver.seen).len() == 400).await;
    shutdown.start();
    server.await.unwrap();
    let most = receiver.most_at_once.load(Ordering::SeqCst);
    assert!((2..=MOST_EACH).contains(&most), "{most}");
}

#[tokio::test]
async fn who_stops_takes_nothing_more() {
    let (store, receiver, shutdown) = (store(), Receiver::start().await, Shutdown::default());
    shutdown.start();
    dispatcher(&store).run(shutdown, Duration::from_secs(5)).await;
    put(&store, 0..5, &receiver.url).await;
    let info = store.topic(TopicName::new("odd").unwrap()).await.unwrap().unwrap();
    assert_eq!(info.totals.leased, 0);
}

#[tokio::test]
async fn a_store_that_is_closed_ends_it() {
    let store = store();
    let running = tokio::spawn(dispatcher(&store).run(Shutdown::default(), Duration::from_secs(5)));
    store.close().await.unwrap();
    timeout(Duration::from_secs(10), running).await.unwrap().unwrap();
}
