//! Room on the disk that is kept for what must go on when there is no more.
//!
//! A file lies in the directory for nothing else than to be removed when a fold, a manifest or a segment finds no room.
//! Puts stop well before that: while less than the same again is free. So jobs can still be handed out, settled and
//! cancelled, and that makes room.

use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::format::run::RunError;
use crate::storage::Storage;

/// What the file is called.
pub(crate) const NAME: &str = "reserve";

/// The room that is kept.
#[derive(Clone)]
pub(crate) struct Reserve {
    storage: Arc<dyn Storage>,
    size: u64,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// Whether the file is there.
    held: Mutex<bool>,
    is_short: AtomicBool,
    /// Bytes that were free when last looked.
    free: AtomicU64,
}

impl Reserve {
    /// Takes over the file of an earlier run, or makes one if there is room.
    pub(crate) fn open(storage: Arc<dyn Storage>, size: u64) -> Self {
        let reserve = Self { storage, size, shared: Arc::default() };
        let whole = reserve.storage.open(NAME).and_then(|file| file.len()).is_ok_and(|length| length == size);
        *reserve.lock() = whole;
        reserve.look();
        reserve
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, bool> {
        self.shared.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks how much is free, and makes the file if it is missing and there is room.
    pub(crate) fn look(&self) {
        // A disk that does not say is taken for one that has room.
        let Ok(Some(mut free)) = self.storage.free() else { return };
        let mut held = self.lock();
        if !*held && free >= 2 * self.size {
            *held = self.storage.allocate(NAME, self.size).and_then(|()| self.storage.sync_dir()).is_ok();
            free -= self.size;
        }
        self.shared.free.store(free, Ordering::SeqCst);
        self.shared.is_short.store(!*held || free < self.size, Ordering::SeqCst);
    }

    /// Whether there is too little room for more jobs.
    pub(crate) fn is_short(&self) -> bool {
        self.shared.is_short.load(Ordering::SeqCst)
    }

    /// What to tell people about it.
    pub(crate) fn trouble(&self) -> Option<String> {
        let mebi = |bytes: u64| bytes >> 20;
        self.is_short().then(|| {
            let (free, needed) = (self.shared.free.load(Ordering::SeqCst), self.size);
            let kept = if *self.lock() { 0 } else { self.size };
            format!(
                "the disk is full: puts are refused until {} MiB are free; now there are {}",
                mebi(needed + kept),
                mebi(free)
            )
        })
    }

    /// Does something that needs room; if there is none, once more in the room that was kept.
    pub(crate) fn or_spend<T, E>(&self, mut attempt: impl FnMut() -> Result<T, E>) -> Result<T, E>
    where
        E: RoomError,
    {
        match attempt() {
            Err(error) if error.is_for_room() && self.spend() => attempt(),
            outcome => outcome,
        }
    }

    /// Whether so much more fits beside what is kept.
    pub(crate) fn has_room_for(&self, bytes: u64) -> bool {
        !matches!(self.storage.free(), Ok(Some(free)) if free < bytes + self.size)
    }

    /// Gives the room away; whether there was any.
    fn spend(&self) -> bool {
        let spent = std::mem::take(&mut *self.lock()) && self.storage.remove(NAME).is_ok();
        if spent {
            self.shared.is_short.store(true, Ordering::SeqCst);
        }
        spent
    }
}

/// An error that may be for want of room.
pub(crate) trait RoomError {
    /// Whether it is.
    fn is_for_room(&self) -> bool;
}

impl RoomError for RunError {
    fn is_for_room(&self) -> bool {
        match self {
            Self::Io(error) => error.is_for_room(),
            Self::Damaged(_) => false,
        }
    }
}

impl RoomError for io::Error {
    fn is_for_room(&self) -> bool {
        matches!(self.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge)
    }
}
