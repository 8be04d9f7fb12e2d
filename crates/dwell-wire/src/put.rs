//! Putting jobs.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::json::{Fields, shown};
use crate::retry::Retry;
use crate::{Code, Duration, FieldError, Instant};

/// A job to be put. With a path that names topic and id (`PUT`), neither is in here; `POST` to a topic may name the id;
/// an item of a batch names its topic.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PutJob<'a> {
    /// Where it queues.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::job::TopicName>))]
    pub topic: Option<Cow<'a, str>>,
    /// Your own name for it; made by the server if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::job::JobId>))]
    pub id: Option<Cow<'a, str>>,
    /// Due that long from now. Not together with `at`; with neither: now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<Duration>,
    /// Due at that instant; one in the past means at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Instant>,
    /// Any JSON value, kept exactly as sent. Not together with `body_base64`; with neither: null.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = serde_json::Value))]
    pub body: Option<&'a RawValue>,
    /// Opaque bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(format = "byte"))]
    pub body_base64: Option<Cow<'a, str>>,
    /// Names and values that travel with the job; 4 KiB together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<BTreeMap<String, String>>,
    /// Lower goes first; 1024 if not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 4_294_967_295_u64))]
    pub priority: Option<u32>,
    /// How long a consumer may hold it, `1s` to `24h`; as the topic says, or `60s`, if not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttr: Option<Duration>,
    /// How it is tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// How long past its due time it is worth handing over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Duration>,
    /// Adds a random 0…jitter to the due time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Duration>,
    /// What to do if a job of this topic and id is there already.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub if_exists: Option<IfExists>,
    /// Where it is pushed to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::job::TargetAddress>))]
    pub deliver_to: Option<Cow<'a, str>>,
}

/// Which of the names a put may have in its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// None: the path has both.
    ByPath,
    /// The id.
    ById,
    /// Topic and id.
    ByTopicAndId,
}

impl<'a> PutJob<'a> {
    /// Reads a put.
    pub fn read(fields: &mut Fields<'a>, named: Named) -> Self {
        let topic = if named == Named::ByTopicAndId { fields.string("topic") } else { None };
        let id = if named == Named::ByPath { None } else { fields.string("id") };
        let put = Self {
            topic,
            id,
            delay: fields.duration("delay"),
            at: fields.instant("at"),
            body: fields.raw("body"),
            body_base64: fields.string("body_base64"),
            headers: fields.raw("headers").and_then(|value| headers(fields, value)),
            priority: priority(fields),
            ttr: fields.duration("ttr"),
            retry: fields.object("retry", Retry::read),
            ttl: fields.duration("ttl"),
            jitter: fields.duration("jitter"),
            if_exists: fields.word("if_exists", &IfExists::WORDS),
            deliver_to: fields.string("deliver_to"),
        };
        not_both(fields, ("delay", put.delay.is_some()), ("at", put.at.is_some()));
        not_both(fields, ("body", put.body.is_some()), ("body_base64", put.body_base64.is_some()));
        put
    }
}

pub(crate) fn not_both(fields: &mut Fields<'_>, (one, has_one): (&str, bool), (other, has_other): (&str, bool)) {
    if has_one && has_other {
        fields.error(other, format!("and \"{one}\" are both given; choose one"));
    }
}

pub(crate) fn priority(fields: &mut Fields<'_>) -> Option<u32> {
    fields.whole("priority", 0..=u64::from(u32::MAX)).and_then(|priority| u32::try_from(priority).ok())
}

pub(crate) fn headers<'a>(fields: &mut Fields<'a>, value: &'a RawValue) -> Option<BTreeMap<String, String>> {
    let read: Result<Vec<(String, &RawValue)>, _> = Pairs::read(value);
    let Ok(pairs) = read else {
        fields.error("headers", format!("{} is not an object of strings", shown(value)));
        return None;
    };
    let mut headers = BTreeMap::new();
    for (name, value) in pairs {
        match serde_json::from_str::<String>(value.get()) {
            Ok(text) if !headers.contains_key(&name) => drop(headers.insert(name, text)),
            Ok(_) => fields.error(&format!("headers.{name}"), "is given twice"),
            Err(_) => fields.error(&format!("headers.{name}"), format!("{} is not a string", shown(value))),
        }
    }
    Some(headers)
}

/// The entries of an object, repeated ones too.
struct Pairs;

impl Pairs {
    fn read(value: &RawValue) -> Result<Vec<(String, &RawValue)>, serde_json::Error> {
        use serde::Deserializer as _;
        let mut json = serde_json::Deserializer::from_str(value.get());
        json.deserialize_map(Self)
    }
}

impl<'de> serde::de::Visitor<'de> for Pairs {
    type Value = Vec<(String, &'de RawValue)>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = map.next_entry()? {
            pairs.push(pair);
        }
        Ok(pairs)
    }
}

/// What a put does when the topic already has a live job of that id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum IfExists {
    /// The new job takes its place.
    Replace,
    /// The old one stays as it is.
    Keep,
    /// The put is refused.
    Reject,
}

impl IfExists {
    /// All of them, by name.
    pub const WORDS: [(&str, Self); 3] = [("replace", Self::Replace), ("keep", Self::Keep), ("reject", Self::Reject)];
}

/// What a put did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Outcome {
    /// There was none.
    Created,
    /// It took the place of a live one.
    Replaced,
    /// The one that was there stays.
    Kept,
}

/// Many jobs to be put, durable together, each judged on its own.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PutJobs<'a> {
    /// At most 10,000.
    #[cfg_attr(feature = "openapi", schema(max_items = 10_000, value_type = Vec<serde_json::Value>))]
    pub jobs: Vec<PutJob<'a>>,
}

/// What became of each job of a batch, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PutJobsAnswer {
    /// One a job.
    pub results: Vec<PutResult>,
}

/// What became of one job of a batch: the job's names and times, or a code and what it means.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PutResult {
    /// As if it had been put alone.
    pub status: u16,
    /// What the put did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// Where it queues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// Its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// When it is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Instant>,
    /// Its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// What went wrong, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// What is wrong with which field.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(required = false))]
    pub errors: Vec<FieldError>,
}

/// A put whose path names the topic alone: stands for its form in the OpenAPI document.
#[cfg(feature = "openapi")]
#[derive(Debug, utoipa::ToSchema)]
pub struct CreateJob {}
