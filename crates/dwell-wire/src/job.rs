//! The job, as every read returns it.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::Instant;
use crate::put::Outcome;
use crate::retry::Retry;

/// A job. Fields that do not apply are absent.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Job {
    /// Where it queues.
    pub topic: String,
    /// Your own name for it.
    pub id: String,
    /// The store's name for it, never used again.
    pub number: u64,
    /// What it is doing.
    pub state: State,
    /// Its body, exactly as sent.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<serde_json::Value>, required = false))]
    pub body: Option<Box<RawValue>>,
    /// Its body, if that is opaque bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(format = "byte"))]
    pub body_base64: Option<String>,
    /// Its headers, if it has any.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "openapi", schema(required = false))]
    pub headers: BTreeMap<String, String>,
    /// When it was put.
    pub created_at: Instant,
    /// When it may be handed over.
    pub due_at: Instant,
    /// Its last change in the store's sequence: it only grows.
    pub version: u64,
    /// Lower goes first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u32>,
    /// How long a consumer may hold it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttr_ms: Option<u64>,
    /// Deliveries so far that count.
    pub attempt: u32,
    /// How it is tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// Where it is pushed to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deliver_to: Option<String>,
    /// The last pushes to its target, newest last. Only `GET` of the job shows them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(required = false))]
    pub attempts: Vec<Attempt>,
    /// When it is no longer worth handing over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Instant>,
    /// What went wrong last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// When it was buried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buried_at: Option<Instant>,
    /// Why it was buried: `attempts_exhausted`, `expired`, `gone`, `target_refused`, `buried`, or a consumer's own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buried_reason: Option<String>,
    /// When its lease runs out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_expires_at: Option<Instant>,
    /// Who holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumer: Option<String>,
    /// When it was acked, of a job that its topic's `keep_done` remembers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done_at: Option<Instant>,
    /// In the answer to a put: what it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// In the answer to a lease: what settles it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

impl Job {
    /// A job of which nothing else is known.
    pub fn new(topic: String, id: String, number: u64, state: State, created_at: Instant, due_at: Instant) -> Self {
        Self {
            topic,
            id,
            number,
            state,
            body: None,
            body_base64: None,
            headers: BTreeMap::new(),
            created_at,
            due_at,
            version: 0,
            priority: None,
            ttr_ms: None,
            attempt: 0,
            retry: None,
            deliver_to: None,
            attempts: Vec::new(),
            expires_at: None,
            last_error: None,
            buried_at: None,
            buried_reason: None,
            lease_expires_at: None,
            consumer: None,
            done_at: None,
            outcome: None,
            token: None,
        }
    }
}

/// One push of a job to its target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Attempt {
    /// When it began.
    pub at: Instant,
    /// How long it took.
    pub took_ms: u64,
    /// The status of the answer, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The first bytes of the answer, up to 256.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// Why there was no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A value that is there, `null` too.
fn present<'de, D: Deserializer<'de>>(json: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(json).map(Some)
}

/// What a job is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum State {
    /// Waiting for its due time.
    Delayed,
    /// Due, waiting for a consumer.
    Ready,
    /// In a consumer's hands.
    Leased,
    /// Put aside: a dead letter.
    Buried,
    /// Acked and remembered; not live.
    Done,
}

impl State {
    /// The states of live jobs, by name.
    pub const LIVE: [(&str, Self); 4] =
        [("delayed", Self::Delayed), ("ready", Self::Ready), ("leased", Self::Leased), ("buried", Self::Buried)];
}

/// The name of a topic.
#[cfg(feature = "openapi")]
#[derive(Debug, utoipa::ToSchema)]
#[schema(value_type = String, min_length = 1, max_length = 200, pattern = r"^[A-Za-z0-9._+/;()][A-Za-z0-9._+/;$()-]*$")]
pub struct TopicName(pub String);

/// Your own name for a job.
#[cfg(feature = "openapi")]
#[derive(Debug, utoipa::ToSchema)]
#[schema(value_type = String, min_length = 1, max_length = 255)]
pub struct JobId(pub String);

/// Where a job is pushed to.
#[cfg(feature = "openapi")]
#[derive(Debug, utoipa::ToSchema)]
#[schema(value_type = String, min_length = 8, max_length = 2048, format = "uri", pattern = "^[Hh][Tt][Tt][Pp][Ss]?://[A-Za-z0-9]",
    examples("https://example.com/hook"))]
pub struct TargetAddress(pub String);

/// What a live job is doing.
#[cfg(feature = "openapi")]
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum LiveState {
    /// Waiting for its due time.
    Delayed,
    /// Due, waiting for a consumer.
    Ready,
    /// In a consumer's hands.
    Leased,
    /// Put aside.
    Buried,
}
