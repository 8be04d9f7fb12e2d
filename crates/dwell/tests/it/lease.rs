//! Leasing: what is handed out, in which order, and for how long.

use serde_json::{Value, json};

use crate::client::{ids, job_path, millis, number_of, text_of};
use crate::server::Server;

#[test]
fn a_leased_job_has_all_that_its_consumer_needs() {
    let server = Server::new();
    server.put_job("t", "a", json!({"body": {"order": 42}, "headers": {"h": "v"}, "ttr": "30s", "ttl": "1h"}));
    let before = server.now();
    let jobs = server.lease("t", json!({"consumer": "worker 1"}));
    let after = server.now();
    assert_eq!(jobs.len(), 1);
    let job = &jobs[0];
    assert_eq!((&job["state"], &job["attempt"], &job["consumer"]), (&json!("leased"), &json!(1), &json!("worker 1")));
    assert_eq!(
        (&job["body"], &job["headers"], &job["topic"]),
        (&json!({"order": 42}), &json!({"h": "v"}), &json!("t"))
    );
    let expires = millis(&job["lease_expires_at"]);
    assert!((before + 30_000..=after + 30_001).contains(&expires), "{job}");
    let token = text_of(&job["token"]);
    let url_safe = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    assert!(!token.is_empty() && token.bytes().all(url_safe), "{token}");
    let mut seen = server.job("t", "a");
    assert!(seen.get("token").is_none(), "only the holder has it: {seen}");
    seen["token"] = job["token"].clone();
    assert_eq!(&seen, job);
    assert!(server.lease("t", json!({})).is_empty(), "at most one live lease a job");
}

#[test]
fn nobody_gets_more_than_asked_for() {
    let server = Server::new();
    for n in 0..5 {
        server.put_job("t", &format!("{n}"), json!({"at": 1_000 + n}));
    }
    assert_eq!(ids(&server.lease("t", json!({}))), ["0"], "one unless told otherwise");
    assert_eq!(ids(&server.lease("t", json!({"max": 2}))), ["1", "2"]);
    assert_eq!(ids(&server.lease("t", json!({"max": 1_000, "wait": "30s"}))), ["3", "4"], "it never waits to fill max");
    assert_eq!(server.post("/v1/topics/t/lease", json!({"max": 9})).ok(200), json!({"jobs": []}));
}

#[test]
fn jobs_come_by_priority_then_due_time_then_put_order() {
    let server = Server::new();
    let put = [
        ("low-old", 2_000, 1_000),
        ("mid-late", 1_024, 3_000),
        ("mid-first", 1_024, 1_000),
        ("mid-second", 1_024, 1_000),
        ("mid-early", 1_024, 500),
        ("high", 0, 9_000),
        ("lowest", 4_294_967_295_u64, 1),
    ];
    for (id, priority, at) in put {
        server.put_job("t", id, json!({"priority": priority, "at": at}));
    }
    let expected = ["high", "mid-early", "mid-first", "mid-second", "mid-late", "low-old", "lowest"];
    assert_eq!(ids(&server.lease("t", json!({"max": 100}))), expected);
}

#[test]
fn jobs_that_become_due_together_come_in_order_too() {
    let server = Server::new();
    for (id, delay, priority) in [("c", "3h", 9), ("a", "1h", 9), ("b", "2h", 9), ("z", "4h", 1)] {
        server.put_job("t", id, json!({"delay": delay, "priority": priority}));
    }
    server.advance("5h");
    assert_eq!(ids(&server.lease("t", json!({"max": 100}))), ["z", "a", "b", "c"]);
}

#[test]
fn over_several_topics_the_best_head_wins() {
    let server = Server::new();
    for (topic, id, priority, at) in [
        ("x", "x1", 5, 3_000),
        ("x", "x2", 7, 1_000),
        ("y", "y1", 5, 2_000),
        ("y", "y2", 6, 9_000),
        ("z", "z1", 1, 9_999),
    ] {
        server.put_job(topic, id, json!({"priority": priority, "at": at}));
    }
    let lease = |request: Value| server.post("/v1/lease", request);
    assert_eq!(ids(&lease(json!({"topics": ["y", "x"], "max": 10})).list("jobs")), ["y1", "x1", "y2", "x2"]);
    assert_eq!(lease(json!({"topics": ["y", "x", "never"], "max": 10})).list("jobs"), Vec::<Value>::new());
    let last = lease(json!({"topics": ["z", "z"], "max": 10})).list("jobs");
    assert_eq!((ids(&last), &last[0]["topic"]), (vec!["z1"], &json!("z")));
    for (request, field) in [
        (json!({}), "topics"),
        (json!({"topics": []}), "topics"),
        (json!({"topics": "z"}), "topics"),
        (json!({"topics": [1]}), "topics"),
        (json!({"topics": vec!["t"; 101]}), "topics"),
        (json!({"topics": ["a b"]}), "topics[0]"),
    ] {
        lease(request).wrong(field);
    }
    lease(json!({"topics": (0..100).map(|n| format!("t{n}")).collect::<Vec<_>>()})).ok(200);
}

#[test]
fn a_topic_never_seen_is_no_error_and_stays_unseen() {
    let server = Server::new();
    assert!(server.lease("never", json!({})).is_empty());
    assert!(server.lease("never", json!({"wait": "20ms"})).is_empty());
    server.get("/v1/topics/never").problem(404, "not_found");
    assert_eq!(server.get("/v1/topics").ok(200), json!({"topics": []}));
}

#[test]
fn what_is_settled_at_once_has_no_token() {
    let server = Server::new();
    server.put_job("t", "a", json!({"body": 1}));
    server.put_job("t", "b", json!({"delay": "1h"}));
    let jobs = server.lease("t", json!({"auto_ack": true, "max": 10}));
    assert_eq!(ids(&jobs), ["a"]);
    let job = &jobs[0];
    assert_eq!((&job["state"], &job["attempt"], &job["body"]), (&json!("leased"), &json!(1), &json!(1)));
    assert!(job.get("token").is_none(), "{job}");
    server.get(&job_path("t", "a")).problem(404, "not_found");
    let topic = server.topic("t");
    assert_eq!((&topic["counts"]["leased"], &topic["totals"]["acked"]), (&json!(0), &json!(1)));
    let none = server.lease("t", json!({"auto_ack": false}));
    assert!(none.is_empty());
}

#[test]
fn a_given_ttr_holds_for_this_lease_only() {
    let server = Server::new();
    server.put_job("t", "a", json!({"ttr": "10m", "retry": {"backoff": [0]}}));
    let held = |job: &Value, now: i64| millis(&job["lease_expires_at"]) - now;
    let now = server.now();
    let job = &server.lease("t", json!({"ttr": "24h"}))[0];
    assert!((86_400_000..86_410_000).contains(&held(job, now)), "{job}");
    assert_eq!(job["ttr_ms"], 600_000, "its own is another matter");
    server.settle(job, "nack", json!({})).ok(200);
    let now = server.now();
    let job = server.lease_one("t");
    assert!((600_000..610_000).contains(&held(&job, now)), "{job}");
}

#[test]
fn a_lease_that_runs_out_is_a_failed_attempt() {
    let server = Server::new();
    server.put_job("t", "a", json!({"retry": {"attempts": 2, "backoff": ["10s"]}}));
    let first = server.lease_one("t");
    server.advance("59s");
    assert_eq!(server.job("t", "a")["state"], "leased");
    server.advance("2s");
    let job = server.job("t", "a");
    assert_eq!(
        (&job["state"], &job["attempt"], &job["last_error"]),
        (&json!("delayed"), &json!(1), &json!("lease expired"))
    );
    assert!(job.get("lease_expires_at").is_none() && job.get("consumer").is_none(), "{job}");
    // The next due time counts from the failure.
    let failed_at = millis(&first["lease_expires_at"]);
    assert!((failed_at + 10_000..failed_at + 20_000).contains(&millis(&job["due_at"])), "{job}");
    server.settle(&first, "ack", json!({})).problem(409, "lease_lost");
    server.advance("20s");
    let second = server.lease_one("t");
    assert_eq!((&second["attempt"], &second["last_error"]), (&json!(2), &json!("lease expired")));
    assert_ne!(second["token"], first["token"]);
    server.advance("2m");
    let job = server.job("t", "a");
    assert_eq!((&job["state"], &job["buried_reason"]), (&json!("buried"), &json!("attempts_exhausted")));
    assert_eq!(job["last_error"], "lease expired");
    assert_eq!(server.topic("t")["totals"]["timed_out"], 2);
}

#[test]
fn an_answer_has_eight_mebibytes_of_bodies_and_always_one_job() {
    let server = Server::with(&["--max-body", "10MiB"]);
    let body = |mebibytes: usize| "x".repeat((mebibytes << 20) - 2);
    for n in 0..5 {
        server.put_job("t", &format!("{n}"), json!({"at": 1_000 + n, "body": body(3)}));
    }
    server.put_job("large", "a", json!({"body": body(10)}));
    assert_eq!(ids(&server.lease("large", json!({"max": 10}))), ["a"]);
    let page = server.get("/v1/topics/t/jobs").ok(200);
    let listed = page["jobs"].as_array().unwrap();
    assert!((1..=2).contains(&listed.len()) && page["next_cursor"].is_string(), "{}", listed.len());
    let mut leased = Vec::new();
    loop {
        let jobs = server.lease("t", json!({"max": 10}));
        if jobs.is_empty() {
            break;
        }
        assert!(jobs.len() <= 2, "{}", jobs.len());
        leased.extend(ids(&jobs).into_iter().map(str::to_owned));
    }
    assert_eq!(leased, ["0", "1", "2", "3", "4"], "what did not fit was left for the next");
}

#[test]
fn a_lease_survives_a_crash() {
    let mut server = Server::new();
    server.put_job("t", "a", json!({}));
    let leased = server.lease("t", json!({"ttr": "1h", "consumer": "c"})).remove(0);
    server.crash_and_start();
    let job = server.job("t", "a");
    for field in ["state", "attempt", "version", "lease_expires_at", "consumer", "due_at", "number"] {
        assert_eq!(job[field], leased[field], "{field}");
    }
    assert!(server.lease("t", json!({})).is_empty());
    server.settle(&leased, "ack", json!({})).ok(200);
    server.get(&job_path("t", "a")).problem(404, "not_found");
    assert!(number_of(&server.put_job("t", "a", json!({}))["version"]) > number_of(&leased["version"]));
}
