//! `dwell tail`.

use serde_json::json;

use crate::world::{Server, ended, interrupt, next_line};

#[test]
fn jobs_are_printed_and_acked_until_there_were_enough() {
    let server = Server::start();
    server.dwell(&["put", "t", "a", "--at", "1970-01-01T00:00:01Z", "--body", "one"]).good();
    server.dwell(&["put", "u", "b", "--at", "1970-01-01T00:00:02Z", "--body", "{\"two\":\n2}"]).good();
    server.dwell(&["put", "u", "c", "--at", "1970-01-01T00:00:03Z"]).good();
    let printed = server.dwell(&["tail", "t", "u", "--max", "2"]).good();
    assert_eq!(
        printed,
        "1970-01-01T00:00:01.000Z  t  a  \"one\"\n\
         1970-01-01T00:00:02.000Z  u  b  {\"two\": 2}\n"
    );
    server.dwell(&["get", "t", "a"]).bad(3);
    server.dwell(&["get", "u", "b"]).bad(3);
    assert_eq!(server.json(&["tail", "u", "--max", "1"]).object()["id"], "c");
}

#[test]
fn it_goes_on_until_interrupted() {
    let server = Server::start();
    let mut tail = server.parked("t", &["tail", "t"]);
    server.dwell(&["put", "t", "a"]).good();
    assert!(next_line(&mut tail).ends_with("  t  a  null"));
    server.dwell(&["put", "t", "b"]).good();
    assert!(next_line(&mut tail).ends_with("  t  b  null"));
    interrupt(&tail);
    ended(tail).good();
}

/// What nobody saw is not lost.
#[test]
fn a_job_that_cannot_be_printed_is_given_back() {
    let server = Server::start();
    let mut tail = server.parked("t", &["tail", "t"]);
    drop(tail.stdout.take());
    server.dwell(&["put", "t", "a"]).good();
    ended(tail).good();
    let job = server.json(&["get", "t", "a"]).object();
    assert_eq!((&job["state"], &job["attempt"]), (&json!("ready"), &json!(0)));
}
