//! Putting, creating, reading and cancelling one job.

use serde_json::{Value, json};

use crate::client::{Answer, job_path, millis, number_of, text_of};
use crate::server::Server;

/// Brings a job of this topic into a state; answers its version.
fn bring(server: &Server, topic: &str, state: &str) -> u64 {
    let put = server.put_job(topic, "a", json!({"delay": "1h", "body": "old"}));
    match state {
        "none" => {
            server.delete(&job_path(topic, "a")).empty();
            return 0;
        }
        "delayed" => return number_of(&put["version"]),
        _ => {}
    }
    server.patch(&job_path(topic, "a"), json!({"delay": 0})).ok(200);
    if state == "leased" {
        server.lease_one(topic);
    }
    if state == "buried" {
        let leased = server.lease_one(topic);
        server.settle(&leased, "bury", json!({"reason": "broken"})).ok(200);
    }
    let job = server.job(topic, "a");
    assert_eq!(job["state"], state);
    number_of(&job["version"])
}

/// What a put that meets a job of this state answers: status, and outcome or code.
const MET: &[(&str, &str, u16, &str)] = &[
    ("none", "replace", 201, "created"),
    ("none", "keep", 201, "created"),
    ("none", "reject", 201, "created"),
    ("delayed", "replace", 200, "replaced"),
    ("delayed", "keep", 200, "kept"),
    ("delayed", "reject", 409, "job_exists"),
    ("ready", "replace", 200, "replaced"),
    ("ready", "keep", 200, "kept"),
    ("ready", "reject", 409, "job_exists"),
    ("leased", "replace", 409, "job_leased"),
    ("leased", "keep", 200, "kept"),
    ("leased", "reject", 409, "job_exists"),
    ("buried", "replace", 200, "replaced"),
    ("buried", "keep", 200, "kept"),
    ("buried", "reject", 409, "job_exists"),
];

#[track_caller]
fn check_met(server: &Server, topic: &str, before: &Value, answer: &Answer, expected: (u16, &str)) {
    let (status, word) = expected;
    if status == 409 {
        answer.problem(409, word);
        assert_eq!(&server.job(topic, "a"), before, "nothing happened");
        return;
    }
    let job = answer.ok(status);
    assert_eq!(job["outcome"], word, "{job}");
    assert!(job.get("body").is_none() && job.get("headers").is_none(), "{job}");
    assert_eq!(answer.header("etag"), Some(&*format!("\"{}\"", job["version"])));
    let after = server.job(topic, "a");
    if word == "kept" {
        assert_eq!(&after, before, "it stays as it was");
        assert_eq!((&job["state"], &job["version"]), (&before["state"], &before["version"]), "{job}");
        return;
    }
    assert_eq!((&after["body"], &after["state"], &after["attempt"]), (&json!("new"), &json!("delayed"), &json!(0)));
    assert!(after.get("buried_at").is_none() && after.get("last_error").is_none(), "it starts afresh: {after}");
    assert!(before.is_null() || number_of(&after["version"]) > number_of(&before["version"]));
}

#[test]
fn a_put_meets_jobs_of_every_state() {
    let server = Server::new();
    for (index, (state, if_exists, status, word)) in MET.iter().enumerate() {
        let request = |topic: &str| {
            bring(&server, topic, state);
            let before = if *state == "none" { Value::Null } else { server.job(topic, "a") };
            (before, json!({"delay": "2h", "body": "new", "if_exists": if_exists}))
        };
        let topic = format!("put{index}");
        let (before, put) = request(&topic);
        check_met(&server, &topic, &before, &server.put(&job_path(&topic, "a"), put), (*status, word));
        let topic = format!("post{index}");
        let (before, mut put) = request(&topic);
        put["id"] = json!("a");
        let answer = server.post(&format!("/v1/topics/{topic}/jobs"), put);
        check_met(&server, &topic, &before, &answer, (*status, word));
        // The same in a batch.
        let topic = format!("batch{index}");
        let (_, mut put) = request(&topic);
        put["id"] = json!("a");
        put["topic"] = json!(topic);
        let result = &server.post("/v1/jobs", json!({"jobs": [put]})).list("results")[0];
        let said = if *status == 409 { &result["code"] } else { &result["outcome"] };
        assert_eq!((&result["status"], said), (&json!(status), &json!(word)), "{state} {if_exists}");
    }
}

#[test]
fn a_put_replaces_unless_told_otherwise_and_a_create_rejects() {
    let server = Server::new();
    assert_eq!(server.put_job("t", "a", json!({}))["outcome"], "created");
    assert_eq!(server.put_job("t", "a", json!({}))["outcome"], "replaced");
    server.post("/v1/topics/t/jobs", json!({"id": "a"})).problem(409, "job_exists");
    let results = server.post("/v1/jobs", json!({"jobs": [{"topic": "t", "id": "a"}]})).list("results");
    assert_eq!((&results[0]["status"], &results[0]["code"]), (&json!(409), &json!("job_exists")));
}

#[test]
fn a_replacement_is_a_new_job_in_everything() {
    let server = Server::new();
    let full = json!({
        "delay": "1h", "body": {"a": 1}, "headers": {"h": "v"}, "priority": 5, "ttr": "5m", "ttl": "1d",
        "retry": {"attempts": 2},
    });
    let first = server.put_job("t", "a", full);
    assert_eq!(
        (&first["priority"], &first["ttr_ms"], &first["retry"]["attempts"]),
        (&json!(5), &json!(300_000), &json!(2))
    );
    assert_eq!(millis(&first["expires_at"]) - millis(&first["due_at"]), 86_400_000);
    server.put_job("t", "a", json!({"delay": "2h"}));
    let second = server.job("t", "a");
    assert_eq!(
        (&second["priority"], &second["ttr_ms"], &second["retry"]["attempts"]),
        (&json!(1024), &json!(60_000), &json!(20))
    );
    for gone in ["headers", "expires_at"] {
        assert!(second.get(gone).is_none(), "{second}");
    }
    assert_eq!(second["body"], json!(null));
    assert!(millis(&second["due_at"]) - millis(&first["due_at"]) >= 3_600_000, "{second}");
}

#[test]
fn force_takes_a_job_from_its_holder() {
    let server = Server::new();
    for method in ["PUT", "PATCH", "DELETE"] {
        server.put_job("t", "a", json!({}));
        let leased = server.lease_one("t");
        let path = job_path("t", "a");
        let send = |path: &str| match method {
            "DELETE" => server.delete(path),
            _ => server.text(method, path, "{\"delay\": 0}"),
        };
        let problem = send(&path).problem(409, "job_leased");
        assert!(text_of(&problem["detail"]).contains("force=true"), "{problem}");
        send(&format!("{path}?force=false")).problem(409, "job_leased");
        let forced = send(&format!("{path}?force=true"));
        server.settle(&leased, "ack", json!({})).problem(409, "lease_lost");
        match method {
            "DELETE" => forced.empty(),
            // A job that was replaced is another; one that was changed has been tried.
            "PUT" => assert_eq!(server.lease_one("t")["attempt"], 1),
            _ => {
                assert_eq!((&forced.ok(200)["attempt"], &forced.json()["state"]), (&json!(1), &json!("ready")));
                assert_eq!(server.lease_one("t")["attempt"], 2);
            }
        }
        server.delete(&format!("{path}?force=true"));
    }
}

#[test]
fn if_match_is_judged_before_everything_else() {
    let server = Server::new();
    for state in ["delayed", "ready", "leased", "buried"] {
        let version = bring(&server, state, state);
        let path = job_path(state, "a");
        for other in [version + 1, version - 1, 1_000_000] {
            for tag in [format!("\"{other}\""), format!("{other}")] {
                for (method, query) in
                    [("PUT", ""), ("PATCH", ""), ("DELETE", ""), ("PUT", "?force=true"), ("DELETE", "?force=true")]
                {
                    let headers = [("if-match", &*tag), ("content-type", "application/json")];
                    let body = (method != "DELETE").then_some(&b"{}"[..]);
                    let answer = server.send(method, &format!("{path}{query}"), &headers, body);
                    answer.problem(412, "version_mismatch");
                }
            }
        }
        let tag = format!("\"{version}\"");
        let headers = [("if-match", &*tag), ("content-type", "application/json")];
        if state == "leased" {
            server.send("PUT", &path, &headers, Some(b"{}")).problem(409, "job_leased");
            server.send("PATCH", &path, &headers, Some(b"{}")).problem(409, "job_leased");
            server.send("DELETE", &path, &headers, None).problem(409, "job_leased");
        }
        let forced = server.send("PATCH", &format!("{path}?force=true"), &headers, Some(b"{\"priority\": 1}"));
        let changed = number_of(&forced.ok(200)["version"]);
        assert!(changed > version);
        let tag = format!("\"{changed}\"");
        server.send("DELETE", &path, &[("if-match", &tag)], None).empty();
    }
}

#[test]
fn if_match_needs_a_job_and_one_version() {
    let server = Server::new();
    let json = ("content-type", "application/json");
    let put = |tag: &str| server.send("PUT", &job_path("t", "a"), &[("if-match", tag), json], Some(b"{}"));
    put("\"1\"").problem(412, "version_mismatch");
    server.get("/v1/topics/t").problem(404, "not_found");
    let version = server.put_job("t", "a", json!({}))["version"].clone();
    assert_eq!(put(&format!("\"{version}\"")).ok(200)["outcome"], "replaced");
    for tag in ["\"\"", "\"abc\"", "\"-1\"", "abc", "\"18446744073709551616\"", "\"0\""] {
        put(tag).problem(412, "version_mismatch");
    }
    for tag in ["*", "\"1\", \"2\""] {
        put(tag).wrong("If-Match");
    }
    for (method, path) in [("PATCH", "/v1/topics/t/jobs/none"), ("DELETE", "/v1/topics/t/jobs/none")] {
        let body = (method == "PATCH").then_some(&b"{}"[..]);
        server.send(method, path, &[("if-match", "\"1\""), json], body).problem(404, "not_found");
    }
}

#[test]
fn versions_only_grow_even_when_an_id_is_used_again() {
    let server = Server::new();
    let mut last = 0;
    let mut grows = |version: &Value, what: &str| {
        let version = number_of(version);
        assert!(version > last, "{what}: {version} after {last}");
        last = version;
    };
    let mut number = 0;
    for _ in 0..2 {
        let put = server.put_job("t", "a", json!({}));
        grows(&put["version"], "put");
        assert!(number_of(&put["number"]) > number, "a number is never used again: {put}");
        number = number_of(&put["number"]);
        grows(&server.patch(&job_path("t", "a"), json!({"priority": 7})).ok(200)["version"], "change");
        let leased = server.lease_one("t");
        grows(&leased["version"], "lease");
        assert_eq!(server.job("t", "a")["version"], leased["version"]);
        server.settle(&leased, "extend", json!({})).ok(200);
        grows(&server.job("t", "a")["version"], "extend");
        server.settle(&leased, "nack", json!({"delay": 0})).ok(200);
        grows(&server.job("t", "a")["version"], "nack");
        let leased = server.lease_one("t");
        grows(&leased["version"], "lease");
        server.settle(&leased, "bury", json!({})).ok(200);
        grows(&server.job("t", "a")["version"], "bury");
        server.post("/v1/topics/t/redrive", json!({})).ok(200);
        grows(&server.job("t", "a")["version"], "redrive");
        let leased = server.lease_one("t");
        grows(&leased["version"], "lease");
        server.settle(&leased, "ack", json!({})).ok(200);
    }
}

#[test]
fn a_server_makes_ids_and_says_where_the_job_is() {
    let server = Server::new();
    let mut seen = Vec::new();
    for _ in 0..5 {
        let answer = server.post("/v1/topics/a%2Fb/jobs", json!({"delay": "1h", "body": 7}));
        let job = answer.ok(201);
        let id = text_of(&job["id"]).to_owned();
        // A UUID of version 7: sortable by time.
        assert_eq!((id.len(), &id[14..15]), (36, "7"), "{id}");
        assert_eq!(answer.header("location"), Some(&*format!("/v1/topics/a%2Fb/jobs/{id}")));
        assert_eq!(server.get(answer.header("location").unwrap()).ok(200)["body"], 7);
        seen.push(id);
    }
    assert!(seen.is_sorted(), "{seen:?}");
    seen.dedup();
    assert_eq!(seen.len(), 5);
}

#[test]
fn an_idempotency_key_is_the_id_and_keeps() {
    let server = Server::new();
    let json = ("content-type", "application/json");
    let create = |key: &str, body: Value| {
        server.send("POST", "/v1/topics/t/jobs", &[("idempotency-key", key), json], Some(body.to_string().as_bytes()))
    };
    let first = create("order 42/a", json!({"delay": "1h", "body": 1}));
    assert_eq!((&first.ok(201)["id"], &first.json()["outcome"]), (&json!("order 42/a"), &json!("created")));
    assert_eq!(first.header("location"), Some("/v1/topics/t/jobs/order%2042%2Fa"));
    let again = create("order 42/a", json!({"delay": "2h", "body": 2}));
    assert_eq!((&again.ok(200)["outcome"], &again.json()["version"]), (&json!("kept"), &first.json()["version"]));
    assert_eq!(server.get(again.header("location").unwrap()).ok(200)["body"], 1);
    // With an id the key says nothing, and the id rejects.
    assert_eq!(create("k", json!({"id": "own"})).ok(201)["id"], "own");
    create("k", json!({"id": "own"})).problem(409, "job_exists");
    // What is said holds.
    create("order 42/a", json!({"if_exists": "reject"})).problem(409, "job_exists");
    assert_eq!(create("order 42/a", json!({"if_exists": "replace"})).ok(200)["outcome"], "replaced");
    for wrong in ["", ".", "..", &"k".repeat(256)] {
        create(wrong, json!({})).wrong("Idempotency-Key");
    }
}

#[test]
fn a_cancelled_job_is_gone() {
    let server = Server::new();
    for state in ["delayed", "ready", "buried"] {
        bring(&server, state, state);
        server.delete(&job_path(state, "a")).empty();
        server.get(&job_path(state, "a")).problem(404, "not_found");
        server.delete(&job_path(state, "a")).problem(404, "not_found");
        server.patch(&job_path(state, "a"), json!({"delay": 0})).problem(404, "not_found");
        server.advance("2h");
        assert!(server.lease(state, json!({})).is_empty());
        assert_eq!(server.topic(state)["totals"]["cancelled"], 1);
    }
    server.delete(&job_path("never", "a")).problem(404, "not_found");
    server.get(&job_path("never", "a")).problem(404, "not_found");
    bring(&server, "leased", "leased");
    server.delete(&job_path("leased", "a")).problem(409, "job_leased");
    assert_eq!(server.job("leased", "a")["state"], "leased");
}

#[test]
fn a_job_becomes_ready_when_it_is_due_and_not_before() {
    let server = Server::new();
    server.put_job("t", "a", json!({"delay": "15h"}));
    server.advance("14h59m");
    assert_eq!(server.job("t", "a")["state"], "delayed");
    assert!(server.lease("t", json!({})).is_empty());
    server.advance("1m");
    assert_eq!(server.job("t", "a")["state"], "ready");
    let leased = server.lease_one("t");
    assert_eq!((&leased["id"], &leased["attempt"]), (&json!("a"), &json!(1)));
}
