//! What the client makes of servers that are not there, or are not Dwell. What it asks of a real one is tested with the
//! command line, in the crate `dwell`.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

use dwell_client::wire::Code;
use dwell_client::wire::Duration;
use dwell_client::wire::lease::LeaseRequest;
use dwell_client::wire::put::PutJob;
use dwell_client::{Client, Error, Guard};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// A server that reads one request and answers `answer`, and a client of it. What it read comes back.
async fn server(answer: &'static str) -> (Client, tokio::task::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client::new(&format!("http://{}", listener.local_addr().unwrap()), Some("secret")).unwrap();
    let served = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let request = read_request(&mut stream).await;
        stream.write_all(answer.as_bytes()).await.unwrap();
        request
    });
    (client, served)
}

/// Reads a request: its head, and as much body as that says.
async fn read_request(stream: &mut TcpStream) -> String {
    let mut read = String::new();
    let mut buffer = [0; 4096];
    loop {
        let count = stream.read(&mut buffer).await.unwrap();
        read.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
        let Some((head, body)) = read.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
            return read;
        }
    }
}

#[tokio::test]
async fn nobody_there_is_unreachable() {
    // A port that nobody listens on; a free one could be another test's the next moment.
    let url = "http://127.0.0.1:1".to_owned();
    let error = Client::new(&url, None).unwrap().info().await.unwrap_err();
    assert_eq!(error.to_string(), format!("cannot reach {url}: connection refused"));
    assert_eq!(error, Error::Unreachable { url, reason: "connection refused".to_owned() });
}

#[tokio::test]
async fn an_answer_that_does_not_come_leaves_it_open_whether_it_was_done() {
    let (client, served) = server("").await;
    let error = client.cancel("t", "a", Guard::default()).await.unwrap_err();
    assert!(matches!(error, Error::Lost { .. }), "{error:?}");
    served.await.unwrap();
}

#[tokio::test]
async fn who_answers_otherwise_is_no_dwell_server() {
    for (answer, reason) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n<html>", "it answers 200 OK with something else than"),
        ("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", "it answers 404 Not Found"),
        ("HTTP/1.1 301 Moved Permanently\r\nlocation: /x\r\ncontent-length: 0\r\n\r\n", "it answers 301 Moved"),
    ] {
        let (client, _served) = server(answer).await;
        let error = client.info().await.unwrap_err();
        assert!(matches!(error, Error::NotDwell { .. }), "{error:?}");
        assert!(error.to_string().contains(&format!("is not a Dwell server: {reason}")), "{error}");
    }
}

#[tokio::test]
async fn a_proxy_without_a_server_behind_it_is_unreachable() {
    let (client, _served) = server("HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n").await;
    let error = client.info().await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    assert!(error.to_string().ends_with("what stands before it answers 502 Bad Gateway"), "{error}");
}

const REFUSAL: &str = "HTTP/1.1 409 Conflict\r\ncontent-type: application/problem+json\r\nconnection: close\r\n\r\n\
    {\"type\":\"about:blank\",\"title\":\"A consumer holds the job\",\"status\":409,\"code\":\"job_leased\",\"detail\":\"is held\"}";

#[tokio::test]
async fn a_request_says_all_that_it_was_told_and_a_refusal_has_its_code() {
    let (client, served) = server(REFUSAL).await;
    let body = serde_json::value::RawValue::from_string("{\"n\":12345678901234567890}".to_owned()).unwrap();
    let job = PutJob { delay: Some(Duration(5)), body: Some(&body), ..PutJob::default() };
    let error = client.put("a/b", "c d", &job, Guard { force: true, if_match: Some(7) }).await.unwrap_err();
    assert_eq!((error.code(), error.to_string().as_str()), (Some(Code::JobLeased), "is held"));

    let request = served.await.unwrap();
    let (head, sent) = request.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("PUT /v1/topics/a%2Fb/jobs/c%20d?force=true HTTP/1.1\r\n"), "{head}");
    for line in ["authorization: Bearer secret", "content-type: application/json", "if-match: \"7\""] {
        assert!(head.lines().any(|given| given == line), "{line} is not in {head}");
    }
    assert_eq!(sent, "{\"delay\":5,\"body\":{\"n\":12345678901234567890}}");
}

#[tokio::test]
async fn a_lease_that_is_dropped_closes_its_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client::new(&format!("http://{}", listener.local_addr().unwrap()), None).unwrap();
    let waiting = tokio::spawn(async move {
        let topics = Some(vec!["t".into()]);
        client.lease(&LeaseRequest { topics, wait: Some(Duration(60_000)), ..LeaseRequest::default() }).await
    });
    let (mut stream, _) = listener.accept().await.unwrap();
    let request = read_request(&mut stream).await;
    assert!(request.ends_with("{\"topics\":[\"t\"],\"wait\":60000}"), "{request}");
    waiting.abort();
    assert_eq!(stream.read(&mut [0; 16]).await.unwrap(), 0, "the connection is still open");
}
