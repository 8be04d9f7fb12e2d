//! Being told to stop.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::Exit;

/// Listens for SIGINT and SIGTERM from now on.
pub(super) struct Interrupt {
    interrupt: Signal,
    terminate: Signal,
}

impl Interrupt {
    pub(super) fn listen() -> Result<Self, Exit> {
        let listen = |kind| signal(kind).map_err(|error| Exit::failure(format!("cannot listen for signals: {error}")));
        Ok(Self { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    /// Returns at the next of them.
    pub(super) async fn comes(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
