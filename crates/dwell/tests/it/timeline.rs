//! The future: how many jobs are due when.

use serde_json::{Value, json};

use crate::client::{job_path, millis};
use crate::server::Server;

const MINUTE: i64 = 60_000;
/// 2031-01-01T00:00:00Z, a whole hour.
const START: i64 = 1_924_992_000_000;

fn buckets(server: &Server, path: &str) -> Vec<(i64, i64, i64)> {
    let read = |bucket: &Value| (millis(&bucket["from"]), millis(&bucket["until"]), bucket["count"].as_i64().unwrap());
    server.get(path).list("buckets").iter().map(read).collect()
}

#[test]
fn buckets_are_exact_at_whole_minutes() {
    let server = Server::new();
    let due = [0, 1, 59_999, 60_000, 119_999, 120_000, 3_599_999, 3_600_000, 7_199_999];
    for (n, after) in due.iter().enumerate() {
        server.put_job(if n % 2 == 0 { "even" } else { "odd" }, &format!("{n}"), json!({"at": START + after}));
    }
    let query = |step: &str, until: i64| format!("timeline?from={START}&until={}&step={step}", START + until);
    let all = |step: &str, until: i64| buckets(&server, &format!("/v1/{}", query(step, until)));
    let counts = |found: Vec<(i64, i64, i64)>| found.into_iter().map(|(_, _, count)| count).collect::<Vec<_>>();
    assert_eq!(counts(all("1m", 4 * MINUTE)), [3, 2, 1, 0]);
    assert_eq!(counts(all("2m", 4 * MINUTE)), [5, 1]);
    assert_eq!(counts(all("1h", 120 * MINUTE)), [7, 2]);
    assert_eq!(counts(all("60m", 120 * MINUTE)), [7, 2]);
    let even = buckets(&server, &format!("/v1/topics/even/{}", query("1m", 3 * MINUTE)));
    assert_eq!(
        even,
        [
            (START, START + MINUTE, 2),
            (START + MINUTE, START + 2 * MINUTE, 1),
            (START + 2 * MINUTE, START + 3 * MINUTE, 0)
        ]
    );
    // What moves, moves here too.
    server.delete(&job_path("even", "0")).empty();
    server.patch(&job_path("odd", "1"), json!({"at": START + 3 * MINUTE})).ok(200);
    server.put_job("even", "2", json!({"at": START + 10 * MINUTE}));
    assert_eq!(counts(all("1m", 4 * MINUTE)), [0, 2, 1, 1]);
    server.delete("/v1/topics/odd").empty();
    assert_eq!(counts(all("1h", 120 * MINUTE)), [3, 1]);
}

#[test]
fn only_waiting_jobs_count_ready_ones_too() {
    let mut server = Server::new();
    let past = 1_600_000_020_000_i64 / MINUTE * MINUTE;
    for id in ["ready", "leased", "buried"] {
        server.put_job("t", id, json!({"at": past, "priority": if id == "ready" { 9 } else { 1 }}));
    }
    let jobs = server.lease("t", json!({"max": 2}));
    server.settle(&jobs[1], "bury", json!({})).ok(200);
    let path = format!("/v1/topics/t/timeline?from={past}&until={}&step=1m", past + MINUTE);
    assert_eq!(buckets(&server, &path), [(past, past + MINUTE, 1)]);
    server.crash_and_start();
    assert_eq!(buckets(&server, &path), [(past, past + MINUTE, 1)]);
}

#[test]
fn the_default_is_a_day_by_hours_from_now() {
    let server = Server::new();
    server.put_job("t", "a", json!({"delay": "90m"}));
    for path in ["/v1/timeline", "/v1/topics/t/timeline"] {
        let found = buckets(&server, path);
        assert_eq!(found.len(), 24, "{path}");
        let now = server.now();
        assert!((now - MINUTE - 5_000..=now).contains(&found[0].0), "from now, by whole minutes: {found:?}");
        assert!(found.windows(2).all(|two| two[0].1 == two[1].0), "without gaps");
        assert!(found.iter().all(|(from, until, _)| until - from == 60 * MINUTE));
        assert_eq!(found.iter().map(|(_, _, count)| count).sum::<i64>(), 1);
        assert_eq!(found[1].2, 1, "{found:?}");
    }
}

#[test]
fn a_timeline_has_limits() {
    let server = Server::new();
    server.put_job("t", "a", json!({}));
    for path in ["/v1/timeline", "/v1/topics/t/timeline"] {
        let ask =
            |step: &str, until: i64| server.get(&format!("{path}?from={START}&step={step}&until={}", START + until));
        assert_eq!(ask("1m", 1_000 * MINUTE).list("buckets").len(), 1_000);
        ask("1m", 1_001 * MINUTE).wrong("until");
        ask("1ms", MINUTE).wrong("step");
        ask("90s", 10 * MINUTE).wrong("step");
        ask("0s", 10 * MINUTE).wrong("step");
        ask("1h1s", 600 * MINUTE).wrong("step");
        ask("1h", 0).wrong("until");
        ask("1h", -1).wrong("until");
        ask("3650d", 3_650 * 1_440 * MINUTE).ok(200);
    }
}
