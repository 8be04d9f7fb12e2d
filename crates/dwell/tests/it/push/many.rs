//! Many targets, many topics, some of them bad: nothing twice, nothing lost.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::receiver::{Receiver, Reply};
use super::{server, until_live};
use crate::client::millis;
use crate::server::until;

#[test]
fn among_bad_targets_every_good_job_lands_once() {
    let receivers: Vec<Receiver> = (0..40)
        .map(|number| {
            Receiver::new(move |_| match number {
                0 => Reply::Hang,
                1 => Reply::status(500),
                2 => Reply::Reset,
                3 => Reply::Endless,
                _ => Reply::status(200),
            })
        })
        .collect();
    let server = server();
    let jobs: Vec<_> = (0..40)
        .flat_map(|job| receivers.iter().enumerate().map(move |(target, receiver)| (job, target, receiver)))
        .map(|(job, target, receiver)| {
            let retry = json!({"backoff": ["1h"]});
            json!({"topic": format!("t{}", target / 4 % 3), "id": format!("{target}-{job}"), "deliver_to": receiver.url("/"), "retry": retry})
        })
        .collect();
    server.post("/v1/jobs", json!({ "jobs": jobs })).ok(200);
    // Those of the four bad targets stay, but for the one whose answers are good and never end; all are in t0.
    until_live(&server, "t1", 0);
    until_live(&server, "t2", 0);
    until_live(&server, "t0", 3 * 40);
    for receiver in &receivers[3..] {
        let mut seen = BTreeMap::new();
        receiver.rest().iter().for_each(|request| *seen.entry(request.job().to_owned()).or_insert(0) += 1);
        assert_eq!(seen.len(), 40);
        assert!(seen.values().all(|times| *times == 1), "{seen:?}");
    }
}

/// Of many that go out together some have to wait for their turn in the machine. That is no time of the store's.
#[test]
fn attempts_are_kept_with_the_stores_own_time() {
    let receivers: Vec<Receiver> = (0..40).map(|_| Receiver::always(404)).collect();
    let server = server();
    let job = |number: usize| {
        let url = receivers[number % 40].url("/");
        json!({"topic": "t", "id": format!("{number}"), "deliver_to": url, "retry": {"backoff": ["1m"]}})
    };
    server.post("/v1/jobs", json!({ "jobs": (0..600).map(job).collect::<Vec<_>>() })).ok(200);
    // A job that waits for its turn in the machine is delayed, too, and has not been tried.
    let tried = |topic: &Value| topic["counts"]["delayed"] == 600 && topic["totals"]["nacked"] == 600;
    until("all have been tried", || tried(&server.topic("t")));
    let now = server.get("/v1/dev/clock").ok(200)["now"].clone();
    for number in 0..600 {
        let job = server.job("t", &number.to_string());
        assert_eq!(job["attempts"][0]["at"], now, "{job}");
        assert_eq!(millis(&job["due_at"]) - millis(&now), 60_000, "{job}");
    }
}
