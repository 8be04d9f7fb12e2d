//! A connection's patience, on paused time: nothing here waits for real.

use std::sync::Arc;
use std::time::Duration;

use dwell_core::{Defaults, NewJob, Store, When};
use dwell_store_testkit::{FakeClock, ModelStore, Setup};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use super::super::App;
use super::super::service::Service;
use crate::{Config, Shutdown};

const HEALTH: &[u8] = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";

/// A client's end of a connection, and the connection.
struct Client {
    stream: DuplexStream,
    served: JoinHandle<()>,
    shutdown: Shutdown,
    store: Arc<dyn Store>,
    since: Instant,
}

impl Client {
    fn new(buffer: usize) -> Self {
        let setup = Setup { defaults: Defaults::default(), max_topics: 10 };
        let store: Arc<dyn Store> = Arc::new(ModelStore::new(&setup, Arc::new(FakeClock::frozen())));
        let shutdown = Shutdown::default();
        let service = Service::new(&App::new(Config::default(), Arc::clone(&store), shutdown.clone()));
        let (stream, other) = duplex(buffer);
        let served = tokio::spawn(super::run(other, service));
        Self { stream, served, shutdown, store, since: Instant::now() }
    }

    async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.expect("the connection is open");
    }

    /// Reads one answer; its body is as long as it says.
    async fn answer(&mut self) -> String {
        let mut text = String::new();
        while !text.contains("\r\n\r\n") {
            text.push(char::from(self.stream.read_u8().await.expect("an answer comes")));
        }
        let length =
            text.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next()).expect("a length");
        let mut body = vec![0; length.parse().expect("a number")];
        self.stream.read_exact(&mut body).await.expect("the whole answer comes");
        text + &String::from_utf8(body).expect("UTF-8")
    }

    /// How many seconds after the beginning the server gave the connection up.
    async fn ended_after(self) -> u64 {
        timeout(Duration::from_hours(1), self.served).await.expect("every connection ends").expect("without a panic");
        self.since.elapsed().as_secs()
    }
}

fn post(path: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    let head = "host: localhost\r\ncontent-type: application/json";
    format!("POST {path} HTTP/1.1\r\n{head}\r\ncontent-length: {length}\r\n\r\n{body}").into_bytes()
}

#[tokio::test(start_paused = true)]
async fn a_client_that_says_nothing_is_given_up() {
    assert_eq!(Client::new(1 << 16).ended_after().await, 15);
}

#[tokio::test(start_paused = true)]
async fn a_head_that_trickles_in_is_given_up_all_the_same() {
    let mut client = Client::new(1 << 16);
    for byte in &HEALTH[..10] {
        client.send(&[*byte]).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(client.ended_after().await, 15);
}

#[tokio::test(start_paused = true)]
async fn the_second_head_has_as_long_as_the_first() {
    let mut client = Client::new(1 << 16);
    client.send(HEALTH).await;
    assert!(client.answer().await.starts_with("HTTP/1.1 200"));
    tokio::time::sleep(Duration::from_secs(100)).await;
    client.send(&HEALTH[..10]).await;
    assert_eq!(client.ended_after().await, 115);
}

#[tokio::test(start_paused = true)]
async fn a_connection_may_rest_between_requests_but_not_for_ever() {
    let mut client = Client::new(1 << 16);
    for _ in 0..3 {
        client.send(HEALTH).await;
        assert!(client.answer().await.starts_with("HTTP/1.1 200"));
        tokio::time::sleep(Duration::from_secs(170)).await;
    }
    client.send(HEALTH).await;
    assert!(client.answer().await.starts_with("HTTP/1.1 200"));
    assert_eq!(client.ended_after().await, 510 + 180);
}

#[tokio::test(start_paused = true)]
async fn a_parked_consumer_is_not_taken_for_a_slow_one() {
    let mut client = Client::new(1 << 16);
    client.send(&post("/v1/topics/t/lease", r#"{"wait": "60s"}"#)).await;
    assert!(client.answer().await.ends_with(r#"{"jobs":[]}"#));
    assert_eq!(client.since.elapsed().as_secs(), 60);
}

#[tokio::test(start_paused = true)]
async fn a_stopping_server_answers_parked_consumers_at_once() {
    let mut client = Client::new(1 << 16);
    client.send(&post("/v1/topics/t/lease", r#"{"wait": "60s"}"#)).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    client.shutdown.start();
    assert!(client.answer().await.ends_with(r#"{"jobs":[]}"#));
    assert_eq!(client.ended_after().await, 5);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_stops_coming_is_refused() {
    let mut client = Client::new(1 << 16);
    let request = post("/v1/jobs", r#"{"jobs": []}"#);
    client.send(&request[..request.len() - 3]).await;
    let answer = client.answer().await;
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("did not arrive in time"), "{answer}");
    assert_eq!(client.since.elapsed().as_secs(), 15);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_take_its_answer_is_given_up() {
    let mut client = Client::new(1 << 10);
    let topic = dwell_core::TopicName::new("t").expect("a good name");
    let id = dwell_core::JobId::new("a").expect("a good id");
    let body = dwell_core::Body::Bytes(vec![0; 1 << 20].into());
    let put = client.store.put(vec![NewJob { body, ..NewJob::new(topic, id, When::NOW) }]).await;
    assert!(put.expect("the store answers")[0].is_ok());
    client.send(b"GET /v1/topics/t/jobs/a HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    let ended = client.ended_after().await;
    assert!((30..=46).contains(&ended), "{ended}");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_hangs_up_gives_its_place_up() {
    let mut client = Client::new(1 << 16);
    client.send(&post("/v1/topics/t/lease", r#"{"wait": "60s"}"#)).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (store, served) = (Arc::clone(&client.store), client.served);
    drop(client.stream);
    served.await.expect("without a panic");
    let topic = dwell_core::TopicName::new("t").expect("a good name");
    let info = store.topic(topic).await.expect("the store answers");
    assert_eq!(info.map_or(0, |info| info.waiting), 0, "nobody waits any more");
}
