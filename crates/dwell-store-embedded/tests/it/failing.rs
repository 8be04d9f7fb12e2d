//! A disk that fails: nothing is acknowledged after it did, and a restart finds everything that was.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use dwell_core::{ErrorKind, LeaseRequest, Lookup, Store, StoreError, Verdict};
use dwell_store_embedded::storage::{MemoryStorage, Storage, StoredFile};

use crate::world::{find, open, put, settle, topic};

/// Memory that takes so many writes and syncs and then fails every one.
#[derive(Clone)]
struct Failing {
    memory: MemoryStorage,
    left: Arc<AtomicI64>,
}

struct FailingFile {
    file: Arc<dyn StoredFile>,
    left: Arc<AtomicI64>,
}

impl Failing {
    fn after(operations: i64) -> Self {
        Self { memory: MemoryStorage::default(), left: Arc::new(AtomicI64::new(operations)) }
    }

    fn wrap(&self, name: &str, file: Arc<dyn StoredFile>) -> Arc<dyn StoredFile> {
        // Spares are nobody's promise: without them the journal grows files.
        if name.starts_with("spare") { file } else { Arc::new(FailingFile { file, left: Arc::clone(&self.left) }) }
    }
}

fn spend(left: &AtomicI64) -> io::Result<()> {
    if left.fetch_sub(1, Ordering::SeqCst) > 0 { Ok(()) } else { Err(io::Error::other("the disk is gone")) }
}

impl Storage for Failing {
    fn list(&self) -> io::Result<Vec<String>> {
        self.memory.list()
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn StoredFile>> {
        Ok(self.wrap(name, self.memory.open(name)?))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn StoredFile>> {
        if name.starts_with("spare") {
            return Err(io::Error::other("no spares here"));
        }
        spend(&self.left)?;
        Ok(self.wrap(name, self.memory.create(name)?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        spend(&self.left)?;
        self.memory.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.memory.remove(name)
    }

    fn sync_dir(&self) -> io::Result<()> {
        spend(&self.left)?;
        self.memory.sync_dir()
    }

    fn describe(&self, name: &str) -> String {
        format!("failing/{name}")
    }
}

impl StoredFile for FailingFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        spend(&self.left)?;
        self.file.write_at(offset, bytes)
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(offset, into)
    }

    fn sync_data(&self) -> io::Result<()> {
        spend(&self.left)?;
        self.file.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
}

/// Puts and acks until the disk fails; what was acknowledged as put and as acked.
async fn work(store: &dyn Store) -> (Vec<String>, Vec<String>) {
    let (mut kept, mut acked) = (Vec::new(), Vec::new());
    for k in 0.. {
        let name = format!("job-{k}");
        if put(store, &name).await.is_err() {
            break;
        }
        if k % 3 != 0 {
            kept.push(name);
            continue;
        }
        // The oldest is the next one out.
        let Ok(held) = store.lease(LeaseRequest::of(topic())).await else { break };
        let out = held[0].view.job.id.as_str().to_owned();
        kept.push(name);
        let item = dwell_core::Settle::new(held[0].token.expect("a lease has a token"), Verdict::Ack);
        if store.settle(vec![item]).await.is_err() {
            kept.retain(|name| *name != out);
            break;
        }
        kept.retain(|name| *name != out);
        acked.push(out);
    }
    (kept, acked)
}

#[tokio::test]
async fn whatever_operation_fails_nothing_acknowledged_is_lost() {
    for operations in 0..60 {
        let storage = Failing::after(operations);
        let Ok(store) = open(Arc::new(storage.clone())) else { continue };
        let (kept, acked) = work(&store).await;
        assert_failed(&store).await;

        let store = open(Arc::new(storage.memory.image())).expect("a restart recovers");
        for name in &kept {
            let job = find(&store, name).await.unwrap_or_else(|| panic!("{name} was acknowledged ({operations})"));
            assert_eq!(job.job.body.as_bytes(), name.as_bytes());
        }
        for name in &acked {
            assert_eq!(find(&store, name).await, None, "{name} came back ({operations})");
        }
        put(&store, "after").await.expect("it works again");
    }
}

/// Every call fails, and the status says why.
async fn assert_failed(store: &dyn Store) {
    let failed = |error: StoreError| error.kind() == ErrorKind::StorageFailed;
    assert!(put(store, "x").await.is_err_and(failed));
    assert!(store.lease(LeaseRequest::of(topic())).await.is_err_and(failed));
    assert!(store.get(vec![Lookup::Next(topic(), dwell_core::State::Ready)]).await.is_err_and(failed));
    let failed = store.status().await.expect("the status always answers").failed;
    assert!(failed.as_ref().is_some_and(|failed| failed.contains("the disk is gone")), "{failed:?}");
}

#[tokio::test]
async fn those_who_wait_are_told() {
    let storage = Failing::after(40);
    let store = Arc::new(open(Arc::new(storage)).unwrap());
    put(&*store, "a").await.unwrap();
    let held = crate::world::lease(&*store).await;
    settle(&*store, &held, Verdict::Extend { ttr: None }).await;
    let waiting = {
        let store = Arc::clone(&store);
        let request = LeaseRequest::of(topic()).waiting(Duration::from_secs(50));
        tokio::spawn(async move { store.lease(request).await })
    };
    let other = dwell_core::TopicName::new("other").unwrap();
    loop {
        let new = dwell_core::NewJob { topic: other.clone(), ..crate::world::new_job("b") };
        if store.put(vec![new]).await.is_err() {
            break;
        }
    }
    let answer = tokio::time::timeout(Duration::from_secs(10), waiting).await.expect("it is answered").unwrap();
    assert!(answer.is_err_and(|error| error.kind() == ErrorKind::StorageFailed));
}
