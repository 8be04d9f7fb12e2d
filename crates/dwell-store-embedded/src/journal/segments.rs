//! The files of segments: started from a spare where there is one, freed when nobody needs them.

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::config::Durability;
use crate::disk_space::{FLUSH_SPARES, NoSpace as _, Reserve};
use crate::format::segment::{self, SegmentHeader};
use crate::sim_bugs::{self, Bug};
use crate::storage::{Storage, StoredFile};

/// How many segments that are free are kept as spares where there is no room to make more, or plenty: as many as a flush
/// frees and more, so that none is made in place of one that was just thrown away.
const MANY_SPARES: usize = 8;

/// How often it is looked how much room there is.
const ROOM_CHECK: Duration = Duration::from_secs(1);

/// How much of a spare is filled at a time.
const FILL_STEP: usize = 1 << 20;

/// Segment files, as the journal thread sees them.
pub(super) struct SegmentFiles {
    storage: Arc<dyn Storage>,
    epoch: u64,
    spares: Spares,
    /// Whether the next one waits for its spare: the first of a run does, for which there was no time to make one before.
    waits: bool,
}

impl SegmentFiles {
    pub(super) fn new(storage: Arc<dyn Storage>, epoch: u64, spares: Spares, durability: Durability) -> Self {
        Self { storage, epoch, spares, waits: durability != Durability::None }
    }

    /// Makes a segment's file ready for frames, and its name durable.
    pub(super) fn start(&mut self, id: u64, first_sequence: u64) -> io::Result<Arc<dyn StoredFile>> {
        let reserve = self.spares.reserve.clone();
        let started = reserve.retry_on_enospc(0, || {
            // Once only: where there is no room for a whole one, there is none either at the second try.
            let waits = std::mem::take(&mut self.waits);
            let spare = if waits { self.spares.take_or_make(&*self.storage) } else { self.spares.take() };
            let spare = match spare {
                // Where the disk is full it has all its room from the beginning: who knows whether there is some later.
                None if reserve.is_short() => Some(self.spares.make(&*self.storage)?),
                spare => spare,
            };
            self.start_from(spare, id, first_sequence)
        });
        let started = match started {
            // There may be some for a frame or two.
            Err(error) if error.is_no_space() => self.start_from(None, id, first_sequence),
            started => started,
        }?;
        reserve.note_begun(id);
        reserve.look();
        Ok(started)
    }

    fn start_from(&self, spare: Option<String>, id: u64, first_sequence: u64) -> io::Result<Arc<dyn StoredFile>> {
        let name = segment::name(id);
        let header = SegmentHeader { segment: id, epoch: self.epoch, first_sequence }.encode();
        let file = if let Some(spare) = spare {
            let file = self.storage.open(&spare)?;
            file.write_at(0, &header)?;
            file.sync_data()?;
            self.storage.rename(&spare, &name)?;
            file
        } else {
            // None is ready: a file that grows does too, only slower. While its file system is being shut down, ext4 may
            // say of one that it is synced, and keep nothing of it.
            let file = self.storage.create(&name)?;
            file.write_at(0, &header)?;
            file.sync_data()?;
            file
        };
        if !sim_bugs::is(Bug::NamesNotSynced) {
            self.storage.sync_dir()?;
        }
        Ok(file)
    }

    /// Lets go of these files, and of everything before this segment.
    pub(super) fn free(&self, obsolete: &[String], first: u64, topics: Option<u64>) -> io::Result<()> {
        let mut leftovers = obsolete.to_vec();
        // Before it is looked what is there: some of them may be gone by then.
        let going = self.spares.reserve.leftovers().clone();
        for name in self.storage.list()?.into_iter().filter(|name| !going.contains(name)) {
            let old_segment = segment::parse_name(&name).is_some_and(|id| id < first);
            let old_topics = crate::format::topics::parse_name(&name).is_some_and(|stamp| Some(stamp) != topics);
            if old_topics || (old_segment && !self.spares.keep(&*self.storage, &name)?) {
                leftovers.push(name);
            }
        }
        self.spares.remove_later(leftovers);
        Ok(())
    }

    pub(super) fn describe(&self, id: u64) -> String {
        self.storage.describe(&segment::name(id))
    }
}

/// Files ready to become segments, filled by a thread of their own.
#[derive(Clone)]
pub(crate) struct Spares {
    shared: Arc<(Mutex<Shared>, Condvar)>,
    /// Held by whoever makes one.
    making: Arc<Mutex<()>>,
    reserve: Reserve,
    size: u64,
}

#[derive(Default)]
struct Shared {
    made: u64,
    /// Whether the journal has begun to write.
    in_use: bool,
    stopped: bool,
}

impl Shared {
    /// A name no spare has or ever had: one that was just taken is still being made into a segment.
    fn next_name(&mut self) -> String {
        self.made += 1;
        segment::spare_name(self.made)
    }
}

impl Spares {
    /// The spares an earlier run left, as far as they are whole; the rest of its files goes once there is time.
    pub(crate) fn adopt(storage: &dyn Storage, size: u64, reserve: Reserve) -> io::Result<Self> {
        let mut kept = Shared::default();
        for name in storage.list()?.into_iter().filter(|name| name.starts_with(segment::SPARE_PREFIX)) {
            kept.made = kept.made.max(segment::parse_spare_name(&name).unwrap_or(0));
            if reserve.spares().len() < enough(&reserve) && storage.open(&name)?.len()? == size {
                reserve.spares().push(name);
            } else {
                reserve.remove_later([name]);
            }
        }
        Ok(Self { shared: Arc::new((Mutex::new(kept), Condvar::new())), making: Arc::default(), reserve, size })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Shared> {
        self.shared.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Option<String> {
        self.lock().in_use = true;
        let spare = self.reserve.spares().pop();
        self.shared.1.notify_one();
        spare
    }

    /// The same, even if one must be made first; `None` if that does not work.
    fn take_or_make(&self, storage: &dyn Storage) -> Option<String> {
        // One that is under way is waited for.
        drop(self.making.lock());
        if self.reserve.spares().is_empty() {
            self.make_one(storage);
        }
        self.take()
    }

    /// Makes a segment that is free into a spare; not if there are enough.
    fn keep(&self, storage: &dyn Storage, name: &str) -> io::Result<bool> {
        if self.reserve.spares().len() >= enough(&self.reserve) {
            return Ok(false);
        }
        let spare = self.lock().next_name();
        storage.rename(name, &spare)?;
        self.reserve.spares().push(spare);
        Ok(true)
    }

    /// Leaves files to be removed once there is time.
    fn remove_later(&self, names: Vec<String>) {
        self.reserve.remove_later(names);
        self.shared.1.notify_one();
    }

    /// Keeps spares and room ready until told to stop. A spare that cannot be made is none; the journal does without.
    pub(crate) fn run(&self, storage: &dyn Storage) {
        loop {
            self.reserve.look();
            let worked = self.make_one(storage);
            let kept = self.lock();
            if kept.stopped {
                return;
            }
            let is_done = self.reserve.spares().len() >= FLUSH_SPARES || !worked;
            if is_done && self.reserve.leftovers().is_empty() {
                drop(self.shared.1.wait_timeout(kept, ROOM_CHECK).unwrap_or_else(PoisonError::into_inner));
            }
        }
    }

    /// Makes one spare, if one is wanted; false if that did not work.
    pub(crate) fn make_one(&self, storage: &dyn Storage) -> bool {
        let _making = self.making.lock();
        self.reserve.remove_leftovers();
        if self.reserve.spares().len() >= FLUSH_SPARES {
            return true;
        }
        // What there is of a spare that cannot be finished would be in others' way. Where the disk is full, what is free is
        // best kept as spares, which nobody else can take; but flushes need some of it.
        let fits = if self.reserve.is_short() {
            self.reserve.fits(2 * self.size)
        } else {
            self.reserve.has_room_for(self.size)
        };
        if !fits {
            return false;
        }
        let Ok(name) = self.make_whole(storage) else { return false };
        self.reserve.spares().push(name);
        true
    }

    /// Makes one, in whatever room there is; its name.
    fn make(&self, storage: &dyn Storage) -> io::Result<String> {
        let _making = self.making.lock();
        self.make_whole(storage)
    }

    fn make_whole(&self, storage: &dyn Storage) -> io::Result<String> {
        let name = self.lock().next_name();
        let filled = self.fill(storage, &name);
        if filled.is_err() {
            drop(storage.remove(&name));
        }
        filled.map(|()| name)
    }

    fn fill(&self, storage: &dyn Storage, name: &str) -> io::Result<()> {
        let file = storage.create(name)?;
        let zeros = vec![0; FILL_STEP];
        let mut offset = 0;
        while offset < self.size && !self.lock().stopped {
            let step = usize::try_from(self.size - offset).map_or(FILL_STEP, |left| left.min(FILL_STEP));
            file.write_at(offset, &zeros[..step])?;
            offset += step as u64;
            // In small pieces, so that the journal's own syncs are not held up behind a large one.
            if self.lock().in_use || offset == self.size {
                file.sync_data()?;
            }
        }
        storage.sync_dir()
    }

    /// Ends [`Spares::run`].
    pub(crate) fn stop(&self) {
        self.lock().stopped = true;
        self.shared.1.notify_one();
    }
}

/// How many spares are kept of files that are free.
fn enough(reserve: &Reserve) -> usize {
    if reserve.is_short() || reserve.is_roomy() { MANY_SPARES } else { FLUSH_SPARES }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::storage::told::ToldStorage;

    const SIZE: u64 = 8_192;

    #[test]
    fn segments_that_are_freed_together_are_all_used_again_while_there_is_room() {
        let told = Arc::new(ToldStorage::default());
        told.free.store(100 * SIZE, Ordering::SeqCst);
        let storage: Arc<dyn Storage> = Arc::<ToldStorage>::clone(&told);
        let reserve = Reserve::open(Arc::clone(&storage), SIZE, SIZE);
        let spares = Spares::adopt(&*storage, SIZE, reserve.clone()).unwrap();
        let mut files = SegmentFiles::new(Arc::clone(&storage), 1, spares.clone(), Durability::Sync);
        let begin = |files: &mut SegmentFiles, id| {
            while reserve.spares().len() < FLUSH_SPARES {
                assert!(spares.make_one(&*storage));
            }
            files.start(id, id).unwrap();
            assert!(storage.open(&segment::name(id)).unwrap().len().unwrap() >= SIZE, "it was a spare");
            spares.lock().made
        };
        let made = (1..=6).map(|id| begin(&mut files, id)).last();
        files.free(&[], 6, None).unwrap();
        assert_eq!((reserve.spares().len(), reserve.leftovers().len()), (6, 0));
        // Five have become spares, which is counted as making them; none was made beside them.
        let again = (7..=10).map(|id| begin(&mut files, id)).last();
        assert_eq!(again, made.map(|made| made + 5));
        // Those beyond what the journal needs go before there is too little room for more jobs.
        files.free(&[], 10, None).unwrap();
        assert_eq!(reserve.spares().len(), 6);
        told.free.store(3 * SIZE, Ordering::SeqCst);
        reserve.look();
        assert_eq!((reserve.spares().len(), reserve.is_short()), (FLUSH_SPARES, false));
        (11..=13).map(|id| begin(&mut files, id)).for_each(drop);
        files.free(&[], 13, None).unwrap();
        assert_eq!((reserve.spares().len(), reserve.leftovers().len()), (FLUSH_SPARES, 2));
    }
}
