//! Settling leases, one by one and in batches.

use serde_json::{Value, json};

use crate::client::{Answer, ids, job_path, millis, text_of};
use crate::server::Server;

/// A fresh leased job of this topic.
fn leased(server: &Server, topic: &str) -> Value {
    server.put_job(topic, "a", json!({"retry": {"attempts": 3, "backoff": ["1m", "10m"]}, "priority": 9}));
    server.lease_one(topic)
}

/// Settles by path or as a batch of one; both must do the same.
fn settle(server: &Server, by_path: bool, job: &Value, verb: &str, mut terms: Value) -> (u64, String, Value) {
    if by_path {
        let answer = server.settle(job, verb, terms);
        let json = answer.json();
        return (answer.status.into(), json["code"].as_str().unwrap_or("").to_owned(), json);
    }
    terms["token"] = job["token"].clone();
    terms["verb"] = json!(verb);
    let result = server.post("/v1/settle", json!({"items": [terms]})).list("results").remove(0);
    (result["status"].as_u64().unwrap(), result["code"].as_str().unwrap_or("").to_owned(), result)
}

#[track_caller]
fn good(settled: &(u64, String, Value)) {
    assert_eq!((settled.0, &*settled.1), (200, ""), "{}", settled.2);
}

#[test]
fn ack_ends_a_job() {
    let server = Server::new();
    for by_path in [true, false] {
        let job = leased(&server, "t");
        good(&settle(&server, by_path, &job, "ack", json!({})));
        server.get(&job_path("t", "a")).problem(404, "not_found");
        let again = settle(&server, by_path, &job, "ack", json!({}));
        assert_eq!((again.0, &*again.1), (409, "lease_lost"));
    }
    let topic = server.topic("t");
    assert_eq!((&topic["totals"]["acked"], &topic["totals"]["put"]), (&json!(2), &json!(2)));
}

#[test]
fn nack_follows_the_policy_or_the_given_delay() {
    let server = Server::new();
    for by_path in [true, false] {
        let topic = format!("t{by_path}");
        let job = leased(&server, &topic);
        let now = server.now();
        good(&settle(&server, by_path, &job, "nack", json!({"error": "no luck"})));
        let seen = server.job(&topic, "a");
        assert_eq!((&seen["state"], &seen["attempt"]), (&json!("delayed"), &json!(1)));
        assert_eq!(seen["last_error"], "no luck");
        let rest = millis(&seen["due_at"]) - now;
        assert!((60_000..70_000).contains(&rest), "{rest}");
        server.advance("70s");
        // An explicit delay replaces the step, never the count.
        let job = server.lease_one(&topic);
        assert_eq!(job["attempt"], 2);
        let now = server.now();
        good(&settle(&server, by_path, &job, "nack", json!({"delay": "5s"})));
        let seen = server.job(&topic, "a");
        let rest = millis(&seen["due_at"]) - now;
        assert!((5_000..15_000).contains(&rest), "{rest}");
        server.advance("15s");
        let job = server.lease_one(&topic);
        assert_eq!(job["attempt"], 3);
        good(&settle(&server, by_path, &job, "nack", json!({"delay": 0, "error": "never"})));
        let seen = server.job(&topic, "a");
        assert_eq!((&seen["state"], &seen["buried_reason"]), (&json!("buried"), &json!("attempts_exhausted")));
        assert_eq!((&seen["attempt"], &seen["last_error"]), (&json!(3), &json!("never")));
        millis(&seen["buried_at"]);
        assert_eq!(server.topic(&topic)["totals"]["nacked"], 3);
    }
}

#[test]
fn an_error_is_cut_and_not_refused() {
    let server = Server::new();
    let job = leased(&server, "t");
    server.settle(&job, "nack", json!({"error": "é".repeat(5_000)})).ok(200);
    let kept = server.job("t", "a");
    let kept = text_of(&kept["last_error"]);
    assert!(kept.len() <= 1_024 && kept.len() > 1_000 && kept.chars().all(|c| c == 'é'), "{}", kept.len());
}

#[test]
fn release_gives_back_without_blame() {
    let server = Server::new();
    for by_path in [true, false] {
        let topic = format!("t{by_path}");
        for (id, at) in [("a", 1_000), ("b", 2_000), ("c", 3_000)] {
            server.put_job(&topic, id, json!({ "at": at }));
        }
        let job = server.lease_one(&topic);
        assert_eq!(job["attempt"], 1);
        good(&settle(&server, by_path, &job, "release", json!({})));
        let seen = server.job(&topic, "a");
        assert_eq!((&seen["state"], &seen["attempt"]), (&json!("ready"), &json!(0)), "the attempt is uncounted");
        assert!(seen.get("last_error").is_none(), "{seen}");
        assert_eq!(seen["due_at"], job["due_at"]);
        let job = server.lease_one(&topic);
        assert_eq!((&job["id"], &job["attempt"]), (&json!("a"), &json!(1)), "it kept its place");
        good(&settle(&server, by_path, &job, "release", json!({"priority": 5_000})));
        let job = server.lease_one(&topic);
        assert_eq!(job["id"], "b");
        let now = server.now();
        good(&settle(&server, by_path, &job, "release", json!({"delay": "1h"})));
        let seen = server.job(&topic, "b");
        assert_eq!((&seen["state"], &seen["attempt"]), (&json!("delayed"), &json!(0)));
        assert!((3_600_000..3_610_000).contains(&(millis(&seen["due_at"]) - now)), "{seen}");
        assert_eq!(ids(&server.lease(&topic, json!({"max": 9}))), ["c", "a"], "the new priority counts");
        assert_eq!(server.topic(&topic)["totals"]["released"], 3);
    }
}

#[test]
fn bury_puts_aside() {
    let server = Server::new();
    for by_path in [true, false] {
        let topic = format!("t{by_path}");
        let job = leased(&server, &topic);
        good(&settle(&server, by_path, &job, "bury", json!({"reason": "bad address", "priority": 3})));
        let seen = server.job(&topic, "a");
        assert_eq!(
            (&seen["state"], &seen["buried_reason"], &seen["priority"]),
            (&json!("buried"), &json!("bad address"), &json!(3))
        );
        assert_eq!(seen["attempt"], 1);
        server.advance("1d");
        assert!(server.lease(&topic, json!({})).is_empty());
        let lost = settle(&server, by_path, &job, "ack", json!({}));
        assert_eq!((lost.0, &*lost.1), (409, "lease_lost"));
        let job = leased(&server, &topic);
        good(&settle(&server, by_path, &job, "bury", json!({})));
        assert_eq!(server.job(&topic, "a")["buried_reason"], "buried");
        assert_eq!(server.topic(&topic)["totals"]["buried"], 2);
        let job = leased(&server, &topic);
        for reason in ["", "a\nb", &"r".repeat(256)] {
            let wrong = settle(&server, by_path, &job, "bury", json!({ "reason": reason }));
            assert_eq!((wrong.0, &*wrong.1), (400, "invalid_request"));
        }
    }
}

#[test]
fn extend_holds_on_from_now() {
    let server = Server::new();
    for by_path in [true, false] {
        let topic = format!("t{by_path}");
        leased(&server, &topic);
        let held = |job: &Value, now: i64| millis(&job["lease_expires_at"]) - now;
        let job = leased_with(&server, &topic, json!({"ttr": "5m"}));
        server.advance("4m");
        let now = server.now();
        good(&settle(&server, by_path, &job, "extend", json!({})));
        let seen = server.job(&topic, "a");
        assert!((300_000..310_000).contains(&held(&seen, now)), "its own ttr again: {seen}");
        server.advance("4m");
        let now = server.now();
        good(&settle(&server, by_path, &job, "extend", json!({"ttr": "1h"})));
        let seen = server.job(&topic, "a");
        assert!((3_600_000..3_610_000).contains(&held(&seen, now)), "{seen}");
        let now = server.now();
        good(&settle(&server, by_path, &job, "extend", json!({"ttr": "5s"})));
        assert!((5_000..15_000).contains(&held(&server.job(&topic, "a"), now)), "shorter is fine too");
        good(&settle(&server, by_path, &job, "extend", json!({"ttr": "1m"})));
        assert_eq!(server.job(&topic, "a")["attempt"], 1);
        good(&settle(&server, by_path, &job, "ack", json!({})));
        for ttr in [json!("999ms"), json!("25h"), json!(-1)] {
            let wrong = settle(&server, by_path, &job, "extend", json!({ "ttr": ttr }));
            assert_eq!((wrong.0, &*wrong.1), (400, "invalid_request"));
        }
    }
}

/// Puts the job anew and leases it with this request.
fn leased_with(server: &Server, topic: &str, request: Value) -> Value {
    server.put(&format!("{}?force=true", job_path(topic, "a")), json!({"ttr": "10m"})).ok(200);
    server.lease(topic, request).remove(0)
}

#[test]
fn a_field_that_does_not_fit_its_verb_is_refused() {
    let server = Server::new();
    let job = leased(&server, "t");
    let terms = [
        ("delay", json!("1s")),
        ("error", json!("x")),
        ("reason", json!("x")),
        ("priority", json!(1)),
        ("ttr", json!("1m")),
    ];
    let fits = [
        ("ack", vec![]),
        ("nack", vec!["delay", "error"]),
        ("release", vec!["delay", "priority"]),
        ("bury", vec!["reason", "priority"]),
        ("extend", vec!["ttr"]),
    ];
    for (verb, fitting) in fits {
        for (field, value) in terms.iter().filter(|(field, _)| !fitting.contains(field)) {
            server.settle(&job, verb, json!({ *field: value })).wrong(field);
            let item = json!({"token": job["token"], "verb": verb, *field: value});
            let result = server.post("/v1/settle", json!({"items": [item]})).list("results").remove(0);
            assert_eq!((&result["status"], &result["code"]), (&json!(400), &json!("invalid_request")), "{result}");
            assert_eq!(result["errors"][0]["field"], *field);
        }
    }
    assert_eq!(server.job("t", "a")["version"], job["version"], "nothing of that was done");
}

#[test]
fn a_batch_is_settled_item_by_item_in_order() {
    let server = Server::new();
    for n in 0..5 {
        server.put_job("t", &format!("{n}"), json!({"at": 1_000 + n}));
    }
    let jobs = server.lease("t", json!({"max": 5}));
    let token = |n: usize| jobs[n]["token"].clone();
    let items = json!([
        {"token": token(0), "verb": "extend", "ttr": "2m"},
        {"token": token(0), "verb": "ack"},
        {"token": token(0), "verb": "ack"},
        {"token": token(1), "verb": "nack", "error": "x", "delay": "1h"},
        {"token": token(2), "verb": "release"},
        {"token": token(3), "verb": "bury", "reason": "y"},
        {"token": "no token at all", "verb": "ack"},
        {"token": "", "verb": "ack"},
        {"token": token(4), "verb": "eat"},
        {"token": token(4), "verb": "Ack"},
        {"token": token(4)},
        {"verb": "ack"},
        {"token": 1, "verb": "ack"},
        {"token": token(4), "verb": "ack", "unknown": 1},
        7,
        null,
        {"token": token(4), "verb": "ack"},
    ]);
    let results = server.post("/v1/settle", json!({ "items": items })).list("results");
    let said: Vec<_> = results
        .iter()
        .map(|result| (result["status"].as_u64().unwrap(), result["code"].as_str().unwrap_or("")))
        .collect();
    let (fine, lost, wrong) = ((200, ""), (409, "lease_lost"), (400, "invalid_request"));
    let expected =
        [fine, fine, lost, fine, fine, fine, lost, lost, wrong, wrong, wrong, wrong, wrong, wrong, wrong, wrong, fine];
    assert_eq!(said, expected);
    assert_eq!(results[0], json!({"status": 200}));
    assert_eq!(server.topic("t")["counts"], json!({"delayed": 1, "ready": 1, "leased": 0, "buried": 1}));
    assert_eq!(server.post("/v1/settle", json!({"items": []})).ok(200), json!({"results": []}));
    server
        .text("POST", "/v1/settle", "{\"items\": [{\"token\": \"x\", \"verb\": \"ack\"}, ]}")
        .problem(400, "invalid_request");
}

#[test]
fn a_lease_is_lost_in_every_way_there_is() {
    let server = Server::new();
    let lost = |job: &Value| {
        for verb in ["ack", "nack", "release", "bury", "extend"] {
            server.settle(job, verb, json!({})).problem(409, "lease_lost");
        }
    };
    for token in ["x", "0", "..a", "%F0%9F%90%A2", "a%2Fb", "00000000000000000000000000000000", &"f".repeat(5_000)] {
        lost(&json!({ "token": token }));
    }
    let job = leased(&server, "expired");
    server.advance("61s");
    lost(&job);
    let job = leased(&server, "settled");
    server.settle(&job, "release", json!({})).ok(200);
    lost(&job);
    let job = leased(&server, "revoked");
    server.delete(&format!("{}?force=true", job_path("revoked", "a"))).empty();
    lost(&job);
    let job = leased(&server, "purged");
    server.delete("/v1/topics/purged/jobs?state=leased&force=true").ok(200);
    lost(&job);
    let job = leased(&server, "deleted");
    server.delete("/v1/topics/deleted").empty();
    lost(&job);
    let mut forged = leased(&server, "forged");
    let token = text_of(&forged["token"]).to_owned();
    let last = if token.ends_with('0') { "1" } else { "0" };
    forged["token"] = json!(format!("{}{last}", &token[..token.len() - 1]));
    lost(&forged);
    assert_eq!(server.job("forged", "a")["state"], "leased");
}

#[test]
fn a_holder_may_still_ack_past_the_ttl() {
    let server = Server::new();
    server.put_job("t", "a", json!({"ttl": "10s", "ttr": "5m"}));
    let job = server.lease_one("t");
    server.advance("1m");
    assert_eq!(server.job("t", "a")["state"], "leased");
    let acked: Answer = server.settle(&job, "ack", json!({}));
    acked.ok(200);
}
