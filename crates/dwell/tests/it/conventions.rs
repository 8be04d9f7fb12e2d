//! What holds for every call: routes, methods, content types, the shape of problems.

use std::collections::BTreeSet;

use serde_json::json;

use crate::client::{Answer, job_path};
use crate::server::{Server, dwell, start, temporary};

/// Every path there is, with what it can be asked.
const ROUTES: &[(&str, &[&str])] = &[
    ("/v1/topics/t/jobs/a", &["PUT", "GET", "PATCH", "DELETE"]),
    ("/v1/topics/t/jobs", &["POST", "GET", "DELETE"]),
    ("/v1/jobs", &["POST"]),
    ("/v1/cancel", &["POST"]),
    ("/v1/topics/t/lease", &["POST"]),
    ("/v1/lease", &["POST"]),
    ("/v1/settle", &["POST"]),
    ("/v1/leases/token/ack", &["POST"]),
    ("/v1/leases/token/nack", &["POST"]),
    ("/v1/leases/token/release", &["POST"]),
    ("/v1/leases/token/bury", &["POST"]),
    ("/v1/leases/token/extend", &["POST"]),
    ("/v1/topics", &["GET"]),
    ("/v1/topics/t", &["GET", "DELETE"]),
    ("/v1/topics/t/policy", &["PUT"]),
    ("/v1/topics/t/pause", &["POST"]),
    ("/v1/topics/t/resume", &["POST"]),
    ("/v1/topics/t/timeline", &["GET"]),
    ("/v1/timeline", &["GET"]),
    ("/v1/topics/t/redrive", &["POST"]),
    ("/v1/info", &["GET"]),
    ("/v1/dev/clock", &["GET", "POST"]),
    ("/healthz", &["GET"]),
    ("/readyz", &["GET"]),
    ("/metrics", &["GET"]),
    ("/openapi.json", &["GET"]),
    ("/docs/", &["GET"]),
    ("/", &["GET"]),
];

#[test]
fn every_route_says_which_methods_it_takes() {
    let server = Server::new();
    for (path, allowed) in ROUTES {
        for method in ["PUT", "GET", "POST", "PATCH", "DELETE", "OPTIONS", "TRACE"] {
            let answer = server.send(method, path, &[], None);
            if allowed.contains(&method) {
                assert_ne!(answer.status, 405, "{method} {path}");
                continue;
            }
            answer.problem(405, "method_not_allowed");
            let allow: BTreeSet<_> = answer.header("allow").unwrap_or_default().split(',').map(str::trim).collect();
            let mut expected: BTreeSet<_> = allowed.iter().copied().collect();
            if expected.contains("GET") && allow.contains("HEAD") {
                expected.insert("HEAD");
            }
            assert_eq!(allow, expected, "{method} {path}");
        }
    }
}

#[test]
fn what_is_not_there_is_not_found() {
    let server = Server::new();
    server.put_job("t", "a", json!({"delay": "1h"}));
    let paths = [
        "/v1",
        "/v1/",
        "/v2/topics",
        "/v1/topic",
        "/v1/schedules",
        "/v1/schedules/daily",
        "/v1/topics/t/job/a",
        "/v1/topics/t/jobs/a/b",
        "/v1/leases/token",
        "/nothing",
        "/HEALTHZ",
        // There are no aliases with a slash at the end.
        "/v1/topics/",
        "/v1/topics/t/",
        "/v1/topics/t/jobs/",
        "/v1/topics/t/jobs/a/",
        "/v1/info/",
        "/v1/topics/t/timeline/",
        "/healthz/",
        "/metrics/",
        "//v1/info",
        "/v1//info",
    ];
    for path in paths {
        let answer = server.get(path);
        assert_eq!(answer.status, 404, "{path}: {}", answer.body());
        answer.problem(404, "not_found");
    }
    for path in ["/v1/jobs/", "/v1/lease/", "/v1/settle/", "/v1/topics/t/jobs/", "/v1/leases/token/eat"] {
        server.post(path, json!({})).problem(404, "not_found");
    }
    server.put("/v1/topics/t/jobs/", json!({})).problem(404, "not_found");
    server.put("/v1/topics//jobs/a", json!({})).wrong("topic");
}

#[test]
fn the_clock_can_be_moved_only_if_that_was_said() {
    let server = Server::new();
    let before = server.now();
    let moved = server.post("/v1/dev/clock", json!({"advance": "15h"})).ok(200);
    let hours = crate::client::millis(&moved["now"]) - before;
    assert_eq!(hours, 54_000_000);
    for wrong in [json!({}), json!({"advance": "-1s"}), json!({"advance": "3651d"}), json!({"advance": 1, "by": 2})] {
        server.post("/v1/dev/clock", wrong).problem(400, "invalid_request");
    }

    let directory = temporary();
    let mut command = dwell(&["serve", "--listen", "127.0.0.1:0", "--store", "memory:"]);
    let (mut child, address, _) = start(command.current_dir(directory.path()).stderr(std::process::Stdio::null()));
    let plain = crate::client::Client::new(address);
    plain.get("/v1/dev/clock").problem(404, "not_found");
    plain.post("/v1/dev/clock", json!({"advance": "15h"})).problem(404, "not_found");
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Calls that take a body.
const WITH_BODY: &[(&str, &str)] = &[
    ("PUT", "/v1/topics/t/jobs/a"),
    ("PATCH", "/v1/topics/t/jobs/a"),
    ("POST", "/v1/topics/t/jobs"),
    ("POST", "/v1/jobs"),
    ("POST", "/v1/cancel"),
    ("POST", "/v1/topics/t/lease"),
    ("POST", "/v1/lease"),
    ("POST", "/v1/settle"),
    ("POST", "/v1/leases/token/nack"),
    ("PUT", "/v1/topics/t/policy"),
    ("POST", "/v1/topics/t/pause"),
    ("POST", "/v1/topics/t/resume"),
    ("POST", "/v1/topics/t/redrive"),
    ("POST", "/v1/dev/clock"),
];

#[test]
fn a_body_must_be_said_to_be_json() {
    let server = Server::new();
    let others = [
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/json5",
        "application/problem+json",
        "json",
        "",
    ];
    for (method, path) in WITH_BODY {
        for other in others {
            let answer = server.send(method, path, &[("content-type", other)], Some(b"{}"));
            answer.problem(415, "unsupported_media_type");
        }
        server.send(method, path, &[], Some(b"{}")).problem(415, "unsupported_media_type");
        for right in ["application/json", "Application/JSON", "application/json; charset=utf-8", "application/json;x=1"]
        {
            let answer = server.send(method, path, &[("content-type", right)], Some(b"{}"));
            assert_ne!(answer.status, 415, "{method} {path} {right}");
        }
    }
    assert_eq!(server.get("/v1/topics/t").json()["totals"]["put"], 8, "only what was JSON was put");
}

#[test]
fn calls_whose_fields_are_all_optional_need_no_body() {
    let server = Server::new();
    let job = |answer: &Answer| answer.json()["jobs"][0].clone();
    assert_eq!(server.send("PUT", &job_path("t", "a"), &[], None).ok(201)["state"], "ready");
    assert_eq!(server.send("POST", "/v1/topics/t/jobs", &[], None).ok(201)["state"], "ready");
    let first = job(&server.send("POST", "/v1/topics/t/lease", &[], None));
    assert_eq!((&first["id"], &first["body"]), (&json!("a"), &json!(null)));
    let ack = format!("/v1/leases/{}/ack", first["token"].as_str().unwrap());
    assert_eq!(server.send("POST", &ack, &[], None).ok(200)["status"], 200);
    assert_eq!(server.send("POST", "/v1/topics/t/pause", &[], None).ok(200)["paused"], true);
    assert_eq!(server.send("POST", "/v1/topics/t/resume", &[], None).ok(200)["paused"], false);
    assert_eq!(server.send("POST", "/v1/topics/t/redrive", &[], None).ok(200), json!({"redriven": 0, "remaining": 0}));
}

#[test]
fn a_problem_names_everything_that_is_wrong() {
    let server = Server::new();
    let wrong = json!({
        "delay": "soon", "priority": -1, "ttr": "1ms", "dealy": 1, "headers": {"a": 1}, "if_exists": "maybe",
        "retry": {"attempts": 0, "backof": []}, "ttl": true, "jitter": "4000d",
    });
    let problem = server.put(&job_path("t", "a"), wrong).problem(400, "invalid_request");
    let mut fields: Vec<_> = problem["errors"].as_array().unwrap().iter().map(|error| error["field"].clone()).collect();
    fields.sort_by_key(ToString::to_string);
    let expected = [
        "dealy",
        "delay",
        "headers.a",
        "if_exists",
        "jitter",
        "priority",
        "retry.attempts",
        "retry.backof",
        "ttl",
        "ttr",
    ];
    assert_eq!(fields, expected);
    assert!(problem["errors"].as_array().unwrap().iter().all(|error| error["reason"].is_string()), "{problem}");
    server.get("/v1/topics/t").problem(404, "not_found");
}

#[test]
fn answers_say_what_they_are() {
    let server = Server::new();
    let put = server.put(&job_path("t", "a"), json!({"delay": "1h", "body": {"order": 42}}));
    put.ok(201);
    let etag = put.header("etag").unwrap().to_owned();
    let job = server.get(&job_path("t", "a"));
    assert_eq!(job.header("etag"), Some(&*etag));
    let job = job.ok(200);
    assert_eq!(etag, format!("\"{}\"", job["version"]));
    let names: Vec<_> = job.as_object().unwrap().keys().map(String::as_str).collect();
    let expected = [
        "attempt",
        "body",
        "created_at",
        "due_at",
        "id",
        "number",
        "priority",
        "retry",
        "state",
        "topic",
        "ttr_ms",
        "version",
    ];
    assert_eq!(names, expected, "fields that do not apply are absent");
    assert_eq!((&job["topic"], &job["id"], &job["state"]), (&json!("t"), &json!("a"), &json!("delayed")));
    assert_eq!((&job["priority"], &job["ttr_ms"], &job["attempt"]), (&json!(1024), &json!(60_000), &json!(0)));
    let retry = json!({"attempts": 20, "backoff": {"initial": 1000, "factor": 2, "max": 3_600_000, "jitter": 0.1}});
    assert_eq!(job["retry"], retry);
}

#[test]
fn a_head_is_a_get_without_its_body() {
    let server = Server::new();
    let answer = server.send("HEAD", "/v1/info", &[], None);
    assert_eq!((answer.status, answer.bytes.len()), (200, 0));
    assert_eq!(answer.header("content-type"), Some("application/json"));
}
