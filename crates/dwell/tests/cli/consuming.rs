//! `dwell lease`, `ack`, `nack`.

use serde_json::json;

use crate::world::{Server, ended};

#[test]
fn a_job_is_leased_and_acked() {
    let server = Server::start();
    server.dwell(&["put", "t", "a", "--body", "{\"x\":1}"]).good();
    let leased = server.json(&["lease", "t", "--ttr", "5s", "--consumer", "me"]).object();
    assert_eq!((&leased["state"], &leased["attempt"]), (&json!("leased"), &json!(1)));
    assert_eq!((&leased["body"], &leased["consumer"]), (&json!({"x": 1}), &json!("me")));
    let token = leased["token"].as_str().unwrap();

    assert_eq!(server.dwell(&["lease", "t"]).bad(7), "dwell: nothing is due on t now\n");
    assert_eq!(server.dwell(&["lease", "t", "--wait", "10ms"]).bad(7), "dwell: nothing is due on t within 10ms\n");

    assert_eq!(server.dwell(&["ack", token]).good(), "acked 1 job\n");
    server.dwell(&["get", "t", "a"]).bad(3);
    let lost = server.dwell(&["ack", token]).bad(4);
    assert_eq!(lost, format!("dwell: {token}: the lease is lost: it ran out, was settled or was revoked\n"));
}

#[test]
fn people_see_a_table_of_what_they_lease() {
    let server = Server::start();
    for (topic, body) in [("t", "one"), ("u", "two")] {
        server.dwell(&["put", topic, "a", "--body", body]).good();
    }
    let leased = server.dwell(&["lease", "t", "u", "--max", "5"]).good();
    let lines: Vec<_> = leased.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).collect();
    assert_eq!(lines[0], ["TOPIC", "ID", "ATTEMPT", "EXPIRES", "TOKEN", "BODY"]);
    assert_eq!((lines[1][0], lines[1][6]), ("t", "\"one\""), "{leased}");
    assert_eq!((lines[2][0], lines[2][6]), ("u", "\"two\""), "{leased}");
    assert_eq!(server.dwell(&["ack", lines[1][5], lines[2][5]]).good(), "acked 2 jobs\n");
}

#[test]
fn a_lease_waits_for_a_job() {
    let server = Server::start();
    let waiting = server.parked("t", &["lease", "t", "--wait", "60s", "--json"]);
    server.dwell(&["put", "t", "a"]).good();
    assert_eq!(ended(waiting).object()["id"], "a");
}

#[test]
fn auto_ack_leaves_nothing_to_settle() {
    let server = Server::start();
    server.dwell(&["put", "t", "a"]).good();
    let leased = server.json(&["lease", "t", "--auto-ack"]).object();
    assert_eq!((&leased["id"], leased.get("token")), (&json!("a"), None));
    server.dwell(&["get", "t", "a"]).bad(3);
}

#[test]
fn a_failed_job_comes_again_with_its_error() {
    let server = Server::start();
    server.dwell(&["put", "t", "a"]).good();
    let token = server.token("t");
    assert_eq!(server.dwell(&["nack", &token, "--error", "-1 is odd", "--delay", "1h"]).good(), "nacked 1 job\n");
    let job = server.json(&["get", "t", "a"]).object();
    assert_eq!(
        (&job["state"], &job["last_error"], &job["attempt"]),
        (&json!("delayed"), &json!("-1 is odd"), &json!(1))
    );
    server.dwell(&["nack", &token, "--delay", "5x"]).bad(2);
}

/// What could be settled is, and every other token is named.
#[test]
fn each_token_is_judged_on_its_own() {
    let server = Server::start();
    server.dwell(&["put", "t", "a"]).good();
    let token = server.token("t");
    let ran = server.json(&["ack", "nonsense", &token]);
    assert_eq!(ran.code, 4);
    assert!(ran.err.starts_with("dwell: nonsense: the lease is lost"), "{ran:?}");
    let lines: Vec<serde_json::Value> = ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&lines[0]["token"], &lines[0]["code"]), (&json!("nonsense"), &json!("lease_lost")));
    assert_eq!(lines[1], json!({"token": token, "verb": "ack", "status": 200}));
}
