//! What every store must do, as a suite that runs against it.
//!
//! - [`Model`] is a store's behaviour written as plainly as possible, time passed in; [`ModelStore`] is the same as a
//!   [`Store`].
//! - [`suite`] is a list of named checks, each on a fresh store: every verb in every state, batches, order, fencing,
//!   expiry, retries, dead letters, pages, timelines, waiting consumers. [`exercise`] runs them all.
//! - [`property`] drives random verbs and clock moves against a store and the model side by side and shrinks what it
//!   finds to a short, readable sequence.
//! - [`broken`] has one store per promise that breaks it. The suite must catch each of them, by name: that is how we
//!   know that it can fail.
//!
//! A store runs all of it from one integration test:
//!
//! ```
//! use dwell_store_testkit::{FakeClock, ModelStore, exercise};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! exercise(|setup| async move { ModelStore::subject(&setup, FakeClock::frozen()) }).await;
//! # }
//! ```

mod clock;
mod model;
mod model_store;

pub mod broken;
pub mod property;
pub mod suite;

use std::pin::Pin;
use std::sync::Arc;

use dwell_core::{Defaults, Store, limits};

pub use clock::{FakeClock, TestClock};
pub use model::Model;
pub use model_store::ModelStore;
pub use suite::exercise;

/// A store under test and the hand on its clock.
pub struct Subject {
    /// The store, without jobs.
    pub store: Arc<dyn Store>,
    /// Moves its time.
    pub clock: Arc<dyn TestClock>,
    /// Ends the store and starts another on what it left, if it leaves anything.
    pub restart: Option<Restart>,
}

/// Ends a store and starts another on what it left: by an orderly stop, or as if it had been killed.
pub type Restart = Arc<dyn Fn(Ending) -> Pin<Box<dyn Future<Output = Arc<dyn Store>> + Send>> + Send + Sync>;

/// How a store ends before it is started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It is closed.
    Closed,
    /// It is killed: what it had answered must be there afterwards.
    Killed,
}

/// How a store under test is to be set up.
#[derive(Clone, Debug)]
pub struct Setup {
    /// What holds where neither job nor topic says.
    pub defaults: Defaults,
    /// How many topics it may have.
    pub max_topics: usize,
}

impl Default for Setup {
    fn default() -> Self {
        Self { defaults: Defaults::default(), max_topics: limits::DEFAULT_MAX_TOPICS }
    }
}

/// Makes a fresh store. Called once per check, so that no check sees another's jobs.
pub type MakeStore = Arc<dyn Fn(Setup) -> Pin<Box<dyn Future<Output = Subject> + Send>> + Send + Sync>;

/// Boxes a closure that makes stores.
pub fn make_store<F, R>(make: F) -> MakeStore
where
    F: Fn(Setup) -> R + Send + Sync + 'static,
    R: Future<Output = Subject> + Send + 'static,
{
    Arc::new(move |setup| Box::pin(make(setup)))
}
