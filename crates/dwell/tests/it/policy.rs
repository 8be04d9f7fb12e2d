//! What a topic says for all its jobs.

use serde_json::{Value, json};

use crate::client::{ids, job_path, millis};
use crate::server::Server;

#[test]
fn a_policy_is_replaced_whole_and_reads_back_as_it_can_be_sent() {
    let server = Server::new();
    let path = "/v1/topics/t/policy";
    let policy = json!({
        "ttr": "2m", "retry": {"attempts": 3, "backoff": ["1s", "1m"]}, "ttl": "1h", "max_in_flight": 7, "max_rate": 2.5,
        "keep_buried": "7d", "keep_done": "10m",
    });
    let read = json!({
        "ttr": 120_000, "retry": {"attempts": 3, "backoff": [1_000, 60_000]}, "ttl": 3_600_000, "max_in_flight": 7,
        "max_rate": 2.5, "keep_buried": 604_800_000, "keep_done": 600_000,
    });
    assert_eq!(server.put(path, policy).ok(200), read);
    let topic = server.topic("t");
    assert_eq!(topic["policy"], read, "a policy makes a topic");
    assert_eq!(server.put(path, topic["policy"].clone()).ok(200), read, "what was read can be sent back");
    let exponential =
        json!({"retry": {"attempts": 2, "backoff": {"initial": 5, "factor": 1.5, "max": 10, "jitter": 0.25}}});
    assert_eq!(server.put(path, exponential.clone()).ok(200), exponential, "what was not named again is gone");
    assert_eq!(server.put(path, server.topic("t")["policy"].clone()).ok(200), exponential);
    assert_eq!(server.put(path, json!({})).ok(200), json!({}));
    assert_eq!(server.topic("t")["policy"], json!({}));
}

#[test]
fn a_policy_has_limits() {
    let server = Server::new();
    for (policy, field) in [
        (json!({"ttr": "999ms"}), "ttr"),
        (json!({"ttr": "25h"}), "ttr"),
        (json!({"ttl": "4000d"}), "ttl"),
        (json!({"max_in_flight": 0}), "max_in_flight"),
        (json!({"max_in_flight": 1.5}), "max_in_flight"),
        (json!({"max_in_flight": -1}), "max_in_flight"),
        (json!({"max_rate": 0}), "max_rate"),
        (json!({"max_rate": -1}), "max_rate"),
        (json!({"max_rate": 1e9}), "max_rate"),
        (json!({"max_rate": "10"}), "max_rate"),
        (json!({"keep_buried": "-1s"}), "keep_buried"),
        (json!({"keep_done": "3651d"}), "keep_done"),
        (json!({"deliver_to": "https://localhost/hook"}), "deliver_to"),
        (json!({"deliver_to": null}), "deliver_to"),
        (json!({"deliver_secret": "whsec_x"}), "deliver_secret"),
        (json!({"retry": {"attempts": 0}}), "retry.attempts"),
        (json!({"ttr": null}), "ttr"),
    ] {
        server.put("/v1/topics/t/policy", policy).wrong(field);
    }
    server.get("/v1/topics/t").problem(404, "not_found");
}

#[test]
fn a_changed_policy_holds_for_jobs_that_wait_already() {
    let server = Server::new();
    server.put_job("t", "plain", json!({"delay": "1h"}));
    let own = json!({"delay": "1h", "ttr": "3m", "ttl": "1d", "retry": {"attempts": 4}});
    server.put_job("t", "own", own);
    let own = server.job("t", "own");
    let policy = json!({"ttr": "2m", "ttl": "10m", "retry": {"attempts": 1}});
    server.put("/v1/topics/t/policy", policy).ok(200);
    let plain = server.job("t", "plain");
    assert_eq!((&plain["ttr_ms"], &plain["retry"]["attempts"]), (&json!(120_000), &json!(1)));
    assert_eq!(millis(&plain["expires_at"]), millis(&plain["due_at"]) + 600_000);
    assert_eq!(server.job("t", "own"), own, "what a job says itself goes before");
    server.put("/v1/topics/t/policy", json!({"ttr": "5m"})).ok(200);
    let plain = server.job("t", "plain");
    assert_eq!((&plain["ttr_ms"], &plain["retry"]["attempts"]), (&json!(300_000), &json!(20)));
    assert!(plain.get("expires_at").is_none(), "{plain}");
    // They are resolved when they are used.
    server.advance("1h");
    server.put("/v1/topics/t/policy", json!({"ttr": "1h", "retry": {"attempts": 1}})).ok(200);
    let now = server.now();
    let jobs = server.lease("t", json!({"max": 2}));
    assert_eq!(ids(&jobs), ["plain", "own"]);
    let held = |job: &Value| millis(&job["lease_expires_at"]) - now;
    assert!((3_600_000..3_620_000).contains(&held(&jobs[0])) && (180_000..200_000).contains(&held(&jobs[1])));
    server.put("/v1/topics/t/policy", json!({"retry": {"attempts": 2, "backoff": ["1h"]}})).ok(200);
    for job in &jobs {
        server.settle(job, "nack", json!({})).ok(200);
    }
    assert_eq!(server.job("t", "plain")["state"], "delayed", "the policy of now, not that of then");
    server.put("/v1/topics/t/policy", json!({"ttl": "1m"})).ok(200);
    server.advance("2h");
    assert_eq!(server.job("t", "plain")["buried_reason"], "expired", "a new ttl reaches waiting jobs");
}

#[test]
fn so_many_leases_are_live_at_once() {
    let server = Server::new();
    server.put("/v1/topics/t/policy", json!({"max_in_flight": 2})).ok(200);
    for n in 0..6 {
        server.put_job("t", &format!("{n}"), json!({"at": 1_000 + n}));
    }
    let jobs = server.lease("t", json!({"max": 10}));
    assert_eq!(ids(&jobs), ["0", "1"]);
    assert!(server.lease("t", json!({})).is_empty());
    let waiting = server.later("/v1/topics/t/lease", json!({"wait": "60s", "max": 10}));
    server.parked("t", 1);
    server.settle(&jobs[0], "ack", json!({})).ok(200);
    assert_eq!(ids(&waiting.join().unwrap().list("jobs")), ["2"], "a place that is free is used at once");
    // Who settles as it leases holds nothing.
    assert!(server.lease("t", json!({"auto_ack": true})).is_empty(), "there is no place");
    server.put("/v1/topics/t/policy", json!({"max_in_flight": 3})).ok(200);
    assert_eq!(ids(&server.lease("t", json!({"max": 10}))), ["3"]);
    server.put("/v1/topics/t/policy", json!({})).ok(200);
    assert_eq!(ids(&server.lease("t", json!({"max": 10}))), ["4", "5"]);
}

#[test]
fn so_many_jobs_are_handed_out_a_second() {
    let server = Server::new();
    server.put("/v1/topics/t/policy", json!({"max_rate": 5})).ok(200);
    server.post("/v1/jobs", json!({"jobs": vec![json!({"topic": "t"}); 100]})).ok(200);
    let take = || server.lease("t", json!({"max": 100})).len();
    let burst = take();
    assert!((5..=6).contains(&burst), "a burst of one second, not {burst}");
    server.advance("1h");
    let burst = take();
    assert!((5..=6).contains(&burst), "what is not used does not add up: {burst}");
    let mut sum = 0;
    for _ in 0..10 {
        server.advance("200ms");
        sum += take();
    }
    assert!((10..=45).contains(&sum), "ten times a fifth of a second, and what the test took: {sum}");
    server.put("/v1/topics/t/policy", json!({})).ok(200);
    assert!(take() > 50);
}

#[test]
fn dead_letters_are_dropped_after_a_while() {
    let server = Server::new();
    server.put("/v1/topics/t/policy", json!({"keep_buried": "1h"})).ok(200);
    server.put_job("t", "a", json!({}));
    let job = server.lease_one("t");
    server.settle(&job, "bury", json!({})).ok(200);
    server.advance("59m");
    assert_eq!(server.job("t", "a")["state"], "buried");
    server.advance("2m");
    server.get(&job_path("t", "a")).problem(404, "not_found");
    let topic = server.topic("t");
    assert_eq!((&topic["counts"]["buried"], &topic["totals"]["purged"]), (&json!(0), &json!(1)));
    assert_eq!(server.put_job("t", "a", json!({}))["outcome"], "created");
}

#[test]
fn an_acked_id_is_remembered_for_a_while() {
    let mut server = Server::new();
    server.put("/v1/topics/t/policy", json!({"keep_done": "30m"})).ok(200);
    server.put_job("t", "a", json!({"body": 1}));
    let job = server.lease_one("t");
    let before = server.now();
    server.settle(&job, "ack", json!({})).ok(200);
    let check = |server: &Server| {
        let done = server.job("t", "a");
        assert!(millis(&done["done_at"]) >= before, "{done}");
        server.post("/v1/topics/t/jobs", json!({"id": "a"})).problem(409, "job_exists");
        let kept = server.put(&job_path("t", "a"), json!({"if_exists": "keep"})).ok(200);
        assert_eq!(kept["outcome"], "kept");
        assert_eq!(kept["done_at"], done["done_at"]);
    };
    check(&server);
    assert_eq!(
        server.topic("t")["counts"],
        json!({"delayed": 0, "ready": 0, "leased": 0, "buried": 0}),
        "it is not live"
    );
    server.delete(&job_path("t", "a")).problem(404, "not_found");
    server.patch(&job_path("t", "a"), json!({"delay": 0})).problem(404, "not_found");
    server.crash_and_start();
    check(&server);
    server.advance("31m");
    server.get(&job_path("t", "a")).problem(404, "not_found");
    assert_eq!(server.post("/v1/topics/t/jobs", json!({"id": "a"})).ok(201)["outcome"], "created");
}

#[test]
fn a_remembered_id_can_be_put_again_by_replacing_it() {
    let server = Server::new();
    server.put("/v1/topics/t/policy", json!({"keep_done": "1h"})).ok(200);
    server.put_job("t", "a", json!({}));
    assert_eq!(server.lease("t", json!({"auto_ack": true})).len(), 1);
    assert!(server.job("t", "a").get("done_at").is_some(), "settled as it was handed out is settled");
    assert_eq!(server.put(&job_path("t", "a"), json!({})).ok(201)["outcome"], "created", "there was no live job");
    assert_eq!(server.job("t", "a")["state"], "ready");
}

#[test]
fn an_acked_id_is_not_remembered_unless_told_to() {
    let server = Server::new();
    server.put_job("t", "a", json!({}));
    let job = server.lease_one("t");
    server.settle(&job, "ack", json!({})).ok(200);
    server.get(&job_path("t", "a")).problem(404, "not_found");
    server.post("/v1/topics/t/jobs", json!({"id": "a"})).ok(201);
}
