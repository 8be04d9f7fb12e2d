//! The same jobs over HTTP.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;

use super::server;
use super::talk::Talk;
use crate::client::{job_path, text_of};

#[test]
fn a_job_put_over_beanstalk_is_there_over_http() {
    let server = server();
    let mut talk = Talk::to(&server);
    talk.ask("use mail");
    let id = talk.put("7 3600 90", "hello\r\n\u{1}");
    let job = server.get(&format!("/v1/topics/mail/jobs/%24{id}")).ok(200);
    assert_eq!((&job["id"], &job["number"]), (&json!(format!("${id}")), &json!(id)));
    assert_eq!((&job["state"], &job["priority"], &job["ttr_ms"]), (&json!("delayed"), &json!(7), &json!(90_000)));
    assert_eq!(job["body_base64"], BASE64_STANDARD.encode("hello\r\n\u{1}"));
    assert_eq!(job["retry"], json!({"attempts": 4_294_967_295_u32, "backoff": [0]}));
    server.patch(&format!("/v1/topics/mail/jobs/%24{id}"), json!({"delay": 0})).ok(200);
    talk.ask("watch mail");
    assert!(talk.ask("reserve").starts_with(&format!("RESERVED {id} ")));
    let job = server.get(&format!("/v1/topics/mail/jobs/%24{id}")).ok(200);
    assert_eq!(job["state"], "leased");
    assert!(text_of(&job["consumer"]).starts_with("beanstalk 127.0.0.1:"), "{job}");
    server.delete(&format!("/v1/topics/mail/jobs/%24{id}?force=true")).empty();
    assert_eq!(talk.ask(&format!("touch {id}")), "NOT_FOUND");
}

#[test]
fn a_json_body_is_its_exact_text() {
    let server = server();
    let text = r#"{"n":12345678901234567890,  "b":[1.50, "ü"]}"#;
    let answer = server.text("PUT", &job_path("mail", "order-42"), &format!(r#"{{"body": {text}}}"#));
    let number = answer.ok(201)["number"].as_u64().unwrap();
    let mut talk = Talk::to(&server);
    talk.ask("watch mail");
    assert_eq!(talk.ask("reserve"), format!("RESERVED {number} {}\n{text}", text.len()));
    assert_eq!(talk.ask(&format!("delete {number}")), "DELETED");
    server.get(&job_path("mail", "order-42")).problem(404, "not_found");
}

#[test]
fn what_one_protocol_holds_the_other_cannot_have() {
    let server = server();
    let mut talk = Talk::to(&server);
    let (a, b) = (talk.put("1 0 60", "a"), talk.put("2 0 60", "b"));
    let leased = server.lease_one("default");
    assert_eq!(leased["number"], a);
    assert_eq!(talk.ask(&format!("delete {a}")), "NOT_FOUND");
    assert_eq!(talk.ask("reserve"), format!("RESERVED {b} 1\nb"));
    assert!(server.lease("default", json!({})).is_empty());
    server.settle(&leased, "bury", json!({"reason": "no good"})).ok(200);
    assert_eq!(talk.ask("peek-buried"), format!("FOUND {a} 1\na"));
    assert_eq!(talk.ask("kick 1"), "KICKED 1");
    server.post("/v1/topics/default/pause", json!({})).ok(200);
    assert_eq!(talk.ask("reserve-with-timeout 0"), "TIMED_OUT");
    assert_eq!(talk.document("stats-tube default")["pause"], "4294967295", "until further notice");
}

#[test]
fn metrics_know_of_it() {
    let server = server();
    let mut talk = Talk::to(&server);
    talk.put("0 0 60", "x");
    talk.ask("reserve");
    let metrics = server.get("/metrics").body();
    assert!(metrics.contains("\ndwell_beanstalk_connections 1\n"), "{metrics}");
    assert!(metrics.contains("dwell_lateness_seconds_count{topic=\"default\"} 1\n"), "{metrics}");
}
