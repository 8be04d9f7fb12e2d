//! Many jobs at once: each item is judged on its own.

use serde_json::{Value, json};

use crate::client::{ids, job_path, millis};
use crate::server::Server;

#[track_caller]
fn status_and_code(result: &Value) -> (u64, &str) {
    (result["status"].as_u64().unwrap(), result["code"].as_str().unwrap_or(""))
}

#[test]
fn a_batch_answers_each_item_in_order() {
    let server = Server::new();
    let long = "x".repeat(1 << 20);
    let jobs = json!([
        {"topic": "t", "id": "a", "delay": "1h", "body": 1},
        {"topic": "t", "id": "a", "body": 2},
        {"topic": "t", "id": "a", "body": 3, "if_exists": "keep"},
        {"topic": "t", "id": "a", "body": 4, "if_exists": "replace"},
        {"topic": "u"},
        {"topic": "t", "delay": "soon"},
        {"topic": "t", "dealy": "1h"},
        {"topic": "no good"},
        {"id": "without topic"},
        {"topic": "t", "body": long},
        {"topic": "t", "delay": 1, "at": 1},
        {"topic": "t", "retry": {"backoff": {"intial": 1}}},
        1,
        null,
        [],
        "text",
        {},
        {"topic": "t", "id": "last"},
    ]);
    let results = server.post("/v1/jobs", json!({ "jobs": jobs })).list("results");
    let said: Vec<_> = results.iter().map(status_and_code).collect();
    let wrong = (400, "invalid_request");
    let expected = [
        (201, ""),
        (409, "job_exists"),
        (200, ""),
        (200, ""),
        (201, ""),
        wrong,
        wrong,
        wrong,
        wrong,
        (413, "too_large"),
        wrong,
        wrong,
        wrong,
        wrong,
        wrong,
        wrong,
        wrong,
        (201, ""),
    ];
    assert_eq!(said, expected);
    let outcomes: Vec<_> = [0, 2, 3, 4, 17].iter().map(|&index: &usize| results[index]["outcome"].clone()).collect();
    assert_eq!(outcomes, ["created", "kept", "replaced", "created", "created"]);
    for (index, field) in
        [(5, "delay"), (6, "dealy"), (7, "topic"), (8, "topic"), (10, "at"), (11, "retry.backoff.intial")]
    {
        assert_eq!(results[index]["errors"][0]["field"], field, "{}", results[index]);
    }
    for result in &results {
        if result.get("code").is_some() {
            assert!(result["detail"].is_string() && result.get("outcome").is_none(), "{result}");
        } else {
            assert!(result["version"].is_u64() && result.get("detail").is_none(), "{result}");
            millis(&result["due_at"]);
        }
    }
    assert_eq!((&results[4]["topic"], results[4]["id"].as_str().unwrap().len()), (&json!("u"), 36));
    let job = server.job("t", "a");
    assert_eq!(
        (&job["body"], &job["version"], &job["due_at"]),
        (&json!(4), &results[3]["version"], &results[3]["due_at"])
    );
}

#[test]
fn malformed_json_refuses_the_whole_batch() {
    let server = Server::new();
    let good = r#"{"topic": "t", "id": "a"}"#;
    for text in [
        format!("{{\"jobs\": [{good}, ]}}"),
        format!("{{\"jobs\": [{good}"),
        format!("{{\"jobs\": [{good}]"),
        format!("{{\"jobs\": [{good}]}} x"),
        format!("{{\"jobs\": [{good}, {{\"topic\": }}]}}"),
        format!("{{\"jobs\": {good}}}"),
        format!("{{\"jobs\": [{good}], \"jobs\": [{good}]}}"),
        format!("[{good}]"),
        "{\"jobs\": null}".to_owned(),
        "{\"jobs\": 1}".to_owned(),
        "{}".to_owned(),
        String::new(),
    ] {
        let answer = server.text("POST", "/v1/jobs", &text);
        assert_eq!(answer.status, 400, "{text}: {}", answer.body());
        answer.problem(400, "invalid_request");
    }
    server.get("/v1/topics/t").problem(404, "not_found");
    assert_eq!(server.post("/v1/jobs", json!({"jobs": []})).ok(200), json!({"results": []}));
}

#[test]
fn an_item_may_be_nested_too_deeply_by_itself() {
    let server = Server::new();
    let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let text = format!(
        "{{\"jobs\": [{{\"topic\": \"t\", \"id\": \"a\", \"body\": {}}}, {{\"topic\": \"t\", \"id\": \"b\", \"body\": {}}}]}}",
        deep(200),
        deep(100)
    );
    let results = server.text("POST", "/v1/jobs", &text).list("results");
    assert_eq!(results.iter().map(status_and_code).collect::<Vec<_>>(), [(400, "invalid_request"), (201, "")]);
}

#[test]
fn a_batch_keeps_its_order_among_equals() {
    let server = Server::new();
    let jobs: Vec<_> = (0..300).map(|n| json!({"topic": "t", "id": format!("{n:03}"), "at": 1_000})).collect();
    server.post("/v1/jobs", json!({ "jobs": jobs })).ok(200);
    let leased = server.lease("t", json!({"max": 1_000}));
    assert_eq!(leased.len(), 300);
    assert!(ids(&leased).is_sorted(), "{:?}", ids(&leased));
}

#[test]
fn many_jobs_are_cancelled_each_with_its_status() {
    let server = Server::new();
    for id in ["delayed", "ready", "leased", "buried"] {
        server.put_job("t", id, json!({"delay": "1h"}));
    }
    for id in ["leased", "buried"] {
        server.patch(&job_path("t", id), json!({"delay": 0})).ok(200);
        let leased = server.lease_one("t");
        if id == "buried" {
            server.settle(&leased, "bury", json!({})).ok(200);
        }
    }
    server.patch(&job_path("t", "ready"), json!({"delay": 0})).ok(200);
    let name = |id: &str| json!({"topic": "t", "id": id});
    let jobs = json!([
        name("delayed"), name("ready"), name("leased"), name("buried"), name("none"), name("delayed"),
        {"topic": "never", "id": "a"}, {"topic": "t"}, {"id": "a"}, {"topic": "no good", "id": "a"},
        {"topic": "t", "id": "a", "force": true}, "a", null,
    ]);
    let results = server.post("/v1/cancel", json!({ "jobs": jobs })).list("results");
    let (wrong, gone) = ((400, "invalid_request"), (404, "not_found"));
    let expected = [
        (204, ""),
        (204, ""),
        (409, "job_leased"),
        (204, ""),
        gone,
        gone,
        gone,
        wrong,
        wrong,
        wrong,
        wrong,
        wrong,
        wrong,
    ];
    assert_eq!(results.iter().map(status_and_code).collect::<Vec<_>>(), expected);
    assert_eq!(server.topic("t")["counts"], json!({"delayed": 0, "ready": 0, "leased": 1, "buried": 0}));
    server.get("/v1/topics/never").problem(404, "not_found");
}
