//! What was answered is there after a crash.

use super::server;
use super::talk::Talk;

#[test]
fn a_crash_loses_nothing_that_was_answered() {
    let mut server = server();
    let mut talk = Talk::to(&server);
    for number in 0..1_000 {
        talk.send(format!("put {number} 0 60 4\r\nbody\r\n"));
    }
    let ids: Vec<u64> = (0..1_000).map(|_| talk.reply()[9..].parse().unwrap()).collect();
    let asks =
        format!("{}delete {}\r\nbury {} 5\r\nrelease {} 6 600\r\n", "reserve\r\n".repeat(4), ids[0], ids[1], ids[2]);
    talk.send(asks);
    for _ in 0..4 {
        assert!(talk.reply().starts_with("RESERVED"));
    }
    assert_eq!([talk.reply(), talk.reply(), talk.reply()], ["DELETED", "BURIED", "RELEASED"]);
    server.crash_and_start();
    let mut talk = Talk::to(&server);
    let stats = talk.document("stats-tube default");
    let states = ["ready", "reserved", "delayed", "buried"].map(|state| &*stats[&format!("current-jobs-{state}")]);
    assert_eq!(states, ["996", "1", "1", "1"]);
    assert_eq!(talk.ask("peek-buried"), format!("FOUND {} 4\nbody", ids[1]));
    assert_eq!(talk.document(&format!("stats-job {}", ids[2]))["pri"], "6");
    assert_eq!(talk.ask("reserve"), format!("RESERVED {} 4\nbody", ids[4]));
    let next = talk.put("0 0 60", "x");
    assert!(next > ids[999], "no number is ever used twice");
    server.advance("61s");
    assert_eq!(talk.document(&format!("stats-job {}", ids[3]))["state"], "ready", "its holder is gone");
}

#[test]
fn a_store_that_is_full_says_so_and_the_rest_works() {
    let server = super::server_with(&["--store", "memory:", "--memory", "1MiB"]);
    let mut talk = Talk::to(&server);
    let body = "x".repeat(60_000);
    let mut first = None;
    let refused = (0..40).any(|_| {
        talk.send(format!("put 0 0 60 {}\r\n{body}\r\n", body.len()));
        let reply = talk.reply();
        first = first.take().or_else(|| reply.strip_prefix("INSERTED ").map(str::to_owned));
        reply == "OUT_OF_MEMORY"
    });
    assert!(refused);
    let first = first.unwrap();
    assert!(talk.ask("reserve").starts_with(&format!("RESERVED {first} ")));
    assert_eq!(talk.ask(&format!("delete {first}")), "DELETED");
}
