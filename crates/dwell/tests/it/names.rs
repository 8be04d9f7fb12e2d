//! Names of topics and jobs: what they may be, and how paths carry them.

use serde_json::json;

use crate::client::{Answer, text_of};
use crate::server::Server;

fn put(server: &Server, topic: &str, id: &str) -> Answer {
    server.put(&format!("/v1/topics/{topic}/jobs/{id}"), json!({"delay": "1h"}))
}

#[test]
fn topics_may_be_called_so() {
    let server = Server::new();
    let longest = "t".repeat(200);
    for (encoded, name) in [
        ("orders.close", "orders.close"),
        ("A-Z_a-z.0-9", "A-Z_a-z.0-9"),
        ("a%2Fb", "a/b"),
        ("a%2fb%2Fc", "a/b/c"),
        ("%2Fa", "/a"),
        ("a+b", "a+b"),
        ("a%2Bb", "a+b"),
        ("a;b", "a;b"),
        ("a%3Bb", "a;b"),
        ("a$b", "a$b"),
        ("(a)", "(a)"),
        ("%28a%29", "(a)"),
        ("..a", "..a"),
        ("a..", "a.."),
        ("...", "..."),
        ("%61", "a"),
        (".-", ".-"),
        (&*longest, &*longest),
    ] {
        let job = put(&server, encoded, "x").json();
        assert_eq!(job["topic"], name, "{encoded}: {job}");
        let topic = server.get(&format!("/v1/topics/{encoded}")).ok(200);
        assert_eq!(topic["name"], name);
        let jobs = server.get(&format!("/v1/topics/{encoded}/jobs")).list("jobs");
        assert_eq!(jobs[0]["topic"], name);
    }
}

#[test]
fn topics_may_not_be_called_otherwise() {
    let server = Server::new();
    let too_long = "t".repeat(201);
    for topic in [
        "-a", "%2Da", "a%20b", "a*b", "a:b", "a@b", "a,b", "a=b", "a~b", "a!b", "a'b", "a%25b", "a%22b", "a%5Cb",
        "a%00b", "a%0Ab", "a%7Fb", "%C3%A9", "a&b", "a%7Cb", ".", "..", "%2E", "%2e%2E", &too_long,
    ] {
        let answer = put(&server, topic, "x");
        assert_eq!(answer.status, 400, "{topic}: {}", answer.body());
        answer.wrong("topic");
        for call in ["", "/jobs", "/timeline"] {
            server.get(&format!("/v1/topics/{topic}{call}")).wrong("topic");
        }
        for call in ["lease", "pause", "resume", "redrive"] {
            server.post(&format!("/v1/topics/{topic}/{call}"), json!({})).wrong("topic");
        }
        server.put(&format!("/v1/topics/{topic}/policy"), json!({})).wrong("topic");
        server.delete(&format!("/v1/topics/{topic}")).wrong("topic");
    }
    server.get("/v1/topics/%FF").problem(400, "invalid_request");
    let reason = server.post("/v1/lease", json!({"topics": ["fine", "not fine"]})).wrong("topics[1]");
    assert!(!reason.is_empty());
    assert_eq!(server.get("/v1/topics").json(), json!({"topics": []}));
}

#[test]
fn jobs_may_be_called_so() {
    let server = Server::new();
    let (longest, longest_wide) = ("i".repeat(255), "é".repeat(127));
    let wide_encoded = "%C3%A9".repeat(127);
    for (encoded, id) in [
        ("order-42", "order-42"),
        ("-", "-"),
        ("a%2Fb", "a/b"),
        ("a%20b", "a b"),
        ("%20", " "),
        ("a+b", "a+b"),
        ("a%25b", "a%b"),
        ("a%252Fb", "a%2Fb"),
        ("a%3Fb%23c", "a?b#c"),
        ("a%22b%5Cc", "a\"b\\c"),
        ("%E8%AE%A2%E5%8D%95", "订单"),
        ("%F0%9F%90%A2", "🐢"),
        ("a:b@c", "a:b@c"),
        ("...", "..."),
        ("a$", "a$"),
        ("%E2%80%AE", "\u{202e}"),
        (&*longest, &*longest),
        (&*wide_encoded, &*longest_wide),
    ] {
        let job = put(&server, "t", encoded);
        assert_eq!(job.ok(201)["id"], id);
        let read = server.get(&format!("/v1/topics/t/jobs/{encoded}")).ok(200);
        assert_eq!(read["id"], id);
        // The place that a create answers is the very job.
        let created = server.post("/v1/topics/a%2Fb/jobs", json!({ "id": id }));
        assert_eq!(created.ok(201)["id"], id);
        let location = created.header("location").unwrap().to_owned();
        assert!(location.starts_with("/v1/topics/a%2Fb/jobs/"), "{location}");
        assert_eq!(server.get(&location).ok(200)["id"], id);
        server.delete(&format!("/v1/topics/t/jobs/{encoded}")).empty();
    }
}

#[test]
fn jobs_may_not_be_called_otherwise() {
    let server = Server::new();
    let (too_long, too_wide) = ("i".repeat(256), "%C3%A9".repeat(128));
    for id in
        [".", "..", "%2E", "%2E.", "%00", "a%0Ab", "a%0Db", "%1F", "%7F", "%C2%85", "%C2%80", &too_long, &too_wide]
    {
        let answer = put(&server, "t", id);
        assert_eq!(answer.status, 400, "{id}: {}", answer.body());
        answer.wrong("id");
        for method in ["GET", "DELETE", "PATCH"] {
            server.send(method, &format!("/v1/topics/t/jobs/{id}"), &[], None).wrong("id");
        }
    }
    put(&server, "t", "%FF").problem(400, "invalid_request");
    put(&server, "t", "%C3").problem(400, "invalid_request");
    for id in ["", ".", "..", "a\nb", "\u{0}", "\u{7f}", "\u{85}", &"i".repeat(256)] {
        server.post("/v1/topics/t/jobs", json!({ "id": id })).wrong("id");
        let results = server.post("/v1/jobs", json!({"jobs": [{"topic": "t", "id": id}]})).list("results");
        assert_eq!((&results[0]["status"], &results[0]["code"]), (&json!(400), &json!("invalid_request")));
        let results = server.post("/v1/cancel", json!({"jobs": [{"topic": "t", "id": id}]})).list("results");
        assert_eq!(results[0]["status"], 400, "{id:?}");
        server.post("/v1/topics/t/redrive", json!({"ids": ["fine", id]})).wrong("ids");
    }
    for id in [json!(1), json!(null), json!(["a"])] {
        server.post("/v1/topics/t/jobs", json!({ "id": id })).wrong("id");
    }
}

#[test]
fn a_dollar_at_the_start_is_for_dwell_itself() {
    let server = Server::new();
    server.put_job("t", "a", json!({}));
    put(&server, "$sys", "a").wrong("topic");
    put(&server, "%24sys", "a").wrong("topic");
    put(&server, "t", "$1").wrong("id");
    put(&server, "t", "%241").wrong("id");
    server.post("/v1/topics/t/jobs", json!({"id": "$1"})).wrong("id");
    server.post("/v1/topics/$t/jobs", json!({})).wrong("topic");
    server.put("/v1/topics/$t/policy", json!({})).wrong("topic");
    server.post("/v1/topics/$t/pause", json!({})).wrong("topic");
    let own = server.send("POST", "/v1/topics/t/jobs", &[("idempotency-key", "$k")], None);
    own.wrong("Idempotency-Key");
    let results =
        server.post("/v1/jobs", json!({"jobs": [{"topic": "$t"}, {"topic": "t", "id": "$1"}]})).list("results");
    assert!(results.iter().all(|result| result["status"] == 400), "{results:?}");
    // Reading and cancelling are free: there may be such jobs, put by Dwell.
    server.get("/v1/topics/t/jobs/$1").problem(404, "not_found");
    server.delete("/v1/topics/t/jobs/$1").problem(404, "not_found");
    server.get("/v1/topics/$sys").problem(404, "not_found");
    assert_eq!(server.topic("t")["totals"]["put"], 1);
}

#[test]
fn ids_of_two_topics_are_apart() {
    let server = Server::new();
    server.put_job("t", "a", json!({"body": "t"}));
    server.put_job("u", "a", json!({"body": "u"}));
    server.put_job("T", "a", json!({"body": "T"}));
    for topic in ["t", "u", "T"] {
        assert_eq!(server.job(topic, "a")["body"], topic);
    }
    server.delete("/v1/topics/u/jobs/a").empty();
    assert_eq!(text_of(&server.job("t", "a")["body"]), "t");
    server.get("/v1/topics/u/jobs/a").problem(404, "not_found");
}
