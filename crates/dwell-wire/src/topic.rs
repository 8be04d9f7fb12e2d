//! Topics: what they look like, what they say for all their jobs, and what is asked of all their jobs at once.

use std::borrow::Cow;

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::change::Edit;
use crate::job::Job;
use crate::json::{Fields, string};
use crate::lease::strings;
use crate::retry::Retry;
use crate::{Duration, Instant};

/// What a topic looks like now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Topic {
    /// Its name.
    pub name: String,
    /// Live jobs by state.
    pub counts: Counts,
    /// When the next delayed job is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_due_at: Option<Instant>,
    /// When the ready job that has waited longest became due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_ready_at: Option<Instant>,
    /// What has happened since the topic was created.
    pub totals: Totals,
    /// Consumers waiting in a lease call that names it.
    pub waiting: u64,
    /// What it says for all its jobs.
    pub policy: Policy,
    /// Whether hand-outs are stopped.
    pub paused: bool,
    /// Until when, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_until: Option<Instant>,
}

/// Live jobs by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Counts {
    /// Waiting for their due time.
    pub delayed: u64,
    /// Due, waiting for a consumer.
    pub ready: u64,
    /// In consumers' hands.
    pub leased: u64,
    /// Put aside.
    pub buried: u64,
}

/// What has happened in a topic since it was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Totals {
    /// Jobs created or replaced.
    pub put: u64,
    /// Leases given.
    pub leased: u64,
    /// Jobs acked.
    pub acked: u64,
    /// Failures reported by consumers.
    pub nacked: u64,
    /// Leases that ran out.
    pub timed_out: u64,
    /// Jobs given back.
    pub released: u64,
    /// Jobs buried, for whatever reason.
    pub buried: u64,
    /// Jobs redriven.
    pub redriven: u64,
    /// Jobs cancelled.
    pub cancelled: u64,
    /// Jobs purged, and dead letters dropped after `keep_buried`.
    pub purged: u64,
}

/// A page of topics, by name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Topics {
    /// The topics.
    pub topics: Vec<Topic>,
    /// What `?cursor=` of the next page is, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// What a topic says for all its jobs. It is replaced whole; what is not said is the server's default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Policy {
    /// Time-to-run of jobs that do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttr: Option<Duration>,
    /// Retry policy of jobs that do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// Ttl of jobs that do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Duration>,
    /// Pushes all jobs of the topic that have no target of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::job::TargetAddress>))]
    pub deliver_to: Option<String>,
    /// What pushes are signed with: `whsec_` and base64, or a list of two while one takes the other's place, the new one
    /// first. Never shown; absent: as it is; null: none.
    #[serde(
        default,
        skip_serializing_if = "Edit::is_keep",
        serialize_with = "one_or_more",
        deserialize_with = "never_shown"
    )]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<DeliverSecret>, write_only))]
    pub deliver_secret: Edit<Vec<String>>,
    /// Live leases at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 4_294_967_295_u64))]
    pub max_in_flight: Option<u32>,
    /// Jobs handed out a second, in bursts of at most one second's worth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 0.001, maximum = 1_000_000))]
    pub max_rate: Option<f64>,
    /// Dead letters are dropped that long after they were buried; kept if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_buried: Option<Duration>,
    /// An acked id is remembered that long; not at all if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_done: Option<Duration>,
}

impl Policy {
    /// Reads a policy.
    pub fn read(fields: &mut Fields<'_>) -> Self {
        Self {
            ttr: fields.duration("ttr"),
            retry: fields.object("retry", Retry::read),
            ttl: fields.duration("ttl"),
            deliver_to: fields.string("deliver_to").map(Cow::into_owned),
            deliver_secret: Edit::read(fields, "deliver_secret", |fields| fields.read("deliver_secret", secrets)),
            max_in_flight: fields
                .whole("max_in_flight", 1..=u64::from(u32::MAX))
                .and_then(|max| u32::try_from(max).ok()),
            max_rate: fields.number("max_rate"),
            keep_buried: fields.duration("keep_buried"),
            keep_done: fields.duration("keep_done"),
        }
    }
}

/// What pushes are signed with, as a schema: one secret, or a list of up to two.
#[cfg(feature = "openapi")]
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(untagged)]
pub enum DeliverSecret {
    /// One.
    One(SecretText),
    /// The new one, and the one before it.
    Two(Vec<SecretText>),
}

/// A secret.
#[cfg(feature = "openapi")]
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(value_type = String, pattern = "^whsec_([A-Za-z0-9+/]{4}){6,32}$", examples("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"))]
pub struct SecretText(pub String);

/// One secret or a list. What was given is never part of a message.
fn secrets(value: &RawValue) -> Result<Vec<String>, String> {
    if let Ok(one) = string(value) {
        return Ok(vec![one.into_owned()]);
    }
    serde_json::from_str(value.get()).map_err(|_| "is neither a string nor a list of strings".to_owned())
}

/// An answer does not have them.
fn never_shown<'de, D: Deserializer<'de>>(json: D) -> Result<Edit<Vec<String>>, D::Error> {
    IgnoredAny::deserialize(json).map(|_| Edit::Keep)
}

fn one_or_more<S: Serializer>(secrets: &Edit<Vec<String>>, json: S) -> Result<S::Ok, S::Error> {
    match secrets {
        Edit::Set(secrets) if secrets.len() == 1 => secrets[0].serialize(json),
        secrets => secrets.serialize(json),
    }
}

/// How long hand-outs are to be stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Pause {
    /// That long; until resumed if not said.
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    pub length: Option<Duration>,
}

impl Pause {
    /// Reads a pause.
    pub fn read(fields: &mut Fields<'_>) -> Self {
        Self { length: fields.duration("for") }
    }
}

/// Which dead letters are to come back, and how fast.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Redrive<'a> {
    /// Only these.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(value_type = Option<Vec<crate::job::JobId>>, max_items = 10_000)
    )]
    pub ids: Option<Vec<Cow<'a, str>>>,
    /// Only those buried for this reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 255))]
    pub reason: Option<Cow<'a, str>>,
    /// At most so many, up to 10,000; 1,000 if not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 10_000))]
    pub max: Option<u32>,
    /// Due that long from now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<Duration>,
    /// Jobs a second: job k is due k/rate seconds later.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 0.001, maximum = 1_000_000))]
    pub rate: Option<f64>,
}

impl<'a> Redrive<'a> {
    /// Reads a redrive.
    pub fn read(fields: &mut Fields<'a>) -> Self {
        Self {
            ids: fields.read("ids", strings),
            reason: fields.string("reason"),
            max: fields.whole("max", 1..=10_000).and_then(|max| u32::try_from(max).ok()),
            delay: fields.duration("delay"),
            rate: fields.number("rate"),
        }
    }
}

/// What a redrive did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Redriven {
    /// Jobs that came back.
    pub redriven: u64,
    /// Dead letters that were meant and are still buried.
    pub remaining: u64,
}

/// What a purge did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Purged {
    /// Jobs that went.
    pub purged: u64,
}

/// A page of a topic's jobs.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Jobs {
    /// The jobs, in order.
    pub jobs: Vec<Job>,
    /// What `?cursor=` of the next page is, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// How many delayed and ready jobs are due when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Timeline {
    /// One after the other, without gaps.
    pub buckets: Vec<Bucket>,
}

/// One stretch of a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Bucket {
    /// From this instant on.
    pub from: Instant,
    /// Up to, and without, this one.
    pub until: Instant,
    /// Jobs due then.
    pub count: u64,
}
