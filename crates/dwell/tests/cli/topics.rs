//! `dwell topics`, `pause`, `resume`, `redrive`, `timeline`.

use serde_json::json;

use crate::world::{Server, ends_in};

#[test]
fn topics_are_listed_with_what_they_hold() {
    let server = Server::start();
    server.dwell(&["put", "orders.close", "a", "--delay", "2h"]).good();
    server.dwell(&["put", "orders.pay", "a"]).good();
    server.dwell(&["put", "mail", "a"]).good();
    let listed = server.dwell(&["topics", "--prefix", "orders."]).good();
    let lines: Vec<_> = listed.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(lines[0], "TOPIC DELAYED READY LEASED BURIED NEXT DUE PAUSED");
    assert!(["orders.close 1 0 0 0 in 2h", "orders.close 1 0 0 0 in 1h59m"].contains(&lines[1].as_str()), "{listed}");
    assert_eq!(lines[2..], ["orders.pay 0 1 0 0"]);

    let topics = server.json(&["topics"]).objects();
    let names: Vec<_> = topics.iter().map(|topic| topic["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["mail", "orders.close", "orders.pay"]);
    assert_eq!(topics[0]["counts"], json!({"delayed": 0, "ready": 1, "leased": 0, "buried": 0}));
}

#[test]
fn a_paused_topic_hands_nothing_out() {
    let server = Server::start();
    server.dwell(&["put", "t", "a"]).good();
    assert_eq!(server.dwell(&["pause", "t"]).good(), "t is paused until it is resumed\n");
    server.dwell(&["lease", "t"]).bad(7);
    let listed = server.dwell(&["topics"]).good();
    assert!(listed.ends_with("  until resumed\n"), "{listed}");
    assert_eq!(server.dwell(&["resume", "t"]).good(), "t is resumed, 1 ready\n");
    server.dwell(&["lease", "t"]).good();

    let said = server.dwell(&["pause", "t", "--for", "1h"]).good();
    assert!(said.starts_with("t is paused until 20") && ends_in(&said, "1h", "59m"), "{said}");
    let paused = server.json(&["pause", "t", "--for", "1h"]).object();
    assert!(paused["paused"] == true && paused["paused_until"].is_string(), "{paused}");
    assert_eq!(server.json(&["resume", "t"]).object()["paused"], false);
    server.dwell(&["pause", "t", "--for", "ever"]).bad(2);
    server.dwell(&["resume", "nowhere"]).bad(3);
}

#[test]
fn dead_letters_are_brought_back() {
    let server = Server::start();
    let bury = |id: &str| {
        server.dwell(&["put", "t", id, "--attempts", "1"]).good();
        let token = server.token("t");
        server.dwell(&["nack", &token]).good();
    };
    bury("a");
    bury("b");
    bury("c");
    assert_eq!(server.dwell(&["redrive", "t", "--id", "c", "--delay", "1h"]).good(), "1 brought back, 0 left\n");
    assert_eq!(server.json(&["get", "t", "c"]).object()["state"], "delayed");
    let done = server.json(&["redrive", "t", "--max", "1", "--reason", "attempts_exhausted", "--rate", "10"]).object();
    assert_eq!(done, json!({"redriven": 1, "remaining": 1}));
    assert_eq!(server.json(&["get", "t", "b"]).object()["state"], "buried");
    server.dwell(&["redrive", "nowhere"]).bad(3);
}

#[test]
fn the_future_is_counted() {
    let server = Server::start();
    for (topic, id) in [("t", "a"), ("t", "b"), ("u", "a")] {
        server.dwell(&["put", topic, id, "--at", "2030-01-01T00:30:00Z"]).good();
    }
    let stretch = ["--from", "2030-01-01T00:00:00Z", "--until", "2030-01-01T02:00:00Z"];
    let buckets = server.json(&["timeline", "t", stretch[0], stretch[1], stretch[2], stretch[3]]).objects();
    assert_eq!(buckets[0]["until"], "2030-01-01T01:00:00.000Z");
    assert_eq!(buckets.iter().map(|bucket| &bucket["count"]).collect::<Vec<_>>(), [&json!(2), &json!(0)]);

    let args = ["timeline", stretch[0], stretch[1], stretch[2], stretch[3], "--step", "30m"];
    let shown = server.dwell(&args).good();
    let lines: Vec<_> = shown.lines().collect();
    assert_eq!(lines.len(), 5, "{shown}");
    assert!(lines[2].starts_with("2030-01-01T00:30:00.000Z  in ") && lines[2].ends_with(&"#".repeat(40)), "{shown}");
    assert_eq!(lines[2].split_whitespace().nth(3), Some("3"));
    server.dwell(&["timeline", "--step", "90s"]).bad(2);
}
