//! Consumers that wait.
//!
//! Those who wait for a topic stand in line. The first in line looks for jobs: at once, when a wake-up says that
//! something is due, when the next thing it knows of is due, and at least every sweep. When it leaves, served or not, the
//! next one looks. So there is one that asks the engine for each topic, however many wait, and first come is first
//! served. A wake-up that is lost costs no more than a sweep.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use dwell_core::{LeaseFrom, LeaseRequest, LeasedJob, StoreError, Timestamp, TopicName, limits};
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::Instant;

use crate::inner::Inner;
use crate::link::Wake;

/// What a wait is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Queue {
    Topic(TopicName),
    Courier,
}

#[derive(Default)]
pub(crate) struct Waiters {
    lines: Mutex<Lines>,
    arrivals: AtomicU64,
}

#[derive(Default)]
struct Lines {
    lines: HashMap<Queue, BTreeMap<u64, Arc<Bell>>>,
    closed: bool,
}

/// What wakes one who waits.
struct Bell {
    rung: Notify,
    /// The earliest instant it was rung for; `u64::MAX`: not at all.
    at: AtomicU64,
    over: AtomicBool,
}

impl Bell {
    fn ring(&self, at: u64) {
        self.at.fetch_min(at, Ordering::SeqCst);
        self.rung.notify_one();
    }
}

impl Waiters {
    /// How many wait for a topic.
    pub(crate) fn waiting_for(&self, topic: &TopicName) -> u64 {
        let lines = self.lines.lock().expect("nobody panics while holding it");
        lines.lines.get(&Queue::Topic(topic.clone())).map_or(0, |line| line.len() as u64)
    }

    /// Passes a wake-up on to the first in line.
    pub(crate) fn wake(&self, wake: &Wake) {
        let lines = self.lines.lock().expect("nobody panics while holding it");
        match wake {
            Wake::Topic { topic, at, pushed } => {
                lines.ring(&Queue::Topic(topic.clone()), *at);
                if *pushed {
                    lines.ring(&Queue::Courier, *at);
                }
            }
            Wake::All => lines.lines.keys().for_each(|queue| lines.ring(queue, 0)),
        }
    }

    /// Ends all waits.
    pub(crate) fn close(&self) {
        let mut lines = self.lines.lock().expect("nobody panics while holding it");
        lines.closed = true;
        for bell in lines.lines.values().flat_map(BTreeMap::values) {
            bell.over.store(true, Ordering::SeqCst);
            bell.rung.notify_one();
        }
    }

    /// Whether somebody already waits for one of these.
    fn is_taken(&self, queues: &[Queue]) -> bool {
        let lines = self.lines.lock().expect("nobody panics while holding it");
        queues.iter().any(|queue| lines.lines.contains_key(queue))
    }

    /// Joins the end of the lines.
    fn join(&self, queues: Vec<Queue>) -> Place<'_> {
        let bell = Arc::new(Bell { rung: Notify::new(), at: AtomicU64::new(u64::MAX), over: AtomicBool::new(false) });
        let mut lines = self.lines.lock().expect("nobody panics while holding it");
        let arrival = self.arrivals.fetch_add(1, Ordering::SeqCst);
        bell.over.store(lines.closed, Ordering::SeqCst);
        for queue in &queues {
            lines.lines.entry(queue.clone()).or_default().insert(arrival, Arc::clone(&bell));
        }
        Place { waiters: self, queues, arrival, bell }
    }
}

impl Lines {
    fn ring(&self, queue: &Queue, at: u64) {
        if let Some((_, bell)) = self.lines.get(queue).and_then(BTreeMap::first_key_value) {
            bell.ring(at);
        }
    }
}

/// A place in line. Whoever drops it makes room: the next one looks.
struct Place<'a> {
    waiters: &'a Waiters,
    queues: Vec<Queue>,
    arrival: u64,
    bell: Arc<Bell>,
}

impl Place<'_> {
    /// Whether it is the first in one of its lines.
    fn is_first(&self) -> bool {
        let lines = self.waiters.lines.lock().expect("nobody panics while holding it");
        let first = |queue| lines.lines.get(queue).and_then(|line| line.keys().next());
        self.queues.iter().any(|queue| first(queue) == Some(&self.arrival))
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut lines = self.waiters.lines.lock().expect("nobody panics while holding it");
        for queue in &self.queues {
            let Some(line) = lines.lines.get_mut(queue) else { continue };
            line.remove(&self.arrival);
            if line.is_empty() {
                lines.lines.remove(queue);
            } else {
                lines.ring(queue, 0);
            }
        }
    }
}

/// Leases, waiting if need be.
pub(crate) async fn lease(inner: &Arc<Inner>, request: LeaseRequest) -> Result<Vec<LeasedJob>, StoreError> {
    let deadline = Instant::now() + request.wait;
    let queues = match &request.from {
        LeaseFrom::Pull(topics) => topics.iter().cloned().map(Queue::Topic).collect(),
        LeaseFrom::Push(_) => vec![Queue::Courier],
        LeaseFrom::Number(_) => Vec::new(),
    };
    let waits = !request.wait.is_zero() && !queues.is_empty();
    let request = Arc::new(request);
    if !waits || !inner.waiters.is_taken(&queues) {
        let attempt = look(inner, &request).await?;
        if !attempt.jobs.is_empty() || !waits {
            return Ok(attempt.jobs);
        }
    }
    let place = inner.waiters.join(queues);
    let mut moves = inner.clock.moves();
    loop {
        if place.bell.over.load(Ordering::SeqCst) {
            return Ok(Vec::new());
        }
        let mut next = Instant::now() + Duration::from_millis(limits::SWEEP);
        if place.is_first() {
            place.bell.at.store(u64::MAX, Ordering::SeqCst);
            match look(inner, &request).await {
                Ok(attempt) if !attempt.jobs.is_empty() => return Ok(attempt.jobs),
                Ok(attempt) => next = next.min(when(inner, attempt.next)),
                // Out of reach for now: those who wait go on waiting.
                Err(StoreError::Unreachable { detail }) => tracing::debug!(detail, "a look for jobs failed"),
                Err(error) => return Err(error),
            }
        }
        if Instant::now() >= deadline {
            return Ok(Vec::new());
        }
        rest(inner, &place, next, deadline, &mut moves).await;
    }
}

/// Sleeps until it is time to look again, or to go.
async fn rest(inner: &Inner, place: &Place<'_>, mut next: Instant, deadline: Instant, moves: &mut watch::Receiver<()>) {
    loop {
        tokio::select! {
            () = tokio::time::sleep_until(next.min(deadline)) => return,
            _ = moves.changed() => return,
            () = place.bell.rung.notified() => {
                let at = place.bell.at.swap(u64::MAX, Ordering::SeqCst);
                let at = Timestamp::from_millis(at).ok();
                next = next.min(when(inner, at));
                if next <= Instant::now() || place.bell.over.load(Ordering::SeqCst) {
                    return;
                }
            }
        }
    }
}

/// When it will be `at` in the store; far away if that is not known.
fn when(inner: &Inner, at: Option<Timestamp>) -> Instant {
    let far = Duration::from_millis(limits::SWEEP);
    let millis = at.map_or(far, |at| Duration::from_millis(at.since(inner.about_now())).min(far));
    Instant::now() + millis
}

/// Looks for jobs in a task of its own: if the caller goes away meanwhile, what was leased for it is given back.
async fn look(inner: &Arc<Inner>, request: &Arc<LeaseRequest>) -> Result<crate::verbs::Attempt, StoreError> {
    let (answer, receiver) = oneshot::channel();
    let (task_inner, task_request) = (Arc::clone(inner), Arc::clone(request));
    let under_way = inner.looks.begin();
    tokio::spawn(async move {
        let _under_way = under_way;
        let attempt = task_inner.attempt(&task_request).await;
        if let Err(Ok(unwanted)) = answer.send(attempt) {
            task_inner.give_back(unwanted.jobs).await;
        }
    });
    let mut receiver = Received { inner, receiver };
    let answer = (&mut receiver.receiver).await;
    answer.unwrap_or(Err(StoreError::Closed))
}

/// An answer on its way. Dropped after it has come and before it was taken, it gives back what is in it.
struct Received<'a> {
    inner: &'a Arc<Inner>,
    receiver: oneshot::Receiver<Result<crate::verbs::Attempt, StoreError>>,
}

impl Drop for Received<'_> {
    fn drop(&mut self) {
        self.receiver.close();
        if let Ok(Ok(attempt)) = self.receiver.try_recv()
            && !attempt.jobs.is_empty()
        {
            let inner = Arc::clone(self.inner);
            let under_way = inner.looks.begin();
            tokio::spawn(async move {
                inner.give_back(attempt.jobs).await;
                drop(under_way);
            });
        }
    }
}

/// Looks under way: what they find for those who have gone is given back before the store is closed.
pub(crate) struct Looks(watch::Sender<usize>);

/// One of them, until it is dropped.
struct UnderWay(watch::Sender<usize>);

impl Looks {
    pub(crate) fn none() -> Self {
        Self(watch::Sender::new(0))
    }

    fn begin(&self) -> UnderWay {
        self.0.send_modify(|looks| *looks += 1);
        UnderWay(self.0.clone())
    }

    /// Waits until there are none.
    pub(crate) async fn end(&self) {
        // The sender is here: it cannot be closed.
        self.0.subscribe().wait_for(|looks| *looks == 0).await.ok();
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.send_modify(|looks| *looks -= 1);
    }
}
