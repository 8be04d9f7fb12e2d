//! `POST /v1/topics/{topic}/test-delivery`: a sample to see whether a target is set up well.

use serde_json::json;

use super::receiver::Receiver;
use super::server;

#[test]
fn a_sample_goes_to_the_topics_target_signed_as_its_jobs_are() {
    let (server, receiver) = (server(), Receiver::always(201));
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    server.put("/v1/topics/t/policy", json!({"deliver_to": receiver.url("/x"), "deliver_secret": secret})).ok(200);
    let said = server.post("/v1/topics/t/test-delivery", json!({"body": {"a": 1.50}})).ok(200);
    let got = receiver.next();
    assert_eq!((got.path.as_str(), got.body.as_slice()), ("/x", &b"{\"a\":1.5}"[..]));
    assert_eq!((got.header("dwell-topic"), got.job()), (Some("t"), "sample"));
    assert!(got.header("webhook-signature").unwrap().starts_with("v1,"));
    assert_eq!(said["webhook_id"], got.header("webhook-id").unwrap());
    assert_eq!((&said["delivered"], &said["signed"], &said["status"]), (&json!(true), &json!(true), &json!(201)));
    assert_eq!((&said["answer"], &said["deliver_to"]), (&json!("said the receiver"), &json!(receiver.url("/x"))));
    assert_eq!(server.topic("t")["totals"]["put"], 0, "it is no job");
}

#[test]
fn what_goes_wrong_is_an_answer() {
    let (server, receiver) = (server(), Receiver::always(500));
    server.put("/v1/topics/t/policy", json!({"deliver_to": receiver.url("/")})).ok(200);
    let said = server.post("/v1/topics/t/test-delivery", json!({})).ok(200);
    assert_eq!((&said["delivered"], &said["signed"], &said["status"]), (&json!(false), &json!(false), &json!(500)));
    assert_eq!(said["error"], "the target answered 500 Internal Server Error");
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let elsewhere = json!({"deliver_to": format!("http://{closed}/")});
    let said = server.post("/v1/topics/t/test-delivery", elsewhere).ok(200);
    assert_eq!((&said["delivered"], said.get("status")), (&json!(false), None));
    assert_eq!(said["error"], "the target was not reached: connection refused");
}

#[test]
fn a_sample_needs_a_topic_and_a_target() {
    let server = server();
    server.post("/v1/topics/t/test-delivery", json!({})).problem(404, "not_found");
    server.put("/v1/topics/t/policy", json!({})).ok(200);
    server.post("/v1/topics/t/test-delivery", json!({})).wrong("deliver_to");
    server.post("/v1/topics/t/test-delivery", json!({"deliver_to": "nowhere"})).wrong("deliver_to");
    server.post("/v1/topics/t/test-delivery", json!({"to": "x"})).wrong("to");
}
