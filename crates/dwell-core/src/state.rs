//! The state machine of a job: the one place that says what may follow what.
//!
//! ```text
//!                put, redrive, change with a due time
//!                     │                      │
//!             due_at in the future      due_at reached
//!                     ▼        promote       ▼
//!                ┌─────────┐ ───────────▶ ┌───────┐ ── lease ──▶ ┌────────┐ ── ack ──▶ gone
//!                │ delayed │              │ ready │              │ leased │
//!                └─────────┘ ◀─────────── └───────┘ ◀─ release ─ └────────┘ ◀┐
//!                  ▲   │  │  change         │    ▲                 │  │  └────┘ extend
//!                  │   │  └─── cancel ──▶ gone ◀─┼── cancel ───────┘  │   (cancel and change: by force)
//!                  │   │                    │    │                    │
//!                  │   └────── ttl ───────┐ │ttl │redrive             │ nack, lease runs out:
//!                  │                      ▼ ▼    │                    │   attempts left → delayed (or ready)
//!                  │ redrive, move      ┌────────┐                    │   none left     → buried
//!                  └─────────────────── │ buried │ ◀── bury ──────────┘
//!                                       └────────┘ ── cancel, keep_buried over ──▶ gone
//! ```
//!
//! Delayed and ready are one [`Phase`], waiting, seen before and after the due time: promotion is time passing, not a
//! change, and does not raise the version. What time alone does to a job ([`pass_time`]: a lease runs out, a ttl
//! ends, a dead letter is dropped) comes before any command on it ([`apply`]).

use crate::job::{Change, Delivery, Job, Version};
use crate::lease::{Lease, LeaseToken, Verdict};
use crate::limits;
use crate::names::{Consumer, ErrorText, Reason};
use crate::policy::Rules;
use crate::retry::AfterFailure;
use crate::time::{Delay, Now, TimeError, Timestamp, Ttr, When};

/// What a live job is doing, with what is true only then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// For its due time (delayed) or for a consumer (ready).
    Waiting,
    /// In a consumer's hands.
    Leased(Lease),
    /// Put aside: a dead letter.
    Buried(Burial),
}

/// How a job came to be buried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Burial {
    /// When.
    pub at: Timestamp,
    /// Why.
    pub reason: Reason,
}

/// What a live job looks like at some instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// Waiting for its due time.
    Delayed,
    /// Due, waiting for a consumer.
    Ready,
    /// In a consumer's hands.
    Leased,
    /// Put aside.
    Buried,
}

impl State {
    /// All four.
    pub const ALL: [Self; 4] = [Self::Delayed, Self::Ready, Self::Leased, Self::Buried];
}

/// When and under what a command is applied.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    /// The store's time.
    pub now: Now,
    /// The version the job gets if it changes.
    pub version: Version,
    /// Uniform over all of `u64`; for backoff jitter.
    pub random: u64,
    /// What holds for fields the job does not set.
    pub rules: Rules<'a>,
}

/// What can be done to a live job.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Hand it to a consumer.
    Lease(Grant),
    /// Do as its holder says.
    Settle {
        /// What the holder shows.
        token: LeaseToken,
        /// What the holder says.
        verdict: Verdict,
        /// The push that led to it.
        delivery: Option<Delivery>,
    },
    /// Change it, move it.
    Change {
        /// To what.
        change: Box<Change>,
        /// Even if it is leased; the lease is lost and the attempt stays counted.
        force: bool,
    },
    /// Remove it.
    Cancel {
        /// Even if it is leased.
        force: bool,
    },
    /// Buried: wait again, with fresh attempts. Delayed: be due sooner (beanstalk's kick).
    Redrive {
        /// Due then.
        due_at: Timestamp,
    },
}

/// On what terms a job is leased.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The caller's ttr for this lease.
    pub ttr: Option<Ttr>,
    /// Random bits for the token.
    pub secret: u64,
    /// Who gets it.
    pub consumer: Option<Consumer>,
    /// Asked for by number: then a delayed or buried job is handed out too.
    pub by_number: bool,
}

/// What became of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It lives on, as changed.
    Lives,
    /// It was acked and is gone.
    Acked,
    /// It was cancelled and is gone.
    Cancelled,
}

/// Why a command does not apply; the job is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A lease of a job that is not ready.
    #[error("the job is not ready")]
    NotReady,
    /// The token is not that of the job's live lease.
    #[error("the lease is lost: it ran out, was settled or was revoked")]
    LeaseLost,
    /// Someone holds the job.
    #[error("a consumer holds the job")]
    Leased,
    /// A redrive of a job that is ready or leased.
    #[error("the job is neither buried nor delayed")]
    NotParked,
    /// The new due time is no good.
    #[error("the due time {0}")]
    Time(#[from] TimeError),
    /// The new body is larger than any store takes.
    #[error("the body is larger than {} bytes", limits::MAX_BODY)]
    TooLarge,
}

/// Applies a command to a job that [`pass_time`] has brought to `moment.now`. On success the job has the moment's
/// version; on refusal nothing has changed.
pub fn apply(job: &mut Job, command: Command, moment: &Moment<'_>) -> Result<Effect, Refusal> {
    let effect = match command {
        Command::Lease(grant) => lease(job, grant, moment)?,
        Command::Settle { token, verdict, delivery } => settle(job, token, verdict, delivery, moment)?,
        Command::Change { change, force } => change_job(job, *change, force, moment)?,
        Command::Cancel { force } => {
            refuse_leased(job, force)?;
            Effect::Cancelled
        }
        Command::Redrive { due_at } => redrive(job, due_at, moment)?,
    };
    job.version = moment.version;
    expire(job, moment.now.at, moment);
    Ok(effect)
}

/// What time alone did to a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passage {
    /// Its lease ran out.
    pub timed_out: bool,
    /// It was buried: no attempts left, or its ttl ran out.
    pub buried: bool,
    /// It was a dead letter for longer than its topic keeps them, and is gone.
    pub gone: bool,
}

impl Passage {
    /// Whether anything happened; if so the job has the moment's version.
    pub fn changed(self) -> bool {
        self.timed_out || self.buried || self.gone
    }
}

/// Does to the job what time alone does up to `moment.now`: ends its lease (a failed attempt, at the instant the
/// lease ran out), then its ttl, then a dead letter's stay. How late it is called makes no difference to what it does.
pub fn pass_time(job: &mut Job, moment: &Moment<'_>) -> Passage {
    let mut passage = Passage::default();
    let mut since = Timestamp::EPOCH;
    if let Phase::Leased(lease) = &job.phase
        && lease.expires_at <= moment.now.at
    {
        since = lease.expires_at;
        job.counters.timeouts = job.counters.timeouts.saturating_add(1);
        fail(job, Some(ErrorText::new(ErrorText::LEASE_EXPIRED)), None, since.into(), moment);
        passage.timed_out = true;
        passage.buried = matches!(job.phase, Phase::Buried(_));
    }
    passage.buried |= expire(job, since, moment);
    if let (Phase::Buried(burial), Some(keep)) = (&job.phase, moment.rules.policy.keep_buried) {
        passage.gone = burial.at.plus(keep.as_millis()) <= moment.now.at;
    }
    if passage.changed() {
        job.version = moment.version;
    }
    passage
}

/// When [`pass_time`] will next have something to do, if ever: for a store's timers.
pub fn next_passage_at(job: &Job, rules: &Rules<'_>) -> Option<Timestamp> {
    match &job.phase {
        Phase::Waiting => rules.expires_at(job),
        Phase::Leased(lease) => Some(lease.expires_at),
        Phase::Buried(burial) => rules.policy.keep_buried.map(|keep| burial.at.plus(keep.as_millis())),
    }
}

fn lease(job: &mut Job, grant: Grant, moment: &Moment<'_>) -> Result<Effect, Refusal> {
    match job.state(moment.now.at) {
        State::Ready => {}
        State::Delayed | State::Buried if grant.by_number && !past_ttl(job, moment) => {}
        State::Delayed | State::Buried | State::Leased => return Err(Refusal::NotReady),
    }
    let ttr = grant.ttr.unwrap_or_else(|| moment.rules.ttr(job));
    let token = LeaseToken { number: job.number, version: moment.version, secret: grant.secret };
    let expires_at = moment.now.after(ttr.as_millis());
    job.phase = Phase::Leased(Lease { token, expires_at, ttr, consumer: grant.consumer });
    job.attempt = job.attempt.saturating_add(1);
    job.counters.leases = job.counters.leases.saturating_add(1);
    Ok(Effect::Lives)
}

fn settle(
    job: &mut Job,
    token: LeaseToken,
    verdict: Verdict,
    delivery: Option<Delivery>,
    moment: &Moment<'_>,
) -> Result<Effect, Refusal> {
    let Phase::Leased(lease) = &mut job.phase else { return Err(Refusal::LeaseLost) };
    if lease.token != token || lease.expires_at <= moment.now.at {
        return Err(Refusal::LeaseLost);
    }
    match verdict {
        Verdict::Ack => return Ok(Effect::Acked),
        Verdict::Extend { ttr } => lease.expires_at = moment.now.after(ttr.unwrap_or(lease.ttr).as_millis()),
        Verdict::Nack { error, delay } => fail(job, error, delay, moment.now, moment),
        Verdict::Release { delay, priority } => {
            job.phase = Phase::Waiting;
            job.attempt = job.attempt.saturating_sub(1);
            job.counters.releases = job.counters.releases.saturating_add(1);
            job.due_at = delay.map_or(job.due_at, |delay| moment.now.after(delay.as_millis()));
            job.priority = priority.unwrap_or(job.priority);
        }
        Verdict::Bury { reason, priority } => {
            job.priority = priority.unwrap_or(job.priority);
            bury(job, reason.unwrap_or_else(|| Reason::own(Reason::BURIED)), moment.now.at);
        }
    }
    if let Some(delivery) = delivery {
        remember(job, delivery);
    }
    Ok(Effect::Lives)
}

fn change_job(job: &mut Job, change: Change, force: bool, moment: &Moment<'_>) -> Result<Effect, Refusal> {
    refuse_leased(job, force)?;
    if change.body.as_ref().is_some_and(|body| body.len() > limits::MAX_BODY) {
        return Err(Refusal::TooLarge);
    }
    let due_at = change.when.map(|when| When::resolve(when, moment.now)).transpose()?;
    if matches!(job.phase, Phase::Leased(_)) {
        job.phase = Phase::Waiting;
    }
    if let Some(due_at) = due_at {
        if matches!(job.phase, Phase::Buried(_)) {
            job.attempt = 0;
        }
        wait_until(job, due_at);
    }
    job.priority = change.priority.unwrap_or(job.priority);
    if let Some(body) = change.body {
        job.body = body;
    }
    if let Some(headers) = change.headers {
        job.headers = headers;
    }
    change.ttr.apply(&mut job.options.ttr);
    change.retry.apply(&mut job.options.retry);
    change.ttl.apply(&mut job.options.ttl);
    change.deliver_to.apply(&mut job.options.deliver_to);
    Ok(Effect::Lives)
}

fn redrive(job: &mut Job, due_at: Timestamp, moment: &Moment<'_>) -> Result<Effect, Refusal> {
    match job.state(moment.now.at) {
        State::Buried => job.attempt = 0,
        State::Delayed => {}
        State::Ready | State::Leased => return Err(Refusal::NotParked),
    }
    job.counters.kicks = job.counters.kicks.saturating_add(1);
    wait_until(job, due_at);
    Ok(Effect::Lives)
}

/// Moved by someone's will, not by a retry: the ttl counts anew.
fn wait_until(job: &mut Job, due_at: Timestamp) {
    job.phase = Phase::Waiting;
    job.due_at = due_at;
    job.ttl_from = due_at.max(job.created_at);
}

fn fail(job: &mut Job, error: Option<ErrorText>, delay: Option<Delay>, at: Now, moment: &Moment<'_>) {
    if error.is_some() {
        job.last_error = error;
    }
    match moment.rules.retry(job).after_failure(job.attempt, delay, at, moment.random) {
        AfterFailure::Retry(due_at) => {
            job.phase = Phase::Waiting;
            job.due_at = due_at;
        }
        AfterFailure::Bury => bury(job, Reason::own(Reason::ATTEMPTS_EXHAUSTED), at.at),
    }
}

fn bury(job: &mut Job, reason: Reason, at: Timestamp) {
    job.phase = Phase::Buried(Burial { at, reason });
    job.counters.buries = job.counters.buries.saturating_add(1);
}

/// Buries a waiting job whose ttl has run out, no earlier than `since`.
fn expire(job: &mut Job, since: Timestamp, moment: &Moment<'_>) -> bool {
    let expired = matches!(job.phase, Phase::Waiting) && past_ttl(job, moment);
    if expired {
        let at = moment.rules.expires_at(job).map_or(since, |expires_at| expires_at.max(since));
        bury(job, Reason::own(Reason::EXPIRED), at);
    }
    expired
}

fn past_ttl(job: &Job, moment: &Moment<'_>) -> bool {
    moment.rules.expires_at(job).is_some_and(|expires_at| expires_at <= moment.now.at)
}

fn refuse_leased(job: &Job, force: bool) -> Result<(), Refusal> {
    if matches!(job.phase, Phase::Leased(_)) && !force { Err(Refusal::Leased) } else { Ok(()) }
}

fn remember(job: &mut Job, delivery: Delivery) {
    if job.deliveries.len() == limits::MAX_DELIVERIES {
        job.deliveries.remove(0);
    }
    job.deliveries.push(delivery);
}

#[cfg(test)]
mod tests;
