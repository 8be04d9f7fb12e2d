//! Changing and moving jobs.

use serde_json::{Value, json};

use crate::client::{ids, job_path, millis, number_of};
use crate::server::Server;

#[test]
fn what_is_not_named_stays() {
    let server = Server::new();
    let full = json!({
        "delay": "1h", "body": {"a": 1}, "headers": {"h": "v"}, "priority": 5, "ttr": "5m", "ttl": "1d",
        "retry": {"attempts": 2, "backoff": ["1s"]},
    });
    server.put_job("t", "a", full);
    let mut expected = server.job("t", "a");
    let nothing = server.patch(&job_path("t", "a"), json!({})).ok(200);
    expected["version"] = nothing["version"].clone();
    assert_eq!(nothing, expected, "an empty change changes nothing that can be seen but the version");
    let steps = [
        (json!({"priority": 9}), vec![("priority", json!(9))]),
        (json!({"body": [1]}), vec![("body", json!([1]))]),
        (json!({"headers": {"x": "y"}}), vec![("headers", json!({"x": "y"}))]),
        (json!({"ttr": "10m"}), vec![("ttr_ms", json!(600_000))]),
        (json!({"retry": {"attempts": 7}}), vec![("retry", Value::Null)]),
    ];
    for (change, fields) in steps {
        let answer = server.patch(&job_path("t", "a"), change.clone());
        let changed = answer.ok(200);
        assert_eq!(answer.header("etag"), Some(&*format!("\"{}\"", changed["version"])));
        assert!(number_of(&changed["version"]) > number_of(&expected["version"]), "{change}");
        expected["version"] = changed["version"].clone();
        for (field, value) in fields {
            expected[field] = if value.is_null() { changed[field].clone() } else { value };
        }
        assert_eq!(changed, expected, "{change}");
        assert_eq!(server.job("t", "a"), expected, "{change}");
    }
    assert_eq!(expected["retry"]["attempts"], 7);
}

#[test]
fn null_clears_what_is_optional() {
    let server = Server::new();
    let path = job_path("t", "a");
    server.put_job("t", "a", json!({
        "delay": "1h", "body": 1, "headers": {"h": "v"}, "priority": 5, "ttr": "5m", "ttl": "1d", "retry": {"attempts": 2},
    }));
    let cleared =
        json!({"headers": null, "priority": null, "ttr": null, "ttl": null, "retry": null, "deliver_to": null});
    let job = server.patch(&path, cleared).ok(200);
    assert!(job.get("headers").is_none() && job.get("expires_at").is_none(), "{job}");
    assert_eq!(
        (&job["priority"], &job["ttr_ms"], &job["retry"]["attempts"]),
        (&json!(1024), &json!(60_000), &json!(20))
    );
    assert_eq!(job["body"], 1, "which was not named");
    // A body of null is a body.
    let job = server.patch(&path, json!({"body": null})).ok(200);
    assert_eq!(job["body"], json!(null));
    assert!(job.as_object().unwrap().contains_key("body"), "{job}");
    for field in ["delay", "at", "body_base64"] {
        server.patch(&path, json!({ field: null })).wrong(field);
    }
}

#[test]
fn one_kind_of_body_takes_the_place_of_the_other() {
    let server = Server::new();
    let path = job_path("t", "a");
    server.put_job("t", "a", json!({"body": 1}));
    let job = server.patch(&path, json!({"body_base64": "AP8="})).ok(200);
    assert!(job["body_base64"] == "AP8=" && job.get("body").is_none(), "{job}");
    let job = server.patch(&path, json!({"body": 2})).ok(200);
    assert!(job["body"] == 2 && job.get("body_base64").is_none(), "{job}");
}

#[test]
fn jobs_are_moved_and_fired() {
    let server = Server::new();
    let path = job_path("t", "a");
    server.put_job("t", "a", json!({"delay": "10d", "body": "x"}));
    let before = server.now();
    let moved = server.patch(&path, json!({"delay": "1h"})).ok(200);
    let due = millis(&moved["due_at"]);
    assert!((before + 3_600_000..=server.now() + 3_600_000).contains(&due), "{moved}");
    assert_eq!((&moved["state"], &moved["body"]), (&json!("delayed"), &json!("x")));
    let moved = server.patch(&path, json!({"at": "2031-01-01T00:00:00Z"})).ok(200);
    assert_eq!(moved["due_at"], "2031-01-01T00:00:00.000Z");
    assert_eq!(server.topic("t")["next_due_at"], "2031-01-01T00:00:00.000Z");
    let fired = server.patch(&path, json!({"delay": 0})).ok(200);
    assert_eq!(fired["state"], "ready");
    let later = server.patch(&path, json!({"delay": "1m"})).ok(200);
    assert_eq!(later["state"], "delayed", "a ready job can be put off");
    assert!(server.lease("t", json!({})).is_empty());
    server.advance("1m");
    assert_eq!(ids(&server.lease("t", json!({"max": 9}))), ["a"], "once");
}

#[test]
fn a_moved_buried_job_is_revived_and_a_changed_one_is_not() {
    let server = Server::new();
    let path = job_path("t", "a");
    server.put_job("t", "a", json!({"retry": {"attempts": 1}}));
    let leased = server.lease_one("t");
    server.settle(&leased, "nack", json!({"error": "no"})).ok(200);
    assert_eq!(server.job("t", "a")["buried_reason"], "attempts_exhausted");
    let changed = server.patch(&path, json!({"priority": 1, "body": 2})).ok(200);
    assert_eq!((&changed["state"], &changed["attempt"]), (&json!("buried"), &json!(1)));
    let revived = server.patch(&path, json!({"delay": "1h"})).ok(200);
    assert_eq!((&revived["state"], &revived["attempt"]), (&json!("delayed"), &json!(0)));
    for gone in ["buried_at", "buried_reason"] {
        assert!(revived.get(gone).is_none(), "{revived}");
    }
    server.patch(&path, json!({"delay": 0})).ok(200);
    let leased = server.lease_one("t");
    assert_eq!((&leased["attempt"], &leased["body"], &leased["priority"]), (&json!(1), &json!(2), &json!(1)));
}

#[test]
fn a_priority_is_changed_for_the_next_lease() {
    let server = Server::new();
    for id in ["a", "b", "c"] {
        server.put_job("t", id, json!({"at": 1_000}));
    }
    server.patch(&job_path("t", "c"), json!({"priority": 0})).ok(200);
    server.patch(&job_path("t", "a"), json!({"priority": 4_294_967_295_u64})).ok(200);
    assert_eq!(ids(&server.lease("t", json!({"max": 3}))), ["c", "b", "a"]);
}

#[test]
fn a_held_job_is_changed_by_force_only() {
    let server = Server::new();
    server.put_job("t", "a", json!({"body": 1}));
    let leased = server.lease_one("t");
    server.patch(&job_path("t", "a"), json!({"body": 2})).problem(409, "job_leased");
    assert_eq!(server.job("t", "a")["body"], 1);
    let forced = server.patch(&format!("{}?force=true", job_path("t", "a")), json!({"body": 2})).ok(200);
    assert_eq!((&forced["body"], &forced["attempt"]), (&json!(2), &json!(1)), "the attempt stays counted");
    assert!(forced.get("lease_expires_at").is_none(), "{forced}");
    server.settle(&leased, "ack", json!({})).problem(409, "lease_lost");
}

#[test]
fn a_ttl_moves_with_the_due_time_it_was_put_or_moved_to() {
    let server = Server::new();
    let path = job_path("t", "a");
    let put = server.put_job("t", "a", json!({"delay": "1h", "ttl": "10m"}));
    assert_eq!(millis(&put["expires_at"]), millis(&put["due_at"]) + 600_000);
    let moved = server.patch(&path, json!({"delay": "2h"})).ok(200);
    assert_eq!(millis(&moved["expires_at"]), millis(&moved["due_at"]) + 600_000);
    let longer = server.patch(&path, json!({"ttl": "20m"})).ok(200);
    assert_eq!(millis(&longer["expires_at"]), millis(&moved["due_at"]) + 1_200_000);
    assert_eq!(longer["due_at"], moved["due_at"]);
    // Of a job put into the past the ttl counts from its creation.
    let late = server.put_job("t", "late", json!({"at": 1_000, "ttl": "10m"}));
    assert_eq!(millis(&late["expires_at"]), millis(&late["created_at"]) + 600_000);
}
