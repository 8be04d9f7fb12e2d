//! Collectors that do not take spans: nobody waits for them, and what is lost is counted.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::json;

use crate::authority::Authority;
use crate::client::Client;
use crate::collector::{Collector, counter, decoded, until_dropped};
use crate::receiver::{Receiver, Reply};
use crate::server::{Server, dwell, start, temporary, timed, until};

const SENT: &str = "dwell_otlp_spans_sent_total";
const DROPPED: &str = "dwell_otlp_spans_dropped_total";

/// So many requests with a span each.
fn requests(server: &Server, count: usize) {
    for number in 0..count {
        server.put_job("t", &number.to_string(), json!({}));
    }
}

#[test]
fn nobody_waits_for_a_collector_that_hangs() {
    let collector = Collector::that(|_| Reply::Hang);
    let mut server = collector.server(&[]);
    requests(&server, 1);
    // From now on the exporter waits.
    collector.receiver.next();
    let ((), took) = timed(|| requests(&server, 30));
    assert!(took < Duration::from_secs(3), "{took:?}");
    assert_eq!(counter(&server, DROPPED), 0);
    until_dropped(&server, 1);
    assert!(server.log().contains("spans were dropped"), "{}", server.log());
    let (status, took) = timed(|| {
        server.terminate();
        server.end()
    });
    assert_eq!(status.code(), Some(0));
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert_eq!(server.log().matches("spans were dropped").count(), 1, "once in a while: {}", server.log());
}

#[test]
fn what_a_collector_that_is_not_there_would_get_is_counted() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let server = Server::with(&["--otlp-endpoint", &format!("http://{nobody}")]);
    requests(&server, 7);
    until_dropped(&server, 7);
    assert_eq!(counter(&server, SENT), 0);
    assert!(server.log().contains("onnection refused"), "{}", server.log());
}

#[test]
fn what_a_collector_refuses_is_dropped_at_once() {
    let other = Receiver::always(200);
    let place = other.url("/v1/traces");
    let collector = Collector::that(move |_| Reply::Status(307, vec![("location", place.clone())], ""));
    let server = collector.server(&[]);
    requests(&server, 3);
    until_dropped(&server, 3);
    assert!(other.rest().is_empty(), "nothing is sent where a collector points to");
    assert!(server.log().contains("the collector answered 307"), "{}", server.log());
    let (tries, refusing) = (collector.receiver.rest().len(), Collector::that(|_| Reply::status(400)));
    assert!((1..=3).contains(&tries), "{tries}");
    let server = refusing.server(&[]);
    requests(&server, 1);
    until_dropped(&server, 1);
    assert_eq!(refusing.receiver.rest().len(), 1, "what is wrong stays wrong");
}

#[test]
fn a_collector_that_is_busy_is_asked_again() {
    let mut times = 0;
    let collector = Collector::that(move |_| {
        times += 1;
        if times < 3 { Reply::status(503) } else { Reply::Status(200, Vec::new(), "") }
    });
    let server = collector.server(&[]);
    requests(&server, 1);
    until("it is taken", || counter(&server, SENT) == 1);
    let bodies: Vec<_> = collector.receiver.rest().into_iter().map(|request| request.body).collect();
    assert!(bodies.len() == 3 && bodies.iter().all(|body| *body == bodies[0]), "{}", bodies.len());
    assert_eq!(counter(&server, DROPPED), 0);
}

#[test]
fn what_a_collector_says_it_did_not_take_is_counted() {
    // partial_success: one span rejected, "quota".
    let collector = Collector::that(|_| Reply::Status(200, Vec::new(), "\u{a}\u{9}\u{8}\u{1}\u{12}\u{5}quota"));
    let server = collector.server(&[]);
    requests(&server, 1);
    until_dropped(&server, 1);
    assert_eq!(counter(&server, SENT), 0);
    assert!(server.log().contains("the collector rejects them: quota"), "{}", server.log());
}

#[test]
fn the_last_spans_are_sent_when_the_server_stops() {
    let ((arrived, first), (go, held)) = (mpsc::channel(), mpsc::channel::<()>());
    let collector = Collector::that(move |_| {
        let _ = arrived.send(());
        let _ = held.recv();
        Reply::Status(200, Vec::new(), "")
    });
    let mut server = collector.server(&[]);
    requests(&server, 1);
    first.recv().unwrap();
    requests(&server, 5);
    server.terminate();
    // So long that a server which does not wait for the collector is gone.
    assert!(collector.receiver.is_quiet(Duration::from_millis(500)));
    drop(go);
    assert_eq!(server.end().code(), Some(0));
    for _ in 0..6 {
        collector.span("PUT /v1/topics/{topic}/jobs/{id}");
    }
}

#[test]
fn a_collector_can_be_spoken_to_over_tls() {
    let authority = Authority::new();
    let directory = temporary();
    let file = directory.path().join("authority.pem");
    std::fs::write(&file, &authority.pem).unwrap();
    let (certificate, key) = authority.sign("localhost");
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth().with_single_cert(vec![certificate.der().clone()], key).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let got = thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut stream = StreamOwned::new(ServerConnection::new(Arc::new(config)).unwrap(), stream);
        let (mut got, mut buffer) = (Vec::new(), [0; 4_096]);
        while !String::from_utf8_lossy(&got).contains("/v1/topics/{topic}/jobs/{id}") {
            let length = stream.read(&mut buffer).unwrap();
            assert_ne!(length, 0, "it broke off");
            got.extend_from_slice(&buffer[..length]);
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
        String::from_utf8_lossy(&got).into_owned()
    });
    let endpoint = format!("https://user:hush@localhost:{port}/otlp");
    let mut command = dwell(&["serve", "--listen", "127.0.0.1:0", "--store", "memory:", "--otlp-endpoint", &endpoint]);
    let (mut child, address, banner) = start(command.env("SSL_CERT_FILE", file));
    assert!(banner.contains(&format!("  traces      https://localhost:{port}/otlp/v1/traces\n")), "{banner}");
    Client::new(address).put_job("t", "a", json!({}));
    let got = got.join().unwrap();
    assert!(got.starts_with("POST /otlp/v1/traces HTTP/1.1\r\n"), "{got}");
    assert!(got.contains("authorization: Basic dXNlcjpodXNo\r\n"), "{got}");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_batch_has_what_came_together() {
    let collector = Collector::new();
    let server = collector.server(&[]);
    requests(&server, 40);
    until("all are sent", || counter(&server, SENT) == 40);
    let sent = collector.receiver.rest();
    let spans: usize = sent.iter().map(|request| decoded(request).resource_spans[0].scope_spans[0].spans.len()).sum();
    assert!(spans == 40 && sent.len() < 20, "{} requests", sent.len());
}
