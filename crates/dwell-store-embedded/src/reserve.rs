//! Room on the disk that is kept for what must go on when there is no more.
//!
//! A file lies in the directory for nothing else than to be removed when a fold, a manifest or a segment finds no room.
//! Puts stop well before that: while less than the same again is free. So jobs can still be handed out, settled and
//! cancelled, and that makes room.
//!
//! Files that nobody needs any more are removed from here too, when there is time: to remove a large one takes a while,
//! and no frame is to wait for it.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::format::run::RunError;
use crate::storage::Storage;

/// What the file is called.
pub(crate) const NAME: &str = "reserve";

/// How many files are kept ready to become segments.
pub(crate) const SPARES: usize = 2;

/// The room that is kept.
#[derive(Clone)]
pub(crate) struct Reserve {
    storage: Arc<dyn Storage>,
    size: u64,
    /// Bytes of a segment.
    segment: u64,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// Whether the file is there.
    held: Mutex<bool>,
    is_short: AtomicBool,
    /// Bytes that were free when last looked.
    free: AtomicU64,
    /// Files that are to be removed.
    leftovers: Mutex<BTreeSet<String>>,
    /// Files that are ready to become segments.
    spares: Mutex<Vec<String>>,
    /// Whether the disk says how much is free.
    is_told: AtomicBool,
}

impl Reserve {
    /// Takes over the file of an earlier run, or makes one if there is room.
    pub(crate) fn open(storage: Arc<dyn Storage>, size: u64, segment: u64) -> Self {
        let reserve = Self { storage, size, segment, shared: Arc::default() };
        let whole = reserve.storage.open(NAME).and_then(|file| file.len()).is_ok_and(|length| length == size);
        *reserve.lock() = whole;
        reserve.look();
        reserve
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
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
        self.shared.is_told.store(true, Ordering::SeqCst);
        self.shared.is_short.store(!*held || free < self.size, Ordering::SeqCst);
    }

    /// Whether there is too little room for more jobs.
    pub(crate) fn is_short(&self) -> bool {
        self.shared.is_short.load(Ordering::SeqCst)
    }

    /// Whether segments must be freed before the journal goes on.
    pub(crate) fn is_low(&self) -> bool {
        self.is_short() && self.spares().len() < SPARES
    }

    /// Bytes that were free when last looked, beside what is kept.
    pub(crate) fn free(&self) -> Option<u64> {
        self.shared.is_told.load(Ordering::SeqCst).then(|| self.shared.free.load(Ordering::SeqCst))
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

    /// Does something that needs room; if there is none, once more without what nobody needs, then in the room that was
    /// kept, and then with fewer spares.
    pub(crate) fn or_spend<T, E>(&self, mut attempt: impl FnMut() -> Result<T, E>) -> Result<T, E>
    where
        E: RoomError,
    {
        let mut outcome = attempt();
        for make_room in [Self::remove_leftovers, Self::spend, |reserve: &Self| reserve.give_up_spare(1)] {
            while outcome.as_ref().is_err_and(RoomError::is_for_room) && make_room(self) {
                outcome = attempt();
            }
        }
        outcome
    }

    /// Leaves files to be removed when there is time.
    pub(crate) fn remove_later(&self, names: impl IntoIterator<Item = String>) {
        self.leftovers().extend(names);
    }

    /// Files that are to be removed, or are being removed.
    pub(crate) fn leftovers(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.shared.leftovers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes what nobody needs; whether there was anything.
    pub(crate) fn remove_leftovers(&self) -> bool {
        let mut any = false;
        while let Some(name) = self.next_leftover() {
            // One that stays is in nobody's way: the next start tries again.
            self.storage.remove(&name).ok();
            self.leftovers().remove(&name);
            any = true;
        }
        any
    }

    fn next_leftover(&self) -> Option<String> {
        self.leftovers().first().cloned()
    }

    /// Makes sure that so much fits beside a segment that the journal may need meanwhile; false if it does not.
    pub(crate) fn make_room_for(&self, bytes: u64) -> bool {
        loop {
            let fits = !matches!(self.storage.free(), Ok(Some(free)) if free < bytes + self.segment);
            if fits || !(self.remove_leftovers() || self.spend() || self.give_up_spare(SPARES)) {
                return fits;
            }
        }
    }

    /// Whether so much more fits beside what is kept.
    pub(crate) fn has_room_for(&self, bytes: u64) -> bool {
        !matches!(self.storage.free(), Ok(Some(free)) if free < bytes + self.size)
    }

    /// Files that are ready to become segments.
    pub(crate) fn spares(&self) -> MutexGuard<'_, Vec<String>> {
        self.shared.spares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes a spare, but for a few that the journal will need; whether there was any.
    fn give_up_spare(&self, but: usize) -> bool {
        let mut spares = self.spares();
        let spare = if spares.len() > but { spares.pop() } else { None };
        spare.is_some_and(|name| self.storage.remove(&name).is_ok())
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
