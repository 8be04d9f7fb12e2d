//! A worker: takes jobs as they become due, calls a handler for each, and settles them by what it says.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use dwell_client::{Client, Retry, Work, Worker};
//!
//! async fn close(order: &str) -> Result<bool, std::io::Error> {
//!     # let _ = order;
//!     # Ok(true)
//! }
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let dwell = Client::new("http://127.0.0.1:3935", None)?;
//! let worker = Worker::new(dwell, ["orders.close"]).concurrency(20);
//! worker
//!     .run(
//!         |work: Work| async move {
//!             // An error is a failed attempt: the job's retry policy says when it comes again.
//!             if !close(&work.id).await? {
//!                 // Or say it yourself.
//!                 return Err(Retry::after(Duration::from_secs(60), "the till is busy"));
//!             }
//!             Ok(()) // done: the job is gone
//!         },
//!         async { tokio::signal::ctrl_c().await.unwrap_or(()) },
//!     )
//!     .await?;
//! # Ok(())
//! # }
//! ```
//!
//! - **Leases** are extended in the background while a handler runs, for as long as it runs. If one is lost all the same
//!   (the server was away for longer than it lasted, or someone revoked it), [`Work::lost`] tells the handler, and what
//!   it says is not sent: the job is somebody else's by then.
//! - **A server that is away** is asked again, after rests that grow to 5 s. What a handler said is sent until it was
//!   heard or the lease has run out.
//! - **Shutdown**: when the future given to [`Worker::run`] ends, no job is begun any more. Those under way are finished
//!   and settled; those that came and were not begun are released, uncounted. Whoever cannot wait drops the run: the
//!   jobs then come again when their leases run out.
//! - A handler that **panics** has failed.

mod hold;
mod outcome;

use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use dwell_wire::job::Job;
use dwell_wire::lease::LeaseRequest;
use dwell_wire::settle::{SettleItem, SettleItems, Terms, Verb};
use dwell_wire::{Code, Duration as Millis};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep};

pub use self::hold::Work;
use self::hold::{End, Held};
pub use self::outcome::{Event, Retry, Tally};
use crate::client::Client;
use crate::error::Error;

/// How long one request for jobs waits.
const WAIT: Duration = Duration::from_secs(20);

/// The first rest after a server did not answer, and the longest.
const REST: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// How long to rest after an answer that came too soon, as from a server that is about to stop.
const SOON: Duration = Duration::from_secs(1);

/// Jobs of one request, at the most: the server allows no more.
const MOST: u32 = 1_000;

/// Takes jobs and has them done. See the [module](self).
#[derive(Clone)]
pub struct Worker {
    client: Client,
    topics: Vec<String>,
    concurrency: u32,
    ttr: Option<Duration>,
    consumer: Option<String>,
    observer: Observer,
}

/// Who is told of what happens.
type Observer = Arc<dyn Fn(&Event) + Send + Sync>;

impl Worker {
    /// A worker on these topics, which does one job at a time.
    pub fn new(client: Client, topics: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let topics = topics.into_iter().map(Into::into).collect();
        Self { client, topics, concurrency: 1, ttr: None, consumer: None, observer: Arc::new(|_| {}) }
    }

    /// How many jobs may be under way at once; at least one.
    #[must_use]
    pub fn concurrency(self, concurrency: u32) -> Self {
        Self { concurrency: concurrency.max(1), ..self }
    }

    /// How long a lease lasts between two extensions, 1 s to 24 h; what the job or its topic says if this is not said.
    /// It is how long a job stays away after this process was killed.
    #[must_use]
    pub fn ttr(self, ttr: Duration) -> Self {
        Self { ttr: Some(ttr), ..self }
    }

    /// What to be called, for people who look who holds a job.
    #[must_use]
    pub fn consumer(self, name: impl Into<String>) -> Self {
        Self { consumer: Some(name.into()), ..self }
    }

    /// Who is told of failures, lost leases and a server that is away: the place for a log.
    #[must_use]
    pub fn on_event(self, observer: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        Self { observer: Arc::new(observer), ..self }
    }

    /// Works until `shutdown` ends, then finishes what is under way. Fails only if the server refuses the worker itself:
    /// its token, or its topics.
    pub async fn run<H, F>(self, handler: H, shutdown: impl Future<Output = ()>) -> Result<Tally, Error>
    where
        H: Fn(Work) -> F + Send + Sync + 'static,
        F: Future<Output = Result<(), Retry>> + Send + 'static,
    {
        let (handler, mut shutdown) = (Arc::new(handler), pin!(shutdown));
        let (mut running, mut tally) = (JoinSet::new(), Tally::default());
        let mut rests = Rests::default();
        let outcome = loop {
            let free =
                self.concurrency - u32::try_from(running.len()).unwrap_or(self.concurrency).min(self.concurrency);
            if free == 0 {
                tokio::select! {
                    () = &mut shutdown => break Ok(()),
                    Some(done) = running.join_next() => count(&mut tally, done),
                }
                continue;
            }
            let mut asking = pin!(self.ask(free, &mut rests));
            let jobs = loop {
                tokio::select! {
                    biased;
                    () = &mut shutdown => break None,
                    jobs = &mut asking => break Some(jobs),
                    Some(done) = running.join_next() => count(&mut tally, done),
                }
            };
            match jobs {
                Some(Ok(jobs)) => {
                    for job in jobs {
                        let held = Held::new(self.client.clone(), job, self.ttr, Arc::clone(&self.observer));
                        let handler = Arc::clone(&handler);
                        running.spawn(held.work(move |work| handler(work)));
                    }
                }
                Some(Err(error)) => break Err(error),
                None => {
                    self.drain(asking, &mut running, &mut tally).await;
                    break Ok(());
                }
            }
        };
        while let Some(done) = running.join_next().await {
            count(&mut tally, done);
        }
        outcome.map(|()| tally)
    }

    /// Waits for what is under way. The last question is still open until then: what comes of it is given back.
    async fn drain(
        &self,
        mut asking: Pin<&mut impl Future<Output = Result<Vec<Job>, Error>>>,
        running: &mut JoinSet<End>,
        tally: &mut Tally,
    ) {
        let mut is_open = true;
        loop {
            tokio::select! {
                biased;
                jobs = &mut asking, if is_open => {
                    is_open = false;
                    tally.released += self.release(&jobs.unwrap_or_default()).await;
                }
                done = running.join_next() => match done {
                    Some(done) => count(tally, done),
                    None => return,
                },
            }
        }
    }

    /// Jobs that are due; rests and asks again while the server is away or has none.
    async fn ask(&self, max: u32, rests: &mut Rests) -> Result<Vec<Job>, Error> {
        let wanted = LeaseRequest {
            topics: Some(self.topics.iter().map(Into::into).collect()),
            max: Some(max.min(MOST)),
            wait: Some(millis(WAIT)),
            ttr: self.ttr.map(millis),
            consumer: self.consumer.as_deref().map(Into::into),
            auto_ack: None,
        };
        loop {
            let asked_at = Instant::now();
            match self.client.lease(&wanted).await {
                Ok(jobs) if jobs.is_empty() => {
                    rests.reset();
                    if asked_at.elapsed() < WAIT / 2 {
                        sleep(SOON).await;
                    }
                }
                Ok(jobs) => {
                    rests.reset();
                    return Ok(jobs);
                }
                Err(error) if passes(&error) => {
                    let rest = rests.next();
                    (self.observer)(&Event::Away { error, rest });
                    sleep(rest).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Gives jobs back that were not begun; how many.
    async fn release(&self, jobs: &[Job]) -> u64 {
        if jobs.is_empty() {
            return 0;
        }
        let item = |job: &Job| {
            let token = job.token.clone().unwrap_or_default().into();
            SettleItem { token, verb: Verb::Release, terms: Terms::default() }
        };
        match self.client.settle(&SettleItems { items: jobs.iter().map(item).collect() }).await {
            Ok(results) => u64::try_from(results.iter().filter(|result| result.code.is_none()).count()).unwrap_or(0),
            Err(error) => {
                (self.observer)(&Event::Away { error, rest: Duration::ZERO });
                0
            }
        }
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("client", &self.client)
            .field("topics", &self.topics)
            .field("concurrency", &self.concurrency)
            .finish_non_exhaustive()
    }
}

fn count(tally: &mut Tally, done: Result<End, JoinError>) {
    // The handler has a task of its own; this one does not panic and is not aborted.
    tally.add(done.unwrap_or(End::Lost));
}

/// Whether it is worth asking again: the fault is on the way or passes by itself.
pub(crate) fn passes(error: &Error) -> bool {
    match error {
        Error::Unreachable { .. } | Error::Lost { .. } => true,
        Error::Problem(problem) => matches!(
            problem.code,
            Code::RateLimited | Code::Overloaded | Code::StorageFailed | Code::StorageFull | Code::Internal
        ),
        // What stands before a server may say anything while that is not there; a wrong address is found at the start.
        Error::NotDwell { .. } => false,
    }
}

fn millis(length: Duration) -> Millis {
    Millis(u64::try_from(length.as_millis()).unwrap_or(u64::MAX))
}

/// Rests that grow, each spread a little so that many workers do not come back at once.
#[derive(Debug, Default)]
pub(crate) struct Rests {
    failures: u32,
}

impl Rests {
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }

    pub(crate) fn next(&mut self) -> Duration {
        use std::hash::{BuildHasher as _, RandomState};
        let full = REST.0.saturating_mul(1 << self.failures.min(16)).min(REST.1);
        self.failures = self.failures.saturating_add(1);
        // Half of it, and a random share of the other half.
        let share = RandomState::new().hash_one(self.failures) % 1_000;
        full / 2 + full / 2_000 * u32::try_from(share).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests_grow_to_a_lid_and_start_over() {
        let mut rests = Rests::default();
        for full in [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000] {
            let (rest, full) = (rests.next(), Duration::from_millis(full));
            assert!(full / 2 <= rest && rest <= full, "{rest:?} of {full:?}");
        }
        rests.reset();
        assert!(rests.next() <= REST.0);
    }
}
