//! The model as a [`Store`]: one lock around it, and a first-come-first-served queue of those who wait.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use dwell_core::{
    Answer, CancelError, CancelItem, ChangeError, ChangeItem, Found, JobView, LeaseFrom, LeaseLost, LeaseRequest,
    LeasedJob, ListQuery, Lookup, Measures, NewJob, Page, Purge, PutError, PutOutcome, Redrive, Redriven, SetPause,
    Settle, Status, Store, StoreError, TimelineQuery, Timestamp, TopicError, TopicInfo, TopicName, TopicPolicy,
    TopicsQuery, Verdict,
};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use crate::clock::FakeClock;
use crate::model::Model;
use crate::{Setup, Subject};

/// The model store: in memory, obviously right, as slow as that.
#[derive(Debug)]
pub struct ModelStore {
    clock: Arc<FakeClock>,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    model: Model,
    waiting: VecDeque<Waiter>,
    closed: bool,
}

#[derive(Debug)]
struct Waiter {
    request: LeaseRequest,
    answer: oneshot::Sender<Vec<LeasedJob>>,
}

impl ModelStore {
    /// A store without jobs, on this clock.
    pub fn new(setup: &Setup, clock: Arc<FakeClock>) -> Self {
        let inner = Inner { model: Model::new(setup), waiting: VecDeque::new(), closed: false };
        Self { clock, inner: Mutex::new(inner) }
    }

    /// A store without jobs and its clock, as the suite wants them.
    pub fn subject(setup: &Setup, clock: FakeClock) -> Subject {
        let clock = Arc::new(clock);
        Subject { store: Arc::new(Self::new(setup, Arc::clone(&clock))), clock, restart: None }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("no call panics while it holds the lock")
    }

    /// Runs one call on the model, then serves those it may have made work for.
    fn call<T: Send + 'static>(&self, run: impl FnOnce(&mut Model, Timestamp) -> T) -> Answer<'_, T> {
        let mut inner = self.lock();
        let answer = if inner.closed {
            Err(StoreError::Closed)
        } else {
            let now = self.clock.now();
            let answer = run(&mut inner.model, now);
            inner.serve(now);
            Ok(answer)
        };
        drop(inner);
        Box::pin(std::future::ready(answer))
    }

    async fn lease_or_wait(&self, request: LeaseRequest) -> Result<Vec<LeasedJob>, StoreError> {
        let deadline = Instant::now() + request.wait;
        let mut parked = match self.lease_or_park(request)? {
            Parked::Answered(jobs) => return Ok(jobs),
            Parked::Waiting(parked) => parked,
        };
        let mut moves = self.clock.moves();
        loop {
            self.serve();
            // Whoever waits also sweeps: time may have moved, or a wake-up may have been lost.
            let sweep = deadline.min(Instant::now() + Duration::from_millis(dwell_core::limits::SWEEP));
            let woken = async {
                tokio::select! {
                    answer = parked.answer() => Some(answer),
                    _ = moves.changed() => None,
                }
            };
            match timeout_at(sweep, woken).await {
                Ok(Some(jobs)) => return Ok(jobs),
                Err(_) if Instant::now() >= deadline => return Ok(parked.leave()),
                Ok(None) | Err(_) => {}
            }
        }
    }

    fn lease_or_park(&self, request: LeaseRequest) -> Result<Parked<'_>, StoreError> {
        let mut inner = self.lock();
        if inner.closed {
            return Err(StoreError::Closed);
        }
        let now = self.clock.now();
        inner.serve(now);
        let jobs = inner.model.lease(now, &request);
        let waits = !request.wait.is_zero() && !matches!(request.from, LeaseFrom::Number(_));
        if !jobs.is_empty() || !waits {
            return Ok(Parked::Answered(jobs));
        }
        let (answer, receiver) = oneshot::channel();
        inner.waiting.push_back(Waiter { request, answer });
        Ok(Parked::Waiting(Place { store: self, receiver }))
    }

    fn serve(&self) {
        self.lock().serve(self.clock.now());
    }

    fn give_back(&self, jobs: Vec<LeasedJob>) {
        let now = self.clock.now();
        let mut inner = self.lock();
        inner.give_back(now, jobs);
        inner.serve(now);
    }
}

impl Inner {
    /// Serves those who wait, first come first, with what is ready for them.
    fn serve(&mut self, now: Timestamp) {
        self.waiting.retain(|waiter| !waiter.answer.is_closed());
        for waiter in std::mem::take(&mut self.waiting) {
            let jobs = self.model.lease(now, &waiter.request);
            if jobs.is_empty() {
                self.waiting.push_back(waiter);
            } else if let Err(jobs) = waiter.answer.send(jobs) {
                self.give_back(now, jobs);
            }
        }
    }

    /// Takes back jobs whose receiver has gone away.
    fn give_back(&mut self, now: Timestamp, jobs: Vec<LeasedJob>) {
        let release = Verdict::Release { delay: None, priority: None };
        let tokens = jobs.into_iter().filter_map(|job| job.token);
        self.model.settle(now, tokens.map(|token| Settle::new(token, release.clone())).collect());
    }

    fn waiting_for(&self, topic: &TopicName) -> u64 {
        let names = |waiter: &&Waiter| match &waiter.request.from {
            LeaseFrom::Pull(topics) => topics.contains(topic) && !waiter.answer.is_closed(),
            LeaseFrom::Push(_) | LeaseFrom::Number(_) => false,
        };
        self.waiting.iter().filter(names).count() as u64
    }
}

enum Parked<'a> {
    Answered(Vec<LeasedJob>),
    Waiting(Place<'a>),
}

/// A place in the queue of those who wait. Dropped, it gives back what it was answered with and nobody took.
struct Place<'a> {
    store: &'a ModelStore,
    receiver: oneshot::Receiver<Vec<LeasedJob>>,
}

impl Place<'_> {
    /// The jobs; none if the store was closed.
    async fn answer(&mut self) -> Vec<LeasedJob> {
        (&mut self.receiver).await.unwrap_or_default()
    }

    /// Gives up the place, with whatever came at the last moment.
    fn leave(mut self) -> Vec<LeasedJob> {
        self.receiver.close();
        self.receiver.try_recv().unwrap_or_default()
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.receiver.close();
        if let Ok(jobs) = self.receiver.try_recv() {
            self.store.give_back(jobs);
        }
    }
}

impl Store for ModelStore {
    fn put(&self, jobs: Vec<NewJob>) -> Answer<'_, Vec<Result<PutOutcome, PutError>>> {
        self.call(move |model, now| model.put(now, jobs))
    }

    fn lease(&self, request: LeaseRequest) -> Answer<'_, Vec<LeasedJob>> {
        Box::pin(self.lease_or_wait(request))
    }

    fn settle(&self, items: Vec<Settle>) -> Answer<'_, Vec<Result<(), LeaseLost>>> {
        self.call(move |model, now| model.settle(now, items))
    }

    fn change(&self, items: Vec<ChangeItem>) -> Answer<'_, Vec<Result<JobView, ChangeError>>> {
        self.call(move |model, now| model.change(now, items))
    }

    fn cancel(&self, items: Vec<CancelItem>) -> Answer<'_, Vec<Result<(), CancelError>>> {
        self.call(move |model, now| model.cancel(now, items))
    }

    fn get(&self, items: Vec<Lookup>) -> Answer<'_, Vec<Option<Found>>> {
        self.call(move |model, now| model.get(now, &items))
    }

    fn list(&self, query: ListQuery) -> Answer<'_, Result<Page, TopicError>> {
        self.call(move |model, now| model.list(now, &query))
    }

    fn topics(&self, query: TopicsQuery) -> Answer<'_, Vec<TopicInfo>> {
        let answer = self.call(move |model, now| model.topics(now, &query));
        Box::pin(async move {
            let mut topics = answer.await?;
            let inner = self.lock();
            for topic in &mut topics {
                topic.waiting = inner.waiting_for(&topic.name);
            }
            Ok(topics)
        })
    }

    fn topic(&self, name: TopicName) -> Answer<'_, Option<TopicInfo>> {
        let query = name.clone();
        let answer = self.call(move |model, now| model.topic(now, &query));
        Box::pin(async move {
            let topic = answer.await?;
            Ok(topic.map(|topic| TopicInfo { waiting: self.lock().waiting_for(&name), ..topic }))
        })
    }

    fn set_policy(&self, name: TopicName, policy: TopicPolicy) -> Answer<'_, Result<(), TopicError>> {
        self.call(move |model, now| model.set_policy(now, &name, policy))
    }

    fn pause(&self, name: TopicName, pause: SetPause) -> Answer<'_, Result<(), TopicError>> {
        self.call(move |model, now| model.pause(now, &name, pause))
    }

    fn redrive(&self, what: Redrive) -> Answer<'_, Result<Redriven, TopicError>> {
        self.call(move |model, now| model.redrive(now, &what))
    }

    fn purge(&self, name: TopicName, what: Purge) -> Answer<'_, Result<u64, TopicError>> {
        self.call(move |model, now| model.purge(now, &name, what))
    }

    fn timeline(&self, query: TimelineQuery) -> Answer<'_, Result<Vec<u64>, TopicError>> {
        self.call(move |model, now| model.timeline(now, &query))
    }

    fn status(&self) -> Answer<'_, Status> {
        let status = Status {
            store: "model".to_owned(),
            promise: "lost when the process ends".to_owned(),
            now: self.clock.now(),
            failed: None,
            troubles: Vec::new(),
            measures: Measures::default(),
        };
        Box::pin(std::future::ready(Ok(status)))
    }

    fn close(&self) -> Answer<'_, ()> {
        let mut inner = self.lock();
        inner.closed = true;
        // Dropping a waiter's sender answers it with nothing.
        inner.waiting.clear();
        drop(inner);
        Box::pin(std::future::ready(Ok(())))
    }
}
