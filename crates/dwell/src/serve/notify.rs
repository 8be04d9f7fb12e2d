//! Telling a service manager how the server is: that it is up, that it is alive, that it is going away.
//!
//! What systemd calls notify and watchdog: datagrams to the socket that `NOTIFY_SOCKET` names. A sign of life is given only
//! after the store has answered, so that a server which hangs, or whose store has failed, is started again.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::time::Duration;

use dwell_core::Store;
use dwell_server::Shutdown;
use tokio::time::{sleep, timeout};

use crate::exit::{Code, Exit};

/// Whoever wants to know.
pub(super) struct Manager {
    socket: UnixDatagram,
    address: SocketAddr,
    /// How often it wants a sign of life at least.
    watchdog: Option<Duration>,
}

impl Manager {
    /// The one that the environment names, if any.
    pub(super) fn of_environment() -> Result<Option<Self>, Exit> {
        let Some(name) = env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else { return Ok(None) };
        let wrong = |error: io::Error| Exit::new(Code::BadConfiguration, format!("NOTIFY_SOCKET: {error}"));
        let socket = UnixDatagram::unbound().map_err(wrong)?;
        Ok(Some(Self { socket, address: address(&name).map_err(wrong)?, watchdog: watchdog() }))
    }

    fn tell(&self, state: &str) {
        if let Err(error) = self.socket.send_to_addr(state.as_bytes(), &self.address) {
            tracing::warn!(%error, state, "the service manager cannot be told");
        }
    }

    /// Says that the server is up; then gives signs of life until it goes away, and says that.
    pub(super) async fn run(self, store: Arc<dyn Store>, shutdown: Shutdown) {
        self.tell("READY=1");
        tokio::select! {
            () = shutdown.started() => {}
            () = self.live(&*store) => {}
        }
        self.tell("STOPPING=1");
    }

    async fn live(&self, store: &dyn Store) {
        let Some(interval) = self.watchdog else { return std::future::pending().await };
        loop {
            match timeout(interval, store.status()).await {
                Ok(Ok(status)) if status.failed.is_none() => self.tell("WATCHDOG=1"),
                Ok(_) => tracing::error!("no sign of life is given: the store has failed"),
                Err(_) => tracing::error!("no sign of life is given: the store does not answer"),
            }
            sleep(interval / 3).await;
        }
    }
}

/// A path, or on Linux a name that is in no file system: `@name`.
fn address(name: &OsStr) -> io::Result<SocketAddr> {
    #[cfg(target_os = "linux")]
    if let Some(hidden) = name.to_string_lossy().strip_prefix('@') {
        return <SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(hidden);
    }
    SocketAddr::from_pathname(name)
}

/// How often systemd wants a sign of life of this process, if it does.
fn watchdog() -> Option<Duration> {
    let number = |name: &str| env::var(name).ok()?.parse::<u64>().ok();
    let is_meant = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
    number("WATCHDOG_USEC").filter(|micros| is_meant && *micros > 0).map(Duration::from_micros)
}
