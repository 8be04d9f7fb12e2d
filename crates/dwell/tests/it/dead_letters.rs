//! Dead letters: bringing them back; and purging jobs of any state.

use serde_json::{Value, json};

use crate::client::{ids, job_path, millis};
use crate::server::Server;

/// Buries jobs, each for its reason, in this order, apart in time.
fn bury(server: &Server, jobs: &[(&str, &str)]) {
    for (id, reason) in jobs {
        server.put_job("t", id, json!({"retry": {"attempts": 5}}));
        let job = server.lease_one("t");
        server.settle(&job, "bury", json!({ "reason": reason })).ok(200);
        server.advance("1s");
    }
}

fn redrive(server: &Server, request: Value) -> (u64, u64) {
    let done = server.post("/v1/topics/t/redrive", request).ok(200);
    (done["redriven"].as_u64().unwrap(), done["remaining"].as_u64().unwrap())
}

#[test]
fn dead_letters_come_back_with_fresh_attempts() {
    let server = Server::new();
    server.put_job("t", "a", json!({"retry": {"attempts": 1}, "body": 7}));
    let job = server.lease_one("t");
    server.settle(&job, "nack", json!({"error": "no"})).ok(200);
    assert_eq!(redrive(&server, json!({})), (1, 0));
    let back = server.job("t", "a");
    assert_eq!((&back["state"], &back["attempt"], &back["body"]), (&json!("ready"), &json!(0), &json!(7)));
    assert!(back.get("buried_at").is_none() && back.get("buried_reason").is_none(), "{back}");
    assert_eq!(server.topic("t")["totals"]["redriven"], 1);
    assert_eq!(server.lease_one("t")["attempt"], 1);
    assert_eq!(redrive(&server, json!({})), (0, 0));
}

#[test]
fn the_oldest_come_first_and_only_so_many() {
    let server = Server::new();
    bury(&server, &[("c", "x"), ("a", "x"), ("b", "x")]);
    assert_eq!(redrive(&server, json!({"max": 2})), (2, 1));
    let mut back = server.lease("t", json!({"max": 9}));
    back.sort_by_key(|job| job["id"].to_string());
    assert_eq!(ids(&back), ["a", "c"], "in the order in which they were buried");
    assert_eq!(redrive(&server, json!({"max": 10_000})), (1, 0));
}

#[test]
fn dead_letters_are_chosen_by_id_and_reason() {
    let server = Server::new();
    bury(&server, &[("a", "x"), ("b", "y"), ("c", "x"), ("d", "y")]);
    server.put_job("t", "alive", json!({"delay": "1h"}));
    assert_eq!(redrive(&server, json!({"reason": "z"})), (0, 0));
    assert_eq!(redrive(&server, json!({"ids": ["nobody", "alive"]})), (0, 0));
    assert_eq!(redrive(&server, json!({"ids": []})), (0, 0));
    assert_eq!(redrive(&server, json!({"ids": ["a", "b", "a"], "reason": "y"})), (1, 0));
    assert_eq!(server.job("t", "b")["state"], "ready");
    assert_eq!(redrive(&server, json!({"reason": "x", "max": 1})), (1, 1), "those that were meant remain");
    assert_eq!(server.job("t", "a")["state"], "ready");
    assert_eq!(redrive(&server, json!({"ids": ["c", "d"]})), (2, 0));
    assert_eq!(server.job("t", "alive")["state"], "delayed");
}

#[test]
fn a_rate_spreads_them() {
    let server = Server::new();
    bury(&server, &[("a", "x"), ("b", "x"), ("c", "x"), ("d", "x")]);
    let before = server.now();
    assert_eq!(redrive(&server, json!({"delay": "1h", "rate": 0.5})), (4, 0));
    let after = server.now();
    let due = |id: &str| millis(&server.job("t", id)["due_at"]);
    let first = due("a");
    assert!((before + 3_600_000..=after + 3_600_001).contains(&first), "{first}");
    for (k, id) in (0..).zip(["a", "b", "c", "d"]) {
        assert!((due(id) - first - k * 2_000).abs() <= 1, "job {k} is due k/rate later: {}", due(id) - first);
    }
    assert_eq!(server.topic("t")["counts"]["delayed"], 4);
}

#[test]
fn a_thousand_come_back_unless_told_otherwise() {
    let server = Server::with(&["--store", "memory:"]);
    server.post("/v1/jobs", json!({"jobs": vec![json!({"topic": "t", "retry": {"attempts": 1}}); 1_500]})).ok(200);
    for _ in 0..2 {
        let jobs = server.lease("t", json!({"max": 1_000}));
        let items: Vec<_> = jobs.iter().map(|job| json!({"token": job["token"], "verb": "bury"})).collect();
        server.post("/v1/settle", json!({ "items": items })).ok(200);
    }
    assert_eq!(redrive(&server, json!({"delay": "1h"})), (1_000, 500));
    assert_eq!(redrive(&server, json!({})), (500, 0));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let server = Server::new();
    bury(&server, &[("a", "x")]);
    for (request, field) in [
        (json!({"max": 0}), "max"),
        (json!({"max": 10_001}), "max"),
        (json!({"rate": 0}), "rate"),
        (json!({"rate": -1}), "rate"),
        (json!({"rate": "fast"}), "rate"),
        (json!({"delay": "4000d"}), "delay"),
        (json!({"ids": "a"}), "ids"),
        (json!({"ids": [1]}), "ids"),
        (json!({"reason": ""}), "reason"),
        (json!({"reason": 1}), "reason"),
    ] {
        server.post("/v1/topics/t/redrive", request).wrong(field);
    }
    assert_eq!(server.job("t", "a")["state"], "buried");
}

#[test]
fn jobs_are_purged_by_state() {
    let server = Server::new();
    for id in ["leased", "buried"] {
        server.put_job("t", id, json!({"at": 1_000}));
    }
    let jobs = server.lease("t", json!({"max": 2}));
    server.settle(&jobs[1], "bury", json!({})).ok(200);
    server.post("/v1/jobs", json!({"jobs": vec![json!({"topic": "t"}); 3]})).ok(200);
    server.post("/v1/jobs", json!({"jobs": vec![json!({"topic": "t", "delay": "1h"}); 4]})).ok(200);
    let purge = |query: &str| server.delete(&format!("/v1/topics/t/jobs{query}"));
    for query in ["", "?state=", "?state=all", "?force=true", "?state=ready&state=buried"] {
        purge(query).wrong("state");
    }
    purge("?state=leased").wrong("force");
    purge("?state=leased&force=false").wrong("force");
    assert_eq!(server.topic("t")["counts"], json!({"delayed": 4, "ready": 3, "leased": 1, "buried": 1}));
    for (query, count) in [
        ("?state=ready", 3),
        ("?state=delayed", 4),
        ("?state=buried", 1),
        ("?state=leased&force=true", 1),
        ("?state=ready", 0),
    ] {
        assert_eq!(purge(query).ok(200), json!({"purged": count}), "{query}");
    }
    assert_eq!(server.topic("t")["counts"], json!({"delayed": 0, "ready": 0, "leased": 0, "buried": 0}));
    assert_eq!(server.topic("t")["totals"]["purged"], 9);
    server.settle(&jobs[0], "ack", json!({})).problem(409, "lease_lost");
    server.get(&job_path("t", "leased")).problem(404, "not_found");
    server.advance("2h");
    assert!(server.lease("t", json!({})).is_empty());
}
