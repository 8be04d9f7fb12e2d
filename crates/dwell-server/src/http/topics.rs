//! Topics: what they look like, their policy, pausing them, deleting them.

use axum::body::Body;
use axum::extract::State;
use axum::http::Request;
use dwell_core::{Edit, Purge, SetPause, TopicError, TopicInfo, TopicName, TopicsQuery, limits};
use dwell_wire::json::read_object;
use dwell_wire::topic::{Pause, Policy, Topic, Topics};

use super::access::Who;
use super::answer::{Answer, Failure, no_content, ok};
use super::names::TopicPath;
use super::query::Query;
use super::read::{self, Mistakes};
use super::{App, Shared, body, show};

/// A page of topics, by name.
#[utoipa::path(
    get, path = "/v1/topics", operation_id = "listTopics", tag = "topics",
    params(
        ("prefix" = Option<String>, Query, description = "Only names that start so"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "At most so many; 100 if not said"),
        ("cursor" = Option<String>, Query, description = "The `next_cursor` of the page before"),
    ),
    responses((status = 200, description = "The page", body = Topics)),
)]
pub(super) async fn list_topics(State(app): State<Shared>, who: Who, request: Request<Body>) -> Answer {
    let mut query = Query::of(request.uri());
    let prefix = query.text("prefix").unwrap_or_default().into_owned();
    let limit = query.count("limit", limits::MAX_PAGE).unwrap_or(limits::DEFAULT_PAGE);
    let after = query.read("cursor", |text| TopicName::new(text).map_err(|_| "is not a cursor of this list"));
    query.done()?;
    body::none(&app, request).await?;
    // One more than asked for tells whether there is another page.
    let mut page = topics(&app, &who, TopicsQuery { prefix, after, limit: limit + 1 }).await?;
    let more = page.len() > limit as usize;
    page.truncate(limit as usize);
    let next_cursor = page.last().filter(|_| more).map(|topic| topic.name.to_string());
    let now = app.store.status().await?.now;
    ok(&Topics { topics: page.iter().map(|info| show::topic(info, now)).collect(), next_cursor })
}

/// The topics of whoever asks.
async fn topics(app: &App, who: &Who, query: TopicsQuery) -> Result<Vec<TopicInfo>, Failure> {
    let Some(starts) = who.topics() else { return Ok(app.store.topics(query).await?) };
    let mut found = Vec::new();
    // Starts are in order and none is part of another, so that what is found is in order, too.
    for start in starts {
        let left = query.limit.saturating_sub(u32::try_from(found.len()).unwrap_or(u32::MAX));
        // What was asked for may be part of what is theirs, or the other way round; or they have nothing in common.
        let prefix = if query.prefix.starts_with(start) { &query.prefix } else { start };
        if left > 0 && prefix.starts_with(&query.prefix) {
            let query = TopicsQuery { prefix: prefix.clone(), after: query.after.clone(), limit: left };
            found.extend(app.store.topics(query).await?);
        }
    }
    Ok(found)
}

/// One topic.
#[utoipa::path(
    get, path = "/v1/topics/{topic}", operation_id = "getTopic", tag = "topics",
    params(("topic" = dwell_wire::job::TopicName, Path)),
    responses((status = 200, description = "The topic", body = Topic)),
)]
pub(super) async fn get_topic(
    State(app): State<Shared>,
    TopicPath(topic): TopicPath,
    request: Request<Body>,
) -> Answer {
    Query::of(request.uri()).done()?;
    body::none(&app, request).await?;
    ok(&look(&app, topic).await?)
}

async fn look(app: &App, topic: TopicName) -> Result<Topic, Failure> {
    let info = app.store.topic(topic).await?.ok_or(TopicError::NotFound)?;
    Ok(show::topic(&info, app.store.status().await?.now))
}

/// Replaces a topic's policy. It holds at once for jobs that are already there.
#[utoipa::path(
    put, path = "/v1/topics/{topic}/policy", operation_id = "setPolicy", tag = "topics",
    params(("topic" = dwell_wire::job::TopicName, Path)),
    request_body = Option<Policy>,
    responses((status = 200, description = "The policy as it is now", body = Policy)),
)]
pub(super) async fn set_policy(
    State(app): State<Shared>,
    TopicPath(topic): TopicPath,
    request: Request<Body>,
) -> Answer {
    Query::of(request.uri()).done()?;
    let text = body::read(&app, request).await?;
    let mut fields = read_object(&text.bytes)?;
    let wanted = Policy::read(&mut fields);
    let mut mistakes = Mistakes(fields.done());
    read::check_own(&mut mistakes, "topic", topic.is_own());
    let (mut policy, secrets) = read::policy(wanted, mistakes, app.couriers.guard())?;
    let one_at_a_time = app.policies.lock().await;
    policy.deliver_secrets = match secrets {
        Edit::Set(secrets) => secrets,
        Edit::Clear => Vec::new(),
        // They are never shown, so a policy that was read and is sent back does not have them.
        Edit::Keep => {
            app.store.topic(topic.clone()).await?.map(|topic| topic.policy.deliver_secrets).unwrap_or_default()
        }
    };
    app.store.set_policy(topic, policy.clone()).await??;
    drop(one_at_a_time);
    ok(&show::policy(&policy))
}

/// Stops hand-outs, until resumed or for a while. Puts work, due jobs become ready, held leases settle.
#[utoipa::path(
    post, path = "/v1/topics/{topic}/pause", operation_id = "pauseTopic", tag = "topics",
    params(("topic" = dwell_wire::job::TopicName, Path)),
    request_body = Option<Pause>,
    responses((status = 200, description = "The topic as it is now", body = Topic)),
)]
pub(super) async fn pause_topic(
    State(app): State<Shared>,
    TopicPath(topic): TopicPath,
    request: Request<Body>,
) -> Answer {
    Query::of(request.uri()).done()?;
    let text = body::read(&app, request).await?;
    let mut fields = read_object(&text.bytes)?;
    let wanted = Pause::read(&mut fields);
    let mut mistakes = Mistakes(fields.done());
    read::check_own(&mut mistakes, "topic", topic.is_own());
    let length = wanted.length.and_then(|length| mistakes.take("for", read::delay(length)));
    mistakes.none()?;
    app.store.pause(topic.clone(), length.map_or(SetPause::On, SetPause::For)).await??;
    ok(&look(&app, topic).await?)
}

/// Starts hand-outs again.
#[utoipa::path(
    post, path = "/v1/topics/{topic}/resume", operation_id = "resumeTopic", tag = "topics",
    params(("topic" = dwell_wire::job::TopicName, Path)),
    responses((status = 200, description = "The topic as it is now", body = Topic)),
)]
pub(super) async fn resume_topic(
    State(app): State<Shared>,
    TopicPath(topic): TopicPath,
    request: Request<Body>,
) -> Answer {
    Query::of(request.uri()).done()?;
    body::none(&app, request).await?;
    app.store.pause(topic.clone(), SetPause::Off).await??;
    ok(&look(&app, topic).await?)
}

/// Deletes a topic: its jobs, leases and policy.
#[utoipa::path(
    delete, path = "/v1/topics/{topic}", operation_id = "deleteTopic", tag = "topics",
    params(("topic" = dwell_wire::job::TopicName, Path)),
    responses((status = 204, description = "It is gone")),
)]
pub(super) async fn delete_topic(
    State(app): State<Shared>,
    TopicPath(topic): TopicPath,
    request: Request<Body>,
) -> Answer {
    Query::of(request.uri()).done()?;
    body::none(&app, request).await?;
    app.store.purge(topic, Purge::Topic).await??;
    Ok(no_content())
}
