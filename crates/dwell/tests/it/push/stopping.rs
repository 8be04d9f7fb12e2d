//! What happens to deliveries when the server stops or dies.

use std::sync::mpsc;
use std::time::Duration;

use serde_json::json;

use super::receiver::{Receiver, Reply};
use super::{push, server, until_live};
use crate::client::millis;
use crate::server::{timed, until};

#[test]
fn deliveries_under_way_finish_before_the_server_ends() {
    let (finish, wait) = mpsc::channel::<()>();
    let (begin, begun) = mpsc::channel();
    let receiver = Receiver::new(move |_| {
        begin.send(()).ok();
        wait.recv_timeout(Duration::from_secs(5)).ok();
        Reply::status(200)
    });
    let mut server = server();
    push(&server, "a", &receiver.url("/"), json!({}));
    // A lease alone does not tell: on Redis it is there before the server knows of it.
    begun.recv_timeout(Duration::from_secs(20)).expect("it is under way");
    server.terminate();
    finish.send(()).unwrap();
    assert_eq!(server.end().code(), Some(0));
    assert_eq!(receiver.next().job(), "a");
    server.start_again();
    until_live(&server, "t", 0);
    assert!(receiver.rest().is_empty());
}

#[test]
fn the_lease_is_held_for_as_long_as_a_delivery_is_under_way() {
    let (server, receiver) = (server(), Receiver::new(|_| Reply::Hang));
    push(&server, "a", &receiver.url("/"), json!({}));
    receiver.next();
    let ends_at = || millis(&server.job("t", "a")["lease_expires_at"]);
    let first = ends_at();
    server.advance("1s");
    until("the lease is extended", || ends_at() > first);
    assert_eq!(server.job("t", "a")["consumer"], "dwell push");
}

#[test]
fn what_does_not_finish_is_given_back_and_not_counted() {
    let mut first = true;
    let receiver = Receiver::new(move |_| if std::mem::take(&mut first) { Reply::Hang } else { Reply::status(200) });
    let mut server = server();
    push(&server, "a", &receiver.url("/"), json!({}));
    assert_eq!(receiver.next().attempt(), 1);
    server.terminate();
    let (ended, took) = timed(|| server.end());
    assert_eq!(ended.code(), Some(0));
    // Its own time-out is 15 s.
    assert!(took < Duration::from_secs(14), "{took:?}");
    server.start_again();
    assert_eq!(receiver.next().attempt(), 1, "the attempt was not counted");
    until_live(&server, "t", 0);
}

#[test]
fn a_server_that_is_killed_leaves_its_deliveries_to_the_next() {
    let mut first = true;
    let receiver = Receiver::new(move |_| if std::mem::take(&mut first) { Reply::Hang } else { Reply::status(200) });
    let mut server = server();
    push(&server, "a", &receiver.url("/"), json!({"retry": {"backoff": [0]}}));
    let id = receiver.next().header("webhook-id").unwrap().to_owned();
    server.crash_and_start();
    server.advance("61s");
    let again = receiver.next();
    assert_eq!((again.attempt(), again.header("webhook-id")), (2, Some(id.as_str())), "the lease had run out");
    until_live(&server, "t", 0);
}
