//! Tubes: which there are, and pausing them.

use super::server;
use super::talk::Talk;
use crate::server::until;

fn list(talk: &mut Talk) -> Vec<String> {
    let reply = talk.ask("list-tubes");
    reply.lines().filter_map(|line| line.strip_prefix("- ")).map(str::to_owned).collect()
}

#[test]
fn a_tube_is_there_while_it_is_used_watched_or_has_a_job() {
    let server = server();
    let (mut talk, mut other) = (Talk::to(&server), Talk::to(&server));
    assert_eq!(list(&mut talk), ["default"]);
    talk.ask("use used");
    talk.ask("watch watched");
    talk.ask("ignore default");
    assert_eq!(list(&mut other), ["default", "used", "watched"]);
    assert_eq!(talk.ask("list-tube-used"), "USING used");
    assert_eq!(talk.ask("list-tubes-watched"), "OK 14\n---\n- watched\n");
    let id = talk.put("0 0 60", "x");
    drop(talk);
    until("nobody watches", || list(&mut other) == ["default", "used"]);
    assert_eq!(other.ask("stats-tube watched"), "NOT_FOUND");
    assert_eq!(other.ask(&format!("delete {id}")), "DELETED");
    assert_eq!(list(&mut other), ["default"]);
    assert_eq!(other.ask("pause-tube used 1"), "NOT_FOUND");
}

#[test]
fn a_paused_tube_hands_out_nothing() {
    let server = server();
    let (mut talk, mut worker) = (Talk::to(&server), Talk::to(&server));
    let id = talk.put("0 0 60", "x");
    assert_eq!(talk.ask("pause-tube default 3600"), "PAUSED");
    let stats = talk.document("stats-tube default");
    assert_eq!((&*stats["pause"], &*stats["cmd-pause-tube"]), ("3600", "1"));
    let left: u64 = stats["pause-time-left"].parse().unwrap();
    assert!((3_590..=3_600).contains(&left), "{left}");
    assert_eq!(worker.ask("reserve-with-timeout 0"), "TIMED_OUT");
    assert_eq!(talk.ask("peek-ready"), format!("FOUND {id} 1\nx"));
    worker.send("reserve\r\n");
    until("it waits", || talk.document("stats")["current-waiting"] == "1");
    server.advance("1h");
    assert_eq!(worker.reply(), format!("RESERVED {id} 1\nx"));
    assert_eq!(talk.document("stats-tube default")["pause"], "0");
    assert_eq!(talk.ask("pause-tube default 3600"), "PAUSED");
    assert_eq!(talk.ask("pause-tube default 0"), "PAUSED");
    assert_eq!(talk.document("stats-tube default")["pause"], "0");
    let next = talk.put("0 0 60", "y");
    assert_eq!(talk.ask("reserve-with-timeout 0"), format!("RESERVED {next} 1\ny"));
    assert_eq!(talk.ask("pause-tube unknown 1"), "NOT_FOUND");
}

#[test]
fn a_thousand_tubes_can_be_watched_and_no_more() {
    let server = server();
    let mut talk = Talk::to(&server);
    for number in 0..1_000 {
        talk.send(format!("watch t{number}\r\n"));
    }
    for number in 0..999 {
        assert_eq!(talk.reply(), format!("WATCHING {}", number + 2));
    }
    assert_eq!(talk.reply(), "OUT_OF_MEMORY");
    let mut producer = Talk::to(&server);
    producer.ask("use t998");
    talk.send("reserve\r\n");
    until("it waits", || producer.document("stats")["current-waiting"] == "1");
    let id = producer.put("0 0 60", "x");
    assert_eq!(talk.reply(), format!("RESERVED {id} 1\nx"));
}
