//! What happens when a connection ends.

use super::server;
use super::talk::Talk;
use crate::server::until;

#[test]
fn what_a_connection_holds_is_given_back_when_it_ends() {
    let server = server();
    let mut other = Talk::to(&server);
    for how in ["quit", "hang up", "say no more", "http"] {
        let mut talk = Talk::to(&server);
        let ids: Vec<_> = (0..3).map(|_| talk.put("0 0 600", "x")).collect();
        let late = talk.put("0 600 600", "x");
        for _ in &ids {
            assert!(talk.ask("reserve").starts_with("RESERVED"), "{how}");
        }
        assert!(talk.ask(&format!("reserve-job {late}")).starts_with("RESERVED"), "{how}");
        assert_eq!(other.document("stats")["current-jobs-reserved"], "4", "{how}");
        match how {
            "quit" => talk.send("quit\r\n"),
            "say no more" => talk.say_no_more(),
            "http" => talk.send("GET / HTTP/1.1\r\n"),
            _ => {}
        }
        drop(talk);
        until("they are given back", || other.document("stats")["current-jobs-ready"] == "4");
        for id in ids.into_iter().chain([late]) {
            assert_eq!(other.ask(&format!("delete {id}")), "DELETED", "{how}");
        }
    }
}

#[test]
fn a_client_that_goes_away_while_it_waits_leaves_no_trace() {
    let server = server();
    let mut other = Talk::to(&server);
    let mut talk = Talk::to(&server);
    talk.send("watch gone\r\nreserve\r\n");
    until("it waits", || other.document("stats")["current-waiting"] == "1");
    drop(talk);
    until("it is gone", || other.document("stats")["current-waiting"] == "0");
    until("its tube is gone", || other.ask("stats-tube gone") == "NOT_FOUND");
    let id = other.put("0 0 60", "x");
    let stats = other.document(&format!("stats-job {id}"));
    assert_eq!((&*stats["state"], &*stats["reserves"]), ("ready", "0"));
}

#[test]
fn a_job_that_is_half_sent_is_none() {
    let server = server();
    let mut talk = Talk::to(&server);
    talk.send("put 0 0 60 100\r\nhalf of it");
    drop(talk);
    let mut other = Talk::to(&server);
    until("it is gone", || other.document("stats")["current-connections"] == "1");
    assert_eq!(other.document("stats")["total-jobs"], "0");
}

#[test]
fn who_comes_after_a_connection_was_closed_finds_what_it_held() {
    let server = server();
    Talk::to(&server).put("0 0 60", "job");
    for round in 0..50 {
        let mut talk = Talk::to(&server);
        assert!(talk.ask("reserve-with-timeout 0").starts_with("RESERVED"), "round {round}");
        talk.send("quit\r\n");
        assert!(talk.is_closed());
    }
}
