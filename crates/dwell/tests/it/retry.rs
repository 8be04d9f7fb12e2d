//! How failed jobs come back, and when they are given up.

use serde_json::{Value, json};

use crate::client::{job_path, millis};
use crate::server::Server;

/// Fails the job once; answers the rest until it is due again, or nothing if it was buried.
#[track_caller]
fn fail(server: &Server, topic: &str, expected_attempt: u64) -> Option<i64> {
    let job = server.lease_one(topic);
    assert_eq!(job["attempt"], expected_attempt);
    let now = server.now();
    server.settle(&job, "nack", json!({"error": "no"})).ok(200);
    let seen = server.job(topic, "a");
    if seen["state"] == "buried" {
        assert_eq!(seen["buried_reason"], "attempts_exhausted");
        return None;
    }
    let rest = millis(&seen["due_at"]) - now;
    server.advance(&format!("{}ms", rest.max(0)));
    Some(rest)
}

/// A rest of so many milliseconds, give or take what the test itself takes.
#[track_caller]
fn about(rest: Option<i64>, expected: i64) {
    let rest = rest.expect("it comes back");
    assert!((expected..expected + 5_000).contains(&rest), "{rest} is not about {expected}");
}

#[test]
fn a_ladder_is_climbed_step_by_step() {
    let server = Server::new();
    let ladder = ["15s", "3m", "10m", "30m", "30m", "1h", "2h", "6h", "15h"];
    let millis = [15, 180, 600, 1_800, 1_800, 3_600, 7_200, 21_600, 54_000].map(|seconds: i64| seconds * 1_000);
    server.put_job("t", "a", json!({"retry": {"backoff": ladder}}));
    assert_eq!(server.job("t", "a")["retry"], json!({"attempts": 10, "backoff": millis}), "its length and one");
    for (step, expected) in (1..).zip(millis) {
        about(fail(&server, "t", step), expected);
    }
    assert_eq!(fail(&server, "t", 10), None);
}

#[test]
fn the_last_step_of_a_ladder_repeats() {
    let server = Server::new();
    server.put_job("t", "a", json!({"retry": {"attempts": 5, "backoff": ["1m", 0, 120_000]}}));
    for (step, expected) in [(1, 60_000), (2, 0), (3, 120_000), (4, 120_000)] {
        about(fail(&server, "t", step), expected);
    }
    assert_eq!(fail(&server, "t", 5), None);
}

#[test]
fn an_exponential_backoff_grows_to_its_lid() {
    let server = Server::new();
    let backoff = json!({"initial": "10s", "factor": 3, "max": "100s", "jitter": 0});
    server.put_job("t", "a", json!({"retry": {"attempts": 5, "backoff": backoff}}));
    for (step, expected) in [(1, 10_000), (2, 30_000), (3, 90_000), (4, 100_000)] {
        about(fail(&server, "t", step), expected);
    }
    assert_eq!(fail(&server, "t", 5), None);
}

#[test]
fn the_default_is_twenty_attempts_from_a_second_to_an_hour() {
    let server = Server::new();
    server.put_job("t", "a", json!({}));
    let mut expected = 1_000;
    for attempt in 1..20 {
        let rest = fail(&server, "t", attempt).unwrap();
        let most = expected + expected / 10 + 5_000;
        assert!((expected..=most).contains(&rest), "attempt {attempt}: {rest} is not from {expected} to {most}");
        expected = (expected * 2).min(3_600_000);
        server.advance("1s");
    }
    assert_eq!(fail(&server, "t", 20), None);
}

#[test]
fn one_attempt_buries_on_the_first_failure() {
    let server = Server::new();
    for retry in [json!({"attempts": 1}), json!({"attempts": 1, "backoff": ["1s", "2s"]})] {
        server.put_job("t", "a", json!({ "retry": retry }));
        assert_eq!(fail(&server, "t", 1), None);
        let job = server.job("t", "a");
        assert_eq!((&job["attempt"], &job["last_error"]), (&json!(1), &json!("no")));
    }
}

#[test]
fn what_a_policy_does_not_say_is_the_default() {
    let server = Server::new();
    let put = |retry: Value| server.put_job("t", "a", json!({ "retry": retry }))["retry"].clone();
    let exponential = json!({"initial": 1_000, "factor": 2, "max": 3_600_000, "jitter": 0.1});
    assert_eq!(put(json!({})), json!({"attempts": 20, "backoff": exponential}));
    assert_eq!(put(json!({"attempts": 4})), json!({"attempts": 4, "backoff": exponential}));
    let partly = put(json!({"backoff": {"initial": "2h", "factor": 1.5}}));
    assert_eq!(partly["backoff"], json!({"initial": 7_200_000, "factor": 1.5, "max": 7_200_000, "jitter": 0.1}));
    assert_eq!(put(json!({"backoff": ["1s"]}))["attempts"], 2);
    assert_eq!(put(json!({"attempts": 4_294_967_295_u64}))["attempts"], 4_294_967_295_u64);
    for (retry, field) in [
        (json!({"backoff": {"factor": 0.5}}), "retry.backoff"),
        (json!({"backoff": {"factor": 1001}}), "retry.backoff"),
        (json!({"backoff": {"jitter": 1.1}}), "retry.backoff"),
        (json!({"backoff": {"jitter": -0.1}}), "retry.backoff"),
        (json!({"backoff": {"initial": "2h", "max": "1h"}}), "retry.backoff"),
        (json!({"backoff": {"max": "3651d"}}), "retry.backoff.max"),
        (json!({"backoff": vec!["1s"; 101]}), "retry.backoff"),
        (json!({"backoff": ["3651d"]}), "retry.backoff"),
        (json!({"attempts": 4_294_967_296_u64}), "retry.attempts"),
    ] {
        server.put(&job_path("t", "a"), json!({ "retry": retry })).wrong(field);
    }
}

#[test]
fn past_its_ttl_a_job_is_buried_and_never_handed_out() {
    let server = Server::new();
    server.put_job("t", "waiting", json!({"delay": "1h", "ttl": "10m"}));
    server.advance("1h9m");
    assert_eq!(server.job("t", "waiting")["state"], "ready");
    server.advance("2m");
    let job = server.job("t", "waiting");
    assert_eq!(
        (&job["state"], &job["buried_reason"], &job["attempt"]),
        (&json!("buried"), &json!("expired"), &json!(0))
    );
    assert!(server.lease("t", json!({})).is_empty());
    assert_eq!(server.topic("t")["totals"]["buried"], 1);
}

#[test]
fn retries_do_not_move_the_end_of_a_ttl() {
    let server = Server::new();
    let retry = json!({"attempts": 9, "backoff": ["4m"]});
    let expires = server.put_job("t", "a", json!({"ttl": "10m", "retry": retry}))["expires_at"].clone();
    for attempt in [1, 2] {
        about(fail(&server, "t", attempt), 240_000);
        assert_eq!(server.job("t", "a")["expires_at"], expires);
    }
    // The third would be due after the end; whichever way it is buried, it is not handed out again.
    let job = server.lease_one("t");
    server.settle(&job, "nack", json!({"error": "no"})).ok(200);
    server.advance("5m");
    let seen = server.job("t", "a");
    assert_eq!((&seen["state"], &seen["buried_reason"]), (&json!("buried"), &json!("expired")), "{seen}");
    // A redrive gives it a new life, which the ttl counts from.
    server.post("/v1/topics/t/redrive", json!({"delay": "1h"})).ok(200);
    let seen = server.job("t", "a");
    assert_eq!(millis(&seen["expires_at"]), millis(&seen["due_at"]) + 600_000);
    assert_eq!(seen["attempt"], 0);
}
