//! Calls that were done and whose answers were lost: they are sent again, and done once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use dwell_core::{
    Body, CancelItem, Change, ChangeItem, IfExists, JobId, JobRef, LeaseRequest, NewId, NewJob, Number, Priority,
    Purge, PutOutcome, Settle, State, Store, TopicName, Verdict, When,
};
use dwell_store_redis::{Address, Config, RedisStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::server::Server;

/// What a call has in it, how many such calls go well before, and what becomes of it.
type Mark = (Vec<u8>, usize, Fate);

/// What becomes of a call; its caller loses the connection in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It is done, and its answer is lost.
    Unheard,
    /// The same, and nobody comes through until the way is mended.
    CutOff,
    /// It is on its way until that is mended, while others come through.
    Late,
}

/// A way to Redis that loses the answer to the call it is told of, and the connection with it.
#[derive(Clone)]
struct Lossy {
    marked: Arc<Mutex<Option<Mark>>>,
    lost: Arc<AtomicUsize>,
    /// What has been done to it and not mended.
    way: Arc<watch::Sender<Option<Fate>>>,
}

impl Lossy {
    async fn start(to: u16) -> (Self, u16) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let lossy = Self { marked: Arc::default(), lost: Arc::default(), way: Arc::new(watch::Sender::new(None)) };
        let serving = lossy.clone();
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                serving.until(|way| way != Some(Fate::CutOff)).await;
                let Ok(far) = TcpStream::connect(("127.0.0.1", to)).await else { continue };
                let ((near_read, near_write), (far_read, far_write)) = (near.into_split(), far.into_split());
                let (dies, fate) = watch::channel(None);
                tokio::spawn(serving.clone().there(near_read, far_write, dies));
                tokio::spawn(serving.clone().back(far_read, near_write, fate));
            }
        });
        (lossy, port)
    }

    async fn there(self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf, dies: watch::Sender<Option<Fate>>) {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(length @ 1..) = from.read(&mut buffer).await {
            if let Some(fate) = self.mark_of(&buffer[..length]) {
                self.way.send_replace(Some(fate));
                dies.send_replace(Some(fate));
                if fate == Fate::Late {
                    self.until(|way| way.is_none()).await;
                }
            }
            if to.write_all(&buffer[..length]).await.is_err() {
                return;
            }
        }
    }

    async fn back(self, mut from: OwnedReadHalf, to: OwnedWriteHalf, fate: watch::Receiver<Option<Fate>>) {
        let mut buffer = vec![0; 1 << 16];
        let (mut to, mut late) = (Some(to), fate.clone());
        loop {
            tokio::select! {
                true = is_late(&mut late), if to.is_some() => to = None,
                read = from.read(&mut buffer) => {
                    let Ok(length @ 1..) = read else { return };
                    if fate.borrow().is_some() {
                        self.lost.fetch_add(1, Ordering::SeqCst);
                        return;
                    }
                    let Some(to) = &mut to else { return };
                    if to.write_all(&buffer[..length]).await.is_err() {
                        return;
                    }
                }
            }
        }
    }

    fn mark_of(&self, bytes: &[u8]) -> Option<Fate> {
        let mut marked = self.marked.lock().unwrap();
        let (mark, before, fate) = marked.as_mut()?;
        if !bytes.windows(mark.len()).any(|window| window == mark.as_slice()) {
            return None;
        }
        if *before > 0 {
            *before -= 1;
            return None;
        }
        let fate = *fate;
        *marked = None;
        Some(fate)
    }

    /// Loses the answer to the next call that has this in it, but for some.
    fn lose(&self, mark: &[u8], before: usize) {
        *self.marked.lock().unwrap() = Some((mark.to_vec(), before, Fate::Unheard));
    }

    /// Does this to the next call that has that in it.
    fn strike(&self, fate: Fate, mark: &[u8]) {
        *self.marked.lock().unwrap() = Some((mark.to_vec(), 0, fate));
    }

    fn mend(&self) {
        self.way.send_replace(None);
    }

    async fn until(&self, holds: impl Fn(Option<Fate>) -> bool) {
        self.way.subscribe().wait_for(|way| holds(*way)).await.unwrap();
    }

    /// Waits until an answer has been lost: its call has been done.
    async fn until_lost(&self) {
        while self.lost.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
    }

    /// How many answers were lost since it was last asked.
    fn lost(&self) -> usize {
        self.lost.swap(0, Ordering::SeqCst)
    }
}

/// Waits until the call of a connection is late; false if none will be.
async fn is_late(fate: &mut watch::Receiver<Option<Fate>>) -> bool {
    fate.wait_for(|fate| *fate == Some(Fate::Late)).await.is_ok()
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

fn cancel(id: &str) -> CancelItem {
    CancelItem::new(JobRef::Named(topic(), JobId::new(id).unwrap()))
}

async fn world() -> (Server, Lossy, Arc<dyn Store>) {
    let server = Server::start();
    let (lossy, port) = Lossy::start(server.port).await;
    let store = open(port).await;
    know_all_scripts(&store).await;
    (server, lossy, Arc::new(store))
}

async fn open(port: u16) -> RedisStore {
    let address = Address::parse(&format!("redis://127.0.0.1:{port}")).unwrap();
    RedisStore::open(&Config::new(address)).await.unwrap()
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

/// The jobs are gone when the call comes again: nothing of them tells that it was done.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_put_is_done_once_whatever_became_of_its_jobs() {
    let (server, lossy, store) = world().await;
    let other = open(server.port).await;
    store.put(vec![job("first")]).await.unwrap();
    assert_eq!(other.cancel(vec![cancel("first")]).await.unwrap(), [Ok(())]);
    lossy.strike(Fate::CutOff, b"acked-meanwhile");
    let putting = tokio::spawn(async move { store.put(vec![job("acked-meanwhile"), job("cancelled")]).await });
    lossy.until_lost().await;
    let held = other.lease(LeaseRequest::of(topic())).await.unwrap();
    assert_eq!(other.settle(vec![Settle::new(held[0].token.unwrap(), Verdict::Ack)]).await.unwrap(), [Ok(())]);
    assert_eq!(other.cancel(vec![cancel("cancelled")]).await.unwrap(), [Ok(())]);
    lossy.mend();
    let answers = putting.await.unwrap().unwrap();
    let [Ok(PutOutcome::Created(receipt)), Ok(PutOutcome::Created(_))] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!(receipt.number, held[0].view.job.number, "the number of the first attempt");
    let info = other.topic(topic()).await.unwrap().unwrap();
    assert_eq!((info.totals.put, info.counts.live()), (3, 0), "nothing comes back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_put_is_done_once_though_its_topic_is_gone() {
    let (server, lossy, store) = world().await;
    let other = open(server.port).await;
    store.put(vec![job("first")]).await.unwrap();
    lossy.strike(Fate::CutOff, b"gone-with-its-topic");
    let putting = tokio::spawn(async move { store.put(vec![job("gone-with-its-topic")]).await });
    lossy.until_lost().await;
    other.purge(topic(), Purge::Topic).await.unwrap().unwrap();
    lossy.mend();
    let answers = putting.await.unwrap().unwrap();
    assert!(matches!(answers[..], [Ok(PutOutcome::Created(_))]), "{answers:?}");
    assert_eq!(other.topic(topic()).await, Ok(None), "nothing comes back");
}

/// The call that came again is done first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_put_that_comes_late_is_done_once() {
    let (_server, lossy, store) = world().await;
    store.put(vec![job("first")]).await.unwrap();
    assert_eq!(store.cancel(vec![cancel("first")]).await.unwrap(), [Ok(())]);
    lossy.strike(Fate::Late, b"late-for-work");
    let answers = store.put(vec![job("late-for-work")]).await.unwrap();
    assert!(matches!(answers[..], [Ok(PutOutcome::Created(_))]), "{answers:?}");
    assert_eq!(store.cancel(vec![cancel("late-for-work")]).await.unwrap(), [Ok(())]);
    lossy.mend();
    lossy.until_lost().await;
    let info = store.topic(topic()).await.unwrap().unwrap();
    assert_eq!((info.totals.put, info.counts.live()), (2, 0), "what was cancelled stays so");
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
