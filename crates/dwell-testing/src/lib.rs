//! Dwell inside a test: nothing to install, nothing to start, and 15 hours pass in a moment.
//!
//! It is the whole server, with the store of `--store memory:`, in the test's own process; only time is made up. It
//! stands still until [`TestDwell::advance`] moves it, so that a test sees exactly what it asked for: a job that is due
//! in half an hour is not handed out a millisecond before, however slow the machine is.
//!
//! ```
//! use std::time::Duration;
//!
//! use dwell_client::wire::put::PutJob;
//! use dwell_client::{Guard, Work, Worker};
//! use dwell_testing::TestDwell;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let dwell = TestDwell::start().await?;
//! let client = dwell.client();
//!
//! // What the application does: remind a partner in 15 hours.
//! let in_15_hours = PutJob { delay: Some(dwell_client::wire::Duration::parse("15h").unwrap()), ..PutJob::default() };
//! client.put("partners.notify", "payment-7", &in_15_hours, Guard::default()).await?;
//!
//! // Its worker, which says what it has done.
//! let (say, mut said) = tokio::sync::mpsc::unbounded_channel();
//! let handler = move |work: Work| {
//!     let say = say.clone();
//!     async move { Ok(say.send(work.id.clone())?) }
//! };
//! let worker = tokio::spawn(Worker::new(client, ["partners.notify"]).run(handler, std::future::pending()));
//!
//! dwell.advance(Duration::from_secs(15 * 3600 - 1)).await?;
//! assert!(said.try_recv().is_err(), "a second is left");
//! dwell.advance(Duration::from_secs(1)).await?;
//! assert_eq!(said.recv().await.as_deref(), Some("payment-7"));
//! # worker.abort();
//! # Ok(())
//! # }
//! ```
//!
//! Other languages have the same from `dwell serve --store memory: --dev-clock` and `POST /v1/dev/clock`.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use dwell_client::{Client, Error};
use dwell_core::{Store, Timestamp};
use dwell_server::{Config, DeliveryConfig, Guard, Shutdown};
use dwell_store_embedded::EmbeddedStore;
use dwell_store_embedded::clock::HandClock;
use tokio::net::TcpListener;

/// Where time starts unless a test says otherwise: 2026-01-01T00:00:00Z.
const START: u64 = 1_767_225_600_000;

/// A Dwell of a test's own. It ends with this value.
#[derive(Debug)]
pub struct TestDwell {
    client: Client,
    shutdown: Shutdown,
}

impl TestDwell {
    /// Starts one on the runtime of the test. Time stands at the beginning of 2026.
    pub async fn start() -> io::Result<Self> {
        Self::start_at(START).await
    }

    /// Starts one whose time stands so many milliseconds after 1970.
    pub async fn start_at(millis: u64) -> io::Result<Self> {
        let start = Timestamp::from_millis(millis).map_err(io::Error::other)?;
        let clock = Arc::new(HandClock::new(start));
        let config = dwell_store_embedded::Config {
            clock: Arc::clone(&clock) as _,
            ..dwell_store_embedded::Config::in_memory()
        };
        let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(&config).map_err(io::Error::other)?);
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let client = Client::new(&url, None).map_err(io::Error::other)?;
        let shutdown = Shutdown::default();
        let config = Config {
            // Targets of pushed jobs are most likely parts of the test.
            delivery: DeliveryConfig {
                guard: Guard { loopback: true, ..Guard::default() },
                ..DeliveryConfig::default()
            },
            dev_clock: Some(Arc::new(move |millis| clock.advance(millis))),
            ..Config::default()
        };
        let serving = dwell_server::serve(config.clone(), vec![listener], Arc::clone(&store), shutdown.clone());
        let pushing = dwell_server::push(config, Arc::clone(&store), shutdown.clone());
        tokio::spawn(async move {
            tokio::join!(serving, pushing);
            // It is in memory: there is nothing that could go wrong with closing, and nobody left to tell.
            drop(store.close().await);
        });
        Ok(Self { client, shutdown })
    }

    /// A client of it. Clones share their connections.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Its address, for an application that makes its own client.
    pub fn url(&self) -> &str {
        self.client.url()
    }

    /// Moves time ahead, whole milliseconds of it. What is due then is handed out: to those who wait already, and to
    /// those who ask next.
    pub async fn advance(&self, by: Duration) -> Result<(), Error> {
        let millis = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        self.client.advance_clock(dwell_client::wire::Duration(millis)).await.map(drop)
    }
}

impl Drop for TestDwell {
    fn drop(&mut self) {
        self.shutdown.start();
    }
}

/// The guide's code, as printed.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/testing-applications.md")]
struct Guide;
