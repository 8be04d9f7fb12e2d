//! `dwell put`: when, what, and what if it is there already.

use serde_json::json;

use crate::world::{Server, ends_in};

#[test]
fn a_put_says_when_the_job_is_due() {
    let server = Server::start();
    let said = server.dwell(&["put", "t", "a", "--delay", "30m"]).good();
    assert!(said.starts_with("put a on t, due 20") && ends_in(&said, "30m", "29m"), "{said}");
    let said = server.dwell(&["put", "t", "a", "--at", "1970-01-01T00:00:01Z"]).good();
    assert!(said.starts_with("replaced a on t, due 1970-01-01T00:00:01.000Z ("), "{said}");
    assert!(said.ends_with(" ago)\n"), "{said}");
}

#[test]
fn everything_that_is_said_arrives() {
    let server = Server::start();
    let put = server.json(&[
        "put",
        "t",
        "a",
        "--at",
        "2027-01-01T09:00:00+08:00",
        "--body",
        "{\"b\": 12345678901234567890}",
        "--priority",
        "7",
        "--ttr",
        "5s",
        "--ttl",
        "1h",
        "--attempts",
        "9",
        "--backoff",
        "15s,3m",
        "--header",
        "k=v",
        "--header",
        "e==",
    ]);
    let put = put.object();
    assert_eq!((&put["outcome"], &put["due_at"]), (&json!("created"), &json!("2027-01-01T01:00:00.000Z")));
    let got = server.json(&["get", "t", "a"]);
    assert!(got.out.contains("\"body\":{\"b\": 12345678901234567890}"), "{got:?}");
    let got = got.object();
    assert_eq!((&got["priority"], &got["ttr_ms"]), (&json!(7), &json!(5_000)));
    assert_eq!(got["expires_at"], "2027-01-01T02:00:00.000Z");
    assert_eq!(got["retry"], json!({"attempts": 9, "backoff": [15_000, 180_000]}));
    assert_eq!(got["headers"], json!({"k": "v", "e": "="}));
}

#[test]
fn a_job_without_an_id_gets_one() {
    let server = Server::start();
    let put = server.json(&["put", "t", "--delay", "1m"]).object();
    let id = put["id"].as_str().unwrap();
    assert_eq!(server.json(&["get", "t", id]).object()["id"], id);
}

#[test]
fn bodies_are_json_text_or_bytes() {
    let server = Server::start();
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = directory.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (text, bytes) = (file("text", b"hello\n"), file("bytes", b"\xff\x00"));
    for (args, field, value) in [
        (["--body", "{\"a\":1}"], "body", json!({"a": 1})),
        (["--body", "hi there"], "body", json!("hi there")),
        (["--body", "-5"], "body", json!(-5)),
        (["--body-base64", "/wA="], "body_base64", json!("/wA=")),
        (["--body-file", &text], "body", json!("hello")),
        (["--body-file", &bytes], "body_base64", json!("/wA=")),
    ] {
        server.dwell(&["put", "t", "a", args[0], args[1]]).good();
        assert_eq!(server.json(&["get", "t", "a"]).object()[field], value, "{args:?}");
    }
    server.dwell_with_input(&["put", "t", "a", "--body", "-"], b"[1,\n2]\n").good();
    assert_eq!(server.json(&["get", "t", "a"]).object()["body"], json!([1, 2]));
    server.dwell(&["put", "t", "a"]).good();
    assert_eq!(server.json(&["get", "t", "a"]).object()["body"], json!(null));
}

#[test]
fn an_id_that_is_live_is_replaced_kept_or_refused() {
    let server = Server::start();
    let put = |what: &str| server.dwell(&["put", "t", "a", "--delay", "1h", "--if-exists", what]);
    assert!(put("reject").good().starts_with("put a on t"));
    assert!(put("replace").good().starts_with("replaced a on t"));
    assert!(put("keep").good().starts_with("kept a on t"));
    assert!(put("reject").bad(4).starts_with("dwell: "));
}

#[test]
fn a_job_that_is_held_is_replaced_by_force_only() {
    let server = Server::start();
    server.dwell(&["put", "t", "a"]).good();
    server.token("t");
    let refusal = server.dwell(&["put", "t", "a"]).bad(4);
    assert_eq!(refusal, "dwell: a consumer holds the job; wait for it, or say --force\n");
    assert!(server.dwell(&["put", "t", "a", "--force"]).good().starts_with("replaced a"));
}

/// A slip is found before anything is asked, and named in the words of the server.
#[test]
fn slips_are_usage_errors() {
    for (args, said) in [
        (&["--delay", "5x"][..], "\"5x\" is not a duration; try \"30s\", \"1h30m\" or milliseconds as a number"),
        (&["--ttr", ""], "\"\" is not a duration"),
        (&["--backoff", "1s,soon"], "\"soon\" is not a duration"),
        (&["--at", "tomorrow"], "\"tomorrow\" is not an instant; try \"2026-11-15T17:38:00Z\", with a zone"),
        (&["--at", "2026-11-15T17:38:00"], "is not an instant"),
        (&["--delay", "1s", "--at", "2026-11-15T17:38:00Z"], "cannot be used with"),
        (&["--body", "1", "--body-base64", "/wA="], "cannot be used with"),
        (&["--body", "{\"a\": 1"], "dwell: the body looks like JSON and is not: EOF while parsing an object"),
        (&["--body-base64", "?"], "is not base64"),
        (&["--header", "k"], "is not a header; try \"name=value\""),
        (&["--if-exists", "kep"], "keep"),
        (&["--delay", "-5s"], "\"-5s\" is not a duration"),
        (&["--priority", "-1"], "-1 is not in 0..=4294967295"),
    ] {
        let mut all = vec!["put", "t", "a", "--url", "http://127.0.0.1:1"];
        all.extend(args);
        let ran = crate::world::run(&mut crate::world::command(&all)).bad(2);
        assert!(ran.contains(said), "{args:?}: {ran}");
    }
}
