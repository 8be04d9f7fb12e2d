//! Disk space: a reserve for the day the disk is full, spare segments, and files to be deleted later.
//!
//! The directory has a `reserve` file that exists only to be truncated, a piece at a time, when a flush, a manifest or a
//! segment gets ENOSPC. Puts are refused well before that, while less than the size of the reserve is free. So leases,
//! settlements and cancellations go on, and they make room. Free space is measured after every large write, so that what
//! is put between two measurements fits into what is free.
//!
//! Spare segments are space, too, which no other process can take. While puts are refused, every command that logs waits
//! if fewer than [`FLUSH_SPARES`] spares would be left: the records that a flush logs again go into one of them, its run
//! takes the space of the other, and the segment that it frees replaces them. So the journal goes on for as long as
//! flushes give back what they take. If there is no space even for a frame, the frame waits; nothing of it is lost and
//! nothing fails.
//!
//! Obsolete files are deleted from here in the background: deleting a large one takes a while, and no frame waits for it.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::format::run::RunError;
use crate::storage::Storage;

/// The name of the reserve file.
pub(crate) const RESERVE_NAME: &str = "reserve";

/// Spare segments that are kept ready, and that are left to flushes on a full disk.
pub(crate) const FLUSH_SPARES: usize = 2;

/// Extra spares are kept only while at least this many times the size of the reserve is free.
const ROOMY_RESERVES: u64 = 4;

/// A spare that is left to the journal, which may have to begin a segment meanwhile.
pub(crate) const ONE_SPARE: usize = 1;

/// The reserve, the spares, and files to be deleted.
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
    /// Bytes of the file.
    held: Mutex<u64>,
    is_short: AtomicBool,
    /// Bytes that were free when last looked.
    free: AtomicU64,
    /// Files that are to be removed.
    leftovers: Mutex<BTreeSet<String>>,
    /// Files that are ready to become segments.
    spares: Mutex<Vec<String>>,
    /// Whether the disk says how much is free.
    is_told: AtomicBool,
    /// The last segment that the journal has begun.
    begun: AtomicU64,
    /// Whether something of the journal waits for room.
    waits: AtomicBool,
    /// Whether the store ends: nothing waits for room any more.
    ends: AtomicBool,
}

/// How much room there is, as far as the engine needs to know.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Room {
    /// Too little for more jobs.
    pub(crate) is_short: bool,
    /// Files that lie ready to become segments.
    pub(crate) spares: usize,
    /// The last segment that the journal has begun: those after it will take a spare.
    pub(crate) begun: u64,
}

impl Reserve {
    /// Takes over the reserve file of an earlier run, or makes one if there is space.
    pub(crate) fn open(storage: Arc<dyn Storage>, size: u64, segment: u64) -> Self {
        let reserve = Self { storage, size, segment, shared: Arc::default() };
        *reserve.lock() = reserve.storage.open(RESERVE_NAME).and_then(|file| file.len()).unwrap_or(0);
        reserve.look();
        reserve
    }

    fn lock(&self) -> MutexGuard<'_, u64> {
        self.shared.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Measures free space, and restores the reserve if there is space.
    pub(crate) fn look(&self) {
        // A disk that does not say is taken for one that has room.
        let Ok(Some(mut free)) = self.storage.free() else { return };
        let mut held = self.lock();
        if *held != self.size && free + *held >= 2 * self.size {
            let made = self.storage.allocate(RESERVE_NAME, self.size).and_then(|()| self.storage.sync_dir());
            free = free + *held - self.size;
            *held = if made.is_ok() { self.size } else { 0 };
        }
        self.shared.free.store(free, Ordering::SeqCst);
        self.shared.is_told.store(true, Ordering::SeqCst);
        let is_short = *held < self.size || free < self.size;
        self.shared.is_short.store(is_short, Ordering::SeqCst);
        drop(held);
        // Before others are short of room, what is only handy is given up.
        while !is_short && !self.is_roomy() && self.give_up_spare(FLUSH_SPARES) {}
    }

    /// Whether there is so much room that some may be used for what is only handy.
    pub(crate) fn is_roomy(&self) -> bool {
        self.shared.is_told.load(Ordering::SeqCst)
            && self.shared.free.load(Ordering::SeqCst) >= ROOMY_RESERVES * self.size
    }

    /// Whether there is too little room for more jobs.
    pub(crate) fn is_short(&self) -> bool {
        self.shared.is_short.load(Ordering::SeqCst)
    }

    pub(crate) fn room(&self) -> Room {
        // In this order: a spare that is just being taken is counted out twice, rather than not at all.
        let begun = self.shared.begun.load(Ordering::SeqCst);
        Room { is_short: self.is_short(), spares: self.spares().len(), begun }
    }

    /// The journal has begun a segment.
    pub(crate) fn note_begun(&self, segment: u64) {
        self.shared.begun.store(segment, Ordering::SeqCst);
    }

    /// Whether something of the journal waits for room.
    pub(crate) fn note_waiting(&self, waits: bool) {
        self.shared.waits.store(waits, Ordering::SeqCst);
    }

    pub(crate) fn has_waiting(&self) -> bool {
        self.shared.waits.load(Ordering::SeqCst)
    }

    /// The store ends: what finds no room now has failed.
    pub(crate) fn end(&self) {
        self.shared.ends.store(true, Ordering::SeqCst);
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.shared.ends.load(Ordering::SeqCst)
    }

    /// Bytes that were free when last looked, beside what is kept.
    pub(crate) fn free(&self) -> Option<u64> {
        self.shared.is_told.load(Ordering::SeqCst).then(|| self.shared.free.load(Ordering::SeqCst))
    }

    /// What to tell people about it.
    pub(crate) fn trouble(&self) -> Option<String> {
        let mebi = |bytes: u64| bytes >> 20;
        if self.has_waiting() {
            let free = mebi(self.storage.free().ok().flatten().unwrap_or(0));
            return Some(format!(
                "the disk is full: calls wait until {} MiB are free; now there are {free}",
                mebi(self.size)
            ));
        }
        self.is_short().then(|| {
            let (free, needed) = (self.shared.free.load(Ordering::SeqCst), self.size);
            let spent = self.size.saturating_sub(*self.lock());
            format!(
                "the disk is full: puts are refused until {} MiB are free; now there are {}",
                mebi(needed + spent),
                mebi(free)
            )
        })
    }

    /// Retries on ENOSPC: after deleting obsolete files, then after shrinking the reserve, then with fewer spares, down to
    /// `spares`.
    pub(crate) fn retry_on_enospc<T, E>(&self, spares: usize, mut attempt: impl FnMut() -> Result<T, E>) -> Result<T, E>
    where
        E: NoSpace,
    {
        loop {
            let outcome = attempt();
            let is_no_space = outcome.as_ref().is_err_and(NoSpace::is_no_space);
            if !is_no_space || !(self.remove_leftovers() || self.spend() || self.give_up_spare(spares)) {
                return outcome;
            }
        }
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

    /// Makes sure that so much fits, if need be in the room that is kept for it; false if it does not.
    pub(crate) fn make_room_for(&self, bytes: u64, may_spend: bool) -> bool {
        loop {
            // Where no spare lies ready, the journal may need as much as a segment meanwhile.
            let beside = if bytes > 0 && self.spares().is_empty() { self.segment } else { 0 };
            let fits = self.fits(bytes + beside);
            let spends = || may_spend && (self.spend() || self.give_up_spare(ONE_SPARE));
            if fits || !(self.remove_leftovers() || spends()) {
                return fits;
            }
        }
    }

    /// The same for a compaction that gives back more than it takes: in the reserve too, and with fewer spares, of which
    /// enough for flushes are left. Nothing is given up unless it is enough.
    pub(crate) fn make_room_for_compaction(&self, bytes: u64) -> bool {
        while !self.fits(bytes) {
            if self.remove_leftovers() {
                continue;
            }
            let spares = self.spares().len().saturating_sub(FLUSH_SPARES) as u64 * self.segment;
            let held = *self.lock();
            if !self.fits(bytes.saturating_sub(held + spares)) || !(self.give_up_spare(FLUSH_SPARES) || self.spend()) {
                return false;
            }
        }
        true
    }

    /// Whether so much more fits beside what must stay free for puts to be taken.
    pub(crate) fn has_room_for(&self, bytes: u64) -> bool {
        self.fits(bytes + self.size)
    }

    /// Whether so much more fits.
    pub(crate) fn fits(&self, bytes: u64) -> bool {
        !matches!(self.storage.free(), Ok(Some(free)) if free < bytes)
    }

    /// Files that are ready to become segments.
    pub(crate) fn spares(&self) -> MutexGuard<'_, Vec<String>> {
        self.shared.spares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes a spare if there are more than so many; whether there were.
    fn give_up_spare(&self, most: usize) -> bool {
        let mut spares = self.spares();
        let spare = if spares.len() > most { spares.pop() } else { None };
        spare.is_some_and(|name| self.storage.remove(&name).is_ok())
    }

    /// Shrinks the reserve by a segment: not more, since other processes may take what is free. Whether there was any.
    fn spend(&self) -> bool {
        let mut held = self.lock();
        if *held == 0 {
            return false;
        }
        self.shared.is_short.store(true, Ordering::SeqCst);
        let rest = held.saturating_sub(self.segment);
        let is_kept = rest > 0 && self.storage.shrink(RESERVE_NAME, rest).is_ok();
        *held = if is_kept { rest } else { 0 };
        is_kept || self.storage.remove(RESERVE_NAME).is_ok()
    }
}

/// An error that may mean ENOSPC.
pub(crate) trait NoSpace {
    /// Whether it does.
    fn is_no_space(&self) -> bool;
}

impl NoSpace for RunError {
    fn is_no_space(&self) -> bool {
        match self {
            Self::Io(error) => error.is_no_space(),
            Self::Damaged(_) => false,
        }
    }
}

impl NoSpace for io::Error {
    fn is_no_space(&self) -> bool {
        // A limit on the size of files is none of that: no room that is given up or waited for helps.
        matches!(self.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::told::ToldStorage;

    const SEGMENT: u64 = 1_000;

    fn kept(reserve: &Reserve) -> Option<u64> {
        reserve.storage.open(RESERVE_NAME).and_then(|file| file.len()).ok()
    }

    /// Finds room at the so-many-th try.
    fn at(tries: u32) -> impl FnMut() -> io::Result<u32> {
        let mut tried = 0;
        move || {
            tried += 1;
            if tried < tries { Err(ErrorKind::StorageFull.into()) } else { Ok(tried) }
        }
    }

    #[test]
    fn no_more_is_given_up_than_is_needed_and_spares_go_last() {
        let disk = Arc::new(ToldStorage::default());
        disk.free.store(100 * SEGMENT, Ordering::SeqCst);
        let reserve = Reserve::open(Arc::clone(&disk) as Arc<dyn Storage>, 3 * SEGMENT, SEGMENT);
        for spare in ["a", "b"] {
            disk.create(spare).unwrap();
            reserve.spares().push(spare.to_owned());
        }
        assert_eq!((kept(&reserve), reserve.is_short()), (Some(3 * SEGMENT), false));
        disk.free.store(0, Ordering::SeqCst);
        assert_eq!(reserve.retry_on_enospc(0, at(1)).unwrap(), 1);
        assert_eq!((kept(&reserve), reserve.is_short()), (Some(3 * SEGMENT), false), "there was room");
        assert_eq!(reserve.retry_on_enospc(0, at(3)).unwrap(), 3);
        assert_eq!((kept(&reserve), reserve.is_short()), (Some(SEGMENT), true));
        reserve.remove_later(["b".to_owned()]);
        assert_eq!(reserve.retry_on_enospc(ONE_SPARE, at(2)).unwrap(), 2);
        assert_eq!((kept(&reserve), disk.list().unwrap().len()), (Some(SEGMENT), 2), "what nobody needs goes first");
        disk.create("b").unwrap();
        assert!(reserve.retry_on_enospc(ONE_SPARE, at(100)).is_err());
        assert_eq!((kept(&reserve), reserve.room().spares), (None, 1), "one is left to the journal");
        assert!(reserve.retry_on_enospc(0, at(100)).is_err());
        assert_eq!(disk.list().unwrap(), [""; 0], "which may need its room");
        disk.free.store(5 * SEGMENT, Ordering::SeqCst);
        reserve.look();
        assert_eq!((kept(&reserve), reserve.is_short()), (None, true), "too little for both");
        disk.free.store(6 * SEGMENT, Ordering::SeqCst);
        reserve.look();
        assert_eq!((kept(&reserve), reserve.is_short()), (Some(3 * SEGMENT), false));
    }
}
