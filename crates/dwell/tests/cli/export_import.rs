//! `dwell export` and `dwell import`: from one server to another, with all that a put can carry.

use std::fs;

use serde_json::{Value, json};

use crate::world::{Ran, Server, command, run};

/// What a job is, without what belongs to the server that has it.
fn carried(server: &Server, topic: &str, id: &str) -> Value {
    let mut job = server.json(&["get", topic, id]).object();
    for own in ["number", "version", "created_at"] {
        job.as_object_mut().unwrap().remove(own);
    }
    job
}

fn export(server: &Server, args: &[&str]) -> (String, String) {
    let Ran { code, out, err } = server.dwell(&[&["export"], args].concat());
    assert_eq!(code, 0, "{err}");
    (out, err)
}

#[test]
fn everything_a_put_can_carry_arrives() {
    let (from, to) =
        (Server::start_with(&["--allow-private-targets"]), Server::start_with(&["--allow-private-targets"]));
    let ways: [&[&str]; 7] = [
        &["--delay", "1h", "--body", "{\"b\":12345678901234567890, \"a\" : [1,2]}"],
        &["--at", "2030-01-01T09:00:00+08:00", "--body-base64", "/wA=", "--header", "k=v w", "--header", "é=\"q\""],
        &["--delay", "2d", "--priority", "7", "--ttr", "5s", "--ttl", "3h"],
        &["--delay", "3d", "--attempts", "9", "--backoff", "15s,3m"],
        &["--at", "2001-01-01T00:00:00Z", "--body", "over due"],
        &["--delay", "1h", "--deliver-to", "http://127.0.0.1:9/hook"],
        &["--delay", "1h"],
    ];
    for (number, way) in ways.iter().enumerate() {
        let id = format!("j {number}/é");
        from.dwell(&[&["put", "orders/close", &id], *way].concat()).good();
    }
    let (lines, said) = export(&from, &[]);
    assert_eq!(said, "dwell: exported 7 jobs of 1 topic\n");
    assert_eq!(lines.lines().count(), 7);
    assert!(lines.contains("{\"b\":12345678901234567890, \"a\" : [1,2]}"), "{lines}");
    assert_eq!(to.dwell_with_input(&["import"], lines.as_bytes()).good(), "put 7 jobs\n");
    for number in 0..ways.len() {
        let id = format!("j {number}/é");
        assert_eq!(carried(&to, "orders/close", &id), carried(&from, "orders/close", &id));
    }
    // What is there once is not there twice.
    let again = to.dwell_with_input(&["import"], lines.as_bytes()).good();
    assert_eq!(again, "put 0 jobs; already there: 7\n");
    let refused = to.dwell_with_input(&["import", "--if-exists", "reject"], lines.as_bytes());
    assert_eq!((refused.code, refused.out.as_str()), (4, "put 0 jobs\n"), "{refused:?}");
    assert!(refused.err.starts_with("dwell: line 1: "), "{refused:?}");
    let replaced = to.dwell_with_input(&["import", "--if-exists", "replace", "--json"], lines.as_bytes()).object();
    assert_eq!(replaced, json!({"created": 0, "replaced": 7, "kept": 0, "refused": 0, "policies": 0}));
}

/// A line of an export can be sent to the API as it is: what it means does not depend on this program.
#[test]
fn topics_keep_their_policy_and_jobs_what_they_have_from_it() {
    let (from, to) = (Server::start(), Server::start());
    let topic = r#"{"topic":"t","policy":{"ttr":30000,"retry":{"attempts":3,"backoff":[1000]},"keep_done":5000},"paused":true}"#;
    let made =
        from.dwell_with_input(&["import"], format!("{topic}\n{{\"topic\":\"t\",\"id\":\"a\"}}\n").as_bytes()).good();
    assert_eq!(made, "put 1 job; set the policy of 1 topic\n");
    let (lines, _) = export(&from, &["t"]);
    let (policy, job) = lines.split_once('\n').unwrap();
    assert_eq!(policy, topic);
    let job: Value = serde_json::from_str(job).unwrap();
    assert_eq!(job.as_object().unwrap().keys().collect::<Vec<_>>(), ["at", "body", "id", "priority", "topic"]);
    to.dwell_with_input(&["import"], lines.as_bytes()).good();
    let shown = to.json(&["topics"]).object();
    assert_eq!((&shown["policy"]["ttr"], &shown["paused"]), (&json!(30_000), &json!(true)), "{shown}");
    assert_eq!(carried(&to, "t", "a")["retry"], json!({"attempts": 3, "backoff": [1000]}));
    // A policy that is there already stays, unless it may be replaced.
    let other = r#"{"topic":"t","policy":{"ttr":5000}}"#;
    let kept = to.dwell_with_input(&["import"], other.as_bytes());
    assert!(kept.code == 0 && kept.err.starts_with("dwell: t has a policy of its own, which stays"), "{kept:?}");
    to.dwell_with_input(&["import", "--if-exists", "replace"], other.as_bytes()).good();
    assert_eq!(to.json(&["topics"]).object()["policy"], json!({"ttr": 5000}));
}

#[test]
fn what_is_held_or_buried_is_said() {
    let (from, to) = (Server::start(), Server::start());
    from.dwell(&["put", "t", "held"]).good();
    from.token("t");
    from.dwell(&["put", "t", "dead", "--attempts", "1"]).good();
    let token = from.token("t");
    from.dwell(&["nack", &token, "--error", "odd"]).good();
    let (lines, said) = export(&from, &["--prefix", "t"]);
    assert_eq!(lines.lines().count(), 1);
    assert_eq!(
        said,
        "dwell: exported 1 job of 1 topic; held by consumers, who may still ack them here: 1; \
         dead letters left out: 1 (--buried exports them)\n"
    );
    let (lines, _) = export(&from, &["--buried"]);
    to.dwell_with_input(&["import"], lines.as_bytes()).good();
    let dead = carried(&to, "t", "dead");
    assert_eq!((&dead["state"], &dead["attempt"]), (&json!("ready"), &json!(0)), "it will be delivered again");
}

/// Ids of the beanstalk protocol are the server's own; elsewhere they get others, always the same.
#[test]
fn jobs_from_beanstalk_get_an_id() {
    use std::io::{Read as _, Write as _};
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("b");
    let from = Server::start_with(&["--beanstalk", &format!("unix:{}", path.display())]);
    let mut stream = std::os::unix::net::UnixStream::connect(&path).unwrap();
    stream.write_all(b"put 7 3600 60 2\r\nhi\r\n").unwrap();
    let mut answer = [0; 10];
    stream.read_exact(&mut answer).unwrap();
    let (lines, _) = export(&from, &["default"]);
    let line: Value = serde_json::from_str(&lines).unwrap();
    let number = from.json(&["jobs", "default"]).object()["number"].clone();
    assert_eq!(line["id"], format!("beanstalk-{number}"));
    let to = Server::start();
    assert_eq!(to.dwell_with_input(&["import"], lines.as_bytes()).good(), "put 1 job\n");
    assert_eq!(to.dwell_with_input(&["import"], lines.as_bytes()).good(), "put 0 jobs; already there: 1\n");
}

#[test]
fn a_line_that_makes_no_sense_ends_an_import_that_can_go_on() {
    let server = Server::start();
    let good = "{\"topic\":\"t\",\"id\":\"a\",\"delay\":\"1h\"}\n\n";
    for (line, wanted) in [
        ("{\"topic\":\"t\",\"dely\":\"1h\"}", "line 3: \"dely\" is unknown; did you mean \"delay\"?"),
        ("{\"topic\":\"t\"", "line 3: "),
        ("[1]", "line 3: "),
        ("{\"topic\":\"t\",\"delay\":\"1x\",\"at\":5}", "line 3: \"delay\" \"1x\" is not a duration"),
        ("{\"topic\":\"t\",\"expires_at\":5,\"ttl\":5}", "line 3: \"ttl\" and \"expires_at\" are both given"),
        ("{\"policy\":{}}", "line 3: \"topic\" is missing"),
        ("{\"topic\":\"t\",\"policy\":{\"ttrr\":5}}", "line 3: \"policy.ttrr\" "),
    ] {
        let ran = server.dwell_with_input(&["import"], format!("{good}{line}\n").as_bytes());
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{ran:?}");
        assert!(ran.err.starts_with(&format!("dwell: {wanted}")), "{line}: {ran:?}");
    }
    assert_eq!(server.json(&["jobs", "t"]).objects().len(), 1, "what stands before it is put");
}

#[test]
fn what_the_server_refuses_is_named_by_its_line() {
    let server = Server::start();
    let lines = "{\"topic\":\"t\",\"id\":\"a\",\"delay\":\"9999d\"}\n{\"topic\":\"t\",\"id\":\"b\"}\n{\"topic\":\"-\",\"id\":\"c\"}\n";
    let ran = server.dwell_with_input(&["import"], lines.as_bytes());
    assert_eq!((ran.code, ran.out.as_str()), (2, "put 1 job\n"), "{ran:?}");
    assert!(ran.err.starts_with("dwell: line 1: ") && ran.err.contains("\ndwell: line 3: "), "{ran:?}");
}

#[test]
fn files_are_whole_or_not_there() {
    let server = Server::start();
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    server.dwell(&["put", "t", "a", "--delay", "1h"]).good();
    let said = server.dwell(&["export", "--output", &path("jobs")]).good();
    assert_eq!(said, "exported 1 job of 1 topic\n");
    assert_eq!(server.dwell(&["import", &path("jobs")]).good(), "put 0 jobs; already there: 1\n");
    let sum = server.json(&["export", "--output", &path("jobs")]).object();
    assert_eq!(sum, json!({"topics": 1, "jobs": 1, "held": 0, "buried_left_out": 0}));
    server.dwell(&["export", "nobody", "--output", &path("none")]).bad(3);
    let names: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["jobs"]);
    assert!(server.dwell(&["import", &path("nothing")]).bad(1).starts_with("dwell: cannot read "));
    assert!(server.dwell(&["export", "--output", "/nowhere/at/all"]).bad(1).starts_with("dwell: cannot write "));
    run(&mut command(&["import", "--url", "http://127.0.0.1:1", &path("jobs")])).bad(6);
}

/// More than a page and more than a batch, and every one of them once.
#[test]
fn many_jobs_are_all_there() {
    let (from, to) = (Server::start(), Server::start());
    let line = |number: u32| format!("{{\"topic\":\"t{}\",\"id\":\"{number}\",\"delay\":\"1h\"}}\n", number % 3);
    let lines: String = (0..2_500).map(line).collect();
    assert_eq!(from.dwell_with_input(&["import"], lines.as_bytes()).good(), "put 2500 jobs\n");
    let (lines, said) = export(&from, &[]);
    assert_eq!(said, "dwell: exported 2500 jobs of 3 topics\n");
    assert_eq!(to.dwell_with_input(&["import"], lines.as_bytes()).good(), "put 2500 jobs\n");
    let delayed: u64 =
        to.json(&["topics"]).objects().iter().map(|topic| topic["counts"]["delayed"].as_u64().unwrap()).sum();
    assert_eq!(delayed, 2_500);
}

#[test]
fn an_expired_job_expires_again_and_is_not_delivered() {
    let (from, to) = (Server::start(), Server::start());
    from.dwell(&["put", "t", "a", "--delay", "1h", "--ttl", "10m"]).good();
    let (lines, _) = export(&from, &[]);
    let expires = serde_json::from_str::<Value>(&lines).unwrap()["expires_at"].clone();
    assert_eq!(expires, carried(&from, "t", "a")["expires_at"]);
    let old = "{\"topic\":\"t\",\"id\":\"b\",\"at\":1000,\"expires_at\":2000}\n";
    to.dwell_with_input(&["import"], format!("{lines}{old}").as_bytes()).good();
    assert_eq!(carried(&to, "t", "a")["expires_at"], expires);
    let none = to.dwell(&["lease", "t", "--wait", "10ms"]);
    assert_eq!(none.code, 7, "{none:?}");
}
