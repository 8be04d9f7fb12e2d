//! One bad target is in nobody's way.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use serde_json::json;

use super::receiver::{Receiver, Reply};
use super::{live, push, server, until_live};
use crate::client::text_of;
use crate::server::{timed, until};

#[test]
fn a_target_that_hangs_holds_nobody_up() {
    let (server, dead, fine) = (server(), Receiver::new(|_| Reply::Hang), Receiver::always(200));
    let jobs: Vec<_> = (0..200)
        .map(|number| json!({"topic": "t", "id": format!("dead{number}"), "deliver_to": dead.url("/")}))
        .collect();
    server.post("/v1/jobs", json!({ "jobs": jobs })).ok(200);
    dead.next();
    for number in 0..20 {
        let id = format!("fine{number}");
        let ((), took) = timed(|| {
            push(&server, &id, &fine.url("/"), json!({}));
            assert_eq!(fine.next().job(), id);
        });
        assert!(took < Duration::from_secs(2), "{took:?}");
    }
    let leased = server.topic("t")["counts"]["leased"].as_u64().unwrap();
    assert!(leased <= 32, "no more than its share is under way: {leased}");
}

#[test]
fn a_topic_whose_target_is_dead_holds_no_other_topic_up() {
    let (server, dead, fine) = (server(), Receiver::new(|_| Reply::Hang), Receiver::always(200));
    server.put("/v1/topics/dead/policy", json!({"deliver_to": dead.url("/")})).ok(200);
    server.put("/v1/topics/fine/policy", json!({"deliver_to": fine.url("/")})).ok(200);
    let job = |topic: &str, number: u32| json!({"topic": topic, "id": format!("{number}")});
    let jobs: Vec<_> = (0..100).flat_map(|number| [job("dead", number), job("fine", number)]).collect();
    server.post("/v1/jobs", json!({ "jobs": jobs })).ok(200);
    until_live(&server, "fine", 0);
    assert_eq!(fine.rest().len(), 100);
}

#[test]
fn a_target_that_is_down_is_left_alone_and_found_when_it_is_back() {
    let is_back = Arc::new(AtomicBool::new(false));
    let back = Arc::clone(&is_back);
    let receiver = Receiver::new(move |_| Reply::status(if back.load(Ordering::SeqCst) { 200 } else { 500 }));
    let server = server();
    for number in 0..30 {
        push(
            &server,
            &format!("{number}"),
            &receiver.url("/"),
            json!({"retry": {"backoff": ["1s"], "attempts": 1000}}),
        );
    }
    until("the breaker opens", || server.get("/metrics").body().contains("dwell_targets_down{"));
    until("the target is known to be down", || {
        server.advance("1s");
        server.get("/metrics").body().lines().any(is_down)
    });
    // A job that is due now waits for the one that goes to see; nothing of it is held or counted meanwhile.
    push(&server, "waiting", &receiver.url("/"), json!({}));
    let waiting = server.job("t", "waiting");
    assert_eq!((&waiting["attempt"], waiting.get("attempts")), (&json!(0), None), "{waiting}");
    is_back.store(true, Ordering::SeqCst);
    until("all jobs are delivered", || {
        server.advance("1m");
        live(&server, "t") == 0
    });
    assert!(server.log().contains("a target is down") && server.log().contains("a target is back"));
}

fn is_down(line: &str) -> bool {
    line.starts_with("dwell_targets_down{") && line.ends_with(" 1")
}

#[test]
fn targets_that_share_a_line_are_not_in_each_others_way() {
    let (dead, fine) =
        on_one_line(|| Receiver::new(|request| if request.path == "/dead" { Reply::Hang } else { Reply::status(200) }));
    let server = server();
    let jobs: Vec<_> = (0..100)
        .map(|number| json!({"topic": "t", "id": format!("dead{number}"), "deliver_to": dead.url("/dead")}))
        .collect();
    server.post("/v1/jobs", json!({ "jobs": jobs })).ok(200);
    dead.next();
    let ((), took) = timed(|| {
        push(&server, "first", &fine.url("/"), json!({}));
        assert_eq!(fine.next().job(), "first");
    });
    assert!(took < Duration::from_secs(8), "found behind a target that hangs: {took:?}");
    for number in 0..10 {
        let id = format!("fine{number}");
        let ((), took) = timed(|| {
            push(&server, &id, &fine.url("/"), json!({}));
            assert_eq!(fine.next().job(), id);
        });
        assert!(took < Duration::from_secs(3), "{took:?}");
    }
}

/// Whatever the store's time does: here it stands still.
#[test]
fn what_waits_for_room_comes_when_there_is_room() {
    let (open, gate) = mpsc::channel::<()>();
    let gate = Arc::new(Mutex::new(gate));
    let receiver = || {
        let gate = Arc::clone(&gate);
        Receiver::new(move |request| {
            if request.path == "/slow" {
                // Until the gate is open, which is when there is nobody any more to open it.
                gate.lock().unwrap().recv().unwrap_err();
            }
            Reply::status(200)
        })
    };
    let (slow, fine) = on_one_line(receiver);
    let server = server();
    push(&server, "known", &fine.url("/"), json!({}));
    assert_eq!(fine.next().job(), "known");
    let jobs: Vec<_> = (0..100)
        .map(|number| json!({"topic": "t", "id": format!("slow{number}"), "deliver_to": slow.url("/slow")}))
        .collect();
    server.post("/v1/jobs", json!({ "jobs": jobs })).ok(200);
    let mut moved = String::new();
    until("one that waits for room is moved by its owner", || {
        let waiting = server.get("/v1/topics/t/jobs?state=delayed&limit=1").list("jobs");
        let Some(job) = waiting.first() else { return false };
        text_of(&job["id"]).clone_into(&mut moved);
        server.patch(&format!("/v1/topics/t/jobs/{moved}"), json!({"delay": "1h"})).status == 200
    });
    drop(open);
    until_live(&server, "t", 1);
    assert!(slow.rest().iter().all(|request| request.job() != moved), "an hour is an hour");
    assert_eq!(server.job("t", &moved)["state"], "delayed");
}

/// Two receivers whose jobs are on one line: there are 1,023 of them, so of enough ports two share one.
fn on_one_line(new: impl Fn() -> Receiver) -> (Receiver, Receiver) {
    let mut receivers: Vec<Receiver> = Vec::new();
    loop {
        let next = new();
        let line = |receiver: &Receiver| line_of(&format!("http://{}", receiver.address));
        if let Some(index) = receivers.iter().position(|other| line(other) == line(&next)) {
            return (receivers.swap_remove(index), next);
        }
        receivers.push(next);
    }
}

/// As `dwell-core` has it: FNV-1a of the origin.
fn line_of(origin: &str) -> u64 {
    let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    1 + origin.bytes().fold(0xcbf2_9ce4_8422_2325, hash) % 1_023
}
