//! The HTTP API.
//!
//! - `accept` takes connections, `connection` looks after one, `service` is the way of a request: guard, credential,
//!   route, `access`; `traced` is its span.
//! - One file a resource: `jobs`, `batches`, `leases`, `settle`, `topics`, `lists`, `timeline`, `dead_letters`,
//!   `test_delivery`, `server`, `clock`.
//! - `body`, `query` and `names` read what comes in, `rest` what is left of it; `read` turns what travels into what a
//!   store takes, `show` the other way; `answer` is what goes out.
//! - `docs` is the OpenAPI document and the page that shows it.

mod accept;
mod connection;
mod service;

mod access;
mod auth;
mod guard;
mod traced;

mod batches;
mod clock;
mod dead_letters;
mod docs;
mod home;
mod jobs;
mod leases;
mod lists;
mod server;
mod settle;
mod test_delivery;
mod timeline;
mod topics;

mod answer;
mod body;
mod names;
mod query;
mod read;
mod rest;
mod show;

pub use accept::serve;
pub use access::AUDIT;
pub use docs::document;

use std::sync::{Arc, OnceLock};

use axum::http::HeaderMap;
use dwell_core::Store;
use tokio::sync::{Mutex, Semaphore};

use crate::config::Config;
use crate::delivery::Couriers;
use crate::shutdown::Shutdown;

/// Bytes of requests that are being read or decoded at once; more wait. In units of a kibibyte: 256 MiB.
const REQUEST_ROOM: usize = 256 << 10;

/// What every request can reach.
struct App {
    store: Arc<dyn Store>,
    config: Config,
    couriers: Arc<Couriers>,
    /// Policies are replaced one after the other: what is not said of secrets stays as it is.
    policies: Mutex<()>,
    shutdown: Shutdown,
    room: Arc<Semaphore>,
    failed: OnceLock<String>,
}

type Shared = Arc<App>;

impl App {
    fn new(config: Config, store: Arc<dyn Store>, shutdown: Shutdown) -> Shared {
        let couriers = Arc::new(Couriers::new(&config.delivery));
        let room = Arc::new(Semaphore::new(REQUEST_ROOM));
        let (failed, policies) = (OnceLock::new(), Mutex::new(()));
        Arc::new(Self { store, config, couriers, policies, shutdown, room, failed })
    }

    /// What a job that is put by a request with these headers may be like.
    fn bounds(&self, headers: &HeaderMap) -> read::Bounds {
        let (max_body, guard) = (self.config.max_body, Arc::clone(self.couriers.guard()));
        read::Bounds { max_body, guard, traceparent: read::traceparent(headers) }
    }

    /// Remembers that the store answers nothing more, and why.
    fn note_failure(&self, why: &str) {
        if self.failed.set(why.to_owned()).is_ok() {
            tracing::error!(why, "the store has failed; restart the server");
        }
    }

    /// Why the store answers nothing more, if that is so.
    fn failure(&self) -> Option<&str> {
        self.failed.get().map(String::as_str)
    }
}
