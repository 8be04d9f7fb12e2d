//! The store as others see it: calls go to the engine's thread, answers come back when they are durable.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::thread::{self, JoinHandle};

use dwell_core::{
    Answer, CancelError, CancelItem, ChangeError, ChangeItem, Found, JobView, LeaseLost, LeaseRequest, LeasedJob,
    ListQuery, Lookup, Measures, NewJob, Page, Purge, PutError, PutOutcome, Redrive, Redriven, SetPause, Settle, Sizes,
    Status, Store, StoreError, TimelineQuery, TopicError, TopicInfo, TopicName, TopicPolicy, TopicsQuery,
};
use tokio::sync::{OnceCell, Semaphore, oneshot};

use crate::cold::compactor::{Compactor, Task};
use crate::cold::reader;
use crate::config::{Config, Durability, Place};
use crate::disk_space::{NoSpace as _, Reserve};
use crate::engine::{ColdRead, Command, Recounted, Settings};
use crate::format::key::Lane;
use crate::format::manifest::Manifest;
use crate::format::{manifest, run, segment, tombstone_file, topics};
use crate::gauges::Gauges;
use crate::journal::{Journal, Spares, Work};
use crate::recovery::{self, OpenError, Recovered, io_error};
use crate::runner::{Event, Runner, Shown};
use crate::stepper::Stepper;
use crate::storage::{DiskStorage, Storage};

/// Room for calls that wait for the engine, in units of a kibibyte: 64 MiB.
const QUEUE_KIB: usize = 64 << 10;

/// How nice threads are that can wait: such get about a tenth of a core that others want too. Puts wait for them before
/// they fall far behind.
const BACKGROUND_NICE: i32 = 10;

/// What a store calls itself that keeps nothing when the process ends.
const MEMORY_KIND: &str = "memory";

/// A store in one directory of one process.
///
/// Every method can be called from any thread and any async runtime.
pub struct EmbeddedStore {
    events: Sender<Event>,
    room: Arc<Semaphore>,
    shown: Arc<Mutex<Shown>>,
    gauges: Arc<Gauges>,
    spares: Spares,
    promise: String,
    kind: &'static str,
    recounted: Option<Recounted>,
    closed: AtomicBool,
    closing: OnceCell<Result<(), StoreError>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl EmbeddedStore {
    /// Opens a store, creating it if there is none. Reads back what the last run left; that takes a moment, so call it
    /// where blocking is fine.
    pub fn open(config: &Config) -> Result<Self, OpenError> {
        let (store, parts) = Self::assemble(config)?;
        let Parts { runner, mut journal, work, mut compactor, tasks, reads, storage, .. } = parts;
        let (read, compacted) = (store.events.clone(), store.events.clone());
        let events = store.events.clone();
        let filler = store.spares.clone();
        let threads = vec![
            spawn("dwell-journal", move || journal.run(&work, &events)),
            spawn("dwell-engine", move || runner.run()),
            spawn("dwell-reader", move || read_for(&reads, &read)),
            spawn_behind("dwell-spares", move || filler.run(&*storage)),
            spawn_behind("dwell-cold", move || compactor.run(&tasks, &compacted)),
        ];
        *store.threads.lock().unwrap_or_else(PoisonError::into_inner) = threads;
        Ok(store)
    }

    /// Opens a store without threads: nothing happens but what the [`Stepper`] is told to do. For simulators.
    #[doc(hidden)]
    pub fn open_stepped(config: &Config) -> Result<(Self, Stepper), OpenError> {
        let (store, parts) = Self::assemble(config)?;
        let stepper = Stepper::new(parts, store.events.clone(), store.spares.clone());
        Ok((store, stepper))
    }

    fn assemble(config: &Config) -> Result<(Self, Parts), OpenError> {
        let (storage, kind): (Arc<dyn Storage>, _) = match &config.place {
            Place::Directory(directory) => (Arc::new(DiskStorage::open(directory)?), "embedded"),
            Place::Storage(storage) => (Arc::clone(storage), MEMORY_KIND),
        };
        let recovered = recovery::recover(&storage, settings(config), &*config.clock, config.accept_clock)?;
        let store_failed = |error| io_error(&*storage, manifest::NAME, error);
        let reserve = Reserve::open(Arc::clone(&storage), config.tail + 3 * config.segment, config.segment);
        let begin = || manifest::store(&*storage, &recovered.manifest);
        match reserve.retry_on_enospc(0, begin) {
            // Nobody knows of the spares yet.
            Err(error) if error.is_no_space() && remove_spare(&*storage) => begin(),
            begun => begun,
        }
        .map_err(store_failed)?;
        remove_leftovers(&*storage, &recovered.manifest).map_err(store_failed)?;
        let spares = Spares::adopt(&*storage, config.segment, reserve.clone()).map_err(store_failed)?;
        Ok(Self::make(config, storage, kind, recovered, (spares, reserve)))
    }

    fn make(
        config: &Config,
        storage: Arc<dyn Storage>,
        kind: &'static str,
        recovered: Recovered,
        (spares, reserve): (Spares, Reserve),
    ) -> (Self, Parts) {
        let Recovered { engine, manifest, timeline, recounted } = recovered;
        let (events, inbox) = mpsc::channel();
        let (journal_work, work) = mpsc::channel();
        let (reader, reads) = mpsc::channel();
        let (tasks_for, tasks) = mpsc::channel();
        let compactor = Compactor::new(
            Arc::clone(&storage),
            Arc::clone(&config.clock),
            reserve.clone(),
            engine.cold_view(),
            config.block,
            config.segment,
        );
        reserve.note_begun(engine.journal().segment.saturating_sub(1));
        let room = reserve.trouble();
        let sizes = Sizes { disk_free: reserve.free(), ..engine.sizes() };
        let shown = Shown { now: engine.now(), failed: None, clock: None, cold: engine.troubles(), room, sizes };
        let shown = Arc::new(Mutex::new(shown));
        let journal = Journal::new(
            Arc::clone(&storage),
            Arc::clone(&config.clock),
            config.durability,
            manifest.epoch,
            spares.clone(),
            reserve.clone(),
            Arc::clone(&engine.gauges),
        );
        let gauges = Arc::clone(&engine.gauges);
        let runner = Runner {
            engine,
            clock: Arc::clone(&config.clock),
            timeline,
            manifest,
            shown: Arc::clone(&shown),
            events: inbox,
            journal: journal_work,
            reader,
            compactor: tasks_for,
            reserve,
            held: VecDeque::new(),
            checked_at: config.clock.real(),
            in_flight: false,
            closing: None,
            backlog: VecDeque::new(),
            busy: false,
            before_calls: 0,
        };
        let store = Self {
            events,
            room: Arc::new(Semaphore::new(QUEUE_KIB)),
            shown,
            gauges,
            spares,
            promise: promise(kind, config.durability),
            kind,
            recounted,
            closed: AtomicBool::new(false),
            closing: OnceCell::new(),
            threads: Mutex::default(),
        };
        (store, Parts { runner, journal, work, compactor, tasks, reads, storage, recounted })
    }

    /// What the start had to set right in the cold tier, for the log: jobs that an earlier build had left out of every
    /// order, or counted though they were not there.
    pub fn set_right(&self) -> Option<String> {
        let Recounted { found, absent } = self.recounted?;
        Some(format!(
            "the cold tier was counted anew: {found} jobs were in no order and are back, {absent} were counted and are \
             not there"
        ))
    }

    /// Sends a command and awaits its answer.
    async fn call<T>(
        &self,
        bytes: usize,
        command: impl FnOnce(oneshot::Sender<Result<T, StoreError>>) -> Command,
    ) -> Result<T, StoreError> {
        let room = u32::try_from((bytes / 1_024 + 1).min(QUEUE_KIB)).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.room).acquire_many_owned(room).await.map_err(|_| StoreError::Closed)?;
        let (reply, answer) = oneshot::channel();
        self.events.send(Event::Call(command(reply), room)).map_err(|_| self.unanswered())?;
        answer.await.unwrap_or_else(|_| Err(self.unanswered()))
    }

    async fn lease_call(&self, request: LeaseRequest) -> Result<Vec<LeasedJob>, StoreError> {
        let room = Arc::clone(&self.room).acquire_owned().await.map_err(|_| StoreError::Closed)?;
        let (reply, answer) = oneshot::channel();
        self.events.send(Event::Call(Command::Lease { request, reply }, room)).map_err(|_| self.unanswered())?;
        Leasing { answer, store: self }.await
    }

    /// Why a call gets no answer: the store was closed, or its thread has died.
    fn unanswered(&self) -> StoreError {
        if self.closed.load(Ordering::SeqCst) {
            StoreError::Closed
        } else {
            StoreError::Failed { detail: "the engine has stopped".to_owned() }
        }
    }

    async fn close_once(&self) -> Result<(), StoreError> {
        self.closed.store(true, Ordering::SeqCst);
        let (done, outcome) = oneshot::channel();
        drop(self.events.send(Event::Close(done)));
        self.spares.stop();
        // Without a word from the journal nobody knows what is durable.
        let detail = || self.shown().failed.unwrap_or_else(|| "the journal ended without a word".to_owned());
        outcome.await.unwrap_or_else(|_| Err(StoreError::Failed { detail: detail() }))
    }

    fn shown(&self) -> Shown {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What a store runs on: in threads of their own, or step by step.
pub(crate) struct Parts {
    pub(crate) runner: Runner,
    pub(crate) journal: Journal,
    pub(crate) work: Receiver<Work>,
    pub(crate) compactor: Compactor,
    pub(crate) tasks: Receiver<Task>,
    pub(crate) reads: Receiver<ColdRead>,
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) recounted: Option<Recounted>,
}

/// A lease under way. Dropped after it was answered and before anyone looked, it gives the jobs back.
struct Leasing<'a> {
    answer: oneshot::Receiver<Result<Vec<LeasedJob>, StoreError>>,
    store: &'a EmbeddedStore,
}

impl Future for Leasing<'_> {
    type Output = Result<Vec<LeasedJob>, StoreError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = ready!(Pin::new(&mut self.answer).poll(context));
        Poll::Ready(answer.unwrap_or_else(|_| Err(self.store.unanswered())))
    }
}

impl Drop for Leasing<'_> {
    fn drop(&mut self) {
        self.answer.close();
        if let Ok(Ok(jobs)) = self.answer.try_recv() {
            let tokens = jobs.iter().filter_map(|job| job.token).collect();
            drop(self.store.events.send(Event::Urgent(Command::GiveBack { tokens })));
        }
    }
}

impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        let (done, _) = oneshot::channel();
        drop(self.events.send(Event::Close(done)));
        self.spares.stop();
        for thread in self.threads.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            drop(thread.join());
        }
    }
}

impl Store for EmbeddedStore {
    fn put(&self, jobs: Vec<NewJob>) -> Answer<'_, Vec<Result<PutOutcome, PutError>>> {
        let bytes = jobs.iter().map(|new| 256 + new.body.len()).sum();
        Box::pin(self.call(bytes, |reply| Command::Put { jobs, reply }))
    }

    fn lease(&self, request: LeaseRequest) -> Answer<'_, Vec<LeasedJob>> {
        Box::pin(self.lease_call(request))
    }

    fn settle(&self, items: Vec<Settle>) -> Answer<'_, Vec<Result<(), LeaseLost>>> {
        Box::pin(self.call(items.len() * 64, |reply| Command::Settle { items, reply }))
    }

    fn change(&self, items: Vec<ChangeItem>) -> Answer<'_, Vec<Result<JobView, ChangeError>>> {
        let body = |item: &ChangeItem| item.change.body.as_ref().map_or(0, dwell_core::Body::len);
        let bytes = items.iter().map(|item| 256 + body(item)).sum();
        Box::pin(self.call(bytes, |reply| Command::Change { items, reply }))
    }

    fn cancel(&self, items: Vec<CancelItem>) -> Answer<'_, Vec<Result<(), CancelError>>> {
        Box::pin(self.call(items.len() * 64, |reply| Command::Cancel { items, reply }))
    }

    fn get(&self, items: Vec<Lookup>) -> Answer<'_, Vec<Option<Found>>> {
        Box::pin(self.call(items.len() * 64, |reply| Command::Get { items, reply }))
    }

    fn list(&self, query: ListQuery) -> Answer<'_, Result<Page, TopicError>> {
        Box::pin(self.call(0, move |reply| Command::List { query, reply }))
    }

    fn topics(&self, query: TopicsQuery) -> Answer<'_, Vec<TopicInfo>> {
        Box::pin(self.call(0, move |reply| Command::Topics { query, reply }))
    }

    fn topic(&self, name: TopicName) -> Answer<'_, Option<TopicInfo>> {
        Box::pin(self.call(0, move |reply| Command::Topic { name, reply }))
    }

    fn set_policy(&self, name: TopicName, policy: TopicPolicy) -> Answer<'_, Result<(), TopicError>> {
        Box::pin(self.call(0, move |reply| Command::SetPolicy { name, policy, reply }))
    }

    fn pause(&self, name: TopicName, pause: SetPause) -> Answer<'_, Result<(), TopicError>> {
        Box::pin(self.call(0, move |reply| Command::Pause { name, pause, reply }))
    }

    fn redrive(&self, what: Redrive) -> Answer<'_, Result<Redriven, TopicError>> {
        Box::pin(self.call(0, move |reply| Command::Redrive { what, reply }))
    }

    fn purge(&self, name: TopicName, what: Purge) -> Answer<'_, Result<u64, TopicError>> {
        Box::pin(self.call(0, move |reply| Command::Purge { name, what, reply }))
    }

    fn timeline(&self, query: TimelineQuery) -> Answer<'_, Result<Vec<u64>, TopicError>> {
        Box::pin(self.call(0, move |reply| Command::Timeline { query, reply }))
    }

    fn status(&self) -> Answer<'_, Status> {
        Box::pin(async move {
            let (reply, time) = oneshot::channel();
            let asked = self.events.send(Event::Time(reply)).is_ok();
            // A store that is closed goes on showing what it last knew.
            let now = if asked { time.await.ok() } else { None };
            let shown = self.shown();
            Ok(Status {
                store: self.kind.to_owned(),
                promise: self.promise.clone(),
                now: now.unwrap_or(shown.now),
                failed: shown.failed,
                troubles: shown.clock.into_iter().chain(shown.cold).chain(shown.room).collect(),
                measures: Measures { sizes: Some(shown.sizes), ..self.gauges.read() },
            })
        })
    }

    fn close(&self) -> Answer<'_, ()> {
        Box::pin(async move { self.closing.get_or_init(|| self.close_once()).await.clone() })
    }
}

/// What an engine is to know of how the store is set up.
pub(crate) fn settings(config: &Config) -> Settings {
    Settings {
        defaults: config.defaults.clone(),
        max_topics: config.max_topics,
        memory: config.memory,
        segment: config.segment,
        cold_tier: config.cold_tier,
        tail: config.tail,
        lanes: config.lanes.min(Lane::OWN),
        seed: config.seed,
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    thread::Builder::new().name(name.to_owned()).spawn(run).expect("the system can start a thread")
}

/// The same for a thread that runs when no other wants to, or nearly so.
fn spawn_behind(name: &str, run: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    spawn(name, || {
        // Of the thread that reads. A system that refuses lets it run like the others.
        rustix::process::setpriority_process(None, BACKGROUND_NICE).ok();
        run();
    })
}

fn promise(kind: &str, durability: Durability) -> String {
    match durability {
        _ if kind == MEMORY_KIND => "everything is gone when the process ends".to_owned(),
        Durability::Sync => "an answered success survives a power cut".to_owned(),
        Durability::Interval(interval) => {
            format!("a power cut loses at most the last {} ms of answered successes", interval.as_millis())
        }
        Durability::None => "a power cut loses what the system had not yet written by itself".to_owned(),
    }
}

/// Reads what is asked for until nobody asks any more.
fn read_for(reads: &Receiver<ColdRead>, events: &Sender<Event>) {
    while let Ok(ColdRead { id, view, question }) = reads.recv() {
        drop(events.send(Event::Read(id, reader::answer(&view, &question))));
    }
}

/// Gives up a file that was to become a segment; whether there was one.
fn remove_spare(storage: &dyn Storage) -> bool {
    let spare =
        storage.list().ok().and_then(|names| names.into_iter().find(|name| name.starts_with(segment::SPARE_PREFIX)));
    spare.is_some_and(|name| storage.remove(&name).is_ok())
}

/// Removes what a run that was cut short has left and nobody needs.
fn remove_leftovers(storage: &dyn Storage, manifest: &Manifest) -> std::io::Result<()> {
    let named = |run: u64| manifest.runs.iter().find(|name| name.run == run);
    for name in storage.list()? {
        // A stamp may come again, as long as nothing new is logged: what is left to be removed later would then be in use.
        let old = segment::parse_name(&name).is_some_and(|id| id < manifest.first_segment)
            || topics::parse_name(&name).is_some_and(|stamp| Some(stamp) != manifest.topics)
            || run::parse_name(&name).is_some_and(|run| named(run).is_none())
            || tombstone_file::parse_name(&name)
                .is_some_and(|(run, stamp)| named(run).is_none_or(|name| name.dead != Some(stamp)));
        if old || name == topics::NEW_NAME || name == manifest::NEW_NAME {
            storage.remove(&name)?;
        }
    }
    Ok(())
}
