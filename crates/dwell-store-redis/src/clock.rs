//! The store's time: the engine's own. Tests and `--dev-clock` move it.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

/// Where a clock stands before the engine was asked: it never stood there.
const UNSET: u64 = 0;

/// What scripts are told about time.
#[derive(Debug)]
pub struct Clock {
    /// Milliseconds added to the engine's time, or, of a clock that stands still, the time itself.
    millis: AtomicU64,
    frozen: bool,
    moved: watch::Sender<()>,
}

impl Clock {
    /// The engine's time as it is.
    pub fn engine() -> Self {
        Self { millis: AtomicU64::new(0), frozen: false, moved: watch::Sender::new(()) }
    }

    /// A clock that stands at `millis` after 1970 until it is moved: for tests.
    pub fn standing(millis: u64) -> Self {
        Self { millis: AtomicU64::new(millis), frozen: true, moved: watch::Sender::new(()) }
    }

    /// A clock that stands at what the engine's says when the store is opened, until it is moved: for tests of
    /// applications.
    pub fn stopped() -> Self {
        Self::standing(UNSET)
    }

    /// Whether the engine has to be asked where it stands.
    pub(crate) fn is_unset(&self) -> bool {
        self.frozen && self.millis.load(Ordering::SeqCst) == UNSET
    }

    pub(crate) fn set(&self, millis: u64) {
        self.millis.store(millis, Ordering::SeqCst);
    }

    /// Moves the store's time on. Only tests do that.
    pub fn advance(&self, millis: u64) {
        self.millis.fetch_add(millis, Ordering::SeqCst);
        self.moved.send_replace(());
    }

    /// Whether time moves by [`Clock::advance`] alone.
    pub fn is_frozen(&self) -> bool {
        self.frozen
    }

    /// The argument that scripts read.
    pub(crate) fn argument(&self) -> String {
        let millis = self.millis.load(Ordering::SeqCst);
        if self.frozen { format!("={millis}") } else { millis.to_string() }
    }

    /// Tells of every move.
    pub(crate) fn moves(&self) -> watch::Receiver<()> {
        self.moved.subscribe()
    }
}
