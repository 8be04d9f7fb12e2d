//! The process: starting, stopping, crashing, and what it leaves behind.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::json;

use crate::client::{Client, ids, job_path};
use crate::server::{Server, dwell, run, start, temporary, timed, until};

#[test]
fn sigterm_answers_who_waits_and_exits_well() {
    let mut server = Server::new();
    server.put_job("t", "a", json!({"delay": "1h"}));
    let waiting: Vec<_> = (0..3).map(|_| server.later("/v1/topics/t/lease", json!({"wait": "60s"}))).collect();
    server.parked("t", 3);
    let (status, took) = timed(|| {
        server.terminate();
        for waiting in waiting {
            assert_eq!(waiting.join().unwrap().ok(200), json!({"jobs": []}));
        }
        server.end()
    });
    assert_eq!(status.code(), Some(0));
    assert!(took < Duration::from_secs(8), "{took:?}");
    server.start_again();
    assert_eq!(server.job("t", "a")["state"], "delayed");
}

/// A request of 13 bytes of which the server has the first.
fn under_way(server: &Server) -> TcpStream {
    let mut stream = server.connect();
    let head = "PUT /v1/topics/t/jobs/a HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                expect: 100-continue\r\ncontent-length: 13\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    let mut go_on = [0; 25];
    stream.read_exact(&mut go_on).unwrap();
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"{").unwrap();
    stream
}

#[test]
fn sigterm_lets_requests_under_way_finish() {
    let mut server = Server::new();
    let mut stream = under_way(&server);
    server.terminate();
    until("it stops", || server.log().contains("stopping"));
    stream.write_all(b"\"body\": 123}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    assert_eq!(server.end().code(), Some(0));
    server.start_again();
    assert_eq!(server.job("t", "a")["body"], 123);
}

#[test]
fn a_second_sigterm_ends_it_at_once() {
    let mut server = Server::new();
    // A request that is never finished keeps the first one waiting.
    let _stream = under_way(&server);
    server.terminate();
    until("it stops", || server.log().contains("stopping"));
    let (status, took) = timed(|| {
        server.terminate();
        server.end()
    });
    assert_ne!(status.code(), Some(0), "this is not how it should end");
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[test]
fn requests_under_way_have_ten_seconds() {
    let mut server = Server::new();
    let _stream = under_way(&server);
    let (status, took) = timed(|| {
        server.terminate();
        server.end()
    });
    assert_eq!(status.code(), Some(0));
    assert!((Duration::from_secs(8)..Duration::from_secs(20)).contains(&took), "{took:?}");
}

#[test]
fn a_store_that_failed_says_so_until_a_restart() {
    // A limit on the size of files makes every write fail; the signal that comes with it is ignored from the start.
    let directory = temporary();
    let flags = ["serve", "--listen", "127.0.0.1:0", "--data-dir", "data"];
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_dwell")]).args(flags);
    let (mut child, address, _) = start(command.env_clear().current_dir(directory.path()).stderr(Stdio::null()));
    let client = Client::new(address);
    client.put_job("t", "before", json!({"body": 1}));
    let limit = Rlimit { current: Some(0), maximum: Some(0) };
    prlimit(Some(Pid::from_child(&child)), Resource::Fsize, limit).unwrap();
    client.put(&job_path("t", "lost"), json!({})).problem(503, "storage_failed");
    for path in ["/v1/info", "/v1/topics", "/v1/topics/t", "/v1/topics/t/jobs/before", "/v1/timeline"] {
        client.get(path).problem(503, "storage_failed");
    }
    client.post("/v1/topics/t/lease", json!({"wait": "60s"})).problem(503, "storage_failed");
    client.post("/v1/settle", json!({"items": []})).problem(503, "storage_failed");
    client.delete(&job_path("t", "before")).problem(503, "storage_failed");
    assert_eq!(client.get("/healthz").ok(200)["status"], "ok", "the process is up");
    let ready = client.get("/readyz").ok(503);
    assert!(ready["status"] == "failing" && ready["reasons"][0].is_string(), "{ready}");
    assert!(client.get("/metrics").body().contains("\ndwell_store_failed 1\n"));
    child.kill().unwrap();
    child.wait().unwrap();
    let (mut child, address, _) = start(dwell(&flags).current_dir(directory.path()).stderr(Stdio::null()));
    assert_eq!(Client::new(address).job("t", "before")["body"], 1);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_clock_far_behind_the_data_is_accepted_only_if_told_to() {
    let mut server = Server::on_files();
    server.advance("3h");
    server.put_job("t", "a", json!({"delay": "1h"}));
    server.terminate();
    assert_eq!(server.end().code(), Some(0));
    let data = server.data();
    let flags = ["serve", "--listen", "127.0.0.1:0", "--data-dir", data.to_str().unwrap()];
    let ended = run(&mut dwell(&flags));
    assert_eq!(ended.code, Some(78), "{ended:?}");
    assert!(ended.stderr.contains("--accept-clock"), "it says what to do: {ended:?}");
    let (mut child, address, _) = start(dwell(&flags).arg("--accept-clock").stderr(Stdio::null()));
    assert_eq!(Client::new(address).job("t", "a")["state"], "delayed");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_crash_loses_nothing_that_was_answered() {
    for durability in ["sync", "interval:50ms", "none"] {
        let mut server = Server::with(&["--durability", durability]);
        server.put("/v1/topics/t/policy", json!({"ttr": "2m"})).ok(200);
        let jobs: Vec<_> = (0..300).map(|n| json!({"topic": "t", "id": format!("{n}"), "at": 1_000 + n})).collect();
        server.post("/v1/jobs", json!({ "jobs": jobs })).ok(200);
        let leased = server.lease("t", json!({"max": 4}));
        for (job, verb) in leased.iter().zip(["ack", "nack", "bury"]) {
            server.settle(job, verb, json!({})).ok(200);
        }
        server.delete(&job_path("t", "10")).empty();
        server.patch(&job_path("t", "11"), json!({"delay": "1h", "body": "moved"})).ok(200);
        let (topic, moved) = (server.topic("t"), server.job("t", "11"));
        server.crash_and_start();
        let after = server.topic("t");
        for field in ["policy", "totals", "paused"] {
            assert_eq!(after[field], topic[field], "{durability}: {field}");
        }
        assert_eq!(after["counts"]["buried"], 1);
        assert_eq!(after["counts"]["leased"], 1);
        assert_eq!(server.job("t", "11"), moved);
        server.get(&job_path("t", "0")).problem(404, "not_found");
        server.get(&job_path("t", "10")).problem(404, "not_found");
        server.settle(&leased[3], "ack", json!({})).ok(200);
        assert_eq!(ids(&server.lease("t", json!({"max": 2}))), ["4", "5"]);
    }
}

#[test]
fn each_durability_says_what_it_promises() {
    let mut promises = Vec::new();
    for durability in ["sync", "interval:50ms", "none"] {
        let server = Server::with(&["--durability", durability]);
        let promise = server.get("/v1/info").ok(200)["durability"].as_str().unwrap().to_owned();
        assert!(server.banner.contains(&promise), "{}", server.banner);
        promises.push(promise);
    }
    let memory = Server::with(&["--store", "memory:"]);
    let info = memory.get("/v1/info").ok(200);
    promises.push(info["durability"].as_str().unwrap().to_owned());
    assert_eq!(info["store"], "memory");
    promises.sort();
    promises.dedup();
    assert_eq!(promises.len(), 4, "{promises:?}");
    for wrong in ["", "always", "interval", "interval:", "interval:0s", "interval:50", "interval:2m", "SYNC"] {
        let ended = run(&mut dwell(&["serve", "--listen", "127.0.0.1:0", "--store", "memory:", "--durability", wrong]));
        assert_eq!(ended.code, Some(78), "{wrong}: {ended:?}");
        assert!(ended.stderr.contains("--durability"), "{ended:?}");
    }
}

#[test]
fn a_directory_belongs_to_one_server() {
    let server = Server::on_files();
    server.put_job("t", "a", json!({}));
    let data = server.data();
    let data = data.to_str().unwrap();
    for flags in [["--data-dir", data], ["--store", &format!("file:{data}")]] {
        let ended = run(dwell(&["serve", "--listen", "127.0.0.1:0"]).args(flags));
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.stderr.contains(data) && ended.stderr.contains("use"), "{ended:?}");
    }
    assert_eq!(server.job("t", "a")["state"], "ready", "the first goes on");
}

#[test]
fn an_address_belongs_to_one_server() {
    let server = Server::new();
    let address = server.address.to_string();
    let ended = run(&mut dwell(&["serve", "--listen", &address, "--store", "memory:"]));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains(&address), "{ended:?}");
}

#[test]
fn port_0_is_any_free_one_and_is_printed() {
    let server = Server::on_files();
    assert_ne!(server.address.port(), 0);
    let url = format!("http://{}", server.address);
    assert!(server.banner.contains(&url), "{}", server.banner);
    assert!(server.banner.contains(server.data().to_str().unwrap()), "{}", server.banner);
}

#[test]
fn a_server_open_to_the_world_needs_a_token() {
    for address in ["0.0.0.0:0", "[::]:0"] {
        let ended = run(&mut dwell(&["serve", "--listen", address, "--store", "memory:"]));
        assert_eq!(ended.code, Some(78), "{ended:?}");
        let fixed = format!("dwell serve --listen {address} --token ");
        assert!(ended.stderr.contains(&fixed), "the line that mends it: {ended:?}");
    }
    let directory = temporary();
    let mut command = dwell(&["serve", "--listen", "0.0.0.0:0", "--store", "memory:", "--token", "secret"]);
    let (mut child, address, _) = start(command.current_dir(directory.path()).stderr(Stdio::null()));
    let client = Client::new(([127, 0, 0, 1], address.port()).into());
    client.get("/v1/info").problem(401, "unauthorized");
    assert_eq!(client.send("GET", "/v1/info", &[("authorization", "Bearer secret")], None).status, 200);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_dev_server_has_everything_on_and_leaves_nothing() {
    let directory = temporary();
    let mut command = dwell(&["dev", "--listen", "127.0.0.1:0"]);
    let command = command.current_dir(directory.path()).env("TMPDIR", directory.path()).stderr(Stdio::null());
    let (mut child, address, banner) = start(command);
    let client = Client::new(address);
    client.put_job("t", "a", json!({"delay": "15h"}));
    client.advance("15h");
    assert_eq!(client.lease_one("t")["id"], "a");
    let files = || std::fs::read_dir(directory.path()).unwrap().count();
    assert!(files() > 0, "its data is somewhere: {banner}");
    let pid = Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(files(), 0, "temporary data is gone");
    let ended = run(&mut dwell(&["dev", "--listen", "0.0.0.0:0"]));
    assert_eq!(ended.code, Some(78), "{ended:?}");
}

#[test]
fn usage_errors_are_told_from_others() {
    for (arguments, code) in [
        (vec!["--version"], 0),
        (vec!["--help"], 0),
        (vec!["serve", "--help"], 0),
        (vec!["dev", "--help"], 0),
        (vec![], 2),
        (vec!["sreve"], 2),
        (vec!["serve", "--lisen", "x"], 2),
        (vec!["serve", "extra"], 2),
    ] {
        let ended = run(&mut dwell(&arguments));
        assert_eq!(ended.code, Some(code), "{arguments:?}: {ended:?}");
    }
}
