//! How everyone hears that the server is going away.

use tokio::sync::watch;

/// Tells of the end. Clones hear the same.
#[derive(Clone, Debug)]
pub struct Shutdown(watch::Sender<bool>);

impl Default for Shutdown {
    fn default() -> Self {
        Self(watch::Sender::new(false))
    }
}

impl Shutdown {
    /// Says that it is time.
    pub fn start(&self) {
        self.0.send_replace(true);
    }

    /// Whether it was said.
    pub fn has_started(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until it is said.
    pub async fn started(&self) {
        // The sender is in here, so it cannot be gone.
        drop(self.0.subscribe().wait_for(|started| *started).await);
    }
}
