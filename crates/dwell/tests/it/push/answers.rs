//! What each answer does to the job.

use std::time::Duration;

use serde_json::{Value, json};

use super::receiver::{Receiver, Reply, Request};
use super::{push, server, until_live};
use crate::client::{millis, text_of};
use crate::server::{Server, until};

const LADDER: [i64; 9] = [15, 180, 600, 1_800, 1_800, 3_600, 7_200, 21_600, 54_000];

/// Waits until a job is in a state; answers the job.
#[track_caller]
fn until_state(server: &Server, id: &str, state: &str) -> Value {
    until("the job is in that state", || server.job("t", id)["state"] == state);
    server.job("t", id)
}

#[test]
fn the_whole_ladder_is_climbed_to_the_millisecond_and_the_dead_letter_says_why() {
    let (server, receiver) = (server(), Receiver::always(500));
    let ladder = ["15s", "3m", "10m", "30m", "30m", "1h", "2h", "6h", "15h"];
    push(&server, "a", &receiver.url("/"), json!({"retry": {"backoff": ladder}}));
    let mut ids = Vec::new();
    for (index, step) in LADDER.into_iter().enumerate() {
        let got = receiver.next();
        assert_eq!(usize::try_from(got.attempt()).unwrap(), index + 1);
        ids.push(got.header("webhook-id").unwrap().to_owned());
        let job = until_state(&server, "a", "delayed");
        let attempts = job["attempts"].as_array().unwrap();
        let last = &attempts[index];
        assert_eq!(millis(&job["due_at"]) - millis(&last["at"]), step * 1_000, "step {index}");
        assert_eq!((&last["status"], &last["answer"]), (&json!(500), &json!("said the receiver")));
        assert_eq!(job["last_error"], "the target answered 500 Internal Server Error");
        server.advance(&format!("{}ms", step * 1_000 - 1));
        assert!(receiver.rest().is_empty(), "never early");
        server.advance("1ms");
    }
    assert_eq!(receiver.next().attempt(), 10);
    let dead = until_state(&server, "a", "buried");
    assert_eq!((&dead["buried_reason"], &dead["attempt"]), (&json!("attempts_exhausted"), &json!(10)));
    assert_eq!(dead["attempts"].as_array().unwrap().len(), 10);

    server.post("/v1/topics/t/redrive", json!({"reason": "gone"})).ok(200);
    assert_eq!(server.job("t", "a")["state"], "buried", "another reason");
    server.post("/v1/topics/t/redrive", json!({"reason": "attempts_exhausted"})).ok(200);
    let again = receiver.next();
    assert_eq!(again.attempt(), 1, "fresh attempts");
    ids.push(again.header("webhook-id").unwrap().to_owned());
    ids.dedup();
    assert_eq!(ids.len(), 1, "one id over retries and redrives: {ids:?}");
}

#[test]
fn every_good_status_acks() {
    let mut statuses = [200, 201, 202, 204, 299].into_iter();
    let receiver = Receiver::new(move |_| Reply::Status(statuses.next().unwrap(), Vec::new(), ""));
    let server = server();
    for id in ["a", "b", "c", "d", "e"] {
        push(&server, id, &receiver.url("/"), json!({}));
        assert_eq!(receiver.next().job(), id);
        until_live(&server, "t", 0);
    }
}

#[test]
fn gone_is_gone() {
    let (server, receiver) = (server(), Receiver::always(410));
    push(&server, "a", &receiver.url("/"), json!({}));
    let dead = until_state(&server, "a", "buried");
    assert_eq!((&dead["buried_reason"], &dead["attempt"]), (&json!("gone"), &json!(1)));
    assert_eq!(dead["attempts"][0]["status"], 410);
}

#[test]
fn a_redirect_is_not_followed() {
    let elsewhere = Receiver::always(200);
    let url = elsewhere.url("/elsewhere");
    let receiver = Receiver::new(move |_| Reply::Status(307, vec![("location", url.clone())], ""));
    let server = server();
    push(&server, "a", &receiver.url("/"), json!({"retry": {"backoff": ["1h"]}}));
    let job = until_state(&server, "a", "delayed");
    assert_eq!(job["last_error"], "the target answered 307 Temporary Redirect");
    assert!(elsewhere.rest().is_empty());
}

#[test]
fn retry_after_is_waited_for_if_it_is_longer_than_the_step() {
    let date = |from: &str, until: &str| vec![("date", from.to_owned()), ("retry-after", until.to_owned())];
    let seconds = |text: &str| vec![("retry-after", text.to_owned())];
    let (from, until_) = ("Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:59:37 GMT");
    let cases = [
        (429, seconds("120"), 120),
        (503, seconds("120"), 120),
        (503, seconds("5"), 60),
        (429, date(from, until_), 600),
        (503, date(from, until_), 600),
        (429, seconds("999999999"), 86_400),
        (429, seconds("soon"), 60),
        (500, seconds("120"), 60),
    ];
    let server = server();
    for (number, (status, headers, wanted)) in cases.into_iter().enumerate() {
        let receiver = Receiver::new(move |_| Reply::Status(status, headers.clone(), ""));
        let id = format!("job{number}");
        push(&server, &id, &receiver.url("/"), json!({"retry": {"backoff": ["1m"]}}));
        let job = until_state(&server, &id, "delayed");
        let rest = millis(&job["due_at"]) - millis(&job["attempts"][0]["at"]);
        assert_eq!(rest, wanted * 1_000, "case {number}");
        assert_eq!(job["attempt"], 1, "it counts");
    }
}

#[test]
fn what_breaks_off_is_tried_again() {
    let mut replies = [Reply::Reset, Reply::status(404), Reply::status(200)].into_iter();
    let receiver = Receiver::new(move |_| replies.next().unwrap());
    let server = server();
    push(&server, "a", &receiver.url("/"), json!({"retry": {"backoff": ["100ms"], "attempts": 5}}));
    for attempt in 1..=3 {
        assert_eq!(receiver.next().attempt(), attempt);
        if attempt < 3 {
            until_state(&server, "a", "delayed");
            server.advance("100ms");
        }
    }
    until_live(&server, "t", 0);
}

#[test]
fn a_target_that_is_not_there_is_an_error_that_is_kept() {
    let server = server();
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    push(&server, "a", &format!("http://{closed}/"), json!({"retry": {"attempts": 1}}));
    let dead = until_state(&server, "a", "buried");
    assert_eq!(dead["last_error"], "the target was not reached: connection refused");
    assert_eq!(dead["attempts"][0]["error"], "the target was not reached: connection refused");
    assert_eq!(dead["attempts"][0].get("status"), None);
}

#[test]
fn a_target_that_says_nothing_has_failed_after_fifteen_seconds() {
    let (server, receiver) = (server(), Receiver::new(|_| Reply::Hang));
    push(&server, "a", &receiver.url("/"), json!({"ttr": "1s", "retry": {"attempts": 1}}));
    receiver.next();
    let dead = until_state(&server, "a", "buried");
    assert_eq!(dead["last_error"], "no answer within 15 s");
    let took = dead["attempts"][0]["took_ms"].as_i64().unwrap();
    assert!((15_000..17_000).contains(&took), "{took} ms");
    assert!(receiver.rest().is_empty(), "its lease was held meanwhile, short as the job's ttr is");
}

#[test]
fn an_answer_without_end_is_an_answer() {
    let (server, receiver) = (server(), Receiver::new(|_| Reply::Endless));
    push(&server, "a", &receiver.url("/"), json!({}));
    receiver.next();
    until_live(&server, "t", 0);
}

#[test]
fn the_log_of_attempts_is_bounded_and_only_shown_where_it_is_asked_for() {
    let says =
        |request: &Request| Reply::Status(404, Vec::new(), if request.attempt() > 5 { "long, very long" } else { "" });
    let (server, receiver) = (server(), Receiver::new(says));
    push(&server, "a", &receiver.url("/"), json!({"retry": {"backoff": [0], "attempts": 25}}));
    let dead = until_state(&server, "a", "buried");
    let attempts = dead["attempts"].as_array().unwrap();
    assert_eq!((attempts.len(), &attempts[0]["answer"]), (20, &json!("long, very long")));
    let listed = server.get("/v1/topics/t/jobs").list("jobs");
    assert_eq!((text_of(&listed[0]["id"]), listed[0].get("attempts")), ("a", None));
}

#[test]
fn attempts_survive_a_crash() {
    let (mut server, receiver) = (server(), Receiver::always(500));
    push(&server, "a", &receiver.url("/"), json!({"retry": {"backoff": ["1h"]}}));
    until_state(&server, "a", "delayed");
    let before = server.job("t", "a");
    server.crash_and_start();
    assert_eq!(server.job("t", "a"), before);
    assert!(receiver.rest().len() == 1 && receiver.is_quiet(Duration::from_millis(100)));
}

#[test]
fn redriven_letters_are_spread() {
    let mut failing = true;
    let receiver = Receiver::new(move |request| {
        failing = failing && request.job() != "again";
        Reply::status(if failing { 500 } else { 200 })
    });
    let server = server();
    for id in ["a", "b", "c", "d"] {
        push(&server, id, &receiver.url("/"), json!({"retry": {"attempts": 1}}));
        until_state(&server, id, "buried");
        receiver.next();
    }
    push(&server, "again", &receiver.url("/"), json!({}));
    receiver.next();
    let redriven = server.post("/v1/topics/t/redrive", json!({"rate": 0.1, "max": 3})).ok(200);
    assert_eq!((&redriven["redriven"], &redriven["remaining"]), (&json!(3), &json!(1)));
    for id in ["a", "b", "c"] {
        assert_eq!(receiver.next().job(), id);
        assert!(receiver.is_quiet(Duration::from_millis(100)), "the next one is ten seconds later");
        server.advance("10s");
    }
}
