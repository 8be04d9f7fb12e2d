//! What is too large is said to be, and what is full still works off what it has.

use std::io::{Read as _, Write as _};

use serde_json::{Value, json};

use crate::client::{ids, job_path};
use crate::server::Server;

const MIB: usize = 1 << 20;

#[test]
fn a_body_has_a_mebibyte_at_most() {
    let server = Server::new();
    let text = |length: usize| "x".repeat(length - 2);
    server.put_job("t", "json", json!({"body": text(MIB)}));
    server.put(&job_path("t", "json"), json!({"body": text(MIB + 1)})).problem(413, "too_large");
    server.patch(&job_path("t", "json"), json!({"body": text(MIB + 1)})).problem(413, "too_large");
    server.post("/v1/topics/t/jobs", json!({"body": text(MIB + 1)})).problem(413, "too_large");
    let base64 = |length: usize| base64::Engine::encode(&base64::engine::general_purpose::STANDARD, vec![7; length]);
    server.put_job("t", "bytes", json!({"body_base64": base64(MIB)}));
    server.put(&job_path("t", "bytes"), json!({"body_base64": base64(MIB + 1)})).problem(413, "too_large");
    // In a batch it is the item that is too large.
    let jobs = json!([{"topic": "t", "id": "a", "body": text(MIB + 1)}, {"topic": "t", "id": "b"}]);
    let results = server.post("/v1/jobs", json!({ "jobs": jobs })).list("results");
    assert_eq!((&results[0]["status"], &results[0]["code"]), (&json!(413), &json!("too_large")));
    assert_eq!(results[1]["status"], 201);
    assert_eq!(server.job("t", "json")["body"].as_str().unwrap().len(), MIB - 2);
}

#[test]
fn the_operator_may_say_how_large_a_body_may_be() {
    let server = Server::with(&["--max-body", "10"]);
    server.put_job("t", "a", json!({"body": "12345678"}));
    server.put(&job_path("t", "a"), json!({"body": "123456789"})).problem(413, "too_large");
    assert_eq!(server.get("/v1/info").ok(200)["limits"]["body"], 10);
}

#[test]
fn a_batch_has_ten_thousand_items_at_most() {
    let server = Server::with(&["--store", "memory:"]);
    let jobs = |count: usize| json!({"jobs": vec![json!({"topic": "t", "delay": "1h"}); count]});
    assert_eq!(server.post("/v1/jobs", jobs(10_000)).list("results").len(), 10_000);
    server.post("/v1/jobs", jobs(10_001)).problem(413, "too_large");
    let names = |count: usize| json!({"jobs": vec![json!({"topic": "t", "id": "x"}); count]});
    assert_eq!(server.post("/v1/cancel", names(10_000)).list("results").len(), 10_000);
    server.post("/v1/cancel", names(10_001)).problem(413, "too_large");
    let items = |count: usize| json!({"items": vec![json!({"token": "x", "verb": "ack"}); count]});
    assert_eq!(server.post("/v1/settle", items(10_000)).list("results").len(), 10_000);
    server.post("/v1/settle", items(10_001)).problem(413, "too_large");
    let redrive = |count: usize| json!({"ids": vec!["x"; count]});
    server.post("/v1/topics/t/redrive", redrive(10_000)).ok(200);
    server.post("/v1/topics/t/redrive", redrive(10_001)).problem(413, "too_large");
    assert_eq!(server.topic("t")["counts"]["delayed"], 10_000);
}

/// Sends a head and so many bytes, and reads the answer without ever being reset.
fn oversize(server: &Server, head: &str, bytes: usize) -> String {
    let mut stream = server.connect();
    stream.write_all(head.as_bytes()).unwrap();
    let part = vec![b' '; MIB];
    for sent in (0..bytes).step_by(MIB) {
        stream.write_all(&part[..MIB.min(bytes - sent)]).unwrap();
    }
    let mut answer = vec![0; 4_096];
    let length = stream.read(&mut answer).unwrap();
    String::from_utf8_lossy(&answer[..length]).into_owned()
}

#[test]
fn an_oversize_request_is_answered_and_not_reset() {
    let server = Server::new();
    let head = |length: usize| {
        format!(
            "PUT /v1/topics/t/jobs/a HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n\r\n"
        )
    };
    // All of what is over the limit is read and dropped: 64 MiB may be announced, 32 MiB are dropped.
    for length in [64 * MIB + 1, 96 * MIB] {
        let answer = oversize(&server, &head(length), 32 * MIB);
        assert!(answer.starts_with("HTTP/1.1 413"), "{length}: {answer}");
        assert!(answer.contains("\"too_large\""), "{answer}");
    }
    // A request that does not say its length is cut off where it gets too long.
    let head = "PUT /v1/topics/t/jobs/a HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                transfer-encoding: chunked\r\n\r\n";
    let chunk = [format!("{MIB:x}\r\n").as_bytes(), &vec![b' '; MIB][..], b"\r\n"].concat();
    let mut stream = server.connect();
    stream.write_all(head.as_bytes()).unwrap();
    for _ in 0..70 {
        stream.write_all(&chunk).unwrap();
    }
    stream.write_all(b"0\r\n\r\n").unwrap();
    let mut answer = vec![0; 4_096];
    let length = stream.read(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer[..length]);
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
}

#[test]
fn a_refused_request_is_read_so_that_its_sender_hears_why() {
    let server = Server::new();
    for (head, status) in [
        ("POST /nowhere HTTP/1.1\r\nhost: localhost\r\n", "404"),
        ("DELETE /v1/jobs HTTP/1.1\r\nhost: localhost\r\n", "405"),
        ("PUT /v1/topics/t/jobs/a HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/plain\r\n", "415"),
        ("PUT /v1/topics/t/jobs/a HTTP/1.1\r\nhost: example.com\r\n", "403"),
        ("PUT /v1/topics/t/jobs/a?x=1 HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n", "400"),
        ("PUT /v1/topics/t/jobs/. HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n", "400"),
        ("POST /v1/topics/t/jobs?x=1 HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n", "400"),
        (
            "PATCH /v1/topics/t/jobs/a HTTP/1.1\r\nhost: localhost\r\nif-match: *\r\ncontent-type: application/json\r\n",
            "400",
        ),
    ] {
        let answer = oversize(&server, &format!("{head}content-length: {}\r\n\r\n", 20 * MIB), 20 * MIB);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{head}: {answer}");
    }
}

#[test]
fn who_asks_first_is_told_before_sending() {
    let server = Server::new();
    let head = format!(
        "PUT /v1/topics/t/jobs/a HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         expect: 100-continue\r\ncontent-length: {}\r\n\r\n",
        65 * MIB
    );
    let answer = oversize(&server, &head, 0);
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    let head = head.replace(&(65 * MIB).to_string(), "2");
    let mut stream = server.connect();
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = [0; 1_024];
    let length = stream.read(&mut answer).unwrap();
    assert!(answer[..length].starts_with(b"HTTP/1.1 100"), "{}", String::from_utf8_lossy(&answer[..length]));
    stream.write_all(b"{}").unwrap();
    let length = stream.read(&mut answer).unwrap();
    assert!(answer[..length].starts_with(b"HTTP/1.1 201"), "{}", String::from_utf8_lossy(&answer[..length]));
}

/// Puts until there is no room; answers how many fit.
fn fill(server: &Server, body: &Value) -> usize {
    for count in 0..100_000 {
        let answer = server.put(&job_path("full", &format!("j{count}")), json!({"body": body, "delay": 0}));
        if answer.status != 201 {
            answer.problem(507, "storage_full");
            return count;
        }
    }
    panic!("there was room for everything");
}

#[test]
fn a_full_store_refuses_what_grows_and_does_all_else() {
    let server = Server::with(&["--store", "memory:", "--memory", "1MiB"]);
    let body = json!("x".repeat(10_000));
    server.put_job("full", "small", json!({"delay": "1h"}));
    let count = fill(&server, &body);
    assert!(count > 4, "{count}");
    // Nothing that grows goes in.
    server.put(&job_path("full", "small"), json!({"body": body})).problem(507, "storage_full");
    server.post("/v1/topics/full/jobs", json!({"body": body})).problem(507, "storage_full");
    server.patch(&job_path("full", "small"), json!({"body": body})).problem(507, "storage_full");
    let results = server.post("/v1/jobs", json!({"jobs": [{"topic": "full", "body": body}]})).list("results");
    assert_eq!((&results[0]["status"], &results[0]["code"]), (&json!(507), &json!("storage_full")));
    assert_eq!(
        server.patch(&job_path("full", "small"), json!({"delay": "2h"})).ok(200)["state"],
        "delayed",
        "nothing grows"
    );
    // All else works: reading, leasing, every settle verb, cancelling, pausing, purging.
    assert_eq!(server.job("full", "small")["state"], "delayed");
    assert!(!server.get("/v1/topics/full/jobs").list("jobs").is_empty());
    let leased = server.lease("full", json!({"max": 6}));
    assert_eq!(leased.len(), 6, "{:?}", ids(&leased));
    for (job, verb) in leased.iter().zip(["extend", "nack", "release", "bury", "ack"]) {
        server.settle(job, verb, json!({})).ok(200);
    }
    server.delete(&job_path("full", "small")).empty();
    assert_eq!(server.post("/v1/topics/full/pause", json!({})).ok(200)["paused"], true);
    server.post("/v1/topics/full/resume", json!({})).ok(200);
    let purged = server.delete("/v1/topics/full/jobs?state=ready").ok(200);
    assert!(purged["purged"].as_u64().unwrap() > 0, "{purged}");
    // And then there is room again.
    server.put_job("full", "again", json!({"body": body}));
    assert_eq!(server.get("/readyz").status, 200);
}

#[test]
fn on_disk_there_is_room_for_more_than_memory_holds() {
    let server = Server::with(&["--memory", "1MiB"]);
    let body = |count: usize| json!(count.to_string().repeat(20_000));
    for count in 100..200 {
        server.put_job("much", &format!("j{count}"), json!({"body": body(count), "delay": "1h"}));
    }
    assert_eq!(server.topic("much")["counts"]["delayed"], 100);
    for count in 100..200 {
        assert_eq!(server.job("much", &format!("j{count}"))["body"], body(count));
    }
    server.advance("1h");
    let mut handed_out = 0;
    while let Some(job) = server.lease("much", json!({})).pop() {
        server.settle(&job, "ack", json!({})).ok(200);
        handed_out += 1;
    }
    assert_eq!(handed_out, 100);
}

#[test]
fn there_are_only_so_many_topics() {
    let server = Server::with(&["--store", "memory:"]);
    for batch in 0..10 {
        let jobs: Vec<_> = (0..10_000).map(|n| json!({"topic": format!("t{batch}.{n}"), "delay": "1h"})).collect();
        let results = server.post("/v1/jobs", json!({ "jobs": jobs })).list("results");
        assert!(results.iter().all(|result| result["status"] == 201), "{:?}", results.last());
    }
    server.put(&job_path("more", "a"), json!({})).problem(409, "limit_reached");
    server.put("/v1/topics/more/policy", json!({})).problem(409, "limit_reached");
    server.post("/v1/topics/more/pause", json!({})).problem(409, "limit_reached");
    server.put(&job_path("t0.0", "a"), json!({})).ok(201);
    server.delete("/v1/topics/t0.1").empty();
    server.put(&job_path("more", "a"), json!({})).ok(201);
}
