//! Push delivery: jobs with a target are handed over by Dwell itself.
//!
//! - `dispatcher` leases what is to be pushed, as any consumer leases; `board` and `origin` know what is under way to whom,
//!   and so what to lease next; `attempt` is one delivery from its lease to its verdict; `put_off` brings back what was
//!   put off in a store whose time stands still.
//! - `courier` is how a job gets to its target, one a scheme: `http`, with `letter` (what a request says), `sign` (Standard
//!   Webhooks), `retry_after`, `resolve`. `outcome` is what the answer means for the job.
//! - `guard` says which targets may be called; `traced` is a delivery's span; `sample` is a delivery that is no job's.

mod attempt;
mod board;
mod courier;
mod dispatcher;
mod guard;
mod http;
mod letter;
mod origin;
mod outcome;
mod put_off;
mod resolve;
mod retry_after;
mod sample;
mod sign;
mod traced;

use std::sync::Arc;
use std::time::Duration;

pub use guard::{Guard, Network, NotANetwork, Refused};
pub use sample::{Sample, Sampled};
pub use sign::{NotASecret, secret};

pub(crate) use dispatcher::Dispatcher;
pub(crate) use outcome::Outcome;

use dwell_core::Store;

use self::courier::{Courier as _, Landing, Parcel};
use self::http::HttpCourier;
use crate::config::Config;
use crate::shutdown::Shutdown;

/// How long an attempt may take, all in all.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(15);

/// Pushes jobs to their targets until `shutdown` starts; then lets deliveries under way finish, up to the configured time.
/// A service of the server, whatever edges it has. The store is left open.
pub async fn push(config: Config, store: Arc<dyn Store>, shutdown: Shutdown) {
    let couriers = Arc::new(Couriers::new(&config.delivery));
    let stands_still = config.dev_clock.is_some();
    let dispatcher = Dispatcher::new(store, couriers, config.metrics, config.tracer, stands_still);
    dispatcher.run(shutdown, config.drain).await;
}

/// What deliveries are told before they start.
#[derive(Clone, Debug, Default)]
pub struct DeliveryConfig {
    /// Which targets may be called.
    pub guard: Guard,
    /// Whether requests carry the headers of a `CloudEvent` too.
    pub cloud_events: bool,
}

/// All couriers, by scheme.
pub(crate) struct Couriers {
    guard: Arc<Guard>,
    http: HttpCourier,
}

impl Couriers {
    /// Couriers that call only what the guard allows.
    pub(crate) fn new(config: &DeliveryConfig) -> Self {
        let guard = Arc::new(config.guard.clone());
        Self { http: HttpCourier::new(Arc::clone(&guard), config.cloud_events), guard }
    }

    pub(crate) fn guard(&self) -> &Arc<Guard> {
        &self.guard
    }

    /// Makes one attempt, by the courier of the address's scheme.
    async fn deliver(&self, parcel: &Parcel) -> Landing {
        self.http.deliver(parcel).await
    }
}
