//! Topics: what they look like, pages of them, pausing and deleting.

use serde_json::{Value, json};

use crate::client::{ids, job_path, millis, text_of};
use crate::server::Server;

#[test]
fn a_topic_shows_counts_totals_and_times() {
    let server = Server::new();
    for (id, at) in [("late", "2031-01-02T00:00:00Z"), ("soon", "2031-01-01T00:00:00Z")] {
        server.put_job("t", id, json!({ "at": at }));
    }
    for (id, at) in [("old", 2_000), ("older", 1_000)] {
        server.put_job("t", id, json!({ "at": at }));
    }
    let topic = server.topic("t");
    assert_eq!(topic["name"], "t");
    assert_eq!(topic["counts"], json!({"delayed": 2, "ready": 2, "leased": 0, "buried": 0}));
    assert_eq!(topic["next_due_at"], "2031-01-01T00:00:00.000Z");
    assert_eq!(topic["oldest_ready_at"], "1970-01-01T00:00:01.000Z");
    assert_eq!((&topic["policy"], &topic["paused"]), (&json!({}), &json!(false)));
    assert!(topic.get("paused_until").is_none(), "{topic}");
    assert_eq!((&topic["totals"]["put"], &topic["totals"]["acked"]), (&json!(4), &json!(0)));
    let jobs = server.lease("t", json!({"max": 2}));
    server.settle(&jobs[0], "bury", json!({})).ok(200);
    server.delete(&job_path("t", "late")).empty();
    let topic = server.topic("t");
    assert_eq!(topic["counts"], json!({"delayed": 1, "ready": 0, "leased": 1, "buried": 1}));
    assert!(topic.get("oldest_ready_at").is_none(), "nothing is ready: {topic}");
    assert_eq!(
        (&topic["totals"]["leased"], &topic["totals"]["buried"], &topic["totals"]["cancelled"]),
        (&json!(2), &json!(1), &json!(1))
    );
    server.delete(&job_path("t", "soon")).empty();
    assert!(server.topic("t").get("next_due_at").is_none());
}

#[test]
fn an_unknown_topic_is_not_found() {
    let server = Server::new();
    for path in
        ["/v1/topics/never", "/v1/topics/never/jobs", "/v1/topics/never/jobs?state=ready", "/v1/topics/never/timeline"]
    {
        server.get(path).problem(404, "not_found");
    }
    server.post("/v1/topics/never/resume", json!({})).problem(404, "not_found");
    server.post("/v1/topics/never/redrive", json!({})).problem(404, "not_found");
    server.delete("/v1/topics/never").problem(404, "not_found");
    server.delete("/v1/topics/never/jobs?state=ready").problem(404, "not_found");
    // A first job, policy or pause makes one.
    server.put_job("job", "a", json!({}));
    server.put("/v1/topics/policy/policy", json!({})).ok(200);
    server.post("/v1/topics/pause/pause", json!({})).ok(200);
    let topics = server.get("/v1/topics").list("topics");
    assert_eq!(topics.iter().map(|topic| text_of(&topic["name"])).collect::<Vec<_>>(), ["job", "pause", "policy"]);
    // And it stays when its last job goes.
    server.delete(&job_path("job", "a")).empty();
    assert_eq!(server.topic("job")["counts"]["ready"], 0);
    assert_eq!(server.get("/v1/topics/job/jobs").ok(200), json!({"jobs": []}));
}

/// All names of a list of topics, page by page.
fn names(server: &Server, query: &str, limit: usize) -> Vec<String> {
    let (mut names, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let after = cursor.map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
        let page = server.get(&format!("/v1/topics?limit={limit}{query}{after}")).ok(200);
        let topics = page["topics"].as_array().unwrap();
        assert!(topics.len() <= limit, "{}", topics.len());
        names.extend(topics.iter().map(|topic| text_of(&topic["name"]).to_owned()));
        match page.get("next_cursor") {
            Some(next) => cursor = Some(text_of(next).to_owned()),
            None => return names,
        }
    }
}

#[test]
fn topics_are_listed_by_name_and_prefix() {
    let mut server = Server::new();
    let all: Vec<_> = ["a", "a.b", "a.c", "b", "b/x", "z"].map(str::to_owned).into();
    let jobs: Vec<_> = all.iter().rev().map(|topic| json!({"topic": topic, "delay": "1h"})).collect();
    server.post("/v1/jobs", json!({ "jobs": jobs })).ok(200);
    for limit in [1, 2, 3, 6, 7, 1_000] {
        assert_eq!(names(&server, "", limit), all, "{limit}");
    }
    for (query, expected) in [
        ("&prefix=a", vec!["a", "a.b", "a.c"]),
        ("&prefix=a.", vec!["a.b", "a.c"]),
        ("&prefix=b%2F", vec!["b/x"]),
        ("&prefix=A", vec![]),
        ("&prefix=", vec!["a", "a.b", "a.c", "b", "b/x", "z"]),
    ] {
        for limit in [1, 2, 100] {
            assert_eq!(names(&server, query, limit), expected, "{query}");
        }
    }
    let cursor = text_of(&server.get("/v1/topics?limit=2").ok(200)["next_cursor"]).to_owned();
    server.crash_and_start();
    let page = server.get(&format!("/v1/topics?limit=2&cursor={cursor}")).list("topics");
    assert_eq!(page.iter().map(|topic| text_of(&topic["name"])).collect::<Vec<_>>(), ["a.c", "b"]);
    for (query, field) in [
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("limit=-1", "limit"),
        ("limit=x", "limit"),
        ("limit=", "limit"),
        ("cursor=no%20cursor", "cursor"),
    ] {
        server.get(&format!("/v1/topics?{query}")).wrong(field);
    }
}

#[test]
fn a_page_of_topics_has_a_hundred_unless_told_otherwise() {
    let server = Server::with(&["--store", "memory:"]);
    let jobs: Vec<_> = (0..1_100).map(|n| json!({"topic": format!("t{n:04}")})).collect();
    server.post("/v1/jobs", json!({ "jobs": jobs })).ok(200);
    assert_eq!(server.get("/v1/topics").list("topics").len(), 100);
    assert_eq!(server.get("/v1/topics?limit=1000").list("topics").len(), 1_000);
    assert_eq!(names(&server, "", 999).len(), 1_100);
}

#[test]
fn a_paused_topic_hands_nothing_out_and_does_all_else() {
    let mut server = Server::new();
    server.put_job("t", "held", json!({}));
    let held = server.lease_one("t");
    let paused = server.post("/v1/topics/t/pause", json!({})).ok(200);
    assert_eq!((&paused["name"], &paused["paused"]), (&json!("t"), &json!(true)));
    assert!(paused.get("paused_until").is_none(), "{paused}");
    server.put_job("t", "ready", json!({}));
    server.put_job("t", "due", json!({"delay": "10m"}));
    server.advance("11m");
    assert_eq!(server.job("t", "due")["state"], "ready", "due jobs become ready");
    for request in [json!({"max": 10}), json!({"auto_ack": true})] {
        assert!(server.lease("t", request).is_empty());
    }
    assert!(server.post("/v1/lease", json!({"topics": ["t"]})).list("jobs").is_empty());
    server.settle(&held, "ack", json!({})).problem(409, "lease_lost");
    server.crash_and_start();
    assert_eq!(server.topic("t")["paused"], true, "a pause is kept");
    let resumed = server.post("/v1/topics/t/resume", json!({})).ok(200);
    assert_eq!(resumed["paused"], false);
    assert_eq!(ids(&server.lease("t", json!({"max": 1}))), ["ready"]);
    server.post("/v1/topics/t/resume", json!({})).ok(200);
}

#[test]
fn held_leases_of_a_paused_topic_settle() {
    let server = Server::new();
    for verb in ["ack", "nack", "release", "bury", "extend"] {
        server.put_job(verb, "a", json!({}));
        let held = server.lease_one(verb);
        server.post(&format!("/v1/topics/{verb}/pause"), json!({})).ok(200);
        server.settle(&held, verb, json!({})).ok(200);
    }
}

#[test]
fn a_pause_is_said_anew() {
    let server = Server::new();
    let pause = |request: Value| server.post("/v1/topics/t/pause", request);
    let first = pause(json!({"for": "1h"})).ok(200);
    let second = pause(json!({"for": "10s"})).ok(200);
    assert!(millis(&second["paused_until"]) < millis(&first["paused_until"]), "the last word holds");
    assert!(pause(json!({})).ok(200).get("paused_until").is_none());
    server.advance("2h");
    assert_eq!(server.topic("t")["paused"], true);
    for wrong in [json!({"for": "soon"}), json!({"for": -1}), json!({"for": "3651d"}), json!({"for": null})] {
        pause(wrong).wrong("for");
    }
}

#[test]
fn a_deleted_topic_is_gone_with_all_it_had() {
    let mut server = Server::new();
    server.put("/v1/topics/t/policy", json!({"ttr": "2m", "keep_done": "1h"})).ok(200);
    for id in ["done", "leased", "buried", "ready", "delayed"] {
        server.put_job("t", id, json!({"at": 1_000}));
    }
    server.patch(&job_path("t", "delayed"), json!({"delay": "1h"})).ok(200);
    let jobs = server.lease("t", json!({"max": 3}));
    server.settle(&jobs[0], "ack", json!({})).ok(200);
    server.settle(&jobs[2], "bury", json!({})).ok(200);
    server.post("/v1/topics/t/pause", json!({})).ok(200);
    server.put_job("other", "a", json!({}));
    server.delete("/v1/topics/t").empty();
    let gone = |server: &Server| {
        server.get("/v1/topics/t").problem(404, "not_found");
        for id in ["done", "leased", "buried", "ready", "delayed"] {
            server.get(&job_path("t", id)).problem(404, "not_found");
        }
    };
    gone(&server);
    server.settle(&jobs[1], "ack", json!({})).problem(409, "lease_lost");
    server.delete("/v1/topics/t").problem(404, "not_found");
    server.crash_and_start();
    gone(&server);
    assert_eq!(server.job("other", "a")["state"], "ready");
    server.put_job("t", "new", json!({}));
    let topic = server.topic("t");
    assert_eq!((&topic["policy"], &topic["paused"], &topic["totals"]["put"]), (&json!({}), &json!(false), &json!(1)));
    assert_eq!(ids(&server.lease("t", json!({"max": 9}))), ["new"]);
}
