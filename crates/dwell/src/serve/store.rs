//! Opening what the server runs on. The one place that names concrete stores.

use std::sync::Arc;

use dwell_core::Store;
use dwell_server::MovableClock;
use dwell_store_embedded::clock::HandClock;
use dwell_store_embedded::{Config, EmbeddedStore, OpenError};
use dwell_store_redis::{Address, Clock, Config as RedisConfig, RedisStore};

use super::clock::RunningClock;
use super::settings::{Mode, Settings, StoreChoice};
use crate::exit::{Code, Exit};

/// A store, and its clock if that can be moved.
type Opened = (Arc<dyn Store>, Option<Arc<dyn MovableClock>>);

/// Opens the store that the settings name.
pub(super) async fn open(settings: &Settings) -> Result<Opened, Exit> {
    let mut config = match &settings.store {
        StoreChoice::Redis(address) => return open_redis(settings, address).await,
        StoreChoice::Directory(directory) => Config {
            durability: settings.durability,
            accept_clock: settings.accept_clock,
            ..Config::in_directory(directory)
        },
        StoreChoice::Memory => Config::in_memory(),
    };
    if let Some(memory) = settings.memory {
        config = config.with_memory(memory);
    }
    let mut movable: Option<Arc<dyn MovableClock>> = None;
    if settings.mode == Mode::Dev {
        let clock = Arc::new(RunningClock::default());
        config.clock = Arc::clone(&clock) as _;
        movable = Some(Arc::new(move |millis| clock.advance(millis)));
    } else if settings.dev_clock {
        let clock = Arc::new(HandClock::default());
        config.clock = Arc::clone(&clock) as _;
        movable = Some(Arc::new(move |millis| clock.advance(millis)));
    }
    let store = EmbeddedStore::open(&config).map_err(not_opened)?;
    if let Some(what) = store.set_right() {
        tracing::warn!("{what}; see \"A job that was there and never came\" in docs/reliability.md");
    }
    Ok((Arc::new(store), movable))
}

/// A clock that is far behind is for whoever runs the machine to decide about, like a setting.
fn not_opened(error: OpenError) -> Exit {
    let code = if matches!(error, OpenError::Clock(_)) { Code::BadConfiguration } else { Code::Failure };
    Exit::new(code, error)
}

async fn open_redis(settings: &Settings, address: &str) -> Result<Opened, Exit> {
    let address = Address::parse(address).map_err(Exit::failure)?;
    let clock = Arc::new(if settings.dev_clock { Clock::stopped() } else { Clock::engine() });
    let config = RedisConfig {
        clock: Arc::clone(&clock),
        prefix: settings.redis_prefix.clone(),
        partitions: settings.redis_partitions,
        wait: settings.redis_wait,
        ..RedisConfig::new(address)
    };
    let store = RedisStore::open(&config).await.map_err(Exit::failure)?;
    let advance = move |millis| clock.advance(millis);
    let movable = settings.dev_clock.then(|| Arc::new(advance) as Arc<dyn MovableClock>);
    Ok((Arc::new(store), movable))
}
