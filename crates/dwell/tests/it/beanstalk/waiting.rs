//! Waiting for jobs, and being warned.

use std::time::Duration;

use serde_json::json;

use super::server;
use super::talk::{Talk, converse};
use crate::server::{Server, timed, until};

fn parked(talk: &mut Talk, count: &str) {
    until("clients wait", || talk.document("stats")["current-waiting"] == count);
}

#[test]
fn a_reserve_waits_for_a_job() {
    let server = server();
    let (mut worker, mut producer) = (Talk::to(&server), Talk::to(&server));
    worker.send("reserve\r\n");
    parked(&mut producer, "1");
    let id = producer.put("0 0 60", "x");
    assert_eq!(worker.reply(), format!("RESERVED {id} 1\nx"));
    assert_eq!(producer.document("stats")["current-waiting"], "0");
}

/// Each put is handed over before the next: where servers share a store, who is woken gets the best that is there by then.
#[test]
fn those_who_wait_are_served_in_turn() {
    let server = server();
    let (mut first, mut second, mut producer) = (Talk::to(&server), Talk::to(&server), Talk::to(&server));
    first.send("reserve\r\n");
    parked(&mut producer, "1");
    second.send("reserve-with-timeout 30\r\n");
    parked(&mut producer, "2");
    let a = producer.put("9 0 60", "a");
    assert_eq!(first.reply(), format!("RESERVED {a} 1\na"));
    let b = producer.put("1 0 60", "b");
    assert_eq!(second.reply(), format!("RESERVED {b} 1\nb"));
}

#[test]
fn a_delayed_job_comes_when_it_is_due() {
    let server = server();
    let (mut worker, mut producer) = (Talk::to(&server), Talk::to(&server));
    let id = producer.put("0 3600 60", "x");
    assert_eq!(worker.ask("reserve-with-timeout 0"), "TIMED_OUT");
    worker.send("reserve\r\n");
    parked(&mut producer, "1");
    server.advance("59m59s");
    assert_eq!(producer.document(&format!("stats-job {id}"))["state"], "delayed");
    server.advance("1s");
    assert_eq!(worker.reply(), format!("RESERVED {id} 1\nx"));
}

#[test]
fn a_reserve_with_a_timeout_times_out() {
    let server = server();
    let mut talk = Talk::to(&server);
    let (reply, took) = timed(|| talk.ask("reserve-with-timeout 1"));
    assert_eq!(reply, "TIMED_OUT");
    assert!((Duration::from_millis(990)..Duration::from_secs(5)).contains(&took), "{took:?}");
}

/// A client that says no more waits for nothing more; what it said before is done.
#[test]
fn a_client_that_says_no_more_times_out_and_is_answered() {
    let server = server();
    let mut talk = Talk::to(&server);
    talk.send("use a\r\nreserve\r\nreserve-with-timeout 100\r\nlist-tube-used\r\n");
    assert_eq!(talk.reply(), "USING a");
    talk.say_no_more();
    assert_eq!([talk.reply(), talk.reply(), talk.reply()], ["TIMED_OUT", "TIMED_OUT", "USING a"]);
    assert!(talk.is_closed());
}

/// A job must be at hand: no one would wait for it any more.
#[test]
fn a_client_that_says_no_more_still_gets_what_is_ready() {
    let server = server();
    let id = Talk::to(&server).put("0 0 60", "x");
    let mut talk = Talk::to(&server);
    talk.send("reserve\r\nreserve\r\n");
    talk.say_no_more();
    assert_eq!([talk.reply(), talk.reply()], [format!("RESERVED {id} 1\nx"), "TIMED_OUT".to_owned()]);
    assert!(talk.is_closed());
    let mut other = Talk::to(&server);
    assert_eq!(other.ask("reserve-with-timeout 5"), format!("RESERVED {id} 1\nx"), "it was given back");
}

#[test]
fn who_holds_a_job_in_its_last_second_is_warned() {
    converse(
        &server(),
        "A> put 0 0 1 1
         A> x
         A< INSERTED {a}
         A> reserve
         A< RESERVED {a} 1
         A> x
         A> reserve
         A< DEADLINE_SOON
         A> reserve-with-timeout 60
         A< DEADLINE_SOON
         # A job that is ready is better than a warning.
         B> put 0 0 60 1
         B> y
         B< INSERTED {b}
         A> reserve
         A< RESERVED {b} 1
         A> y",
    );
}

#[test]
fn the_warning_comes_a_second_before_the_end_and_not_after_a_touch() {
    let server = Server::in_real_time(&["--beanstalk", "127.0.0.1:0"]);
    let mut talk = Talk::to(&server);
    let id = talk.put("0 0 3 ", "x");
    assert!(talk.ask("reserve").starts_with("RESERVED"));
    let (reply, took) = timed(|| talk.ask("reserve-with-timeout 30"));
    assert_eq!(reply, "DEADLINE_SOON");
    assert!((Duration::from_millis(1_900)..Duration::from_millis(2_900)).contains(&took), "{took:?}");
    assert_eq!(talk.ask(&format!("touch {id}")), "TOUCHED");
    assert_eq!(talk.ask("reserve-with-timeout 0"), "TIMED_OUT", "there is time again");
    assert_eq!(talk.ask(&format!("delete {id}")), "DELETED");
}

/// The end of a lease is of the store's time: while that stands still, no deadline comes nearer.
#[test]
fn the_warning_comes_by_the_stores_time() {
    let server = server();
    let (mut worker, mut other) = (Talk::to(&server), Talk::to(&server));
    let id = worker.put("0 0 3", "x");
    assert!(worker.ask("reserve").starts_with("RESERVED"));
    assert_eq!(worker.ask("reserve-with-timeout 3"), "TIMED_OUT", "three seconds, but none of the store's");
    worker.send("reserve\r\n");
    parked(&mut other, "1");
    server.advance("1999ms");
    assert!(!worker.hears_within(Duration::from_millis(300)), "a millisecond is left until the last second");
    server.advance("1ms");
    assert_eq!(worker.reply(), "DEADLINE_SOON");
    assert_eq!(worker.ask(&format!("touch {id}")), "TOUCHED");
    server.advance("1999ms");
    assert_eq!(worker.ask("reserve-with-timeout 0"), "TIMED_OUT", "there is time again");
    server.advance("1ms");
    assert_eq!(worker.ask("reserve-with-timeout 60"), "DEADLINE_SOON");
    server.advance("1s");
    assert_eq!(worker.ask("reserve-with-timeout 60"), format!("RESERVED {id} 1\nx"), "its time was over");
}

/// A job that its holder lost is anybody's again, at once and as often as it takes: nothing is buried behind one's back.
#[test]
fn a_job_whose_time_is_over_comes_back_for_ever() {
    let server = server();
    let (mut worker, mut other) = (Talk::to(&server), Talk::to(&server));
    let id = worker.put("0 0 60", "x");
    for _ in 0..30 {
        assert_eq!(worker.ask("reserve-with-timeout 0"), format!("RESERVED {id} 1\nx"));
        server.advance("61s");
        assert_eq!(worker.ask(&format!("touch {id}")), "NOT_FOUND");
    }
    let stats = other.document(&format!("stats-job {id}"));
    assert_eq!((&*stats["state"], &*stats["timeouts"], &*stats["reserves"]), ("ready", "30", "30"));
    assert_eq!(other.document("stats")["job-timeouts"], "30");
    assert!(worker.ask("reserve").starts_with("RESERVED"));
    server.advance("61s");
    assert_eq!(worker.ask(&format!("delete {id}")), "DELETED", "nobody has it: it can be deleted");
    let again = worker.put("0 0 60", "y");
    assert!(worker.ask("reserve").starts_with("RESERVED"));
    server.advance("61s");
    assert_eq!(other.ask("reserve"), format!("RESERVED {again} 1\ny"));
    assert_eq!(worker.ask(&format!("delete {again}")), "NOT_FOUND", "it is someone else's");
}

#[test]
fn a_consumer_over_http_waits_in_the_same_queue() {
    let server = server();
    let mut producer = Talk::to(&server);
    producer.put("0 3600 60", "later");
    let waiting = server.later("/v1/topics/default/lease", json!({"wait": "30s"}));
    server.parked("default", 1);
    let mut worker = Talk::to(&server);
    worker.send("reserve\r\n");
    until("both wait", || server.topic("default")["waiting"] == 2);
    let (a, b) = (producer.put("0 0 60", "a"), producer.put("0 0 60", "b"));
    assert_eq!(waiting.join().unwrap().list("jobs")[0]["number"], a);
    assert_eq!(worker.reply(), format!("RESERVED {b} 1\nb"));
}
