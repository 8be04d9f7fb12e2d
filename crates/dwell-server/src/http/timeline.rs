//! How many jobs are due when.

use axum::body::Body;
use axum::extract::State;
use axum::http::Request;
use dwell_core::list::TimelineError;
use dwell_core::{TimelineQuery, Timestamp, TopicName, limits};
use dwell_wire::topic::{Bucket, Timeline};

use super::answer::{Answer, Failure, ok};
use super::names::TopicPath;
use super::query::Query;
use super::{App, Shared, body, read, show};

/// How many delayed and ready jobs of a topic are due when, exact at whole minutes.
#[utoipa::path(
    get, path = "/v1/topics/{topic}/timeline", operation_id = "getTopicTimeline", tag = "topics",
    params(
        ("topic" = dwell_wire::job::TopicName, Path),
        ("from" = Option<dwell_wire::Instant>, Query, description = "From when on; now if not said"),
        ("until" = Option<dwell_wire::Instant>, Query, description = "Until when; a day after `from` if not said"),
        ("step" = Option<dwell_wire::Duration>, Query, description = "Whole minutes; an hour if not said"),
    ),
    responses((status = 200, description = "Buckets, one after the other", body = Timeline)),
)]
pub(super) async fn topic_timeline(
    State(app): State<Shared>,
    TopicPath(topic): TopicPath,
    request: Request<Body>,
) -> Answer {
    timeline(&app, Some(topic), request).await
}

/// How many delayed and ready jobs of all topics are due when.
#[utoipa::path(
    get, path = "/v1/timeline", operation_id = "getTimeline", tag = "topics",
    params(
        ("from" = Option<dwell_wire::Instant>, Query, description = "From when on; now if not said"),
        ("until" = Option<dwell_wire::Instant>, Query, description = "Until when; a day after `from` if not said"),
        ("step" = Option<dwell_wire::Duration>, Query, description = "Whole minutes; an hour if not said"),
    ),
    responses((status = 200, description = "Buckets, one after the other", body = Timeline)),
)]
pub(super) async fn all_timeline(State(app): State<Shared>, request: Request<Body>) -> Answer {
    timeline(&app, None, request).await
}

async fn timeline(app: &App, topic: Option<TopicName>, request: Request<Body>) -> Answer {
    let mut query = Query::of(request.uri());
    let from = query.instant("from");
    let until = query.instant("until");
    let step = query.duration("step").map_or(limits::HOUR, |step| step.0);
    query.done()?;
    body::none(app, request).await?;
    let from = match from {
        Some(from) => read::timestamp(from).map_err(|error| Failure::field("from", error.to_string()))?,
        None => app.store.status().await?.now,
    };
    let from = whole_minute(from);
    let until = until.map_or(from.plus(limits::DAY).as_millis(), |until| until.0);
    let length = until.checked_sub(from.as_millis()).filter(|length| *length > 0);
    let length = length.ok_or_else(|| Failure::field("until", "must be after \"from\""))?;
    let buckets = u32::try_from(length.div_ceil(step.max(1))).unwrap_or(u32::MAX);
    let query = TimelineQuery::new(topic, from, step, buckets).map_err(|error| {
        let field = if error == TimelineError::Step { "step" } else { "until" };
        Failure::field(field, error)
    })?;
    let counts = app.store.timeline(query).await??;
    let bucket = |(index, count): (u64, u64)| Bucket {
        from: show::instant(from.plus(index * step)),
        until: show::instant(from.plus((index + 1) * step)),
        count,
    };
    ok(&Timeline { buckets: (0..).zip(counts).map(bucket).collect() })
}

fn whole_minute(at: Timestamp) -> Timestamp {
    let minute = at.as_millis() / limits::MINUTE * limits::MINUTE;
    Timestamp::from_millis(minute).unwrap_or(at)
}
