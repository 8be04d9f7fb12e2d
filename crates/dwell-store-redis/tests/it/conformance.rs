//! The suite and the property test, on one Redis.

use dwell_store_redis::Clock;
use dwell_store_testkit::property::property;
use dwell_store_testkit::{exercise, make_store};

use crate::server::Server;
use crate::subject::{standing, subject};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn is_a_store_on_a_clock_that_stands() {
    let server = Server::start();
    let url = server.url();
    exercise(move |setup| {
        let url = url.clone();
        async move { subject(&url, 8, standing(), setup).await }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn is_a_store_on_the_engines_own_clock() {
    let server = Server::start();
    let url = server.url();
    exercise(move |setup| {
        let url = url.clone();
        async move { subject(&url, 64, Clock::engine(), setup).await }
    })
    .await;
}

#[test]
fn does_what_the_model_does() {
    let server = Server::start();
    let url = server.url();
    let make = make_store(move |setup| {
        let url = url.clone();
        async move { subject(&url, 3, standing(), setup).await }
    });
    property(&make, cases(200), 60);
}

#[test]
fn does_what_the_model_does_while_time_passes() {
    let server = Server::start();
    let url = server.url();
    let make = make_store(move |setup| {
        let url = url.clone();
        async move { subject(&url, 3, Clock::engine(), setup).await }
    });
    property(&make, cases(30), 60);
}

/// How many cases to try: more with `DWELL_CASES`.
pub(crate) fn cases(usual: u32) -> u32 {
    std::env::var("DWELL_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(usual)
}
