//! Signatures, and the secrets they are made with.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::receiver::{Receiver, Request};
use super::{push, server};
use crate::server::Server;

const OLD: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const NEW: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

/// Whether somebody else's library takes a request for one that was signed with this secret, just now.
fn is_signed(request: &Request, secret: &str) -> bool {
    let headers = request.headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
    let headers = headers.collect::<ureq::http::HeaderMap>();
    standardwebhooks::Webhook::new(secret).unwrap().verify(&request.body, &headers).is_ok()
}

#[test]
fn a_topics_secret_signs_what_it_pushes_and_two_sign_twice() {
    let (server, receiver) = (server(), Receiver::always(200));
    let next = |id: &str| {
        push(&server, id, &receiver.url("/"), json!({}));
        receiver.next()
    };
    server.put("/v1/topics/t/policy", json!({"deliver_secret": OLD})).ok(200);
    let first = next("a");
    assert!(is_signed(&first, OLD) && !is_signed(&first, NEW));
    server.put("/v1/topics/t/policy", json!({"deliver_secret": [NEW, OLD]})).ok(200);
    let both = next("b");
    assert!(is_signed(&both, OLD) && is_signed(&both, NEW), "while it is rotated either will do");
    server.put("/v1/topics/t/policy", json!({"deliver_secret": NEW})).ok(200);
    let second = next("c");
    assert!(!is_signed(&second, OLD) && is_signed(&second, NEW));
    server.put("/v1/topics/t/policy", json!({"deliver_secret": null})).ok(200);
    assert_eq!(next("d").header("webhook-signature"), None);
    let forged = Request { body: b"{}".to_vec(), ..second };
    assert!(!is_signed(&forged, NEW));
}

#[test]
fn secrets_are_never_shown_and_survive_a_policy_that_was_read_and_sent_back() {
    let (mut server, receiver) = (server(), Receiver::always(200));
    let set = server.put("/v1/topics/t/policy", json!({"deliver_to": receiver.url("/"), "deliver_secret": [NEW, OLD]}));
    let mut policy = set.ok(200);
    let topic = server.topic("t");
    let topics = server.get("/v1/topics").body();
    let info = format!("{policy} {topic} {topics} {} {}", server.get("/metrics").body(), server.log());
    for secret in [NEW, OLD] {
        let bare = &secret[6..];
        assert!(!info.contains(bare), "{info}");
        let bytes = STANDARD.decode(bare).unwrap();
        assert!(!info.as_bytes().windows(bytes.len()).any(|window| window == bytes));
    }
    assert_eq!(topic["policy"], policy);
    policy["ttr"] = json!("30s");
    server.put("/v1/topics/t/policy", policy).ok(200);
    server.crash_and_start();
    server.put_job("t", "a", json!({}));
    let got = receiver.next();
    assert!(is_signed(&got, NEW) && is_signed(&got, OLD));
}

#[test]
fn what_is_no_secret_is_refused_and_not_repeated() {
    let server = Server::new();
    for wrong in [
        json!("hush-hush"),
        json!("whsec_hush!"),
        json!("whsec_aHVzaA=="),
        json!(""),
        json!(7),
        json!([]),
        json!([OLD, NEW, OLD]),
        json!([OLD, "whsec_hush!"]),
        json!({"hush": 1}),
    ] {
        let answer = server.put("/v1/topics/t/policy", json!({ "deliver_secret": wrong }));
        answer.wrong("deliver_secret");
        assert!(!answer.body().contains("hush") && !answer.body().contains("aHVza"), "{}", answer.body());
    }
    server.get("/v1/topics/t").problem(404, "not_found");
}
