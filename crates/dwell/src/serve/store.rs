//! Opening what the server runs on. The one place that names concrete stores.

use std::sync::Arc;

use dwell_core::Store;
use dwell_server::MovableClock;
use dwell_store_embedded::{Config, EmbeddedStore, OpenError};
use dwell_store_redis::{Address, Config as RedisConfig, RedisStore};

use super::clock::{DevClock, RedisClock};
use super::settings::{Settings, StoreChoice};
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
    config.memory = settings.memory.unwrap_or(config.memory);
    let mut movable: Option<Arc<dyn MovableClock>> = None;
    if settings.dev_clock {
        let clock = Arc::new(DevClock::default());
        movable = Some(Arc::clone(&clock) as Arc<dyn MovableClock>);
        config.clock = clock;
    }
    let store = EmbeddedStore::open(&config).map_err(not_opened)?;
    Ok((Arc::new(store), movable))
}

/// A clock that is far behind is for whoever runs the machine to decide about, like a setting.
fn not_opened(error: OpenError) -> Exit {
    let code = if matches!(error, OpenError::Clock(_)) { Code::BadConfiguration } else { Code::Failure };
    Exit::new(code, error)
}

async fn open_redis(settings: &Settings, address: &str) -> Result<Opened, Exit> {
    let address = Address::parse(address).map_err(Exit::failure)?;
    let config = RedisConfig {
        prefix: settings.redis_prefix.clone(),
        partitions: settings.redis_partitions,
        wait: settings.redis_wait,
        ..RedisConfig::new(address)
    };
    let clock = Arc::clone(&config.clock);
    let store = RedisStore::open(&config).await.map_err(Exit::failure)?;
    let movable = settings.dev_clock.then(|| Arc::new(RedisClock(clock)) as Arc<dyn MovableClock>);
    Ok((Arc::new(store), movable))
}
