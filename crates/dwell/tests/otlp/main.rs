//! Traces, as a collector meets them: the real binary, built with the feature `otlp`, and OpenTelemetry's own types to
//! read what it sends.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]
#![allow(dead_code, reason = "what is shared with the other tests is more than is needed here")]

#[path = "../it/authority.rs"]
mod authority;
#[path = "../it/client.rs"]
mod client;
mod collector;
mod losing;
#[path = "../it/push/receiver.rs"]
mod receiver;
#[path = "../../../dwell-store-redis/tests/it/server.rs"]
mod redis_server;
#[path = "../it/server.rs"]
mod server;
mod settings;
mod spans;

/// As a producer or a consumer sends it: a trace that is sampled.
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

fn sampled() -> String {
    format!("00-{TRACE}-{PARENT}-01")
}
