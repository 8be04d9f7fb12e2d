//! Pages of a topic's jobs.

use axum::body::Body;
use axum::extract::State;
use axum::http::Request;
use dwell_core::{Cursor, ListQuery, Section, State as JobState, limits};
use dwell_wire::topic::Jobs;

use super::answer::{Answer, ok};
use super::names::TopicPath;
use super::query::Query;
use super::{Shared, body, show};

/// The states of live jobs, by name.
const STATES: [(&str, JobState); 4] = [
    ("delayed", JobState::Delayed),
    ("ready", JobState::Ready),
    ("leased", JobState::Leased),
    ("buried", JobState::Buried),
];

/// A page of a topic's jobs, in due order within a state; without a state: delayed and ready, then leased, then buried.
#[utoipa::path(
    get, path = "/v1/topics/{topic}/jobs", operation_id = "listJobs", tag = "topics",
    params(
        ("topic" = dwell_wire::job::TopicName, Path),
        ("state" = Option<dwell_wire::job::LiveState>, Query, description = "Only jobs in this state"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "At most so many; 100 if not said"),
        ("cursor" = Option<String>, Query, description = "The `next_cursor` of the page before"),
    ),
    responses((status = 200, description = "The page", body = Jobs)),
)]
pub(super) async fn list_jobs(
    State(app): State<Shared>,
    TopicPath(topic): TopicPath,
    request: Request<Body>,
) -> Answer {
    let mut query = Query::of(request.uri());
    let state = state(&mut query);
    let limit = query.count("limit", limits::MAX_PAGE).unwrap_or(limits::DEFAULT_PAGE);
    let after = query.read("cursor", str::parse::<Cursor>);
    if let (Some(state), Some(after)) = (state, after)
        && Section::of(state) != after.section
    {
        query.error("cursor", "is of a list of another state");
    }
    query.done()?;
    body::none(&app, request).await?;
    let page = app.store.list(ListQuery { state, after, limit, ..ListQuery::of(topic) }).await??;
    let bytes = page.jobs.iter().map(|view| view.job.body.len() + 512).sum();
    body::decode(bytes, move || {
        let next_cursor = page.next.map(|next| next.to_string());
        ok(&Jobs { jobs: page.jobs.into_iter().map(show::whole_job).collect(), next_cursor })
    })
    .await?
}

/// The state that a query names.
pub(super) fn state(query: &mut Query<'_>) -> Option<JobState> {
    query.read("state", |text| {
        let found = STATES.iter().find(|(name, _)| *name == text).map(|(_, state)| *state);
        found.ok_or("is none of delayed, ready, leased, buried")
    })
}
