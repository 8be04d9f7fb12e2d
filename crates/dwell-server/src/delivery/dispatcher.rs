//! The dispatcher: leases what is to be pushed, delivers it, settles by the outcome. A consumer like any other, but for
//! what it leases from.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dwell_core::{
    Consumer, Delay, JobView, LeaseFrom, LeaseRequest, LeaseToken, LeasedJob, Line, Phase, Settle, Store, StoreError,
    Timestamp, Ttr, Verdict,
};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::board::{Board, Call, Caps, Place, Plan, Queue};
use super::put_off::PutOff;
use super::{Couriers, outcome};
use crate::metrics::Metrics;
use crate::shutdown::Shutdown;
use crate::trace::Tracer;

/// Deliveries under way at once, and how many of them to one target.
const MOST: usize = 1_000;
const MOST_EACH: usize = 32;
/// Bytes of bodies under way at once.
const MOST_BYTES: usize = 128 << 20;
/// How long a lease lasts. A server that dies leaves its deliveries to the others after that; one that lives holds on.
const TTR: u64 = 20_000;
/// How long a lease call waits.
const WAIT: Duration = Duration::from_secs(30);
/// How long to rest when the store has no answer.
const REST: Duration = Duration::from_secs(1);
/// What is kept of the drain to give back what did not end in it.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Pushes jobs until it is told to stop.
pub(crate) struct Dispatcher {
    pub(super) store: Arc<dyn Store>,
    pub(super) couriers: Arc<Couriers>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) tracer: Option<Tracer>,
    consumer: Option<Consumer>,
    board: Mutex<Board>,
    /// What is brought back by the machine's time, where the store's may stand still.
    pub(super) put_off: Option<PutOff>,
    /// Something ended that lets more go out.
    pub(super) changed: Notify,
    /// Something ended.
    pub(super) landed: Notify,
    /// The time to finish is over: what is under way is given back.
    pub(super) cut: Shutdown,
}

impl Dispatcher {
    /// `stands_still` if the store's time may do so, as that of tests does.
    pub(crate) fn new(
        store: Arc<dyn Store>,
        couriers: Arc<Couriers>,
        metrics: Arc<Metrics>,
        tracer: Option<Tracer>,
        stands_still: bool,
    ) -> Arc<Self> {
        let caps = Caps { total: MOST, each: MOST_EACH, bytes: MOST_BYTES };
        Arc::new(Self {
            store,
            couriers,
            metrics,
            tracer,
            consumer: Consumer::new("dwell push").ok(),
            board: Mutex::new(Board::new(caps, Instant::now())),
            put_off: stands_still.then(PutOff::default),
            changed: Notify::new(),
            landed: Notify::new(),
            cut: Shutdown::default(),
        })
    }

    /// Pushes until `shutdown` starts; then lets what is under way finish for as long as `drain` allows, and gives the
    /// rest back.
    pub(crate) async fn run(self: Arc<Self>, shutdown: Shutdown, drain: Duration) {
        tokio::select! {
            () = self.dispatch() => {}
            () = shutdown.started() => {}
        }
        if timeout(drain.saturating_sub(LAST_WORDS), self.idle()).await.is_err() {
            let left = self.board().in_flight();
            tracing::warn!(left, "deliveries did not end in time; their jobs are given back");
            self.cut.start();
            drop(timeout(LAST_WORDS, self.idle()).await);
        }
    }

    /// Ends when the store does.
    async fn dispatch(self: &Arc<Self>) {
        loop {
            match self.turn().await {
                Ok(()) => {}
                Err(StoreError::Closed) => return,
                Err(error) => {
                    tracing::debug!(%error, "the store gives nothing to push");
                    sleep(REST).await;
                }
            }
        }
    }

    /// Takes all that may go now; if there is nothing, waits until there is.
    async fn turn(self: &Arc<Self>) -> Result<(), StoreError> {
        let back_at = self.bring_back().await?;
        let Plan { now, park, wake } = self.board().plan(Instant::now());
        let wake = wake.into_iter().chain(back_at).min();
        let mut found = 0;
        for (index, call) in now.into_iter().enumerate() {
            found += self.lease(call, Duration::ZERO, index == 0).await?;
        }
        if found > 0 {
            return Ok(());
        }
        let wake = async {
            match wake {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        let parked = async {
            match park {
                Some(call) => self.lease(call, WAIT, true).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            found = parked => found.map(drop),
            () = self.changed.notified() => Ok(()),
            () = wake => Ok(()),
        }
    }

    async fn lease(self: &Arc<Self>, call: Call, wait: Duration, has_turns: bool) -> Result<usize, StoreError> {
        let max = call.max;
        let request = LeaseRequest {
            max,
            ttr: Ttr::from_millis(TTR).ok(),
            wait,
            consumer: self.consumer.clone(),
            ..LeaseRequest::from(LeaseFrom::Push(call.lines))
        };
        let jobs = self.store.lease(request).await?;
        let found = jobs.len();
        if has_turns {
            self.board().answered(jobs.iter().map(queue_of), found >= max as usize);
        }
        self.metrics.leased(&jobs);
        let now = Instant::now();
        let back: Vec<Back> = jobs.into_iter().filter_map(|job| self.place(job, now)).collect();
        if !back.is_empty() {
            // Put back before the next call, which would find them gone otherwise. Not given up with the call itself,
            // which ends when there is something better to do.
            let this = Arc::clone(self);
            tokio::spawn(async move { this.put_back(&back, now).await }).await.unwrap_or(Ok(()))?;
        }
        Ok(found)
    }

    async fn put_back(&self, back: &[Back], now: Instant) -> Result<(), StoreError> {
        let settles = back.iter().map(|back| Settle::new(back.token, release(back.wait)));
        self.store.settle(settles.collect()).await?;
        self.note_put_off(back, now).await
    }

    /// Sends a job on its way, or says how it is put back.
    fn place(self: &Arc<Self>, leased: LeasedJob, now: Instant) -> Option<Back> {
        let token = leased.token?;
        let leased_at = leased_at(&leased.view);
        let back = |wait, origin| Some(Back { token, wait, origin, leased_at });
        let Some(target) = leased.view.deliver_to.clone() else { return back(None, "".into()) };
        let (queue, origin): (_, Arc<str>) = (queue_of(&leased), target.origin().into());
        let job = &leased.view.job;
        let bytes = job.body.len();
        match self.board().place(&queue, &job.topic, &origin, bytes, now) {
            Place::Go => {
                self.metrics.deliveries.started(&origin);
                let this = Arc::clone(self);
                drop(tokio::spawn(this.deliver(leased, token, origin)));
                None
            }
            Place::Back(wait) => back(wait, origin),
        }
    }

    /// Waits until nothing is under way.
    async fn idle(&self) {
        loop {
            let landed = self.landed.notified();
            if self.board().in_flight() == 0 {
                return;
            }
            landed.await;
        }
    }

    pub(super) fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A job that was leased and is put back.
pub(super) struct Back {
    pub(super) token: LeaseToken,
    /// How much later it is to come again; `None`: to its place.
    pub(super) wait: Option<Duration>,
    /// The target it is for.
    pub(super) origin: Arc<str>,
    pub(super) leased_at: Timestamp,
}

/// The store's time when a job was leased.
pub(super) fn leased_at(view: &JobView) -> Timestamp {
    let Phase::Leased(lease) = &view.job.phase else { return view.job.due_at };
    let millis = lease.expires_at.as_millis().saturating_sub(lease.ttr.as_millis());
    Timestamp::from_millis(millis).unwrap_or(view.job.due_at)
}

/// Given back without blame: to its place, or so much later.
pub(super) fn release(wait: Option<Duration>) -> Verdict {
    let delay = wait.and_then(|wait| Delay::from_millis(outcome::millis(wait)).ok());
    Verdict::Release { delay, priority: None }
}

/// Where a job was handed out from.
fn queue_of(leased: &LeasedJob) -> Queue {
    let job = &leased.view.job;
    if job.line() == Line::PULL { Queue::Topic(job.topic.clone()) } else { Queue::Line(job.line()) }
}

#[cfg(test)]
mod tests;
