//! `dwell get`, `move`, `cancel`, `jobs`: one job, and all of a topic.

use serde_json::json;

use crate::world::{Server, ends_in};

const NO_JOB: &str = "dwell: there is no live job with this topic and id\n";

#[test]
fn a_job_is_shown_with_all_that_it_carries() {
    let server = Server::start();
    server.dwell(&["put", "t", "a", "--delay", "1h", "--body", "{\"x\":\n1}", "--header", "k=v"]).good();
    let shown = server.dwell(&["get", "t", "a"]).good();
    let pairs: Vec<_> = shown.lines().filter_map(|line| line.split_once("  ")).collect();
    let value = |name: &str| pairs.iter().find(|(found, _)| *found == name).map(|(_, value)| value.trim());
    assert_eq!((value("topic"), value("id"), value("state")), (Some("t"), Some("a"), Some("delayed")));
    assert!(value("due").unwrap().ends_with("Z (in 1h)") || value("due").unwrap().ends_with("Z (in 59m)"), "{shown}");
    assert_eq!((value("attempt"), value("ttr")), (Some("0 of 20"), Some("1m")));
    assert_eq!((value("headers"), value("body")), (Some("k=v"), Some("{\"x\": 1}")));

    let got = server.json(&["get", "t", "a"]).object();
    assert_eq!((&got["state"], &got["body"]), (&json!("delayed"), &json!({"x": 1})));
    assert_eq!(server.dwell(&["get", "t", "b"]).bad(3), NO_JOB);
}

#[test]
fn a_job_is_moved() {
    let server = Server::start();
    server.dwell(&["put", "t", "a", "--delay", "1h"]).good();
    let said = server.dwell(&["move", "t", "a", "--delay", "2h"]).good();
    assert!(said.starts_with("moved a on t, due 20") && ends_in(&said, "2h", "1h59m"), "{said}");
    let moved = server.json(&["move", "t", "a", "--at", "2030-01-01T00:00:00Z"]).object();
    assert_eq!(moved["due_at"], "2030-01-01T00:00:00.000Z");
    assert_eq!(server.dwell(&["move", "t", "b", "--delay", "1s"]).bad(3), NO_JOB);
    assert!(server.dwell(&["move", "t", "a"]).bad(2).contains("--delay <DURATION>|--at <INSTANT>"));

    server.dwell(&["move", "t", "a", "--delay", "0s"]).good();
    let token = server.token("t");
    server.dwell(&["move", "t", "a", "--delay", "1s"]).bad(4);
    server.dwell(&["move", "t", "a", "--delay", "1h", "--force"]).good();
    server.dwell(&["ack", &token]).bad(4);
}

#[test]
fn a_job_is_cancelled() {
    let server = Server::start();
    let put = || server.dwell(&["put", "t", "a/b c"]).good();
    put();
    assert_eq!(server.dwell(&["cancel", "t", "a/b c"]).good(), "cancelled a/b c on t\n");
    assert_eq!(server.dwell(&["cancel", "t", "a/b c"]).bad(3), NO_JOB);
    put();
    let cancelled = server.json(&["cancel", "t", "a/b c"]).object();
    assert_eq!(cancelled, json!({"topic": "t", "id": "a/b c", "outcome": "cancelled"}));
    put();
    server.token("t");
    let refusal = server.dwell(&["cancel", "t", "a/b c"]).bad(4);
    assert_eq!(refusal, "dwell: a consumer holds the job; wait for it, or say --force\n");
    server.dwell(&["cancel", "t", "a/b c", "--force"]).good();
}

#[test]
fn jobs_are_listed_by_state_and_as_many_as_wanted() {
    let server = Server::start();
    for (id, delay) in [("b", "2h"), ("a", "1h"), ("now", "0s")] {
        server.dwell(&["put", "t", id, "--delay", delay, "--body", id]).good();
    }
    let listed = server.dwell(&["jobs", "t"]).good();
    let lines: Vec<_> = listed.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).collect();
    assert_eq!(lines[0], ["ID", "STATE", "DUE", "ATTEMPT", "BODY"]);
    assert_eq!(
        lines[1..].iter().map(|line| (line[0], line[1])).collect::<Vec<_>>(),
        [("now", "ready"), ("a", "delayed"), ("b", "delayed")]
    );
    assert!(listed.contains("  in 1h  ") || listed.contains("  in 59m  "), "{listed}");

    let ids = |args: &[&str]| -> Vec<_> {
        server.json(args).objects().into_iter().map(|job| job["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(&["jobs", "t", "--state", "delayed"]), ["a", "b"]);
    assert_eq!(ids(&["jobs", "t", "--limit", "2"]), ["now", "a"]);
    assert!(server.dwell(&["jobs", "t", "--limit", "2"]).good().ends_with("There are more; --limit 20 shows more.\n"));
    server.dwell(&["jobs", "t", "--state", "late"]).bad(2);
    assert!(server.dwell(&["jobs", "nowhere"]).bad(3).starts_with("dwell: there is no such topic"));
}
