//! Pages of a topic's jobs.

use serde_json::{Value, json};

use crate::client::{ids, job_path, text_of};
use crate::server::Server;

/// Jobs in all four states, with due times out of order.
fn fill(server: &Server) {
    let due = [("l2", 4), ("l1", 3), ("b1", 5), ("b2", 6), ("r3", 13), ("r1", 11), ("r2", 12)];
    for (id, at) in due {
        server.put_job("t", id, json!({"at": at * 1_000, "body": id}));
    }
    let jobs = server.lease("t", json!({"max": 4, "ttr": "10h"}));
    assert_eq!(ids(&jobs), ["l1", "l2", "b1", "b2"]);
    for job in &jobs[2..] {
        server.settle(job, "bury", json!({})).ok(200);
    }
    for (id, delay) in [("d3", "3h"), ("d1", "1h"), ("d2", "2h")] {
        server.put_job("t", id, json!({"delay": delay, "body": id}));
    }
}

/// All jobs of a list, page by page.
fn walk(server: &Server, query: &str, limit: usize) -> Vec<Value> {
    let (mut jobs, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let after = cursor.map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
        let page = server.get(&format!("/v1/topics/t/jobs?limit={limit}{query}{after}")).ok(200);
        let found = page["jobs"].as_array().unwrap();
        assert!(found.len() <= limit);
        jobs.extend(found.iter().cloned());
        match page.get("next_cursor") {
            Some(next) => cursor = Some(text_of(next).to_owned()),
            None => return jobs,
        }
    }
}

#[test]
fn jobs_are_listed_by_state_and_due_time() {
    let server = Server::new();
    fill(&server);
    let expected = [
        ("", vec!["r1", "r2", "r3", "d1", "d2", "d3", "l1", "l2", "b1", "b2"]),
        ("&state=delayed", vec!["d1", "d2", "d3"]),
        ("&state=ready", vec!["r1", "r2", "r3"]),
        ("&state=leased", vec!["l1", "l2"]),
        ("&state=buried", vec!["b1", "b2"]),
    ];
    for (query, expected) in expected {
        for limit in [1, 2, 3, 4, 100, 1_000] {
            let jobs = walk(&server, query, limit);
            assert_eq!(ids(&jobs), expected, "{query} by {limit}");
            for job in jobs {
                assert_eq!(job, server.job("t", text_of(&job["id"])), "a list shows what a read shows");
            }
        }
    }
}

#[test]
fn cursors_survive_restarts() {
    let mut server = Server::new();
    fill(&server);
    for query in ["", "&state=delayed", "&state=leased", "&state=buried", "&state=ready"] {
        let whole = walk(&server, query, 1_000);
        let first = server.get(&format!("/v1/topics/t/jobs?limit=1{query}")).ok(200);
        let cursor = text_of(&first["next_cursor"]).to_owned();
        server.crash_and_start();
        let rest = server.get(&format!("/v1/topics/t/jobs?limit=1000{query}&cursor={cursor}")).ok(200);
        assert_eq!(ids(rest["jobs"].as_array().unwrap()), ids(&whole)[1..], "{query}");
    }
}

#[test]
fn a_job_that_does_not_change_is_seen_exactly_once() {
    let server = Server::with(&["--store", "memory:"]);
    // Many of one due time, so that a page ends among equals.
    let jobs: Vec<_> =
        (0..500).map(|n| json!({"topic": "t", "id": format!("stays{n}"), "at": 1_900_000_000_000_i64})).collect();
    server.post("/v1/jobs", json!({ "jobs": jobs })).ok(200);
    let mut seen = Vec::new();
    let mut cursor = String::new();
    for round in 0.. {
        let page = server.get(&format!("/v1/topics/t/jobs?limit=37{cursor}")).ok(200);
        let found = page["jobs"].as_array().unwrap();
        seen.extend(ids(found).into_iter().filter(|id| id.starts_with("stays")).map(str::to_owned));
        // Others come and go meanwhile, before and after the page.
        server.put_job("t", &format!("early{round}"), json!({"delay": "1h"}));
        server.put_job("t", &format!("late{round}"), json!({"at": 1_900_000_000_001_i64}));
        if round % 2 == 1 {
            server.delete(&job_path("t", &format!("early{}", round - 1))).empty();
        }
        match page.get("next_cursor") {
            Some(next) => cursor = format!("&cursor={}", text_of(next)),
            None => break,
        }
    }
    let count = seen.len();
    seen.sort();
    seen.dedup();
    assert_eq!((count, seen.len()), (500, 500));
}

#[test]
fn a_page_has_a_hundred_jobs_unless_told_otherwise() {
    let server = Server::with(&["--store", "memory:"]);
    server.post("/v1/jobs", json!({"jobs": vec![json!({"topic": "t"}); 1_001]})).ok(200);
    assert_eq!(server.get("/v1/topics/t/jobs").list("jobs").len(), 100);
    assert_eq!(server.get("/v1/topics/t/jobs?limit=1000").list("jobs").len(), 1_000);
    assert_eq!(walk(&server, "", 1_000).len(), 1_001);
}

#[test]
fn what_is_no_page_is_refused() {
    let server = Server::new();
    fill(&server);
    let cursor = text_of(&server.get("/v1/topics/t/jobs?state=delayed&limit=1").ok(200)["next_cursor"]).to_owned();
    for (query, field) in [
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("limit=1e2", "limit"),
        ("limit=%2B5", "limit"),
        ("limit=99999999999999999999", "limit"),
        ("state=done", "state"),
        ("state=Ready", "state"),
        ("state=", "state"),
        ("state=ready,delayed", "state"),
        ("cursor=", "cursor"),
        ("cursor=nonsense", "cursor"),
        (&*format!("state=buried&cursor={cursor}"), "cursor"),
    ] {
        server.get(&format!("/v1/topics/t/jobs?{query}")).wrong(field);
    }
}
