//! Push delivery, as receivers and producers meet it.

mod answers;
mod guard;
mod isolation;
mod many;
mod receiver;
mod secure;
mod signature;
mod stopping;
mod targets;
mod test_delivery;
mod without_http;

use serde_json::{Value, json};

use crate::server::{Server, until};

/// A server that may push to this machine.
fn server() -> Server {
    Server::with(&["--allow-private-targets"])
}

/// Puts a job that is pushed, due now.
#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "a request is written where it is sent")]
fn push(server: &Server, id: &str, url: &str, more: Value) -> Value {
    let mut job = json!({"deliver_to": url, "body": {"job": id}});
    job.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    server.put_job("t", id, job)
}

/// Waits until a topic has so many live jobs.
#[track_caller]
fn until_live(server: &Server, topic: &str, count: u64) {
    until("so many jobs are live", || live(server, topic) == count);
}

/// How many jobs of a topic are live.
fn live(server: &Server, topic: &str) -> u64 {
    let counts = server.topic(topic)["counts"].clone();
    ["delayed", "ready", "leased", "buried"].iter().map(|state| counts[*state].as_u64().unwrap()).sum()
}
