//! One delivery from its lease to its verdict.

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::rand;
use dwell_core::{
    Delivery, DeliveryAnswer, JobView, LeaseLost, LeaseToken, LeasedJob, Settle, StoreError, Timestamp, Verdict,
};
use tokio::time::{Instant, sleep};

use super::courier::{Landing, Parcel};
use super::dispatcher::{Dispatcher, leased_at, release};
use super::origin::Turn;
use super::outcome::{self, Outcome};
use super::{sign, traced};
use crate::trace::{self, Context};

/// The lease of a delivery under way is extended this often.
const HOLD_ON: Duration = Duration::from_secs(8);
/// How long to rest before a verdict is said again that the store had no room for, and how often that is done. The lease
/// is over by then.
const AGAIN: Duration = Duration::from_millis(250);
const TIMES: u32 = 40;

impl Dispatcher {
    /// Delivers a job and settles it. `leased` has been given a place on the board.
    pub(super) async fn deliver(self: Arc<Self>, leased: LeasedJob, token: LeaseToken, origin: Arc<str>) {
        let (view, start) = (leased.view, Instant::now());
        // All instants that are kept are of the store's time, which does not go by the machine's: it may stand still.
        let at = leased_at(&view);
        let parent = trace::of_job(&view.job);
        let span = trace::part_of(parent, self.tracer.as_ref());
        let started = self.tracer.as_ref().and_then(|tracer| tracer.start(span, parent));
        let landing = self.attempt(&parcel(&view, span), token).await;
        let took = start.elapsed();
        if let Some(started) = started {
            let late = at.as_millis().saturating_sub(view.job.due_at.as_millis());
            traced::end(started, &view, &origin, late, landing.as_ref());
        }
        let settle = match &landing {
            Some(landing) => {
                self.metrics.deliveries.ended(&origin, Outcome::of(landing), took);
                let delivery = kept(landing, at, whole_millis(took));
                let verdict = outcome::verdict(landing, &view, random());
                Settle { delivery: Some(delivery), ..Settle::new(token, verdict) }
            }
            None => Settle::new(token, release(None)),
        };
        self.end(&origin, landing.as_ref());
        self.settle(settle, &origin).await;
        if self.board().settled(view.job.body.len()) {
            self.changed.notify_one();
        }
        self.landed.notify_waiters();
    }

    /// Makes the attempt and holds on to the lease meanwhile; `None` if there is no more time for it.
    async fn attempt(&self, parcel: &Parcel, token: LeaseToken) -> Option<Landing> {
        let delivery = self.couriers.deliver(parcel);
        let hold_on = async {
            loop {
                sleep(HOLD_ON).await;
                // If that fails, the verdict will too, and says why.
                drop(self.store.settle(vec![Settle::new(token, Verdict::Extend { ttr: None })]).await);
            }
        };
        tokio::select! {
            biased;
            landing = delivery => Some(landing),
            () = self.cut.started() => None,
            () = hold_on => None,
        }
    }

    /// Says the verdict. If the store cannot be told, the lease runs out, and the job goes out again.
    async fn settle(&self, settle: Settle, origin: &str) {
        for _ in 0..TIMES {
            match self.store.settle(vec![settle.clone()]).await {
                Ok(results) => {
                    if results.contains(&Err(LeaseLost)) {
                        tracing::debug!(origin, "a job was taken away while it was delivered");
                    }
                    return;
                }
                Err(StoreError::Overloaded) => sleep(AGAIN).await,
                Err(error) => return tracing::warn!(origin, %error, "the outcome of a delivery is not kept"),
            }
        }
        tracing::warn!(origin, "the outcome of a delivery is not kept: the store had no room for it");
    }

    /// The target has room for the next, before this one is settled.
    fn end(&self, origin: &str, landing: Option<&Landing>) {
        let (turn, is_news) = self.board().ended(origin, landing, Instant::now());
        match turn {
            Some(Turn::Opened(wait)) => {
                tracing::warn!(origin, seconds = wait.as_secs(), "a target is down; it is left alone for a while");
            }
            Some(Turn::Closed) => tracing::info!(origin, "a target is back"),
            None => {}
        }
        self.metrics.deliveries.over(origin, turn.map(|turn| turn != Turn::Closed));
        if is_news {
            self.changed.notify_one();
        }
    }
}

/// Rounded down, so that what is kept never says that something took longer than it did.
fn whole_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// What is kept of an attempt beside the job. Where there was no answer, what went wrong is kept in its place.
fn kept(landing: &Landing, at: Timestamp, took: u64) -> Delivery {
    match landing {
        Landing::Answered { status, answer, .. } => {
            Delivery { at, took, status: Some(*status), answer: DeliveryAnswer::new(answer) }
        }
        landing => {
            let error = outcome::error(landing).unwrap_or_default();
            Delivery { at, took, status: None, answer: DeliveryAnswer::new(error.as_bytes()) }
        }
    }
}

fn parcel(view: &JobView, span: Context) -> Parcel {
    let job = &view.job;
    Parcel {
        address: view.deliver_to.as_ref().map(|target| target.address().to_owned()).unwrap_or_default(),
        id: sign::webhook_id(job),
        topic: job.topic.to_string(),
        job_id: job.id.to_string(),
        attempt: job.attempt,
        due_at: dwell_wire::Instant(job.due_at.as_millis()).to_string(),
        span,
        headers: job.headers.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        body: job.body.clone(),
        secrets: view.deliver_secrets.clone(),
    }
}

/// For jitter, which is none where the machine has no randomness.
fn random() -> u64 {
    let mut bytes = [0; 8];
    rand::fill(&mut bytes).map_or(0, |()| u64::from_le_bytes(bytes))
}
