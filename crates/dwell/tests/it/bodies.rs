//! Bodies and headers travel unchanged.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::client::{Answer, job_path};
use crate::server::Server;

/// The text of a job's body in an answer, byte for byte; jobs end with other fields.
#[track_caller]
fn body_text(answer: &Answer, expected: &str) {
    let text = answer.body();
    assert!(text.contains(&format!("\"body\":{expected},\"")), "{expected} is not in {text}");
}

/// JSON texts that a reader that goes through numbers, maps or trees would change.
const EXACT: &[&str] = &[
    "null",
    "true",
    "0",
    "-0",
    "-0.0",
    "1.0",
    "1.10",
    "1e5",
    "1E+05",
    "9007199254740993",
    "9223372036854775807",
    "18446744073709551615",
    "18446744073709551616",
    "123456789012345678901234567890.123456789012345678901234567890",
    "1e400",
    "\"\"",
    "\"\\u00e9\\/\\n\"",
    "\"é订🐢\"",
    "\"\\ud83d\\udc22\"",
    "[]",
    "[ ]",
    "{}",
    "{ }",
    "[1,2 , 3]",
    "{\"b\": 1, \"a\": 2}",
    "{\"a\":1,\"a\":2}",
    "{\n  \"deep\" : [ { \"x\":\t1 } ]\n}",
    "{\"delay\": \"1h\", \"unknown\": 1}",
    "\"]}\\\"\"",
];

#[test]
fn a_json_body_is_kept_as_it_was_sent() {
    let server = Server::new();
    for text in EXACT {
        let request = format!("{{\"delay\": \"1h\", \"body\":  {text}  , \"priority\": 1}}");
        server.text("PUT", &job_path("t", "a"), &request).ok_put();
        body_text(&server.get(&job_path("t", "a")), text);
        body_text(&server.get("/v1/topics/t/jobs"), text);
        // Firing it answers it, a lease hands it out, a batch and a change take it just so.
        body_text(&server.patch(&job_path("t", "a"), json!({"delay": 0})), text);
        body_text(&server.post("/v1/topics/t/lease", json!({"auto_ack": true})), text);
        server
            .text("POST", "/v1/jobs", &format!("{{\"jobs\":[{{\"topic\":\"t\",\"id\":\"b\",\"body\":{text}}}]}}"))
            .ok(200);
        body_text(&server.get(&job_path("t", "b")), text);
        server.put_job("t", "b", json!({"body": "other"}));
        body_text(&server.text("PATCH", &job_path("t", "b"), &format!("{{\"body\": {text}}}")), text);
        body_text(&server.get(&job_path("t", "b")), text);
        server.delete(&job_path("t", "b")).empty();
    }
}

trait OkPut {
    fn ok_put(&self);
}

impl OkPut for Answer {
    #[track_caller]
    fn ok_put(&self) {
        assert!(matches!(self.status, 200 | 201), "{}", self.body());
    }
}

#[test]
fn a_body_survives_a_crash_as_it_was_sent() {
    let mut server = Server::new();
    for (index, text) in EXACT.iter().enumerate() {
        server.text("PUT", &job_path("t", &format!("{index}")), &format!("{{\"body\":{text}}}")).ok(201);
    }
    server.put_job("t", "bytes", json!({"body_base64": "AP8="}));
    server.crash_and_start();
    for (index, text) in EXACT.iter().enumerate() {
        body_text(&server.get(&job_path("t", &format!("{index}"))), text);
    }
    assert_eq!(server.job("t", "bytes")["body_base64"], "AP8=");
}

#[test]
fn opaque_bytes_are_kept() {
    let server = Server::new();
    let all: Vec<u8> = (0..=255).collect();
    for bytes in [&b""[..], b"\0", b"\xff\xfe", b"not json", b"{\"json\": \"all the same\"}", &all] {
        let encoded = STANDARD.encode(bytes);
        server.put_job("t", "a", json!({"body_base64": encoded}));
        let job = server.job("t", "a");
        assert_eq!(job["body_base64"], encoded);
        assert!(job.get("body").is_none(), "{job}");
        let leased = server.lease("t", json!({"auto_ack": true}));
        assert_eq!(leased[0]["body_base64"], encoded);
    }
    // Padding or not, it is base64.
    server.put_job("t", "a", json!({"body_base64": "AP8"}));
    assert_eq!(server.job("t", "a")["body_base64"], "AP8=");
    for wrong in ["A", "AP8*", "AP 8=", "====", "AP8=AP8="] {
        server.put(&job_path("t", "a"), json!({"body_base64": wrong})).wrong("body_base64");
    }
}

#[test]
fn a_body_that_is_not_given_is_null() {
    let server = Server::new();
    server.put_job("t", "a", json!({"delay": "1h"}));
    body_text(&server.get(&job_path("t", "a")), "null");
    server.put_job("t", "a", json!({"body": "x"}));
    server.put_job("t", "a", json!({}));
    body_text(&server.get(&job_path("t", "a")), "null");
}

#[test]
fn headers_are_a_map_of_strings() {
    let server = Server::new();
    let headers = json!({"traceparent": "00-4bf9-01", "X-Mixed": "", "é": "ü🐢", "with space": "a\"b"});
    let put = server.put_job("t", "a", json!({"headers": headers, "body": 1}));
    assert!(put.get("headers").is_none() && put.get("body").is_none(), "a put answers neither: {put}");
    assert_eq!(server.job("t", "a")["headers"], headers);
    assert_eq!(server.get("/v1/topics/t/jobs").list("jobs")[0]["headers"], headers);
    assert_eq!(server.lease_one("t")["headers"], headers);
    server.put_job("t", "b", json!({"headers": {}}));
    assert!(server.job("t", "b").get("headers").is_none(), "there are none");
    // 4 KiB of names and values together.
    server.put_job("t", "b", json!({"headers": {"name": "v".repeat(4_092)}}));
    server.put(&job_path("t", "b"), json!({"headers": {"name": "v".repeat(4_093)}})).wrong("headers");
    let many: serde_json::Map<_, _> = (0..1_000).map(|n| (format!("name{n}"), json!("v"))).collect();
    server.put(&job_path("t", "b"), json!({ "headers": many })).wrong("headers");
}

#[test]
fn the_trace_of_a_put_stays_with_its_job() {
    let server = Server::new();
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let other = "00-11111111111111111111111111111111-2222222222222222-00";
    let send = |method: &str, path: &str, trace: &str, body: Value| {
        let headers = [("content-type", "application/json"), ("traceparent", trace)];
        let answer = server.send(method, path, &headers, Some(body.to_string().as_bytes()));
        assert!(matches!(answer.status, 200 | 201), "{answer:?}");
    };
    send("PUT", &job_path("t", "put"), trace, json!({}));
    send("POST", "/v1/topics/t/jobs", trace, json!({"id": "created"}));
    send("POST", "/v1/jobs", trace, json!({"jobs": [{"topic": "t", "id": "batch"}]}));
    for id in ["put", "created", "batch"] {
        assert_eq!(server.job("t", id)["headers"], json!({"traceparent": trace}), "{id}");
    }
    // What the job itself says holds, however it is spelled.
    send("PUT", &job_path("t", "own"), trace, json!({"headers": {"Traceparent": other, "a": "b"}}));
    assert_eq!(server.job("t", "own")["headers"], json!({"Traceparent": other, "a": "b"}));
    send("PUT", &job_path("t", "both"), trace, json!({"headers": {"a": "b"}}));
    assert_eq!(server.job("t", "both")["headers"], json!({"traceparent": trace, "a": "b"}));
    // What is no trace, and what has no room, is left out.
    let zeros = format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32));
    for wrong in ["", "00-1-2-01", "nonsense", &trace.to_uppercase(), &trace[1..], &zeros] {
        send("PUT", &job_path("t", "none"), wrong, json!({}));
        assert!(server.job("t", "none")["headers"].is_null(), "{wrong}");
    }
    let full = json!({"headers": {"a": "x".repeat(4_090)}});
    send("PUT", &job_path("t", "full"), trace, full.clone());
    assert_eq!(server.job("t", "full")["headers"], full["headers"]);
    let leased = server.lease("t", json!({"max": 10}));
    let put = leased.iter().find(|job| job["id"] == "put").unwrap();
    assert_eq!(put["headers"]["traceparent"], trace, "and is given back with the lease");
}
