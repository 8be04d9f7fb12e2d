//! Leasing jobs.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::Request;
use dwell_core::{LeaseFrom, LeaseRequest, LeasedJob, TopicName, limits};
use dwell_wire::job;
use dwell_wire::json::read_object;
use dwell_wire::lease::{self, LeaseAnswer};

use super::access::Who;
use super::answer::{Answer, Failure, ok};
use super::names::TopicPath;
use super::query::Query;
use super::read::{self, Mistakes};
use super::traced::Notes;
use super::{App, Shared, body, show};

/// Hands out ready jobs of a topic, waiting for the first if asked to.
#[utoipa::path(
    post, path = "/v1/topics/{topic}/lease", operation_id = "lease", tag = "consuming",
    params(("topic" = job::TopicName, Path)),
    request_body = Option<lease::LeaseTopic>,
    responses((status = 200, description = "The jobs; none if none was there in time", body = LeaseAnswer)),
)]
pub(super) async fn lease(State(app): State<Shared>, TopicPath(topic): TopicPath, request: Request<Body>) -> Answer {
    let notes = Notes::of(&request);
    // Boxed, so that what it took to read the request is gone while a consumer is parked.
    let request = Box::pin(read_request(&app, request, Some(topic))).await?;
    answer(&app, request, notes).await
}

/// Hands out ready jobs of several topics, the best of all first.
#[utoipa::path(
    post, path = "/v1/lease", operation_id = "leaseMany", tag = "consuming",
    request_body = lease::LeaseRequest,
    responses((status = 200, description = "The jobs; none if none was there in time", body = LeaseAnswer)),
)]
pub(super) async fn lease_many(State(app): State<Shared>, who: Who, request: Request<Body>) -> Answer {
    let notes = Notes::of(&request);
    let request = Box::pin(read_request(&app, request, None)).await?;
    if let LeaseFrom::Pull(topics) = &request.from {
        topics.iter().try_for_each(|topic| who.check(topic))?;
    }
    answer(&app, request, notes).await
}

async fn read_request(app: &App, request: Request<Body>, topic: Option<TopicName>) -> Result<LeaseRequest, Failure> {
    Query::of(request.uri()).done()?;
    let text = body::read(app, request).await?;
    let mut fields = read_object(&text.bytes)?;
    let wanted = lease::LeaseRequest::read(&mut fields, topic.is_none());
    let mut mistakes = Mistakes(fields.done());
    let topics = match topic {
        Some(topic) => vec![topic],
        None => topics(&mut mistakes, &wanted),
    };
    let consumer = read::consumer(&mut mistakes, wanted.consumer.as_deref());
    let ttr = wanted.ttr.and_then(|ttr| mistakes.take("ttr", read::ttr(ttr)));
    let wait = wanted.wait.map_or(0, |wait| wait.0);
    if wait > limits::MAX_WAIT {
        mistakes.note("wait", "must be from 0s to 1m");
    }
    mistakes.none()?;
    Ok(LeaseRequest {
        from: LeaseFrom::Pull(topics),
        max: wanted.max.unwrap_or(1),
        ttr,
        wait: Duration::from_millis(wait),
        consumer,
        auto_ack: wanted.auto_ack.unwrap_or(false),
    })
}

fn topics(mistakes: &mut Mistakes, wanted: &lease::LeaseRequest<'_>) -> Vec<TopicName> {
    let Some(topics) = &wanted.topics else { return Vec::new() };
    if topics.is_empty() || topics.len() > limits::MAX_LEASE_TOPICS {
        mistakes.note("topics", format!("must be from 1 to {} topics", limits::MAX_LEASE_TOPICS));
    }
    let read = |(index, name): (usize, &std::borrow::Cow<'_, str>)| {
        mistakes.take(&format!("topics[{index}]"), TopicName::new(name))
    };
    topics.iter().take(limits::MAX_LEASE_TOPICS).enumerate().filter_map(read).collect()
}

async fn answer(app: &App, request: LeaseRequest, notes: Option<Arc<Notes>>) -> Answer {
    let auto_ack = request.auto_ack;
    let leased = if request.wait.is_zero() {
        app.store.lease(request).await?
    } else {
        // A server that stops answers those who wait at once; dropping the lease gives back what it may have got.
        tokio::select! {
            biased;
            leased = app.store.lease(request) => leased?,
            () = app.shutdown.started() => Vec::new(),
        }
    };
    app.config.metrics.leased(&leased);
    if let Some(notes) = notes {
        notes.leased(&leased);
    }
    Box::pin(encode(leased, auto_ack)).await
}

async fn encode(leased: Vec<LeasedJob>, auto_ack: bool) -> Answer {
    let bytes = leased.iter().map(|job| job.view.job.body.len() + 512).sum();
    let jobs = move || leased.into_iter().map(|job| show_leased(job, auto_ack)).collect();
    body::decode(bytes, move || ok(&LeaseAnswer { jobs: jobs() })).await?
}

fn show_leased(leased: LeasedJob, auto_ack: bool) -> job::Job {
    let token = leased.token.map(|token| token.to_string());
    let job = show::whole_job(leased.view);
    // A job that was settled as it was handed out is nobody's.
    let lease_expires_at = if auto_ack { None } else { job.lease_expires_at };
    job::Job { token, lease_expires_at, ..job }
}
