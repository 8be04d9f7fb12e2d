//! Consumers that wait.
//!
//! Those who wait for a topic stand in line. The first in line looks for jobs: at once, when a wake-up says that
//! something is due, when the next thing it knows of is due, and at least every sweep. It looks for those behind it, too,
//! if all they ask for fits one call. When it leaves, served or not, the next one looks, unless it is known that there is
//! nothing yet. So there is one that asks the engine for each topic, however many wait, and first come is first served. A
//! wake-up that is lost costs no more than a sweep.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use dwell_core::{LeaseFrom, LeaseRequest, LeasedJob, StoreError, Timestamp, TopicName, limits};
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::Instant;

use crate::gather::FEW;
use crate::inner::{CALL_JOBS, Inner};
use crate::link::Wake;
use crate::verbs::Attempt;

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
    lines: HashMap<Queue, BTreeMap<u64, Arc<Seat>>>,
    closed: bool,
}

/// One who waits: what it wants, and what wakes it.
struct Seat {
    /// What it asks for, if somebody ahead of it may look for it, too.
    shared: Option<Arc<LeaseRequest>>,
    flight: Mutex<Flight>,
    rung: Notify,
    /// The earliest instant it was rung for; `u64::MAX`: not at all.
    at: AtomicU64,
    over: AtomicBool,
}

/// What comes to one who waits from a look of somebody ahead of it.
enum Flight {
    /// Nobody looks for it.
    None,
    /// Somebody does.
    UnderWay,
    /// It got something.
    Served(Vec<LeasedJob>),
    /// It has gone.
    Gone,
}

impl Seat {
    fn ring(&self, at: u64) {
        self.at.fetch_min(at, Ordering::SeqCst);
        self.rung.notify_one();
    }

    fn flight(&self) -> MutexGuard<'_, Flight> {
        self.flight.lock().expect("nobody panics while holding it")
    }

    /// Whether somebody ahead looks for it, or has.
    fn is_aboard(&self) -> bool {
        matches!(*self.flight(), Flight::UnderWay | Flight::Served(_))
    }

    /// What somebody ahead has found for it.
    fn take(&self) -> Option<Vec<LeasedJob>> {
        let mut flight = self.flight();
        let Flight::Served(jobs) = &mut *flight else { return None };
        let jobs = std::mem::take(jobs);
        *flight = Flight::None;
        Some(jobs)
    }

    /// Ends a look for it; what it is no longer there to take.
    fn land(&self, jobs: Vec<LeasedJob>) -> Vec<LeasedJob> {
        let mut flight = self.flight();
        if matches!(*flight, Flight::Gone) {
            return jobs;
        }
        *flight = if jobs.is_empty() { Flight::None } else { Flight::Served(jobs) };
        self.rung.notify_one();
        Vec::new()
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
        for seat in lines.lines.values().flat_map(BTreeMap::values) {
            seat.over.store(true, Ordering::SeqCst);
            seat.rung.notify_one();
        }
    }

    /// Whether somebody already waits for one of these.
    fn is_taken(&self, queues: &[Queue]) -> bool {
        let lines = self.lines.lock().expect("nobody panics while holding it");
        queues.iter().any(|queue| lines.lines.contains_key(queue))
    }

    /// Joins the end of the lines.
    fn join(inner: &Arc<Inner>, queues: Vec<Queue>, shared: Option<Arc<LeaseRequest>>) -> Place<'_> {
        let seat = Arc::new(Seat {
            shared,
            flight: Mutex::new(Flight::None),
            rung: Notify::new(),
            at: AtomicU64::new(u64::MAX),
            over: AtomicBool::new(false),
        });
        let waiters = &inner.waiters;
        let mut lines = waiters.lines.lock().expect("nobody panics while holding it");
        let arrival = waiters.arrivals.fetch_add(1, Ordering::SeqCst);
        seat.over.store(lines.closed, Ordering::SeqCst);
        for queue in &queues {
            lines.lines.entry(queue.clone()).or_default().insert(arrival, Arc::clone(&seat));
        }
        Place { inner, queues, arrival, seat, next: 0 }
    }

    /// Those in a line behind its first who can be looked for with it. They are looked for from now on.
    fn board(&self, queue: &Queue, first: &LeaseRequest) -> Vec<(u64, Arc<Seat>)> {
        let lines = self.lines.lock().expect("nobody panics while holding it");
        let mut jobs = first.max as usize;
        let fits = |(_, seat): &(&u64, &Arc<Seat>)| {
            seat.shared.as_ref().is_some_and(|request| {
                jobs += request.max as usize;
                jobs <= CALL_JOBS && request.auto_ack == first.auto_ack
            })
        };
        let line = lines.lines.get(queue).into_iter().flatten().skip(1);
        let aboard: Vec<_> = line.take(FEW - 1).take_while(fits).map(|(k, seat)| (*k, Arc::clone(seat))).collect();
        for (_, seat) in &aboard {
            *seat.flight() = Flight::UnderWay;
        }
        aboard
    }

    /// Takes those who were served out of a line, and tells the first of those who stay from when on to look.
    fn leave(&self, queue: &Queue, served: &[u64], mut next: u64) {
        let mut lines = self.lines.lock().expect("nobody panics while holding it");
        let Some(line) = lines.lines.get_mut(queue) else { return };
        let gone: Vec<Arc<Seat>> = served.iter().filter_map(|arrival| line.remove(arrival)).collect();
        // A wake-up that one of them did not see is passed on.
        next = gone.iter().fold(next, |next, seat| next.min(seat.at.load(Ordering::SeqCst)));
        if line.is_empty() {
            lines.lines.remove(queue);
        } else if !gone.is_empty() {
            lines.ring(queue, next);
        }
    }
}

impl Lines {
    fn ring(&self, queue: &Queue, at: u64) {
        if let Some((_, seat)) = self.lines.get(queue).and_then(BTreeMap::first_key_value) {
            seat.ring(at);
        }
    }
}

/// A place in line. Whoever drops it makes room: the next one looks.
struct Place<'a> {
    inner: &'a Arc<Inner>,
    queues: Vec<Queue>,
    arrival: u64,
    seat: Arc<Seat>,
    /// When the one behind it has to look once it leaves (0: at once).
    next: u64,
}

impl Place<'_> {
    /// Whether it is the first in one of its lines.
    fn is_first(&self) -> bool {
        let lines = self.inner.waiters.lines.lock().expect("nobody panics while holding it");
        let first = |queue| lines.lines.get(queue).and_then(|line| line.keys().next());
        self.queues.iter().any(|queue| first(queue) == Some(&self.arrival))
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        for queue in &self.queues {
            self.inner.waiters.leave(queue, &[self.arrival], self.next);
        }
        let flight = std::mem::replace(&mut *self.seat.flight(), Flight::Gone);
        if let Flight::Served(jobs) = flight {
            give_back(self.inner, jobs);
        }
    }
}

/// Leases, waiting if need be.
pub(crate) async fn lease(inner: &Arc<Inner>, request: LeaseRequest) -> Result<Vec<LeasedJob>, StoreError> {
    let deadline = Instant::now() + request.wait;
    let queues: Vec<Queue> = match &request.from {
        LeaseFrom::Pull(topics) => topics.iter().cloned().map(Queue::Topic).collect(),
        LeaseFrom::Push(_) => vec![Queue::Courier],
        LeaseFrom::Number(_) => Vec::new(),
    };
    let waits = !request.wait.is_zero() && !queues.is_empty();
    let is_shared = waits && matches!(&queues[..], [Queue::Topic(_)]) && request.max as usize <= FEW;
    let request = Arc::new(request);
    if !waits || (!is_shared && !inner.waiters.is_taken(&queues)) {
        let attempt = look(inner, &request).await?;
        if !attempt.jobs.is_empty() || !waits {
            return Ok(attempt.jobs);
        }
    }
    let mut place = Waiters::join(inner, queues, is_shared.then(|| Arc::clone(&request)));
    let mut moves = inner.clock.moves();
    loop {
        if let Some(jobs) = place.seat.take() {
            return Ok(jobs);
        }
        if place.seat.over.load(Ordering::SeqCst) {
            return Ok(Vec::new());
        }
        let mut next = Instant::now() + Duration::from_millis(limits::SWEEP);
        if place.is_first() && !place.seat.is_aboard() {
            place.seat.at.store(u64::MAX, Ordering::SeqCst);
            let looked = if is_shared {
                look_together(inner, &request, &place).await
            } else {
                look(inner, &request).await.map(|attempt| (attempt, 0))
            };
            match looked {
                Ok((attempt, then)) if !attempt.jobs.is_empty() => {
                    place.next = then;
                    return Ok(attempt.jobs);
                }
                Ok((attempt, _)) => next = next.min(when(inner, attempt.next)),
                // Out of reach for now: those who wait go on waiting.
                Err(StoreError::Unreachable { detail }) => tracing::debug!(detail, "a look for jobs failed"),
                Err(error) => return Err(error),
            }
        }
        if Instant::now() >= deadline && !place.seat.is_aboard() {
            return Ok(Vec::new());
        }
        rest(inner, &place, next, deadline, &mut moves).await;
    }
}

/// Sleeps until it is time to look again, or to go. Who is looked for does not go before that look is over.
async fn rest(inner: &Inner, place: &Place<'_>, mut next: Instant, deadline: Instant, moves: &mut watch::Receiver<()>) {
    loop {
        let is_aboard = place.seat.is_aboard();
        tokio::select! {
            () = tokio::time::sleep_until(next.min(deadline)), if !is_aboard => return,
            _ = moves.changed() => return,
            () = place.seat.rung.notified() => {
                match *place.seat.flight() {
                    Flight::Served(_) => return,
                    // What it was rung for is seen to when that look is over.
                    Flight::UnderWay if !place.seat.over.load(Ordering::SeqCst) => continue,
                    Flight::UnderWay | Flight::None | Flight::Gone => {}
                }
                let at = place.seat.at.swap(u64::MAX, Ordering::SeqCst);
                let at = Timestamp::from_millis(at).ok();
                next = next.min(when(inner, at));
                if next <= Instant::now() || place.seat.over.load(Ordering::SeqCst) {
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
async fn look(inner: &Arc<Inner>, request: &Arc<LeaseRequest>) -> Result<Attempt, StoreError> {
    let (task_inner, task_request) = (Arc::clone(inner), Arc::clone(request));
    apart(inner, async move { task_inner.attempt(&task_request).await }, |attempt: &mut Attempt| {
        std::mem::take(&mut attempt.jobs)
    })
    .await
}

/// Looks for the first in line and for those behind it; what it got, and when whoever is first after it has to look.
async fn look_together(
    inner: &Arc<Inner>,
    request: &Arc<LeaseRequest>,
    place: &Place<'_>,
) -> Result<(Attempt, u64), StoreError> {
    let queue = place.queues[0].clone();
    let Queue::Topic(topic) = queue.clone() else { return look(inner, request).await.map(|attempt| (attempt, 0)) };
    let aboard = inner.waiters.board(&queue, request);
    let shared = aboard.iter().filter_map(|(_, seat)| seat.shared.clone());
    let requests: Vec<Arc<LeaseRequest>> = std::iter::once(Arc::clone(request)).chain(shared).collect();
    let task_inner = Arc::clone(inner);
    let flight = async move {
        let looked = task_inner.lease_together(&topic, &requests).await;
        let (mut attempts, next) = match looked {
            Ok((attempts, next)) => (attempts.into_iter(), Ok(next)),
            Err(error) => (Vec::new().into_iter(), Err(error)),
        };
        let mut mine = attempts.next().unwrap_or_default();
        let (mut served, mut unwanted) = (Vec::new(), Vec::new());
        for (arrival, seat) in aboard {
            match attempts.next().filter(|attempt| !attempt.jobs.is_empty()) {
                Some(attempt) => served.push((arrival, seat, attempt.jobs)),
                None => unwanted.extend(seat.land(Vec::new())),
            }
        }
        // Those who got nothing are back in line before the first of them is told when to look.
        let next = next.map(|next| next.map_or(u64::MAX, Timestamp::as_millis));
        let arrivals: Vec<u64> = served.iter().map(|(arrival, ..)| *arrival).collect();
        task_inner.waiters.leave(&queue, &arrivals, next.as_ref().copied().unwrap_or(0));
        for (_, seat, jobs) in served {
            unwanted.extend(seat.land(jobs));
        }
        task_inner.give_back(unwanted).await;
        let next = next?;
        mine.next = Timestamp::from_millis(next).ok();
        Ok((mine, next))
    };
    apart(inner, flight, |(attempt, _): &mut (Attempt, u64)| std::mem::take(&mut attempt.jobs)).await
}

/// Looks in a task of its own. If the caller goes away, what is `found` for it is given back.
async fn apart<T: Send + 'static>(
    inner: &Arc<Inner>,
    look: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    found: fn(&mut T) -> Vec<LeasedJob>,
) -> Result<T, StoreError> {
    let (answer, receiver) = oneshot::channel();
    let task_inner = Arc::clone(inner);
    let under_way = inner.looks.begin();
    tokio::spawn(async move {
        let _under_way = under_way;
        if let Err(Ok(mut unwanted)) = answer.send(look.await) {
            task_inner.give_back(found(&mut unwanted)).await;
        }
    });
    let mut receiver = Received { inner, receiver, found };
    let answer = (&mut receiver.receiver).await;
    answer.unwrap_or(Err(StoreError::Closed))
}

/// An answer on its way. Dropped after it has come and before it was taken, it gives back what is in it.
struct Received<'a, T> {
    inner: &'a Arc<Inner>,
    receiver: oneshot::Receiver<Result<T, StoreError>>,
    found: fn(&mut T) -> Vec<LeasedJob>,
}

impl<T> Drop for Received<'_, T> {
    fn drop(&mut self) {
        self.receiver.close();
        if let Ok(Ok(mut unwanted)) = self.receiver.try_recv() {
            give_back(self.inner, (self.found)(&mut unwanted));
        }
    }
}

/// Gives back jobs whose receiver has gone away, in a task that the store's end waits for.
fn give_back(inner: &Arc<Inner>, jobs: Vec<LeasedJob>) {
    if jobs.is_empty() {
        return;
    }
    let inner = Arc::clone(inner);
    let under_way = inner.looks.begin();
    tokio::spawn(async move {
        inner.give_back(jobs).await;
        drop(under_way);
    });
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
