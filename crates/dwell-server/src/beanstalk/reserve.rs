//! Reserving jobs, and waiting for them.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use beanstalk_protocol::Reply;
use dwell_core::{LeaseFrom, LeaseRequest, LeasedJob, Phase, StoreError, limits};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::futures::Notified;
use tokio::time::Instant;

use super::connection::Wire;
use super::registry::OneMore;
use super::run::Between;
use super::session::{Held, Session};
use super::{Edge, failure, names};

/// How long one lease call waits; then it is made again.
const WAIT: Duration = Duration::from_millis(limits::MAX_WAIT);
/// How long one waits at least where the store's time can be moved: by waiting alone it may come no nearer to a deadline.
const LEAST: Duration = Duration::from_millis(100);

/// Reserves a job for each of `reserves`, in order, waiting as long as each may.
pub(super) async fn run<S: AsyncRead + AsyncWrite + Unpin>(
    edge: &Edge,
    session: &mut Session,
    wire: &mut Wire<S>,
    mut reserves: VecDeque<Option<u32>>,
    between: &mut Between,
) -> io::Result<()> {
    let mut answered = 0;
    let mut since = Instant::now();
    while let Some(timeout) = reserves.front() {
        between.write(answered, &mut wire.out);
        let moved = session.holds_any().then(|| edge.config.clock_moved.notified());
        let (now, deadline) = (Instant::now(), session.until_deadline(edge.now().await));
        let until = timeout.map(|seconds| since + Duration::from_secs(seconds.into()));
        let request = LeaseRequest {
            from: LeaseFrom::Pull(session.watched().to_vec()),
            max: u32::try_from(reserves.len()).unwrap_or(u32::MAX),
            ttr: None,
            wait: may_wait(edge, wire.is_at_end, until.map(|until| until.saturating_duration_since(now)), deadline),
            consumer: session.consumer.clone(),
            auto_ack: false,
        };
        let leased = lease(edge, wire, request, moved).await?;
        let (now, store_now) = (Instant::now(), edge.now().await);
        let before = reserves.len();
        match leased {
            Ok(jobs) if jobs.is_empty() => {
                let stops = wire.is_at_end || edge.shutdown.has_started();
                if session.until_deadline(store_now) == Some(Duration::ZERO) {
                    Reply::DeadlineSoon.write(&mut wire.out);
                    reserves.pop_front();
                } else if stops || until.is_some_and(|until| until <= now) {
                    Reply::TimedOut.write(&mut wire.out);
                    reserves.pop_front();
                }
            }
            Ok(jobs) => {
                edge.config.metrics.leased(&jobs);
                for (place, job) in jobs.iter().enumerate() {
                    between.write(answered + place, &mut wire.out);
                    hand_over(session, job, store_now, &mut wire.out);
                    reserves.pop_front();
                }
            }
            Err(error) => {
                failure(&error).write(&mut wire.out);
                reserves.pop_front();
            }
        }
        if reserves.len() < before {
            answered += before - reserves.len();
            since = now;
        }
        wire.flush_if_large().await?;
    }
    between.write(usize::MAX, &mut wire.out);
    Ok(())
}

/// How long the store may wait for a job: not past the time that is left to the client, nor past that of a job it holds.
fn may_wait(edge: &Edge, is_at_end: bool, left: Option<Duration>, deadline: Option<Duration>) -> Duration {
    if is_at_end || edge.shutdown.has_started() {
        return Duration::ZERO;
    }
    let at_least = |wait: Duration| if edge.time.can_be_moved() && !wait.is_zero() { wait.max(LEAST) } else { wait };
    [left, deadline.map(at_least)].into_iter().flatten().fold(WAIT, Duration::min)
}

/// Leases what is ready, or waits for it. While it waits, what was answered before is written, and a client that says no
/// more is noticed: it gets none. When the time of jobs that it holds is moved, the wait is over.
async fn lease<S: AsyncRead + AsyncWrite + Unpin>(
    edge: &Edge,
    wire: &mut Wire<S>,
    request: LeaseRequest,
    moved: Option<Notified<'_>>,
) -> io::Result<Result<Vec<LeasedJob>, StoreError>> {
    // What is ready must not be lost to a client that happens to say no more just now.
    let ready = edge.store.lease(LeaseRequest { wait: Duration::ZERO, ..request.clone() }).await;
    if request.wait.is_zero() || !matches!(&ready, Ok(jobs) if jobs.is_empty()) {
        return Ok(ready);
    }
    let _waiting = OneMore::of(&edge.registry.waiting);
    tokio::select! {
        biased;
        leased = edge.store.lease(request) => Ok(leased),
        ended = wire.until_end() => ended.map(|()| Ok(Vec::new())),
        () = until(moved) => Ok(Ok(Vec::new())),
        () = edge.shutdown.started() => Ok(Ok(Vec::new())),
    }
}

/// For ever, if there is nothing that may be moved.
async fn until(moved: Option<Notified<'_>>) {
    match moved {
        Some(moved) => moved.await,
        None => std::future::pending().await,
    }
}

/// Reserves this very job.
pub(super) async fn this_job(edge: &Edge, session: &mut Session, id: u64, out: &mut Vec<u8>) {
    let Some(number) = names::number(id) else { return Reply::NotFound.write(out) };
    let request = LeaseRequest { consumer: session.consumer.clone(), ..LeaseRequest::from(LeaseFrom::Number(number)) };
    match edge.store.lease(request).await {
        Ok(jobs) => match jobs.first() {
            Some(job) => {
                edge.config.metrics.leased(&jobs);
                session.is_worker();
                hand_over(session, job, edge.now().await, out);
            }
            None => Reply::NotFound.write(out),
        },
        Err(error) => failure(&error).write(out),
    }
}

fn hand_over(session: &mut Session, leased: &LeasedJob, now: Instant, out: &mut Vec<u8>) {
    let job = &leased.view.job;
    let id = job.number.get();
    if let (Phase::Leased(lease), Some(token)) = (&job.phase, leased.token) {
        let ttr = Duration::from_millis(lease.ttr.as_millis());
        let leased_at = lease.expires_at.as_millis().saturating_sub(lease.ttr.as_millis());
        let was_delayed = job.due_at.as_millis() > leased_at;
        session.hold(id, Held { token, ttr, until: now + ttr, was_delayed });
    }
    Reply::Reserved { id, body: job.body.as_bytes() }.write(out);
}
