//! A disk that is full: puts are refused, everything else goes on, also after a restart, and puts go on by themselves
//! once there is room.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use dwell_core::{Body, CancelItem, Delay, JobId, JobRef, NewJob, PutError, Store, StoreError, Verdict, When};
use dwell_store_embedded::storage::{MemoryStorage, Storage, StoredFile};
use dwell_store_embedded::{Config, EmbeddedStore};
use tokio::task::JoinHandle;

use crate::world::{config, find, lease, new_job, settle, topic, until};

/// Memory that holds so many bytes.
#[derive(Clone)]
struct SmallDisk {
    memory: MemoryStorage,
    capacity: Arc<AtomicU64>,
    /// Whether no more is given, though some is free.
    is_used_up: Arc<AtomicBool>,
}

struct SmallFile {
    file: Arc<dyn StoredFile>,
    disk: SmallDisk,
}

impl SmallDisk {
    fn of(bytes: u64) -> Self {
        let capacity = Arc::new(AtomicU64::new(bytes));
        Self { memory: MemoryStorage::default(), capacity, is_used_up: Arc::default() }
    }

    fn used(&self) -> u64 {
        let names = self.memory.list().unwrap();
        names.iter().filter_map(|name| self.memory.open(name).and_then(|file| file.len()).ok()).sum()
    }

    /// How many files lie ready to become segments, or are being made ready.
    fn spares(&self) -> usize {
        self.memory.list().unwrap().iter().filter(|name| name.starts_with("spare-")).count()
    }

    /// Somebody else takes what is free.
    fn fill_up(&self) {
        self.capacity.store(self.used(), Ordering::SeqCst);
    }

    fn grow_to(&self, bytes: u64) {
        self.capacity.store(bytes, Ordering::SeqCst);
    }

    fn wrap(&self, file: Arc<dyn StoredFile>) -> Arc<dyn StoredFile> {
        Arc::new(SmallFile { file, disk: self.clone() })
    }

    /// A disk with the same on it, as a process that is killed leaves it.
    fn image(&self) -> Self {
        let capacity = Arc::new(AtomicU64::new(self.capacity.load(Ordering::SeqCst)));
        Self { memory: self.memory.image(), capacity, is_used_up: Arc::default() }
    }

    /// Whether the user of this disk may have more of it: a quota, of which the disk says nothing.
    fn use_up(&self, is_used_up: bool) {
        self.is_used_up.store(is_used_up, Ordering::SeqCst);
    }

    fn gives(&self, more: u64) -> bool {
        let fits = self.used() + more <= self.capacity.load(Ordering::SeqCst);
        fits && !self.is_used_up.load(Ordering::SeqCst)
    }
}

impl Storage for SmallDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        self.memory.list()
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn StoredFile>> {
        Ok(self.wrap(self.memory.open(name)?))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn StoredFile>> {
        Ok(self.wrap(self.memory.create(name)?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.memory.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.memory.remove(name)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.memory.sync_dir()
    }

    fn shrink(&self, name: &str, bytes: u64) -> io::Result<()> {
        self.memory.shrink(name, bytes)
    }

    fn free(&self) -> io::Result<Option<u64>> {
        Ok(Some(self.capacity.load(Ordering::SeqCst).saturating_sub(self.used())))
    }

    fn describe(&self, name: &str) -> String {
        format!("small/{name}")
    }
}

impl StoredFile for SmallFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let grows = (offset + bytes.len() as u64).saturating_sub(self.file.len()?);
        if grows > 0 && !self.disk.gives(grows) {
            return Err(io::Error::from(ErrorKind::StorageFull));
        }
        self.file.write_at(offset, bytes)
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(offset, into)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
}

/// With a cold tier, small in everything.
fn open(disk: &SmallDisk) -> EmbeddedStore {
    let base = config(Arc::new(disk.clone()));
    let tiny = Config { cold_tier: true, tail: 128 << 10, block: 512, memory: 1 << 20, ..base };
    EmbeddedStore::open(&tiny).expect("a full disk is no reason not to start")
}

/// The same, with so much memory and journal that nothing is put to the cold tier.
fn open_roomy(disk: &SmallDisk) -> EmbeddedStore {
    let base = config(Arc::new(disk.clone()));
    EmbeddedStore::open(&Config { cold_tier: true, tail: 8 << 20, memory: 64 << 20, ..base }).unwrap()
}

/// With a body of a kibibyte; every other one waits for an hour.
fn job(number: usize) -> NewJob {
    let when = if number.is_multiple_of(2) { When::NOW } else { When::In(Delay::from_millis(3_600_000).unwrap()) };
    NewJob { body: Body::Bytes(Arc::from(vec![7; 1 << 10])), when, ..new_job(&number.to_string()) }
}

async fn try_put(store: &EmbeddedStore, number: usize) -> Result<Result<(), PutError>, StoreError> {
    Ok(store.put(vec![job(number)]).await?.remove(0).map(drop))
}

/// Puts until there is no more room; how many there are then.
async fn fill(store: &EmbeddedStore, mut taken: usize) -> usize {
    while try_put(store, taken).await.expect("the store does not fail") != Err(PutError::StorageFull) {
        taken += 1;
        assert!(taken < 100_000, "never full");
    }
    taken
}

async fn cancel(store: &EmbeddedStore, number: usize) {
    let job = JobRef::Named(topic(), JobId::new(&number.to_string()).unwrap());
    let cancelled = store.cancel(vec![CancelItem { job, if_match: None, force: false }]).await;
    assert_eq!(cancelled, Ok(vec![Ok(())]), "job {number}");
}

async fn consume(store: &EmbeddedStore, jobs: usize) {
    for _ in 0..jobs {
        let held = lease(store).await;
        settle(store, &held, Verdict::Ack).await;
    }
}

async fn says_that_it_is_full(store: &EmbeddedStore) -> bool {
    let status = store.status().await.expect("it answers");
    assert_eq!(status.failed, None);
    status.troubles.iter().any(|trouble| trouble.contains("the disk is full"))
}

#[tokio::test]
async fn a_full_disk_refuses_puts_and_nothing_else() {
    let disk = SmallDisk::of(6 << 20);
    let store = open(&disk);
    let mut taken = fill(&store, 0).await;
    assert!(taken > 1_000, "only {taken}");
    disk.fill_up();
    while !says_that_it_is_full(&store).await {
        // Where something has become free since, it is taken, too.
        let all = fill(&store, taken).await;
        if std::mem::replace(&mut taken, all) < all {
            disk.fill_up();
        }
    }
    let ready = taken / 2;
    // Each of them is a frame of its own: far more than the segments that lie ready.
    consume(&store, ready / 4).await;
    for number in (1..taken / 4).step_by(2) {
        cancel(&store, number).await;
    }
    drop(store);
    // What was settled has made room; somebody else takes that too.
    disk.fill_up();
    let store = open(&disk);
    assert_eq!(try_put(&store, 0).await, Ok(Err(PutError::StorageFull)), "it is full after a restart too");
    consume(&store, ready / 4).await;
    let store = open(&disk.image());
    consume(&store, ready / 4).await;
    assert!(find(&store, &(taken / 4 * 2 + 1).to_string()).await.is_some(), "what waits is still there");
    assert!(find(&store, "1").await.is_none(), "what was cancelled is not");
}

#[tokio::test]
async fn puts_go_on_by_themselves_once_there_is_room() {
    let disk = SmallDisk::of(4 << 20);
    let store = open(&disk);
    let taken = fill(&store, 0).await;
    disk.fill_up();
    consume(&store, 200).await;
    disk.grow_to(16 << 20);
    until(|| async { try_put(&store, taken).await.expect("the store does not fail").is_ok() }).await;
    until(|| async { !says_that_it_is_full(&store).await }).await;
}

/// Where not even the reserve is left, a spare segment makes room for a start.
#[tokio::test]
async fn a_start_finds_room_where_the_reserve_is_spent() {
    let disk = SmallDisk::of(4 << 20);
    let store = open(&disk);
    fill(&store, 0).await;
    until(|| async { disk.spares() >= 2 }).await;
    store.close().await.unwrap();
    drop(store);
    // It may have been needed already.
    disk.remove("reserve").ok();
    disk.fill_up();
    let store = open(&disk);
    consume(&store, 5).await;
    cancel(&store, 1).await;
}

/// Half of what is on a full disk is cancelled, here and there: nothing is gone as a whole, and still there is room again.
#[tokio::test]
async fn what_is_cancelled_makes_room() {
    let disk = SmallDisk::of(4 << 20);
    let store = open(&disk);
    let taken = fill(&store, 0).await;
    disk.fill_up();
    let cancelled = (0..taken).filter(|number| number % 4 != 0);
    for number in cancelled {
        cancel(&store, number).await;
    }
    until(|| async { try_put(&store, taken).await.expect("the store does not fail").is_ok() }).await;
    assert!(find(&store, "4").await.is_some(), "what was not cancelled is there");
}

/// All that there is lies in one large run, and hardly any of it is left: to write that anew takes little room.
#[tokio::test]
async fn a_large_run_that_is_mostly_deleted_makes_room() {
    const JOBS: usize = 2_000;
    let disk = SmallDisk::of(64 << 20);
    let store = open_roomy(&disk);
    let far = |number: usize| job(2 * number + 1);
    let put = store.put((0..JOBS).map(far).collect()).await.unwrap();
    assert!(put.iter().all(Result::is_ok));
    store.close().await.unwrap();
    drop(store);
    let store = open(&disk);
    let sizes = async || store.status().await.unwrap().measures.sizes.unwrap();
    until(|| async { sizes().await.shelf_jobs >= JOBS as u64 }).await;
    assert_eq!(sizes().await.shelf_runs, 1);
    disk.fill_up();
    for number in (0..JOBS).filter(|number| number % 10 != 0) {
        cancel(&store, 2 * number + 1).await;
    }
    until(|| async { try_put(&store, 2 * JOBS + 1).await.expect("the store does not fail").is_ok() }).await;
    assert!(find(&store, "21").await.is_some(), "what was not cancelled is there");
}

/// Puts until a frame finds no room, which is waited for.
async fn until_a_frame_waits(store: &Arc<EmbeddedStore>, disk: &SmallDisk) -> JoinHandle<usize> {
    // What a start has to write is there by then.
    assert_eq!(try_put(store, 0).await, Ok(Ok(())));
    until(|| async { disk.spares() >= 2 }).await;
    disk.use_up(true);
    let (putting, put) = (Arc::clone(store), async |store: &EmbeddedStore| {
        let mut taken = 0;
        while try_put(store, taken).await == Ok(Ok(())) {
            taken += 1;
        }
        taken
    });
    let putting = tokio::spawn(async move { put(&putting).await });
    let waits = |trouble: &String| trouble.contains("calls wait until");
    until(|| async { store.status().await.unwrap().troubles.iter().any(waits) }).await;
    putting
}

#[tokio::test]
async fn a_frame_that_finds_no_room_waits_for_it() {
    let disk = SmallDisk::of(64 << 20);
    let store = Arc::new(open_roomy(&disk));
    let putting = until_a_frame_waits(&store, &disk).await;
    assert_eq!(store.status().await.unwrap().failed, None);
    assert!(!putting.is_finished());
    disk.use_up(false);
    let taken = putting.await.unwrap();
    assert!(taken > 1, "only {taken}");
    until(|| async { try_put(&store, taken).await.expect("the store does not fail").is_ok() }).await;
    for number in 0..=taken {
        assert!(find(&*store, &number.to_string()).await.is_some(), "{number} of {taken}");
    }
}

#[tokio::test]
async fn a_store_that_is_closed_waits_for_no_room() {
    let disk = SmallDisk::of(64 << 20);
    let store = Arc::new(open_roomy(&disk));
    let putting = until_a_frame_waits(&store, &disk).await;
    let closed = tokio::time::timeout(Duration::from_mins(1), store.close()).await;
    assert!(matches!(closed, Ok(Err(StoreError::Failed { .. }))), "{closed:?}");
    let taken = putting.await.unwrap();
    drop(store);
    disk.use_up(false);
    let store = open(&disk);
    for number in 0..taken {
        assert!(find(&store, &number.to_string()).await.is_some(), "{number} of {taken}");
    }
}
