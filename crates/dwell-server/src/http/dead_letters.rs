//! Bringing dead letters back; purging jobs by state.

use axum::body::Body;
use axum::extract::State;
use axum::http::Request;
use dwell_core::{Purge, Redrive, State as JobState};
use dwell_wire::json::read_object;
use dwell_wire::topic::{self, Purged, Redriven};

use super::answer::{Answer, Failure, ok};
use super::names::TopicPath;
use super::query::Query;
use super::read::{self, Mistakes};
use super::{Shared, body, lists};

/// Brings dead letters back with fresh attempts, oldest first.
#[utoipa::path(
    post, path = "/v1/topics/{topic}/redrive", operation_id = "redrive", tag = "topics",
    params(("topic" = dwell_wire::job::TopicName, Path)),
    request_body = Option<topic::Redrive>,
    responses((status = 200, description = "How many came back, and how many are left", body = Redriven)),
)]
pub(super) async fn redrive(State(app): State<Shared>, TopicPath(topic): TopicPath, request: Request<Body>) -> Answer {
    Query::of(request.uri()).done()?;
    let text = body::read(&app, request).await?;
    let mut fields = read_object(&text.bytes)?;
    let wanted = topic::Redrive::read(&mut fields);
    let redrive = read::redrive(topic, wanted, Mistakes(fields.done()))?;
    let done = app.store.redrive(Redrive::Topic(redrive)).await??;
    ok(&Redriven { redriven: done.redriven, remaining: done.remaining })
}

/// Removes all jobs of a topic that are in one state.
#[utoipa::path(
    delete, path = "/v1/topics/{topic}/jobs", operation_id = "purgeJobs", tag = "topics",
    params(
        ("topic" = dwell_wire::job::TopicName, Path),
        ("state" = dwell_wire::job::LiveState, Query, description = "Which"),
        ("force" = Option<bool>, Query, description = "Needed for leased jobs: their leases are lost"),
    ),
    responses((status = 200, description = "How many went", body = Purged)),
)]
pub(super) async fn purge_jobs(
    State(app): State<Shared>,
    TopicPath(topic): TopicPath,
    request: Request<Body>,
) -> Answer {
    let mut query = Query::of(request.uri());
    let missing = request.uri().query().is_none_or(|query| !query.contains("state"));
    let state = lists::state(&mut query);
    if missing {
        query.error("state", "is missing: say which jobs are to go: delayed, ready, leased or buried");
    }
    let force = query.flag("force");
    if state == Some(JobState::Leased) && !force {
        query.error("force", "must be true to purge jobs that consumers hold");
    }
    query.done()?;
    body::none(&app, request).await?;
    let state = state.ok_or_else(|| Failure::field("state", "is missing"))?;
    ok(&Purged { purged: app.store.purge(topic, Purge::Jobs(state)).await?? })
}
