//! What a server is told before it starts.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use dwell_core::limits;
use tokio::sync::Notify;

use crate::auth::Access;
use crate::delivery::DeliveryConfig;
use crate::metrics::Metrics;
use crate::tls::Tls;
use crate::trace::Tracer;

/// What a server is told before it starts.
#[derive(Clone)]
pub struct Config {
    /// Who may talk to it and do what; without tokens: everyone who can reach it, everything.
    pub access: Access,
    /// What HTTP is served with, if over TLS.
    pub tls: Option<Tls>,
    /// What the beanstalk protocol is served with over TCP, if over TLS.
    pub beanstalk_tls: Option<Tls>,
    /// Bytes of a body.
    pub max_body: usize,
    /// Connections at once; more are answered `overloaded` and closed.
    pub max_connections: usize,
    /// How long requests under way may take to finish when the server stops.
    pub drain: Duration,
    /// What Prometheus reads: all edges count into one.
    pub metrics: Arc<Metrics>,
    /// Which targets may be called, and how.
    pub delivery: DeliveryConfig,
    /// Where spans go, if they are made.
    pub tracer: Option<Tracer>,
    /// A clock that tests may move, if there is one.
    pub dev_clock: Option<Arc<dyn MovableClock>>,
    /// Told whenever that clock is moved over one of the edges, so that all of them know.
    pub clock_moved: Arc<Notify>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            access: Access::default(),
            tls: None,
            beanstalk_tls: None,
            max_body: limits::DEFAULT_MAX_BODY,
            max_connections: 16_384,
            drain: Duration::from_secs(10),
            metrics: Arc::default(),
            delivery: DeliveryConfig::default(),
            tracer: None,
            dev_clock: None,
            clock_moved: Arc::default(),
        }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config").field("access", &self.access).field("max_body", &self.max_body).finish_non_exhaustive()
    }
}

/// A store's clock that tests may move ahead.
pub trait MovableClock: Send + Sync {
    /// Moves it.
    fn advance(&self, millis: u64);
}

impl<F: Fn(u64) + Send + Sync> MovableClock for F {
    fn advance(&self, millis: u64) {
        self(millis);
    }
}
