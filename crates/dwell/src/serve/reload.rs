//! SIGHUP: tokens and certificates are read again, without dropping a connection. A mistake anywhere leaves everything as
//! it is.

use std::sync::Arc;

use dwell_server::{Access, Tls};
use tokio::signal::unix::Signal;
use tokio::task::spawn_blocking;

use super::settings::Settings;
use crate::exit::Exit;

/// Reads the settings again.
pub(super) type ReadAgain = Arc<dyn Fn() -> Result<Settings, Exit> + Send + Sync>;

/// What can be replaced while the server runs.
pub(super) struct Reload {
    pub(super) read_again: ReadAgain,
    pub(super) access: Access,
    pub(super) tls: Option<Tls>,
    pub(super) beanstalk_tls: Option<Tls>,
    /// Whether other machines can reach it, so that it must not be without a token.
    pub(super) is_open: bool,
}

impl Reload {
    /// Reads again at each signal.
    pub(super) async fn run(self, mut hang_up: Signal) {
        while hang_up.recv().await.is_some() {
            let read_again = Arc::clone(&self.read_again);
            let read = spawn_blocking(move || read_again().map_err(|exit| exit.to_string())).await;
            let outcome = match read {
                Ok(Ok(settings)) => self.take(&settings),
                Ok(Err(mistakes)) => Err(mistakes),
                Err(panicked) => Err(panicked.to_string()),
            };
            match outcome {
                Ok(()) => tracing::info!("tokens and certificates have been read again"),
                Err(why) => tracing::error!(why, "tokens and certificates stay as they were"),
            }
        }
    }

    fn take(&self, settings: &Settings) -> Result<(), String> {
        if self.is_open && settings.tokens.is_empty() {
            return Err("no token is set any more, and other machines can reach the server".to_owned());
        }
        let both = [(&self.tls, &settings.tls), (&self.beanstalk_tls, &settings.beanstalk_tls)];
        if both.iter().any(|(old, new)| old.is_some() != new.is_some()) {
            return Err("TLS can be turned on or off by a restart only".to_owned());
        }
        for (old, new) in both {
            if let (Some(old), Some(new)) = (old, new) {
                old.replace(new);
            }
        }
        self.access.replace(settings.tokens.clone());
        Ok(())
    }
}
