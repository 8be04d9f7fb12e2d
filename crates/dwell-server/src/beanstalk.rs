//! The beanstalk protocol: what clients of beanstalkd speak.
//!
//! - `accept` takes connections; `connection` reads, cuts what came into commands, and writes answers.
//! - `run` gathers what can be done together: the puts of a pipeline are one batch of the store, and so are its
//!   reserves, and its deletes.
//! - One file a family of commands: `put`, `reserve`, `settle`, `look`, `tubes`, `stats`.
//! - `session` is what a connection has: the tube it uses, those it watches, the jobs it holds. `registry` is what all
//!   have together; `time` is by what leases end.
//!
//! Tubes are topics, ids are the store's numbers. The order of jobs, their durability and all other rules are the
//! store's own.

mod accept;
mod connection;
mod look;
mod names;
mod put;
mod registry;
mod reserve;
mod run;
mod session;
mod settle;
mod stats;
mod time;
mod tubes;

pub use accept::{Listener, serve};

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use beanstalk_protocol::Reply;
use dwell_core::{Backoff, Delay, ErrorKind, Ladder, RetryPolicy, Store, StoreError};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use uuid::Uuid;

use self::registry::Registry;
use self::time::StoreTime;
use crate::config::Config;
use crate::shutdown::Shutdown;

/// Bytes of large jobs that are being received at once, in units of a kibibyte: 256 MiB. More wait.
const BODY_ROOM: usize = 256 << 10;

/// Whether new jobs are refused. Clones hear the same.
#[derive(Clone, Debug, Default)]
pub struct Draining(Arc<AtomicBool>);

impl Draining {
    /// Refuses new jobs from now on.
    pub fn start(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    fn has_started(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// What every connection can reach.
struct Edge {
    store: Arc<dyn Store>,
    config: Config,
    registry: Registry,
    draining: Draining,
    shutdown: Shutdown,
    /// Said when connections have had their time to finish.
    end: Shutdown,
    room: Arc<Semaphore>,
    /// What jobs of this protocol do when nobody settles them: at once and for ever, as beanstalkd's do.
    retry: RetryPolicy,
    started: Instant,
    time: StoreTime,
    /// This server, among others and among its own restarts.
    id: String,
}

impl Edge {
    fn new(config: Config, store: Arc<dyn Store>, draining: Draining, shutdown: Shutdown) -> Self {
        let ladder = Ladder::new(&[Delay::ZERO]).expect("one step is a ladder");
        let id = Uuid::now_v7().simple().to_string();
        Self {
            store,
            time: StoreTime::new(config.dev_clock.is_some()),
            config,
            registry: Registry::default(),
            draining,
            shutdown,
            end: Shutdown::default(),
            room: Arc::new(Semaphore::new(BODY_ROOM)),
            retry: RetryPolicy { attempts: NonZeroU32::MAX, backoff: Backoff::Ladder(ladder) },
            started: Instant::now(),
            // The first half of it is the time.
            id: id[16..].to_owned(),
        }
    }

    /// The time by which leases end.
    async fn now(&self) -> Instant {
        self.time.now(&*self.store).await
    }

    fn is_draining(&self) -> bool {
        self.draining.has_started() || self.shutdown.has_started()
    }
}

/// What a failed call is answered with.
fn failure(error: &StoreError) -> Reply<'static> {
    tracing::debug!(%error, "a beanstalk command failed");
    match error.kind() {
        ErrorKind::Overloaded | ErrorKind::StorageFull | ErrorKind::LimitReached => Reply::OutOfMemory,
        _ => Reply::InternalError,
    }
}
