//! A sample to a target, to see whether it takes what Dwell sends.

use axum::body::Body;
use axum::extract::State;
use axum::http::Request;
use dwell_core::TopicError;
use dwell_wire::delivery::{TestDelivered, TestDelivery};
use dwell_wire::json::read_object;

use super::answer::{Answer, Failure, ok};
use super::names::TopicPath;
use super::query::Query;
use super::read::{self, Mistakes};
use super::{Shared, body, show};
use crate::delivery::Sample;

/// Sends a sample to the topic's target, or to another, signed as the topic's jobs are. It is no job: it is not kept, not
/// tried again, and not counted.
#[utoipa::path(
    post, path = "/v1/topics/{topic}/test-delivery", operation_id = "testDelivery", tag = "topics",
    params(("topic" = dwell_wire::job::TopicName, Path)),
    request_body = Option<TestDelivery>,
    responses((status = 200, description = "What became of it", body = TestDelivered)),
)]
pub(super) async fn test_delivery(
    State(app): State<Shared>,
    TopicPath(topic): TopicPath,
    request: Request<Body>,
) -> Answer {
    Query::of(request.uri()).done()?;
    let text = body::read(&app, request).await?;
    let mut fields = read_object(&text.bytes)?;
    let wanted = TestDelivery::read(&mut fields);
    let mut mistakes = Mistakes(fields.done());
    let given = wanted.deliver_to.and_then(|address| mistakes.take("deliver_to", app.couriers.guard().read(&address)));
    let body = read::body(&mut mistakes, wanted.body.map(serde_json::value::RawValue::get), None);
    mistakes.none()?;
    let info = app.store.topic(topic.clone()).await?.ok_or(TopicError::NotFound)?;
    let Some(target) = given.or(info.policy.deliver_to) else {
        return Err(Failure::field("deliver_to", "is missing, and the topic has none: say where to"));
    };
    let body = body.unwrap_or_default();
    read::check_size(&body, app.config.max_body)?;
    let secrets = info.policy.deliver_secrets;
    let signed = !secrets.is_empty();
    let sample = Sample { address: target.address().to_owned(), topic: topic.to_string(), body, secrets };
    let due_at = show::instant(app.store.status().await?.now).to_string();
    let sampled = app.couriers.sample(sample, due_at).await;
    ok(&TestDelivered {
        delivered: sampled.delivered,
        deliver_to: target.address().to_owned(),
        webhook_id: sampled.webhook_id,
        signed,
        took_ms: u64::try_from(sampled.took.as_millis()).unwrap_or(u64::MAX),
        status: sampled.status,
        answer: sampled.status.map(|_| String::from_utf8_lossy(&sampled.answer).into_owned()),
        error: sampled.error,
    })
}
