//! Consumers that wait: who is served, when, and what becomes of those who go away.

use std::io::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{ids, millis, number_of};
use crate::server::{Server, timed, until};

#[test]
fn a_wait_without_jobs_ends_in_time() {
    let server = Server::new();
    for wait in [json!("150ms"), json!(150)] {
        let (jobs, took) = timed(|| server.lease("t", json!({ "wait": wait })));
        assert!(jobs.is_empty());
        assert!((Duration::from_millis(140)..Duration::from_secs(5)).contains(&took), "{took:?}");
    }
    let (jobs, took) = timed(|| server.lease("t", json!({"wait": 0})));
    assert!(jobs.is_empty() && took < Duration::from_secs(2), "{took:?}");
}

#[test]
fn who_waits_is_answered_by_a_put() {
    let server = Server::new();
    server.put_job("t", "other", json!({"delay": "1d"}));
    let waiting = server.later("/v1/lease", json!({"topics": ["never", "t"], "wait": "60s", "max": 10}));
    server.parked("t", 1);
    server.put_job("never", "a", json!({"body": 1}));
    let jobs = waiting.join().unwrap().list("jobs");
    assert_eq!((ids(&jobs), &jobs[0]["topic"]), (vec!["a"], &json!("never")));
    server.parked("t", 0);
}

#[test]
fn who_waits_is_answered_when_a_job_is_due_and_not_before() {
    let server = Server::in_real_time(&[]);
    let put = server.put_job("t", "a", json!({"delay": "300ms"}));
    let job = server.lease("t", json!({"wait": "20s"})).remove(0);
    let leased_at = millis(&job["lease_expires_at"]) - 60_000;
    assert!(leased_at >= millis(&put["due_at"]), "{job}");
}

#[test]
fn who_waits_is_answered_when_the_clock_is_moved_to_the_very_millisecond() {
    let server = Server::new();
    let put = server.put_job("t", "a", json!({"delay": "15h"}));
    let waiting = server.later("/v1/topics/t/lease", json!({"wait": "60s"}));
    server.parked("t", 1);
    server.advance("14h59m59s999ms");
    server.parked("t", 1);
    assert!(server.lease("t", json!({"wait": "100ms"})).is_empty(), "a millisecond is left, however long one waits");
    server.advance("1ms");
    let jobs = waiting.join().unwrap().list("jobs");
    assert_eq!((ids(&jobs), server.now()), (vec!["a"], millis(&put["due_at"])));
}

#[test]
fn nothing_of_the_store_moves_while_the_clock_stands_still() {
    let server = Server::new();
    let before = server.now();
    server.put("/v1/topics/t/policy", json!({"retry": {"backoff": [0]}})).ok(200);
    server.put_job("t", "a", json!({}));
    server.put_job("t", "b", json!({"delay": "1ms"}));
    let held = server.lease("t", json!({"ttr": "1s"})).remove(0);
    // Longer than the lease, than the delay, and than the store leaves its clock unchecked.
    let (jobs, took) = timed(|| server.lease("t", json!({"wait": "2500ms"})));
    assert!(jobs.is_empty() && took >= Duration::from_millis(2_500), "a wait is a real one: {took:?} {jobs:?}");
    assert_eq!(server.now(), before);
    assert_eq!(millis(&held["lease_expires_at"]), before + 1_000);
    server.advance("999ms");
    assert_eq!(ids(&server.lease("t", json!({"max": 10}))), ["b"]);
    server.settle(&held, "extend", json!({"ttr": "1s"})).ok(200);
    server.advance("999ms");
    server.settle(&held, "ack", json!({})).ok(200);
}

#[test]
fn a_clock_that_stands_goes_on_where_it_was_after_a_restart() {
    let mut server = Server::on_files();
    server.put_job("t", "a", json!({"delay": "3d"}));
    server.advance("2d");
    let before = server.now();
    server.terminate();
    assert_eq!(server.end().code(), Some(0));
    server.start_again();
    assert_eq!(server.now(), before, "it is no clock that is behind");
    assert!(server.lease("t", json!({"wait": "1500ms"})).is_empty());
    server.advance("23h59m59s999ms");
    assert!(server.lease("t", json!({})).is_empty());
    server.advance("1ms");
    assert_eq!(server.now(), before + 86_400_000, "and an hour is an hour");
    server.lease_one("t");
    assert_eq!(server.get("/readyz").ok(200)["reasons"], json!([]));
}

#[test]
fn who_waits_is_answered_by_everything_that_makes_a_job_ready() {
    let server = Server::new();
    let path = "/v1/topics/t/jobs/a";
    server.put_job("t", "a", json!({"delay": "1d", "retry": {"backoff": [0]}}));
    let wait = || {
        let waiting = server.later("/v1/topics/t/lease", json!({"wait": "60s"}));
        server.parked("t", 1);
        waiting
    };
    let got = |waiting: std::thread::JoinHandle<crate::client::Answer>| -> Value {
        waiting.join().unwrap().list("jobs").remove(0)
    };
    let waiting = wait();
    server.patch(path, json!({"delay": 0})).ok(200);
    let job = got(waiting);
    let waiting = wait();
    server.settle(&job, "release", json!({})).ok(200);
    let job = got(waiting);
    let waiting = wait();
    server.settle(&job, "nack", json!({})).ok(200);
    let job = got(waiting);
    server.settle(&job, "bury", json!({})).ok(200);
    let waiting = wait();
    server.post("/v1/topics/t/redrive", json!({})).ok(200);
    let job = got(waiting);
    server.post("/v1/topics/t/pause", json!({})).ok(200);
    server.settle(&job, "release", json!({})).ok(200);
    let waiting = wait();
    server.post("/v1/topics/t/resume", json!({})).ok(200);
    assert_eq!(got(waiting)["id"], "a");
}

#[test]
fn who_came_first_is_served_first() {
    let server = Server::new();
    server.put_job("t", "keep", json!({"delay": "1d"}));
    let waiting: Vec<_> = (1..=5)
        .map(|n| {
            let request = json!({"wait": "60s", "consumer": format!("{n}")});
            let waiting = server.later("/v1/topics/t/lease", request);
            server.parked("t", n);
            waiting
        })
        .collect();
    for (n, waiting) in (1..).zip(waiting) {
        server.put_job("t", &format!("job{n}"), json!({}));
        let jobs = waiting.join().unwrap().list("jobs");
        assert_eq!((ids(&jobs), &jobs[0]["consumer"]), (vec![&*format!("job{n}")], &json!(format!("{n}"))));
    }
}

#[test]
fn one_put_of_many_serves_many() {
    let server = Server::new();
    server.put_job("t", "keep", json!({"delay": "1d"}));
    let waiting: Vec<_> = (0..4).map(|_| server.later("/v1/topics/t/lease", json!({"wait": "60s"}))).collect();
    server.parked("t", 4);
    server.post("/v1/jobs", json!({"jobs": vec![json!({"topic": "t"}); 4]})).ok(200);
    let mut got: Vec<_> =
        waiting.into_iter().map(|waiting| waiting.join().unwrap().list("jobs")[0]["id"].clone()).collect();
    got.sort_by_key(ToString::to_string);
    got.dedup();
    assert_eq!(got.len(), 4, "each has one of its own");
}

#[test]
fn who_goes_away_frees_the_place_and_loses_no_job() {
    let server = Server::new();
    server.put_job("t", "keep", json!({"delay": "1d"}));
    let request = b"POST /v1/topics/t/lease HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                    content-length: 15\r\n\r\n{\"wait\": \"60s\"}";
    let mut gone = server.connect();
    gone.write_all(request).unwrap();
    server.parked("t", 1);
    let next = server.later("/v1/topics/t/lease", json!({"wait": "60s"}));
    server.parked("t", 2);
    drop(gone);
    server.parked("t", 1);
    server.put_job("t", "a", json!({}));
    let jobs = next.join().unwrap().list("jobs");
    assert_eq!((ids(&jobs), &jobs[0]["attempt"]), (vec!["a"], &json!(1)), "the next in line has it, uncounted before");
    // Also if there is no next, and also if they go just as the job comes.
    for n in 0..20 {
        let mut gone = server.connect();
        gone.write_all(request).unwrap();
        server.parked("t", 1);
        drop(gone);
        server.put_job("t", &format!("b{n}"), json!({}));
        let job = server.lease("t", json!({"wait": "10s", "auto_ack": true}));
        assert_eq!(ids(&job), [format!("b{n}")], "released again, or never taken");
        until("the place is free", || server.topic("t")["waiting"] == 0);
    }
    assert_eq!(number_of(&server.topic("t")["counts"]["ready"]), 0);
}

#[test]
fn who_waits_for_a_paused_topic_stays_parked() {
    let server = Server::new();
    server.post("/v1/topics/t/pause", json!({})).ok(200);
    let waiting = server.later("/v1/topics/t/lease", json!({"wait": "60s"}));
    server.parked("t", 1);
    server.put_job("t", "a", json!({}));
    assert_eq!((&server.topic("t")["counts"]["ready"], &server.topic("t")["waiting"]), (&json!(1), &json!(1)));
    assert!(server.lease("t", json!({})).is_empty());
    server.post("/v1/topics/t/resume", json!({})).ok(200);
    assert_eq!(ids(&waiting.join().unwrap().list("jobs")), ["a"]);
}

#[test]
fn a_pause_of_a_while_ends_by_itself() {
    let server = Server::new();
    server.put_job("t", "a", json!({}));
    let before = server.now();
    let paused = server.post("/v1/topics/t/pause", json!({"for": "60s"})).ok(200);
    assert_eq!(paused["paused"], true);
    let until = millis(&paused["paused_until"]);
    assert!((before + 60_000..=server.now() + 60_001).contains(&until), "{paused}");
    let waiting = server.later("/v1/topics/t/lease", json!({"wait": "60s"}));
    server.parked("t", 1);
    server.advance("30s");
    assert_eq!(server.topic("t")["waiting"], 1);
    server.advance("31s");
    assert_eq!(ids(&waiting.join().unwrap().list("jobs")), ["a"]);
    let topic = server.topic("t");
    assert!(topic["paused"] == false && topic.get("paused_until").is_none(), "{topic}");
}
