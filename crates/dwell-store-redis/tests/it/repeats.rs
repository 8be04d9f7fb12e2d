//! Calls that were done and whose answers were lost: they are sent again, and done once.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use dwell_core::{
    Body, CancelItem, Change, ChangeItem, IfExists, JobId, JobRef, LeaseRequest, NewId, NewJob, Number, Priority,
    PutOutcome, Settle, State, Store, TopicName, Verdict, When,
};
use dwell_store_redis::{Address, Config, RedisStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

use crate::server::Server;
use crate::subject::prefix;

/// What a call has in it, and how many such calls go well before.
type Mark = (Vec<u8>, usize);

/// A way to Redis that loses the answer to the call it is told of, and the connection with it.
#[derive(Clone, Default)]
struct Lossy {
    marked: Arc<Mutex<Option<Mark>>>,
    lost: Arc<AtomicUsize>,
}

impl Lossy {
    async fn start(to: u16) -> (Self, u16) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let lossy = Self::default();
        let serving = lossy.clone();
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let Ok(far) = TcpStream::connect(("127.0.0.1", to)).await else { continue };
                let ((near_read, near_write), (far_read, far_write)) = (near.into_split(), far.into_split());
                let dies = Arc::new(AtomicBool::new(false));
                tokio::spawn(serving.clone().there(near_read, far_write, Arc::clone(&dies)));
                tokio::spawn(serving.clone().back(far_read, near_write, dies));
            }
        });
        (lossy, port)
    }

    async fn there(self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf, dies: Arc<AtomicBool>) {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(length @ 1..) = from.read(&mut buffer).await {
            if self.is_marked(&buffer[..length]) {
                dies.store(true, Ordering::SeqCst);
            }
            if to.write_all(&buffer[..length]).await.is_err() {
                return;
            }
        }
    }

    async fn back(self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf, dies: Arc<AtomicBool>) {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(length @ 1..) = from.read(&mut buffer).await {
            if dies.load(Ordering::SeqCst) {
                self.lost.fetch_add(1, Ordering::SeqCst);
                return;
            }
            if to.write_all(&buffer[..length]).await.is_err() {
                return;
            }
        }
    }

    fn is_marked(&self, bytes: &[u8]) -> bool {
        let mut marked = self.marked.lock().unwrap();
        let Some((mark, before)) = &mut *marked else { return false };
        if !bytes.windows(mark.len()).any(|window| window == mark.as_slice()) {
            return false;
        }
        if *before > 0 {
            *before -= 1;
            return false;
        }
        *marked = None;
        true
    }

    /// Loses the answer to the next call that has this in it, but for some.
    fn lose(&self, mark: &[u8], before: usize) {
        *self.marked.lock().unwrap() = Some((mark.to_vec(), before));
    }

    /// How many answers were lost since it was last asked.
    fn lost(&self) -> usize {
        self.lost.swap(0, Ordering::SeqCst)
    }
}

fn bytes(number: Number) -> Vec<u8> {
    number.get().to_be_bytes()[1..].to_vec()
}

fn topic() -> TopicName {
    TopicName::new("the-topic").unwrap()
}

fn job(id: &str) -> NewJob {
    NewJob::new(topic(), JobId::new(id).unwrap(), When::NOW)
}

async fn world() -> (Server, Lossy, Arc<dyn Store>) {
    let server = Server::start();
    let (lossy, port) = Lossy::start(server.port).await;
    let address = Address::parse(&format!("redis://127.0.0.1:{port}")).unwrap();
    let store = RedisStore::open(&Config { prefix: prefix(), ..Config::new(address) }).await.unwrap();
    know_all_scripts(&store).await;
    (server, lossy, Arc::new(store))
}

/// The first call of a script is answered that it is not known, and nothing is done: that must be behind us.
async fn know_all_scripts(store: &RedisStore) {
    let warm = TopicName::new("warm").unwrap();
    let new = NewJob { topic: warm.clone(), ..job("warm") };
    store.put(vec![new]).await.unwrap();
    for verdict in [Verdict::Release { delay: None, priority: None }, Verdict::Ack] {
        let held = store.lease(LeaseRequest::of(warm.clone())).await.unwrap();
        assert_eq!(store.settle(vec![Settle::new(held[0].token.unwrap(), verdict)]).await.unwrap(), [Ok(())]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_put_is_done_once() {
    let (_server, lossy, store) = world().await;
    store.put(vec![job("first")]).await.unwrap();
    lossy.lose(b"job-of-the-lost-answer", 0);
    let answers = store.put(vec![job("job-of-the-lost-answer"), job("beside-it")]).await.unwrap();
    assert!(answers.iter().all(|answer| matches!(answer, Ok(PutOutcome::Created(_)))), "{answers:?}");
    assert_eq!(lossy.lost(), 1, "the answer was lost");
    // The first look finds it taken, the second puts: that one's answer is lost.
    lossy.lose(b"beside-it", 2);
    let replace = NewJob { if_exists: IfExists::Replace, ..job("beside-it") };
    let answers = store.put(vec![replace]).await.unwrap();
    assert!(matches!(answers[0], Ok(PutOutcome::Replaced(_))), "{answers:?}");
    assert_eq!(lossy.lost(), 1, "the answer was lost");
    let info = store.topic(topic()).await.unwrap().unwrap();
    assert_eq!((info.totals.put, info.counts[State::Ready]), (4, 3));
}

/// Neither the number nor the id of such a job is known before an answer tells them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_put_of_jobs_named_by_their_numbers_is_done_once() {
    let (_server, lossy, store) = world().await;
    let numbered = |body: &str| NewJob { id: NewId::FromNumber, body: Body::Bytes(body.as_bytes().into()), ..job("-") };
    store.put(vec![job("first")]).await.unwrap();
    lossy.lose(b"body-of-the-lost-answer", 0);
    let jobs = vec![numbered("a"), job("named"), numbered("body-of-the-lost-answer")];
    let answers = store.put(jobs).await.unwrap();
    assert_eq!(lossy.lost(), 1, "the answer was lost");
    let info = store.topic(topic()).await.unwrap().unwrap();
    assert_eq!((info.totals.put, info.counts[State::Ready]), (4, 4), "each once");
    let held = store.lease(LeaseRequest::of(topic()).up_to(10)).await.unwrap();
    for (answer, held) in answers.iter().zip(&held[1..]) {
        let Ok(PutOutcome::Created(receipt)) = answer else { panic!("not created: {answer:?}") };
        assert_eq!(receipt.number, held.view.job.number, "the number of the first attempt");
    }
    let id = |k: usize| held[k].view.job.id.as_str().to_owned();
    assert_eq!([id(1), id(3)], [1, 3].map(|k: usize| format!("${}", held[k].view.job.number)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_is_given_once() {
    let (_server, lossy, store) = world().await;
    store.put((0..5).map(|k| job(&k.to_string())).collect()).await.unwrap();
    lossy.lose(topic().as_str().as_bytes(), 0);
    let held = store.lease(LeaseRequest::of(topic()).up_to(3)).await.unwrap();
    assert_eq!(lossy.lost(), 1, "the answer was lost");
    let ids: Vec<_> = held.iter().map(|job| job.view.job.id.as_str()).collect();
    assert_eq!(ids, ["0", "1", "2"], "the same three, not the next");
    let info = store.topic(topic()).await.unwrap().unwrap();
    assert_eq!((info.counts[State::Leased], info.totals.leased), (3, 3));
    let acks = held.iter().map(|job| Settle::new(job.token.unwrap(), Verdict::Ack)).collect();
    assert!(store.settle(acks).await.unwrap().iter().all(Result::is_ok), "and their tokens are good");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_verdict_is_carried_out_once() {
    let (_server, lossy, store) = world().await;
    store.put(vec![job("a")]).await.unwrap();
    let held = store.lease(LeaseRequest::of(topic())).await.unwrap();
    let number = bytes(held[0].view.job.number);
    // The look goes well, the answer to the move is lost.
    lossy.lose(&number, 1);
    let release = Verdict::Release { delay: None, priority: None };
    assert_eq!(store.settle(vec![Settle::new(held[0].token.unwrap(), release)]).await.unwrap(), [Ok(())]);
    assert_eq!(lossy.lost(), 1, "the answer was lost");
    let held = store.lease(LeaseRequest::of(topic())).await.unwrap();
    assert_eq!((held[0].view.job.attempt, held[0].view.job.counters.releases), (1, 1), "released once");
    lossy.lose(&number, 0);
    let token = held[0].token.unwrap();
    assert_eq!(store.settle(vec![Settle::new(token, Verdict::Ack)]).await.unwrap(), [Ok(())]);
    assert_eq!(lossy.lost(), 1, "the answer was lost");
    assert!(store.settle(vec![Settle::new(token, Verdict::Ack)]).await.unwrap()[0].is_err(), "another ack is another");
    let info = store.topic(topic()).await.unwrap().unwrap();
    assert_eq!((info.totals.released, info.totals.acked, info.counts.live()), (1, 1, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_and_a_cancellation_are_done_once() {
    let (_server, lossy, store) = world().await;
    let receipt = store.put(vec![job("a")]).await.unwrap().remove(0).unwrap();
    let PutOutcome::Created(receipt) = receipt else { panic!("not created: {receipt:?}") };
    let named = JobRef::Named(topic(), JobId::new("a").unwrap());
    let number = bytes(receipt.number);
    lossy.lose(&number, 0);
    let change = Change { priority: Some(Priority(7)), ..Change::default() };
    let item = ChangeItem { if_match: Some(receipt.version), ..ChangeItem::new(named.clone(), change) };
    let view = store.change(vec![item]).await.unwrap().remove(0).expect("the version matched when it was done");
    assert_eq!((lossy.lost(), view.job.priority), (1, Priority(7)));
    lossy.lose(&number, 0);
    let item = CancelItem { if_match: Some(view.job.version), ..CancelItem::new(named) };
    assert_eq!(store.cancel(vec![item]).await.unwrap(), [Ok(())]);
    assert_eq!(lossy.lost(), 1, "the answer was lost");
    assert_eq!(store.topic(topic()).await.unwrap().unwrap().totals.cancelled, 1);
}
