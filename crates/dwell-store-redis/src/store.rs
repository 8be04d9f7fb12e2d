//! The store: its start, its background work, its end.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Duration;

use dwell_core::{
    Answer, CancelError, CancelItem, ChangeError, ChangeItem, Found, JobView, LeaseLost, LeaseRequest, LeasedJob,
    ListQuery, Lookup, Measures, NewJob, Page, Purge, PutError, PutOutcome, Redrive, Redriven, SetPause, Settle,
    Status, Store, StoreError, TimelineQuery, TopicError, TopicInfo, TopicName, TopicPolicy, TopicsQuery, limits,
};
use futures_util::stream::{self, StreamExt as _};
use redis::cmd;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::config::{Config, OpenError};
use crate::inner::Inner;
use crate::keys::{Keys, MAX_PARTITIONS};
use crate::link::{Link, Subscription};
use crate::status::{self, Health};
use crate::{script, waiters};

/// The layout of keys and records that this release reads and writes.
const LAYOUT: &str = "3";
/// How long a start waits for the first subscription; after that, the sweep does until it is there.
const FIRST_SUBSCRIPTION: Duration = Duration::from_secs(5);
/// Partitions that are swept at a time, and how often one after the other before others get their turn.
const SWEEPERS: usize = 8;
const SWEEPS: usize = 10;
/// How often the engine's health is looked at.
const EXAMINATION: Duration = Duration::from_secs(10);
/// How long an end waits for looks under way, so that what they find for nobody is given back.
const LAST_LOOKS: Duration = Duration::from_secs(2);

/// A store on Redis.
pub struct RedisStore {
    inner: Arc<Inner>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl RedisStore {
    /// Opens the store: connects, examines the engine, checks the layout, and begins to listen and to sweep.
    pub async fn open(config: &Config) -> Result<Self, OpenError> {
        if config.prefix.is_empty() || config.prefix.contains(['{', '}']) {
            return Err(OpenError::Prefix);
        }
        if !(1..=MAX_PARTITIONS).contains(&config.partitions) {
            return Err(OpenError::Partitions);
        }
        let unreachable = |error| OpenError::Unreachable { place: config.address.shown(), error };
        let link = Link::open(&config.address, config.wait).await.map_err(unreachable)?;
        let keys = Keys::new(&config.prefix, config.partitions);
        check_layout(&link, &keys, config).await?;
        let examined = status::examine(link.connection(), config.wait).await?;
        let health = Health::default();
        health.set(examined);
        let channels = (0..keys.partitions()).map(|partition| keys.channel(partition)).collect();
        let clock = Arc::clone(&config.clock);
        if clock.is_unset() {
            let time = link.connection().query(cmd("TIME").take(), &keys.layout()).await?;
            clock.set(status::engine_millis(time)?);
        }
        let inner = Inner::new(link, keys, clock, config.defaults.clone(), config.max_topics, health);
        let inner = Arc::new(inner);
        let (heard, wakes) = mpsc::unbounded_channel();
        let (subscribed, first) = oneshot::channel();
        let subscription = Subscription::new(config.address.clone(), channels);
        let tasks = vec![
            tokio::spawn(subscription.run(heard, subscribed)),
            tokio::spawn(pass_on(Arc::clone(&inner), wakes)),
            tokio::spawn(sweep(Arc::clone(&inner))),
            tokio::spawn(examine(Arc::clone(&inner), config.wait)),
        ];
        tokio::time::timeout(FIRST_SUBSCRIPTION, first).await.ok();
        Ok(Self { inner, tasks: Mutex::new(tasks) })
    }

    fn answer<'a, T: Send + 'a>(
        &'a self,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'a,
    ) -> Answer<'a, T> {
        Box::pin(async move {
            self.inner.check_open()?;
            work.await
        })
    }
}

impl Drop for RedisStore {
    fn drop(&mut self) {
        for task in self.tasks.lock().expect("nobody panics while holding it").drain(..) {
            task.abort();
        }
    }
}

/// Checks that the keys under the prefix are of this layout, or that there are none yet.
async fn check_layout(link: &Link, keys: &Keys, config: &Config) -> Result<(), OpenError> {
    let wanted = format!("{LAYOUT} partitions={}", config.partitions);
    let key = keys.layout();
    link.connection().query(cmd("SET").arg(&key).arg(&wanted).arg("NX").take(), &key).await?;
    let found = link.connection().query(cmd("GET").arg(&key).take(), &key).await?;
    let found: String = redis::from_redis_value(found).map_err(redis::RedisError::from)?;
    if found == wanted {
        return Ok(());
    }
    Err(OpenError::Layout { prefix: config.prefix.clone(), found, wanted })
}

/// Passes wake-ups on to those who wait.
async fn pass_on(inner: Arc<Inner>, mut wakes: mpsc::UnboundedReceiver<crate::link::Wake>) {
    while let Some(wake) = wakes.recv().await {
        inner.waiters.wake(&wake);
    }
}

/// Sees to what time does, every sweep or when the clock is moved.
async fn sweep(inner: Arc<Inner>) {
    let mut moves = inner.clock.moves();
    loop {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(limits::SWEEP / 2)) => {}
            _ = moves.changed() => {}
        }
        let inner = &inner;
        let partitions = stream::iter(0..inner.keys.partitions());
        // Much to do in a few partitions keeps no other waiting.
        let sweep = |partition| async move {
            if let Err(error) = sweep_partition(inner, partition).await {
                tracing::debug!(%error, partition, "the sweep could not look");
            }
        };
        partitions.for_each_concurrent(SWEEPERS, sweep).await;
    }
}

/// Sees to what time has done in a partition, until nothing is left, within reason: the next sweep goes on.
async fn sweep_partition(inner: &Inner, partition: usize) -> Result<(), StoreError> {
    for _ in 0..SWEEPS {
        let mut reply = inner.ask(inner.call(&script::AGENDA, partition).int(100)).await?;
        inner.saw(reply.time()?);
        let topics = crate::verbs::read_names(reply.value()?)?;
        if topics.is_empty() {
            return Ok(());
        }
        for topic in topics {
            inner.pass_topic(&topic, 20).await?;
        }
    }
    Ok(())
}

/// Looks at the engine's health now and then.
async fn examine(inner: Arc<Inner>, wait: u32) {
    loop {
        tokio::time::sleep(EXAMINATION).await;
        match status::examine(inner.link.connection(), wait).await {
            Ok(examined) => inner.health.set(examined),
            Err(error) => {
                let mut examined = inner.health.get();
                examined.troubles = vec![error.to_string()];
                inner.health.set(examined);
            }
        }
    }
}

impl Store for RedisStore {
    fn put(&self, jobs: Vec<NewJob>) -> Answer<'_, Vec<Result<PutOutcome, PutError>>> {
        self.answer(self.inner.put(jobs))
    }

    fn lease(&self, request: LeaseRequest) -> Answer<'_, Vec<LeasedJob>> {
        self.answer(waiters::lease(&self.inner, request))
    }

    fn settle(&self, items: Vec<Settle>) -> Answer<'_, Vec<Result<(), LeaseLost>>> {
        self.answer(self.inner.settle(items))
    }

    fn change(&self, items: Vec<ChangeItem>) -> Answer<'_, Vec<Result<JobView, ChangeError>>> {
        self.answer(self.inner.change(items))
    }

    fn cancel(&self, items: Vec<CancelItem>) -> Answer<'_, Vec<Result<(), CancelError>>> {
        self.answer(self.inner.cancel(items))
    }

    fn get(&self, items: Vec<Lookup>) -> Answer<'_, Vec<Option<Found>>> {
        self.answer(self.inner.get(items))
    }

    fn list(&self, query: ListQuery) -> Answer<'_, Result<Page, TopicError>> {
        self.answer(async move { self.inner.list(&query).await })
    }

    fn topics(&self, query: TopicsQuery) -> Answer<'_, Vec<TopicInfo>> {
        self.answer(async move { self.inner.topics(&query).await })
    }

    fn topic(&self, name: TopicName) -> Answer<'_, Option<TopicInfo>> {
        self.answer(async move { self.inner.topic(&name).await })
    }

    fn set_policy(&self, name: TopicName, policy: TopicPolicy) -> Answer<'_, Result<(), TopicError>> {
        self.answer(async move { self.inner.set_policy(&name, &policy).await })
    }

    fn pause(&self, name: TopicName, pause: SetPause) -> Answer<'_, Result<(), TopicError>> {
        self.answer(async move { self.inner.pause(&name, pause).await })
    }

    fn redrive(&self, what: Redrive) -> Answer<'_, Result<Redriven, TopicError>> {
        self.answer(self.inner.redrive(what))
    }

    fn purge(&self, name: TopicName, what: Purge) -> Answer<'_, Result<u64, TopicError>> {
        self.answer(async move { self.inner.purge(&name, what).await })
    }

    fn timeline(&self, query: TimelineQuery) -> Answer<'_, Result<Vec<u64>, TopicError>> {
        self.answer(async move { self.inner.timeline(&query).await })
    }

    fn status(&self) -> Answer<'_, Status> {
        Box::pin(async move {
            let mut examined = self.inner.health.get();
            // Whether it answers at all is told by asking for the time.
            let asked = self.inner.ask(self.inner.call(&script::AGENDA, 0).int(1)).await;
            let now = match asked.and_then(|mut reply| Ok(reply.time()?)) {
                Ok(now) => now,
                Err(error) => {
                    examined.troubles.push(error.to_string());
                    self.inner.about_now()
                }
            };
            self.inner.saw(now);
            Ok(Status {
                store: "redis".to_owned(),
                promise: examined.promise,
                now,
                failed: None,
                troubles: examined.troubles,
                measures: Measures::default(),
            })
        })
    }

    fn close(&self) -> Answer<'_, ()> {
        Box::pin(async move {
            self.inner.closed.store(true, Ordering::SeqCst);
            self.inner.waiters.close();
            if tokio::time::timeout(LAST_LOOKS, self.inner.looks.end()).await.is_err() {
                tracing::warn!("Redis did not answer; leases that nobody received run out");
            }
            for task in self.tasks.lock().expect("nobody panics while holding it").drain(..) {
                task.abort();
            }
            Ok(())
        })
    }
}
