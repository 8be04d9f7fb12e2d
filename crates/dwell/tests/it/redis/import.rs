//! `dwell import redis-zset` on queues as people make them by hand.

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use redis::{Connection, pipe};
use serde_json::{Value, json};

use crate::client::{millis, text_of};
use crate::redis_server::Server as Redis;
use crate::server::{Server, dwell};

#[expect(clippy::disallowed_methods, reason = "old queues go by the wall clock")]
fn now() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

fn connect(redis: &Redis) -> Connection {
    redis::Client::open(redis.url()).unwrap().get_connection().unwrap()
}

/// The command, begun.
fn import(redis: &Redis, server: &Server, flags: &[&str]) -> Child {
    let url = format!("http://{}", server.address);
    let mut command = dwell(&["import", "redis-zset", &redis.url(), "--url", &url, "--json"]);
    command.args(flags).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

struct Ran {
    code: Option<i32>,
    out: Value,
    err: String,
}

fn ended(child: Child) -> Ran {
    let output = child.wait_with_output().unwrap();
    let out = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    Ran { code: output.status.code(), out, err: String::from_utf8(output.stderr).unwrap() }
}

fn run(redis: &Redis, server: &Server, flags: &[&str]) -> Ran {
    ended(import(redis, server, flags))
}

/// A job in a sorted set, its body in a hash.
fn add(to: &mut Connection, kind: &str, member: &[u8], score: f64, body: Option<&[u8]>) {
    let mut both = pipe();
    both.atomic().cmd("ZADD").arg(format!("delay:queue:{kind}")).arg(score).arg(member).ignore();
    if let Some(body) = body {
        both.cmd("HSET").arg(format!("delay:body:{kind}")).arg(member).arg(body).ignore();
    }
    both.query::<()>(to).unwrap();
}

fn count(of: &mut Connection, command: &str, key: &str) -> u64 {
    let mut command = redis::cmd(command);
    if !key.is_empty() {
        command.arg(key);
    }
    command.query(of).unwrap()
}

#[expect(clippy::cast_precision_loss, reason = "instants have 48 bits")]
fn seconds(millis: u64) -> f64 {
    millis as f64 / 1_000.0
}

#[test]
fn without_run_it_shows_what_is_there_and_changes_nothing() {
    let (redis, server) = (Redis::start(), Server::on_files());
    let mut old = connect(&redis);
    let hour = now() / 1_000 * 1_000 + 3_600_000;
    add(&mut old, "orders", b"a", seconds(hour), Some(b"1"));
    add(&mut old, "orders", b"b", seconds(hour + 1_000), None);
    add(&mut old, "orders", b"c", seconds(now() + 10_000), None);
    add(&mut old, "mails", b"a", seconds(hour), Some(b"2"));
    let looked = run(&redis, &server, &["--unit", "seconds"]);
    assert_eq!((looked.code, looked.err.as_str()), (Some(0), ""));
    let places = &looked.out["places"];
    assert_eq!(places[0]["key"], "delay:queue:mails");
    let orders = &places[1];
    let seen = ["topic", "jobs", "in_hash", "left"].map(|field| orders[field].clone());
    assert_eq!(seen, [json!("orders"), json!(3), json!(1), json!(1)], "{orders}");
    assert_eq!(millis(&orders["last_due_at"]), i64::try_from(hour).unwrap() + 1_000);
    assert_eq!((&looked.out["dry_run"], &looked.out["to_move"]), (&json!(true), &json!(3)));
    assert_eq!(looked.out["warning"], Value::Null);
    assert_eq!((count(&mut old, "ZCARD", "delay:queue:orders"), count(&mut old, "HLEN", "delay:body:orders")), (3, 1));
    server.get("/v1/topics/orders").problem(404, "not_found");
    let some = run(&redis, &server, &["--unit", "seconds", "--kind", "mails"]);
    assert_eq!(some.out["to_move"], 1);
}

#[test]
fn a_wrong_unit_is_noticed_and_nothing_is_moved() {
    let (redis, server) = (Redis::start(), Server::on_files());
    let mut old = connect(&redis);
    add(&mut old, "orders", b"a", seconds(now() + 3_600_000), Some(b"1"));
    let looked = run(&redis, &server, &["--unit", "milliseconds"]);
    assert!(text_of(&looked.out["warning"]).contains("are they seconds?"), "{}", looked.out);
    let refused = run(&redis, &server, &["--unit", "milliseconds", "--run", "--all"]);
    assert_eq!(refused.code, Some(2), "{}", refused.err);
    assert!(refused.err.contains("nothing was moved"), "{}", refused.err);
    add(&mut old, "mails", b"a", seconds(now() + 3_600_000) * 1_000.0, Some(b"1"));
    let looked = run(&redis, &server, &["--unit", "seconds"]);
    assert!(text_of(&looked.out["warning"]).contains("delay:queue:mails"), "{}", looked.out);
    assert_eq!(run(&redis, &server, &["--run"]).code, Some(2), "the unit must be said");
    assert_eq!(count(&mut old, "ZCARD", "delay:queue:orders"), 1);
    server.get("/v1/topics/orders").problem(404, "not_found");
}

#[test]
fn jobs_come_with_their_times_and_bodies() {
    let (redis, server) = (Redis::start(), Server::on_files());
    let mut old = connect(&redis);
    let hour = now() + 3_600_000;
    let at = |millis: u64| seconds(millis) * 1_000.0;
    add(&mut old, "k", b"json", at(hour), Some(b"{\"n\":  1}"));
    add(&mut old, "k", b"text", at(hour + 1), Some(b"{oops"));
    add(&mut old, "k", b"bytes", at(hour + 2), Some(b"\xff\x00"));
    add(&mut old, "k", b"alone", at(hour + 3), None);
    add(&mut old, "k", b"\xfe", at(hour + 4), Some(b"7"));
    add(&mut old, "k", b"here-already", at(hour + 5), Some(b"\"old\""));
    add(&mut old, "k", b"soon", at(now() + 20_000), Some(b"0"));
    add(&mut old, "a b", b"x", at(hour), None);
    server.put_job("k", "here-already", json!({"body": "new", "delay": "5m"}));
    let moved = run(&redis, &server, &["--unit", "milliseconds", "--run"]);
    assert_eq!(moved.code, Some(1), "{}", moved.err);
    assert!(moved.err.contains("x of delay:queue:a b: topic"), "{}", moved.err);
    let counts = ["moved", "kept", "taken", "doubled", "refused"].map(|field| moved.out[field].clone());
    assert_eq!(counts, [5, 1, 0, 0, 1].map(Value::from), "{}", moved.out);
    assert_eq!((count(&mut old, "ZCARD", "delay:queue:k"), count(&mut old, "HLEN", "delay:body:k")), (1, 1));
    assert_eq!(count(&mut old, "ZCARD", "delay:queue:a b"), 1);
    let is = |id: &str, later: u64, field: &str, value: Value| {
        let job = server.job("k", id);
        assert_eq!(millis(&job["due_at"]), i64::try_from(hour + later).unwrap(), "{id}");
        assert_eq!(job[field], value, "{id}");
        assert!(text_of(&job["headers"]["imported-from"]).starts_with("delay:queue:k "), "{job}");
    };
    is("json", 0, "body", json!({"n": 1}));
    is("text", 1, "body", json!("{oops"));
    is("bytes", 2, "body_base64", json!("/wA="));
    is("alone", 3, "body", json!("alone"));
    assert_eq!(server.job("k", "here-already")["body"], "new", "who is here stays");
    assert_eq!(server.topic("k")["counts"]["delayed"], 6);
    let rest = run(&redis, &server, &["--unit", "milliseconds", "--run", "--all", "--kind", "k"]);
    assert_eq!((rest.code, &rest.out["moved"]), (Some(0), &json!(1)), "{}", rest.err);
    assert_eq!((count(&mut old, "EXISTS", "delay:queue:k"), count(&mut old, "EXISTS", "delay:body:k")), (0, 0));
    let again = run(&redis, &server, &["--unit", "milliseconds", "--run", "--all", "--kind", "k"]);
    assert_eq!((again.code, &again.out["moved"]), (Some(0), &json!(0)));
}

#[test]
fn jobs_of_a_pool_come_with_what_they_say() {
    let (redis, server) = (Redis::start(), Server::on_files());
    let mut old = connect(&redis);
    let hour = now() / 1_000 * 1_000 + 3_600_000;
    let mut fill = pipe();
    for k in 0..250 {
        let job = json!({"topic": format!("t{}", k % 3), "id": k.to_string(), "body": {"k": k}}).to_string();
        fill.cmd("HSET").arg("delay:pool").arg(k).arg(job).ignore();
        fill.cmd("ZADD").arg(format!("delay:bucket:{}", k % 4)).arg(seconds(hour + k * 1_000)).arg(k).ignore();
    }
    fill.cmd("ZADD").arg("delay:bucket:1").arg(seconds(hour)).arg("deleted").ignore();
    fill.cmd("HSET").arg("delay:pool").arg("due").arg(json!({"topic": "t0", "body": 7}).to_string()).ignore();
    fill.cmd("RPUSH").arg("delay:ready:t0").arg("due").arg("due").arg("deleted").ignore();
    fill.query::<()>(&mut old).unwrap();
    let pool = ["--unit", "seconds", "--layout", "pool", "--run"];
    let moved = run(&redis, &server, &pool);
    assert_eq!((moved.code, &moved.out["moved"]), (Some(0), &json!(250)), "{}", moved.err);
    assert_eq!(moved.out["without_job"], 1, "what was deleted is not brought back: {}", moved.out);
    assert_eq!(count(&mut old, "HLEN", "delay:pool"), 1, "what is due is left to whoever takes it");
    let job = server.job("t1", "100");
    assert_eq!((&job["body"], millis(&job["due_at"])), (&json!({"k": 100}), i64::try_from(hour).unwrap() + 100_000));
    let rest = run(&redis, &server, &[&pool[..], &["--all"]].concat());
    assert_eq!((rest.code, &rest.out["moved"]), (Some(0), &json!(1)), "{}", rest.err);
    assert_eq!(server.lease_one("t0")["body"], 7, "once, though the list named it twice");
    assert_eq!(count(&mut old, "EXISTS", "delay:pool"), 0);
}

/// A job that an importer put and did not take out before it was killed, and that its producer then changed.
#[test]
fn what_was_changed_there_since_is_changed_here() {
    let (redis, server) = (Redis::start(), Server::on_files());
    let mut old = connect(&redis);
    let hour = now() / 1_000 * 1_000 + 3_600_000;
    add(&mut old, "k", b"a", seconds(hour), Some(b"1"));
    run(&redis, &server, &["--unit", "seconds", "--run"]);
    add(&mut old, "k", b"a", seconds(hour + 60_000), Some(b"2"));
    let moved = run(&redis, &server, &["--unit", "seconds", "--run"]);
    assert_eq!((moved.code, &moved.out["moved"]), (Some(0), &json!(1)), "{}", moved.out);
    let job = server.job("k", "a");
    assert_eq!((&job["body"], millis(&job["due_at"])), (&json!(2), i64::try_from(hour).unwrap() + 60_000));
}

#[test]
fn two_imports_at_once_lose_nothing() {
    const JOBS: u64 = 3_000;
    let (redis, server) = (Redis::start(), Server::on_files());
    let mut old = connect(&redis);
    for k in 0..JOBS {
        add(&mut old, "k", format!("job-{k}").as_bytes(), seconds(now() + 3_600_000 + k), Some(b"{}"));
    }
    let flags = ["--unit", "seconds", "--run"];
    let both = [import(&redis, &server, &flags), import(&redis, &server, &flags)];
    let moved = both.map(|child| {
        let ended = ended(child);
        assert_eq!(ended.code, Some(0), "the second waits for the first: {}", ended.err);
        ended.out["moved"].as_u64().unwrap()
    });
    assert_eq!(moved.iter().sum::<u64>(), JOBS, "{moved:?}");
    assert!(moved.contains(&0), "one after the other: {moved:?}");
    assert_eq!(server.topic("k")["counts"]["delayed"], JOBS);
    assert_eq!(count(&mut old, "DBSIZE", ""), 0, "nothing is left behind");
}

/// An import that holds on and is not of this machine.
#[test]
fn an_import_elsewhere_is_not_disturbed() {
    let (redis, server) = (Redis::start(), Server::on_files());
    let mut old = connect(&redis);
    add(&mut old, "k", b"a", seconds(now() + 3_600_000), None);
    redis::cmd("SET").arg("dwell:import").arg("process 1 on elsewhere").query::<()>(&mut old).unwrap();
    let refused = run(&redis, &server, &["--unit", "seconds", "--run"]);
    assert_eq!(refused.code, Some(4), "{}", refused.err);
    assert!(refused.err.contains("another import is at work: process 1 on elsewhere"), "{}", refused.err);
    assert_eq!(count(&mut old, "ZCARD", "delay:queue:k"), 1);
}

/// Who did which job, over all.
type Done = Mutex<BTreeMap<String, Vec<&'static str>>>;

/// An old consumer: looks for what is due, and whoever removes it has it.
fn consume_old(mut old: Connection, done: &Done, stop: &AtomicBool) {
    while !stop.load(Ordering::SeqCst) {
        let mut look = redis::cmd("ZRANGEBYSCORE");
        look.arg("delay:queue:k").arg("-inf").arg(seconds(now())).arg("LIMIT").arg(0).arg(20);
        let due: Vec<String> = look.query(&mut old).unwrap();
        for id in &due {
            let removed: u64 = redis::cmd("ZREM").arg("delay:queue:k").arg(id).query(&mut old).unwrap();
            if removed == 1 {
                redis::cmd("HDEL").arg("delay:body:k").arg(id).query::<()>(&mut old).unwrap();
                done.lock().unwrap().entry(id.clone()).or_default().push("old");
            }
        }
        if due.is_empty() {
            thread::yield_now();
        }
    }
}

fn consume_new(client: &crate::client::Client, done: &Done, stop: &AtomicBool) {
    while !stop.load(Ordering::SeqCst) {
        for job in client.lease("k", json!({"max": 100, "wait": "100ms", "auto_ack": true})) {
            done.lock().unwrap().entry(text_of(&job["id"]).to_owned()).or_default().push("new");
        }
    }
}

#[test]
fn with_old_consumers_at_work_and_the_importer_killed_each_job_is_done_once() {
    const JOBS: u64 = 5_000;
    let (redis, server) = (Redis::start(), Server::in_real_time(&["--durability", "sync"]));
    let mut old = connect(&redis);
    server.put("/v1/topics/k/policy", json!({})).ok(200);
    let start = now() + 1_000;
    for k in 0..JOBS {
        // Due over the next nine seconds.
        add(&mut old, "k", format!("job-{k}").as_bytes(), seconds(start + k * 9_000 / JOBS), Some(b"{}"));
    }
    let done: Arc<Done> = Arc::default();
    let stop = Arc::new(AtomicBool::new(false));
    let mut threads = Vec::new();
    for _ in 0..2 {
        let shared = || (Arc::clone(&done), Arc::clone(&stop));
        let (old, (done, stop)) = (connect(&redis), shared());
        threads.push(thread::spawn(move || consume_old(old, &done, &stop)));
        let (client, (done, stop)) = (server.client.clone(), shared());
        threads.push(thread::spawn(move || consume_new(&client, &done, &stop)));
    }
    let flags = ["--unit", "seconds", "--run", "--margin", "2s"];
    let (mut kills, mut moved) = (0, 0);
    for round in 0_u64.. {
        let before = count(&mut old, "ZCARD", "delay:queue:k");
        let mut child = import(&redis, &server, &flags);
        // Killed at ever later moments, while it moves: the queue gets shorter by more than consumers take.
        let wanted = before.saturating_sub(100 + round * 150);
        crate::server::until("the importer moves, or ends", || {
            child.try_wait().unwrap().is_some() || count(&mut old, "ZCARD", "delay:queue:k") < wanted
        });
        if child.try_wait().unwrap().is_none() {
            child.kill().unwrap();
            child.wait().unwrap();
            kills += 1;
            continue;
        }
        let ended = ended(child);
        assert_eq!(ended.code, Some(0), "{}", ended.err);
        assert_eq!(ended.out["doubled"], 0, "{}", ended.out);
        moved += ended.out["moved"].as_u64().unwrap();
        break;
    }
    crate::server::until("every job is done", || done.lock().unwrap().len() as u64 == JOBS);
    stop.store(true, Ordering::SeqCst);
    for thread in threads {
        thread.join().unwrap();
    }
    let done = done.lock().unwrap();
    let twice: Vec<_> = done.iter().filter(|(_, who)| who.len() != 1).collect();
    let by = |whom: &str| done.values().filter(|who| who.contains(&whom)).count();
    println!("{kills} kills; {} by old consumers, {} here; the last run moved {moved}", by("old"), by("new"));
    assert!(twice.is_empty(), "done more than once: {twice:?}");
    assert!(by("old") > 100 && by("new") > 1_000 && kills > 2, "nothing was tried");
    assert_eq!(count(&mut old, "EXISTS", "delay:body:k"), 0, "nothing is left behind");
}

/// In a cluster a job and its body lie on different nodes. The way around it that is told works.
#[test]
fn a_cluster_is_refused_and_what_is_copied_from_it_is_not() {
    let nodes: Vec<Redis> = (0..3).map(|_| Redis::with_bus(&["--cluster-enabled", "yes"])).collect();
    let addresses: Vec<String> = nodes.iter().map(|node| format!("127.0.0.1:{}", node.port)).collect();
    let create = ["--cluster", "create", "--cluster-yes"];
    let made = Command::new("redis-cli").args(create).args(&addresses).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stdout));
    let is_whole = |node: &Redis| node.ask(&["CLUSTER", "INFO"]).contains("cluster_state:ok");
    crate::redis_server::until("the cluster is whole", || nodes.iter().all(is_whole));
    let due = seconds(now() + 3_600_000).to_string();
    nodes[0].ask(&["-c", "ZADD", "delay:queue:orders", &due, "a"]);
    nodes[0].ask(&["-c", "HSET", "delay:body:orders", "a", "7"]);

    let (single, server) = (Redis::start(), Server::on_files());
    let import = |from: &str| {
        let url = format!("http://{}", server.address);
        let mut command = dwell(&["import", "redis-zset", from, "--url", &url, "--json"]);
        command.args(["--unit", "seconds", "--run", "--all"]);
        ended(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    };
    for from in [nodes[0].url(), nodes[1].url(), format!("redis-cluster://{}", addresses[0])] {
        let refused = import(&from);
        assert_eq!(refused.code, Some(2), "{}", refused.err);
        assert!(refused.err.contains("is a Redis Cluster") && refused.err.contains("MIGRATE"), "{}", refused.err);
    }
    let keys = ["delay:queue:orders", "delay:body:orders"];
    let there = |key| nodes.iter().filter(|node| node.ask(&["EXISTS", key]).trim() == "1").count();
    assert_eq!(keys.map(there), [1, 1], "it is all where it was");

    let port = single.port.to_string();
    for key in keys {
        let copied = nodes[0].ask(&["-c", "MIGRATE", "127.0.0.1", &port, key, "0", "60000", "COPY"]);
        assert_eq!(copied.trim(), "OK");
    }
    let moved = import(&single.url());
    assert_eq!((moved.code, &moved.out["moved"]), (Some(0), &json!(1)), "{}", moved.err);
    assert_eq!(server.job("orders", "a")["body"], 7);
}
