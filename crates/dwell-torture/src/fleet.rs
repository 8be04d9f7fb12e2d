//! Clients that put, cancel, move, lease and settle, and write down what they heard.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use dwell_client::{Client, Error, JobsQuery, TopicsQuery};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::Outcome;
use crate::checker::{FAILED, UNREADABLE};
use crate::clock::Clock;
use crate::history::{Answer, Ask, History};
use crate::job::{ALL_TOPICS, Key, scramble};

mod consumer;
mod writer;

/// How much is asked of a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) writers: u16,
    /// Jobs of a batch, at most. The first writer puts jobs one by one.
    pub(crate) batch: u32,
    /// How long a writer rests after each batch.
    pub(crate) rest: Duration,
    pub(crate) consumers: u16,
    /// Jobs of a lease call, at most.
    pub(crate) lease: u32,
    /// Time-to-run of leases, in milliseconds.
    pub(crate) ttr: u64,
}

impl Load {
    /// Every verb, in small batches.
    pub(crate) const MIXED: Self =
        Self { writers: 6, batch: 40, rest: Duration::from_millis(3), consumers: 4, lease: 30, ttr: 1_000 };

    /// As many puts as will go.
    pub(crate) const FULL: Self =
        Self { writers: 5, batch: 1_000, rest: Duration::ZERO, consumers: 1, lease: 200, ttr: 2_000 };
}

/// The last phases of a round.
const LOADING: u8 = 0;
const DRAINING: u8 = 1;
const OVER: u8 = 2;

/// How long a drain may go on without getting anywhere.
const STUCK: Duration = Duration::from_secs(25);

/// The clients of one round.
pub(crate) struct Fleet {
    shared: Arc<Shared>,
    writers: JoinSet<()>,
    consumers: JoinSet<()>,
    server: watch::Sender<Option<Client>>,
}

/// What all clients of a round know.
struct Shared {
    round: u32,
    load: Load,
    history: History,
    clock: Clock,
    phase: AtomicU8,
    /// What each writer puts next.
    next: Vec<AtomicU32>,
    stored: AtomicU64,
    server: watch::Receiver<Option<Client>>,
}

impl Fleet {
    /// Sends out the clients. They wait until there is a server.
    pub(crate) fn new(round: u32, load: Load, history: History, clock: Clock) -> Self {
        let (server, receiver) = watch::channel(None);
        let next = (0..load.writers).map(|_| AtomicU32::new(0)).collect();
        let (phase, stored) = (AtomicU8::new(LOADING), AtomicU64::new(0));
        let shared = Arc::new(Shared { round, load, history, clock, phase, next, stored, server: receiver });
        let (mut writers, mut consumers) = (JoinSet::new(), JoinSet::new());
        for writer in 0..load.writers {
            writers.spawn(writer::run(Arc::clone(&shared), writer));
        }
        for _ in 0..load.consumers {
            consumers.spawn(consumer::run(Arc::clone(&shared)));
        }
        Self { shared, writers, consumers, server }
    }

    pub(crate) fn history(&self) -> &History {
        &self.shared.history
    }

    /// Jobs whose put was answered so far.
    pub(crate) fn stored(&self) -> u64 {
        self.shared.stored.load(Ordering::Relaxed)
    }

    /// There is a server, from now on.
    pub(crate) fn server_is(&self, client: &Client) {
        self.shared.history.up();
        self.server.send_replace(Some(client.clone()));
    }

    /// There is none, from now on.
    pub(crate) fn server_is_gone(&self) {
        self.server.send_replace(None);
    }

    /// Puts no more; consumes and cancels all there is, and says what could not be. An error if the server ends.
    pub(crate) async fn drain(mut self, mut runs: impl FnMut() -> Outcome<bool>) -> Outcome<History> {
        self.shared.phase.store(DRAINING, Ordering::SeqCst);
        // What is on its way is put, too.
        while let Some(ended) = self.writers.join_next().await {
            ended?;
        }
        let (mut best, mut since) = (u64::MAX, self.shared.clock.elapsed());
        let mut reaping = Some(tokio::spawn(writer::reap(Arc::clone(&self.shared))));
        let left = loop {
            if !runs()? {
                return Err("the server ended by itself".into());
            }
            if let Some(task) = reaping.take_if(|task| task.is_finished()) {
                task.await?;
            }
            let client = self.shared.server.borrow().clone().ok_or("nothing can be drained without a server")?;
            let now = self.shared.clock.elapsed();
            let live = count(&client).await.unwrap_or(u64::MAX);
            if live == 0 && reaping.is_none() {
                break Vec::new();
            }
            if live < best {
                (best, since) = (live, now);
            }
            if now.saturating_sub(since) > STUCK {
                break list(&client).await?;
            }
            sleep(Duration::from_millis(40)).await;
        };
        self.shared.phase.store(OVER, Ordering::SeqCst);
        while let Some(ended) = self.consumers.join_next().await {
            ended?;
        }
        self.shared.history.left(left);
        let shared = Arc::into_inner(self.shared).ok_or("every client has gone home")?;
        Ok(shared.history)
    }
}

impl Shared {
    fn is(&self, phase: u8) -> bool {
        self.phase.load(Ordering::SeqCst) == phase
    }

    /// A server to ask, once there is one; `None` if none came for a while.
    async fn client(&self) -> Option<Client> {
        let mut server = self.server.clone();
        let found = timeout(Duration::from_millis(100), server.wait_for(Option::is_some)).await;
        found.ok()?.ok()?.clone()
    }

    /// Asks something, and writes down what came of it.
    async fn ask<T>(
        &self,
        ask: Ask,
        call: impl Future<Output = Result<T, Error>>,
        read: impl FnOnce(&T) -> Answer,
    ) -> Option<T> {
        let number = self.history.call(ask);
        match call.await {
            Ok(answer) => {
                self.history.done(number, read(&answer));
                Some(answer)
            }
            Err(error) => {
                let answer = failure(&error);
                let rest = if matches!(answer, Answer::Refused(_)) { 1 } else { 20 };
                self.history.done(number, answer);
                // Whoever is refused, or finds nobody, does not ask again at once.
                sleep(Duration::from_millis(rest)).await;
                None
            }
        }
    }

    /// A number below `sides` that differs from call to call.
    fn chance(&self, who: u64, sides: u64) -> u64 {
        scramble(self.clock.micros() ^ (who << 50)) % sides
    }
}

/// What an error means for what was asked.
fn failure(error: &Error) -> Answer {
    match error {
        Error::Unreachable { .. } => Answer::Unsent,
        Error::Lost { .. } => Answer::Unknown("lost".to_owned()),
        Error::NotDwell { reason, .. } => Answer::Unknown(reason.clone()),
        Error::Problem(problem) => match problem.code.as_str() {
            // Something else than a store that has failed: one that goes on, but for what it cannot read.
            FAILED if problem.detail.contains("nothing was done") => Answer::Refused(UNREADABLE.to_owned()),
            code @ (FAILED | "internal") => Answer::Unknown(code.to_owned()),
            code => Answer::Refused(code.to_owned()),
        },
    }
}

/// How many jobs a server has.
pub(crate) async fn count(client: &Client) -> Result<u64, Error> {
    let page = client.topics(TopicsQuery { limit: Some(1_000), ..TopicsQuery::default() }).await?;
    let live = page.topics.iter().map(|topic| &topic.counts);
    Ok(live.map(|counts| counts.delayed + counts.ready + counts.leased + counts.buried).sum())
}

/// Which jobs a server has. One that is not ours is of no round.
async fn list(client: &Client) -> Outcome<Vec<Key>> {
    let mut keys = Vec::new();
    for topic in ALL_TOPICS {
        let mut cursor = None;
        loop {
            let query = JobsQuery { state: None, limit: Some(1_000), cursor: cursor.as_deref() };
            let page = match client.jobs(topic, query).await {
                Ok(page) => page,
                Err(error) if error.code().is_some_and(|code| code.status() == 404) => break,
                Err(error) => return Err(error.into()),
            };
            keys.extend(page.jobs.iter().map(|job| Key::parse(&job.id).unwrap_or(Key(u32::MAX, 0, 0))));
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
    }
    Ok(keys)
}
