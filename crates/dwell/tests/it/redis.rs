//! Servers that keep their jobs in Redis: several on one, and what becomes of them when something breaks.

mod import;
mod proxy;
mod torture;

use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use self::proxy::Proxy;
use crate::client::{ids, millis};
use crate::redis_server::Server as Redis;
use crate::server::{Server, dwell, run, start, temporary, timed, until};

/// How long a lease of a second, the second until it is noticed, and a busy machine may take.
const AGAIN: Duration = Duration::from_secs(4);

/// A server on this Redis, and on its time: several have one only if nobody stops it.
fn on(url: &str) -> Server {
    Server::in_real_time(&["--store", url])
}

/// A policy under which what fails is tried again at once.
fn impatient(server: &Server) {
    server.put("/v1/topics/t/policy", json!({"retry": {"attempts": 1000, "backoff": [0]}})).ok(200);
}

/// Leases one job for a second, by way of a server.
fn hold(server: &Server) -> Value {
    let mut jobs = server.lease("t", json!({"ttr": "1s"}));
    assert_eq!(jobs.len(), 1);
    jobs.remove(0)
}

#[test]
fn several_servers_are_one_queue() {
    let redis = Redis::start();
    let (one, other) = (on(&redis.url()), on(&redis.url()));
    one.put_job("t", "a", json!({"body": {"n": 1}}));
    let job = other.lease_one("t");
    assert_eq!((&job["id"], &job["body"]), (&json!("a"), &json!({"n": 1})));
    assert!(one.lease("t", json!({})).is_empty(), "a job that is held is held everywhere");
    one.settle(&job, "ack", json!({})).ok(200);
    other.settle(&job, "ack", json!({})).problem(409, "lease_lost");
    let waiting = other.later("/v1/topics/t/lease", json!({"wait": "60s"}));
    other.parked("t", 1);
    let ((), took) = timed(|| {
        one.put_job("t", "b", json!({}));
        assert_eq!(ids(&waiting.join().unwrap().list("jobs")), ["b"]);
    });
    assert!(took < Duration::from_secs(1), "a wake-up goes from server to server: {took:?}");
    one.put("/v1/topics/t/policy", json!({"ttr": "90s"})).ok(200);
    assert_eq!(other.topic("t")["policy"]["ttr"], one.topic("t")["policy"]["ttr"]);
}

#[test]
fn the_banner_says_where_jobs_are_and_what_that_is_worth() {
    let redis = Redis::start();
    let server = on(&redis.url());
    let place = format!("redis at 127.0.0.1:{}, keys dwell:*", redis.port);
    for words in [place.as_str(), "a power cut loses up to a second (appendfsync everysec)"] {
        assert!(server.banner.contains(words), "{}", server.banner);
    }
    let weak = Redis::with(&["--appendonly", "no"]);
    let server = Server::with(&["--store", &weak.url(), "--redis-prefix", "mine", "--redis-partitions", "3"]);
    assert!(server.banner.contains("with appendonly no, a crash of Redis loses"), "{}", server.banner);
    assert!(server.banner.contains("keys mine:*"), "{}", server.banner);
}

#[test]
fn what_makes_no_sense_is_said_at_the_start() {
    let redis = Redis::start();
    let url = redis.url();
    let refused = |flags: &[&str]| {
        let ended = run(dwell(&["serve", "--listen", "127.0.0.1:0"]).args(flags));
        assert!(matches!(ended.code, Some(1 | 78)), "{ended:?}");
        ended.stderr
    };
    let says = |flags: &[&str], words: &str| {
        let said = refused(flags);
        assert!(said.contains(words), "{flags:?}: {said}");
    };
    says(&["--store", "redis:foo"], "is no address of Redis");
    says(&["--store", "redis+sentinel://127.0.0.1"], "does not say which master");
    says(&["--store", "redis-cluster://127.0.0.1/3"], "which a cluster does not have");
    says(&["--store", &url, "--redis-partitions", "0"], "from 1 to 256");
    says(&["--store", &url, "--redis-prefix", "{a}"], "must not be empty nor have");
    says(&["--store", &url, "--memory", "2GiB"], "does nothing with a store in Redis");
    says(&["--store", "memory:", "--redis-wait", "1"], "is for a store in Redis");
    says(&["--store", "redis://user:hidden@127.0.0.1:1"], "cannot reach redis at 127.0.0.1:1");
    let wrong = refused(&["--store", "redis+what://user:hidden@host"]);
    assert!(!wrong.contains("hidden"), "a password is never shown: {wrong}");
    drop(on(&url));
    says(&["--store", &url, "--redis-partitions", "5"], "partitions=64");
}

#[test]
fn users_and_passwords_are_those_of_the_address() {
    let user = ["--user", "dwell", "on", ">s3cret", "~dwell:*", "&dwell:*", "+@all", "-config"];
    let redis = Redis::with(&[&["--appendonly", "yes"], &user[..], &["--user", "default", "off"]].concat());
    let url = format!("redis://dwell:s3cret@127.0.0.1:{}", redis.port);
    let server = on(&url);
    assert!(server.banner.contains("this user may not ask"), "{}", server.banner);
    assert!(!server.banner.contains("s3cret"), "{}", server.banner);
    server.put_job("t", "a", json!({}));
    server.lease_one("t");
    let ended = run(&mut dwell(&["serve", "--listen", "127.0.0.1:0", "--store", &url.replace("s3cret", "wrong")]));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("cannot reach redis") && !ended.stderr.contains("wrong@"), "{ended:?}");
}

#[test]
fn tls_is_spoken_and_certificates_are_checked() {
    let directory = temporary();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (key, certificate) = (path("key.pem"), path("certificate.pem"));
    let made = std::process::Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"])
        .args(["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .args(["-keyout", &key, "-out", &certificate])
        .stderr(std::process::Stdio::null())
        .status();
    assert!(made.expect("openssl is installed").success());
    let port = crate::redis_server::free_port().to_string();
    let files = ["--tls-cert-file", &certificate, "--tls-key-file", &key, "--tls-ca-cert-file", &certificate];
    let _redis = Redis::with(&[&["--tls-port", &port, "--tls-auth-clients", "no"], &files[..]].concat());
    let url = format!("rediss://127.0.0.1:{port}");
    let flags = ["serve", "--listen", "127.0.0.1:0", "--store", &url];
    let (mut child, address, _) = start(dwell(&flags).env("SSL_CERT_FILE", &certificate));
    let client = crate::client::Client::new(address);
    client.put_job("t", "a", json!({}));
    client.lease_one("t");
    child.kill().unwrap();
    child.wait().unwrap();
    let ended = run(dwell(&flags).env("SSL_CERT_FILE", "/dev/null"));
    assert_eq!(ended.code, Some(1), "a certificate that nobody vouches for is refused: {ended:?}");
}

#[test]
fn a_killed_servers_jobs_are_handed_out_by_another() {
    let redis = Redis::start();
    let (mut one, other) = (on(&redis.url()), on(&redis.url()));
    impatient(&one);
    for id in ["a", "b"] {
        one.put_job("t", id, json!({}));
    }
    hold(&one);
    one.signal(Signal::KILL);
    one.end();
    let (jobs, took) = timed(|| {
        let first = other.lease("t", json!({"max": 10}));
        assert_eq!(ids(&first), ["b"], "what waited is there at once");
        other.lease("t", json!({"wait": "20s"}))
    });
    assert_eq!((ids(&jobs), &jobs[0]["attempt"]), (vec!["a"], &json!(2)));
    assert!(took < AGAIN, "ttr and a second: {took:?}");
}

#[test]
fn a_frozen_servers_leases_run_out_and_are_lost() {
    let redis = Redis::start();
    let (one, other) = (on(&redis.url()), on(&redis.url()));
    impatient(&one);
    one.put_job("t", "a", json!({}));
    let held = hold(&one);
    one.signal(Signal::STOP);
    let (again, took) = timed(|| other.lease("t", json!({"wait": "20s"})).remove(0));
    assert_eq!(again["attempt"], 2);
    assert!(took < AGAIN, "ttr and a second: {took:?}");
    assert!(millis(&again["lease_expires_at"]) - 60_000 >= millis(&held["lease_expires_at"]), "never two at once");
    one.signal(Signal::CONT);
    one.settle(&held, "ack", json!({})).problem(409, "lease_lost");
    one.settle(&again, "ack", json!({})).ok(200);
}

#[test]
fn a_server_cut_off_from_redis_says_so_and_comes_back() {
    let redis = Redis::start();
    let proxy = Proxy::start(redis.port);
    let (one, other) = (on(&format!("redis://127.0.0.1:{}", proxy.port)), on(&redis.url()));
    impatient(&one);
    one.put_job("t", "a", json!({}));
    let held = hold(&one);
    let waiting = one.later("/v1/topics/t/lease", json!({"wait": "30s"}));
    one.parked("t", 1);
    proxy.cut();
    let (again, took) = timed(|| other.lease("t", json!({"wait": "20s"})).remove(0));
    assert!(took < AGAIN, "ttr and a second: {took:?}");
    other.settle(&again, "ack", json!({})).ok(200);
    let (refused, took) = timed(|| one.put("/v1/topics/t/jobs/b", json!({})));
    refused.problem(503, "storage_failed");
    assert!(took < Duration::from_secs(25), "it does not hang: {took:?}");
    proxy.mend();
    until("the server is back", || one.put("/v1/topics/t/jobs/c", json!({"if_exists": "keep"})).status < 300);
    one.settle(&held, "ack", json!({})).problem(409, "lease_lost");
    let got = waiting.join().unwrap().list("jobs");
    assert_eq!(got.len(), 1, "who waited all the while is served: {got:?}");
}

#[test]
fn a_redis_that_is_killed_comes_back_with_everything() {
    let mut redis = Redis::start();
    let server = on(&redis.url());
    server.put_job("t", "a", json!({"delay": "1h"}));
    server.put_job("t", "b", json!({}));
    let held = server.lease_one("t");
    let waiting = server.later("/v1/topics/t/lease", json!({"wait": "60s"}));
    server.parked("t", 1);
    redis.kill();
    server.put("/v1/topics/t/jobs/c", json!({})).problem(503, "storage_failed");
    redis.start_again();
    until("the server is back", || server.put("/v1/topics/t/jobs/d", json!({"if_exists": "keep"})).status < 300);
    assert_eq!(ids(&waiting.join().unwrap().list("jobs")), ["d"], "who waited goes on waiting");
    assert_eq!(server.job("t", "a")["state"], "delayed");
    server.settle(&held, "ack", json!({})).ok(200);
}
