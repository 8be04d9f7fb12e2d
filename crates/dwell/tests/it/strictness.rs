//! Requests are read strictly, so that a typo never loses a delay.

use serde_json::json;

use crate::client::job_path;
use crate::server::Server;

#[test]
fn requests_must_be_json_objects() {
    let server = Server::new();
    let calls = [
        ("PUT", "/v1/topics/t/jobs/a"),
        ("PATCH", "/v1/topics/t/jobs/a"),
        ("POST", "/v1/topics/t/jobs"),
        ("POST", "/v1/jobs"),
        ("POST", "/v1/cancel"),
        ("POST", "/v1/topics/t/lease"),
        ("POST", "/v1/lease"),
        ("POST", "/v1/settle"),
        ("POST", "/v1/leases/token/ack"),
        ("PUT", "/v1/topics/t/policy"),
        ("POST", "/v1/topics/t/pause"),
        ("POST", "/v1/topics/t/resume"),
        ("POST", "/v1/topics/t/redrive"),
        ("POST", "/v1/dev/clock"),
    ];
    let texts = [
        "null",
        "true",
        "1",
        "1.5",
        "\"text\"",
        "[]",
        "[{}]",
        "{",
        "}",
        "{]",
        "{\"a\"}",
        "{\"a\":}",
        "{'a': 1}",
        "{a: 1}",
        "{\"delay\": 1,}",
        "{} {}",
        "{}x",
        "{\"body\": NaN}",
        "{\"body\": 01}",
        "{\"body\": \"\u{1}\"}",
        "\u{feff}{}",
        "// nothing\n{}",
    ];
    for (method, path) in calls {
        for text in texts {
            let answer = server.text(method, path, text);
            assert_eq!(answer.status, 400, "{method} {path} {text}: {}", answer.body());
            answer.problem(400, "invalid_request");
        }
        let not_utf8 =
            server.send(method, path, &[("content-type", "application/json")], Some(b"{\"body\": \"\xff\"}"));
        not_utf8.problem(400, "invalid_request");
    }
    server.get("/v1/topics/t").problem(404, "not_found");
}

/// Requests with a field too many, and how it is called.
#[test]
fn unknown_fields_are_refused_wherever_they_are() {
    let server = Server::new();
    server.put_job("t", "a", json!({"delay": "1h"}));
    let cases = [
        ("PUT", "/v1/topics/t/jobs/a", json!({"dealy": 1}), "dealy"),
        ("PUT", "/v1/topics/t/jobs/a", json!({"topic": "t"}), "topic"),
        ("PUT", "/v1/topics/t/jobs/a", json!({"id": "a"}), "id"),
        ("PUT", "/v1/topics/t/jobs/a", json!({"Delay": 1}), "Delay"),
        ("PUT", "/v1/topics/t/jobs/a", json!({"": 1}), ""),
        ("PUT", "/v1/topics/t/jobs/a", json!({"retry": {"attempt": 1}}), "retry.attempt"),
        ("PUT", "/v1/topics/t/jobs/a", json!({"retry": {"backoff": {"intial": 1}}}), "retry.backoff.intial"),
        ("POST", "/v1/topics/t/jobs", json!({"topic": "t"}), "topic"),
        ("PATCH", "/v1/topics/t/jobs/a", json!({"if_exists": "keep"}), "if_exists"),
        ("PATCH", "/v1/topics/t/jobs/a", json!({"jitter": "1s"}), "jitter"),
        ("PATCH", "/v1/topics/t/jobs/a", json!({"state": "ready"}), "state"),
        ("PATCH", "/v1/topics/t/jobs/a", json!({"retry": {"backoff": {"maximum": 1}}}), "retry.backoff.maximum"),
        ("POST", "/v1/topics/t/lease", json!({"topics": ["t"]}), "topics"),
        ("POST", "/v1/topics/t/lease", json!({"timeout": 1}), "timeout"),
        ("POST", "/v1/lease", json!({"topics": ["t"], "count": 1}), "count"),
        ("POST", "/v1/leases/token/ack", json!({"why": ""}), "why"),
        ("PUT", "/v1/topics/t/policy", json!({"max_inflight": 1}), "max_inflight"),
        ("PUT", "/v1/topics/t/policy", json!({"retry": {"x": 1}}), "retry.x"),
        ("POST", "/v1/topics/t/pause", json!({"while": 1}), "while"),
        ("POST", "/v1/topics/t/resume", json!({"for": 1}), "for"),
        ("POST", "/v1/topics/t/redrive", json!({"id": "a"}), "id"),
    ];
    let before = server.job("t", "a");
    for (method, path, request, field) in cases {
        let reason = server.text(method, path, &request.to_string()).wrong(field);
        assert!(reason.starts_with("is unknown"), "{reason}");
    }
    assert_eq!(server.job("t", "a"), before);
    server.post("/v1/jobs", json!({"jobs": [], "if_exists": "keep"})).problem(400, "invalid_request");
    server.post("/v1/jobs", json!({"items": []})).problem(400, "invalid_request");
    server.post("/v1/cancel", json!({"jobs": [], "force": true})).problem(400, "invalid_request");
    server.post("/v1/settle", json!({"items": [], "x": 1})).problem(400, "invalid_request");
    server.post("/v1/settle", json!({})).problem(400, "invalid_request");
}

#[test]
fn unknown_parameters_are_refused_too() {
    let server = Server::new();
    server.put_job("t", "a", json!({"delay": "1h"}));
    for path in [
        "/v1/topics/t/jobs/a?force=true",
        "/v1/topics/t/jobs?stat=ready",
        "/v1/topics/t?x",
        "/v1/topics?from=1",
        "/v1/topics/t/timeline?to=1",
        "/v1/timeline?topic=t",
        "/v1/info?x=1",
        "/v1/topics/t/jobs?limit=1&limit=2",
        "/v1/dev/clock?x=1",
    ] {
        let problem = server.get(path).problem(400, "invalid_request");
        assert!(problem["errors"].is_array(), "{path}: {problem}");
    }
    for (method, path) in [
        ("PUT", "/v1/topics/t/jobs/a?forec=true"),
        ("PUT", "/v1/topics/t/jobs/a?force=1"),
        ("PUT", "/v1/topics/t/jobs/a?force"),
        ("PATCH", "/v1/topics/t/jobs/a?force=yes"),
        ("DELETE", "/v1/topics/t/jobs/a?force=TRUE"),
        ("DELETE", "/v1/topics/t/jobs/a?if_match=1"),
        ("POST", "/v1/topics/t/jobs?force=true"),
        ("POST", "/v1/jobs?x"),
        ("POST", "/v1/cancel?force=true"),
        ("POST", "/v1/topics/t/lease?max=1"),
        ("POST", "/v1/lease?max=1"),
        ("POST", "/v1/settle?x"),
        ("POST", "/v1/leases/token/ack?x"),
        ("PUT", "/v1/topics/t/policy?x"),
        ("POST", "/v1/topics/t/pause?for=1s"),
        ("POST", "/v1/topics/t/resume?x"),
        ("POST", "/v1/topics/t/redrive?max=1"),
        ("DELETE", "/v1/topics/t?force=true"),
    ] {
        let answer = server.send(method, path, &[], None);
        assert_eq!(answer.status, 400, "{method} {path}: {}", answer.body());
        answer.problem(400, "invalid_request");
    }
    assert_eq!(server.topic("t")["counts"]["delayed"], 1, "nothing of that was done");
}

#[test]
fn a_string_is_the_same_with_its_characters_escaped() {
    let server = Server::new();
    let put = |text: &str| server.text("PUT", &job_path("t", "a"), text);
    assert_eq!(put(r#"{"at": "2030-11-15T17:38:00\u002B08:00"}"#).ok(201)["due_at"], "2030-11-15T09:38:00.000Z");
    assert_eq!(put(r#"{"\u0061t": 0, "if_exists": "\u006beep"}"#).ok(200)["outcome"], "kept");
    assert_eq!(put(r#"{"delay": "\u0031\u0068", "headers": {"\u0061": "\u0062"}}"#).ok(200)["state"], "delayed");
    assert_eq!(server.job("t", "a")["headers"], json!({"a": "b"}));
    put(r#"{"delay": "1h\u0000"}"#).wrong("delay");
    server.put_job("t", "a", json!({}));
    let token = server.lease_one("t")["token"].as_str().unwrap().to_owned();
    let settle = format!(r#"{{"items": [{{"token": "{token}", "verb": "\u0061ck"}}]}}"#);
    assert_eq!(server.text("POST", "/v1/settle", &settle).list("results")[0]["status"], 200);
}

#[test]
fn calls_without_a_body_take_none() {
    let server = Server::new();
    server.put_job("t", "a", json!({"delay": "1h"}));
    let version = server.job("t", "a")["version"].clone();
    for (method, path) in [
        ("GET", "/v1/topics/t/jobs/a"),
        ("GET", "/v1/topics/t/jobs"),
        ("GET", "/v1/topics/t"),
        ("GET", "/v1/topics"),
        ("GET", "/v1/topics/t/timeline"),
        ("GET", "/v1/timeline"),
        ("GET", "/v1/info"),
        ("GET", "/v1/dev/clock"),
        ("POST", "/v1/topics/t/resume"),
        ("DELETE", "/v1/topics/t/jobs?state=delayed"),
        ("DELETE", "/v1/topics/t/jobs/a"),
        ("DELETE", "/v1/topics/t"),
    ] {
        let ask = |kind: &str, body: &str| {
            let (length, connection) = (body.len(), "connection: close\r\n");
            let head =
                format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n{kind}{connection}content-length: {length}");
            server.raw(format!("{head}\r\n\r\n{body}").as_bytes())
        };
        let json = "content-type: application/json\r\n";
        for (kind, body, status) in
            [("", "force", "415"), (json, "{\"force\": true}", "400"), (json, "[]", "400"), (json, "x", "400")]
        {
            let answer = ask(kind, body);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{method} {path} {body}: {answer}");
        }
        if method == "GET" {
            assert!(ask(json, "{}").starts_with("HTTP/1.1 200"), "{path}");
        }
    }
    assert_eq!(server.job("t", "a")["version"], version);
}

#[test]
fn a_field_twice_is_refused() {
    let server = Server::new();
    for (text, field) in [
        (r#"{"delay": 1, "delay": 2}"#, "delay"),
        (r#"{"body": 1, "body": 1}"#, "body"),
        (r#"{"headers": {"a": "1", "a": "2"}}"#, "headers.a"),
        (r#"{"retry": {"attempts": 1, "attempts": 2}}"#, "retry.attempts"),
        (r#"{"retry": {"backoff": {"max": 1, "max": 2}}}"#, "retry.backoff.max"),
        (r#"{"delay": 1, "de\u006cay": 2}"#, "delay"),
    ] {
        server.text("PUT", &job_path("t", "a"), text).wrong(field);
    }
    // What is inside a body is the user's own.
    let text = server.text("PUT", &job_path("t", "a"), r#"{"body": {"a": 1, "a": 2}}"#);
    text.ok(201);
    assert!(server.get(&job_path("t", "a")).body().contains(r#""body":{"a": 1, "a": 2}"#));
}

#[test]
fn what_excludes_each_other_is_refused() {
    let server = Server::new();
    for (request, field) in [
        (json!({"delay": "1s", "at": 0}), "at"),
        (json!({"delay": 0, "at": "2026-11-15T17:38:00Z"}), "at"),
        (json!({"body": null, "body_base64": ""}), "body_base64"),
        (json!({"body": 1, "body_base64": "AA=="}), "body_base64"),
    ] {
        server.put(&job_path("t", "a"), request.clone()).wrong(field);
        server.put_job("t", "there", json!({}));
        server.patch(&job_path("t", "there"), request).wrong(field);
    }
}

#[test]
fn nesting_has_an_end() {
    let server = Server::new();
    // The request is a level, so are the body's own.
    let nested = |levels: usize| format!("{{\"body\": {}{}}}", "[".repeat(levels), "]".repeat(levels));
    server.text("PUT", &job_path("t", "deep"), &nested(127)).ok(201);
    let read = server.get(&job_path("t", "deep"));
    assert!(read.body().contains(&format!("\"body\":{}{}", "[".repeat(127), "]".repeat(127))));
    for levels in [128, 129, 200, 10_000, 400_000] {
        let answer = server.text("PUT", &job_path("t", "deeper"), &nested(levels));
        assert_eq!(answer.status, 400, "{levels}: {}", answer.body());
        answer.problem(400, "invalid_request");
    }
    let objects = format!("{}1{}", "{\"a\":".repeat(300), "}".repeat(300));
    server.text("PUT", &job_path("t", "deeper"), &objects).problem(400, "invalid_request");
    server.text("POST", "/v1/topics/t/lease", &objects).problem(400, "invalid_request");
    server.get(&job_path("t", "deeper")).problem(404, "not_found");
    // Brackets in a string are no nesting.
    server.put(&job_path("t", "text"), json!({"body": "[".repeat(500)})).ok(201);
}

#[test]
fn values_of_another_kind_are_refused() {
    let server = Server::new();
    server.put_job("t", "there", json!({}));
    let cases = [
        (json!({"delay": null}), "delay"),
        (json!({"delay": [1]}), "delay"),
        (json!({"at": true}), "at"),
        (json!({"at": {}}), "at"),
        (json!({"priority": "1"}), "priority"),
        (json!({"priority": 1.5}), "priority"),
        (json!({"priority": -1}), "priority"),
        (json!({"priority": 4_294_967_296_u64}), "priority"),
        (json!({"headers": []}), "headers"),
        (json!({"headers": "a"}), "headers"),
        (json!({"headers": {"a": null}}), "headers.a"),
        (json!({"headers": {"a": {"b": "c"}}}), "headers.a"),
        (json!({"body_base64": 1}), "body_base64"),
        (json!({"body_base64": "?"}), "body_base64"),
        (json!({"body_base64": "A"}), "body_base64"),
        (json!({"ttr": {}}), "ttr"),
        (json!({"ttl": []}), "ttl"),
        (json!({"retry": []}), "retry"),
        (json!({"retry": "often"}), "retry"),
        (json!({"retry": {"attempts": "3"}}), "retry.attempts"),
        (json!({"retry": {"attempts": 0}}), "retry.attempts"),
        (json!({"retry": {"attempts": 1.0}}), "retry.attempts"),
        (json!({"retry": {"backoff": 1}}), "retry.backoff"),
        (json!({"retry": {"backoff": []}}), "retry.backoff"),
        (json!({"retry": {"backoff": ["1s", "x"]}}), "retry.backoff[1]"),
        (json!({"retry": {"backoff": [null]}}), "retry.backoff[0]"),
        (json!({"retry": {"backoff": {"factor": "2"}}}), "retry.backoff.factor"),
        (json!({"retry": {"backoff": {"initial": null}}}), "retry.backoff.initial"),
        (json!({"deliver_to": "example.com"}), "deliver_to"),
        (json!({"deliver_to": 1}), "deliver_to"),
    ];
    for (request, field) in cases {
        server.put(&job_path("t", "a"), request.clone()).wrong(field);
        if request.get("delay").is_none_or(|delay| !delay.is_null()) {
            server.patch(&job_path("t", "there"), request).wrong(field);
        }
    }
    for (request, field) in [
        (json!({"if_exists": "Keep"}), "if_exists"),
        (json!({"if_exists": null}), "if_exists"),
        (json!({"jitter": "-1s"}), "jitter"),
        (json!({"retry": null}), "retry"),
        (json!({"ttl": null}), "ttl"),
        (json!({"priority": null}), "priority"),
        (json!({"deliver_to": null}), "deliver_to"),
    ] {
        server.put(&job_path("t", "a"), request).wrong(field);
    }
    server.get(&job_path("t", "a")).problem(404, "not_found");
}
