//! Where jobs go, and what is said to the target.

use std::time::Duration;

use serde_json::json;

use super::receiver::Receiver;
use super::{push, server, until_live};
use crate::client::{job_path, text_of};
use crate::server::Server;

#[test]
fn a_job_with_a_target_is_posted_when_it_is_due() {
    let (server, receiver) = (server(), Receiver::always(200));
    let url = receiver.url("/hook?x=1");
    let headers = json!({"x-api-key": "k", "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"});
    let put = push(&server, "order%20%E8%AE%A2%E5%8D%95", &url, json!({"delay": "1h", "headers": headers}));
    assert_eq!(put["deliver_to"], url);
    assert!(receiver.is_quiet(Duration::from_millis(200)), "never early");
    server.advance("1h");
    let got = receiver.next();
    assert_eq!((got.method.as_str(), got.path.as_str()), ("POST", "/hook?x=1"));
    assert_eq!(got.body, b"{\"job\":\"order%20%E8%AE%A2%E5%8D%95\"}", "exactly as it was sent");
    for (name, value) in [
        ("content-type", "application/json"),
        ("dwell-topic", "t"),
        ("dwell-job-id", "order%20%E8%AE%A2%E5%8D%95"),
        ("dwell-attempt", "1"),
        ("x-api-key", "k"),
    ] {
        assert_eq!(got.header(name), Some(value), "{name}");
    }
    assert!(got.header("traceparent").unwrap().starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-"));
    assert!(!got.header("webhook-id").unwrap().contains('.'));
    assert!(got.header("webhook-timestamp").unwrap().parse::<u64>().is_ok());
    assert_eq!(got.header("webhook-signature"), None, "the topic has no secret");
    until_live(&server, "t", 0);
}

#[test]
fn bytes_are_posted_as_bytes() {
    let (server, receiver) = (server(), Receiver::always(200));
    server.put_job("t", "a", json!({"deliver_to": receiver.url("/"), "body_base64": "AAH/"}));
    let got = receiver.next();
    assert_eq!((got.body.as_slice(), got.header("content-type")), (&[0, 1, 255][..], Some("application/octet-stream")));
}

#[test]
fn a_topics_target_takes_all_its_jobs_and_a_jobs_own_goes_first() {
    let (server, topics, own) = (server(), Receiver::always(200), Receiver::always(200));
    server.put_job("t", "waiting", json!({}));
    server.put("/v1/topics/t/policy", json!({"deliver_to": topics.url("/topic")})).ok(200);
    assert_eq!(topics.next().job(), "waiting", "jobs that wait already, too");
    server.put_job("t", "second", json!({}));
    server.put_job("t", "own", json!({"deliver_to": own.url("/own")}));
    assert_eq!((topics.next().job(), own.next().job()), ("second", "own"));
    until_live(&server, "t", 0);
    server.put("/v1/topics/t/policy", json!({})).ok(200);
    server.put_job("t", "pulled", json!({}));
    assert_eq!(server.lease_one("t")["id"], "pulled", "without a target consumers pull again");
}

#[test]
fn pushed_jobs_are_not_for_consumers() {
    let (server, receiver) = (server(), Receiver::always(200));
    server.post("/v1/topics/t/pause", json!({})).ok(200);
    push(&server, "pushed", &receiver.url("/"), json!({}));
    server.post("/v1/topics/t/resume", json!({})).ok(200);
    assert_eq!(server.lease("t", json!({"wait": "200ms"})).len(), 0);
    assert_eq!(receiver.next().job(), "pushed");
}

#[test]
fn a_paused_topic_pushes_nothing() {
    let (server, receiver) = (server(), Receiver::always(200));
    server.post("/v1/topics/t/pause", json!({})).ok(200);
    push(&server, "a", &receiver.url("/"), json!({}));
    assert!(receiver.is_quiet(Duration::from_millis(300)));
    server.post("/v1/topics/t/resume", json!({})).ok(200);
    assert_eq!(receiver.next().job(), "a");
}

#[test]
fn a_target_can_be_given_changed_and_taken_away() {
    let (server, first, second) = (server(), Receiver::always(200), Receiver::always(200));
    push(&server, "moved", &first.url("/"), json!({"delay": "1h"}));
    let changed = server.patch(&job_path("t", "moved"), json!({"deliver_to": second.url("/x"), "delay": 0})).ok(200);
    assert_eq!(changed["deliver_to"], second.url("/x"));
    assert_eq!(second.next().path, "/x");
    push(&server, "pulled", &first.url("/"), json!({"delay": "1h"}));
    let cleared = server.patch(&job_path("t", "pulled"), json!({"deliver_to": null, "delay": 0})).ok(200);
    assert_eq!(cleared.get("deliver_to"), None);
    assert_eq!(server.lease_one("t")["id"], "pulled");
    assert!(first.rest().is_empty());
}

#[test]
fn many_jobs_are_put_with_targets_at_once_and_each_is_judged() {
    let (server, receiver) = (server(), Receiver::always(200));
    let jobs = json!({"jobs": [
        {"topic": "t", "id": "good", "deliver_to": receiver.url("/")},
        {"topic": "t", "id": "bad", "deliver_to": "http://169.254.169.254/"},
    ]});
    let results = server.post("/v1/jobs", jobs).list("results");
    assert_eq!((&results[0]["status"], &results[1]["status"]), (&json!(201), &json!(400)));
    assert_eq!(results[1]["errors"][0]["field"], "deliver_to");
    assert_eq!(receiver.next().job(), "good");
}

#[test]
fn each_job_goes_out_once() {
    let (server, receiver) = (server(), Receiver::always(200));
    let jobs: Vec<_> = (0..500)
        .map(|number| json!({"topic": format!("t{}", number % 7), "id": format!("{number}"), "deliver_to": receiver.url("/")}))
        .collect();
    server.post("/v1/jobs", json!({ "jobs": jobs })).ok(200);
    let mut got: Vec<u32> = (0..500).map(|_| receiver.next().job().parse().unwrap()).collect();
    got.sort_unstable();
    assert_eq!(got, (0..500).collect::<Vec<_>>());
    (0..7).for_each(|topic| until_live(&server, &format!("t{topic}"), 0));
    assert!(receiver.rest().is_empty());
}

#[test]
fn cloud_events_are_sent_where_they_are_wanted() {
    let server = Server::with(&["--allow-private-targets", "--cloud-events"]);
    let receiver = Receiver::always(200);
    push(&server, "a", &receiver.url("/"), json!({}));
    let got = receiver.next();
    assert_eq!((got.header("ce-specversion"), got.header("ce-type")), (Some("1.0"), Some("t")));
    assert_eq!(got.header("ce-id"), got.header("webhook-id"));
    assert!(text_of(&json!(got.header("ce-time").unwrap())).ends_with('Z'));
}
