//! Many targets, many topics, some of them bad: nothing twice, nothing lost.

use std::collections::BTreeMap;

use serde_json::json;

use super::receiver::{Receiver, Reply};
use super::{server, until_live};

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
