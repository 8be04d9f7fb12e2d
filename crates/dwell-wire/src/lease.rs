//! Leasing jobs.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::Duration;
use crate::job::Job;
use crate::json::{Fields, read_array, shown};

/// A consumer's question for jobs. Everything but `topics` is optional, and a path that names the topic has none.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LeaseRequest<'a> {
    /// Which topics, at most 100; the best job over all of them comes first.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(value_type = Vec<crate::job::TopicName>, min_items = 1, max_items = 100)
    )]
    pub topics: Option<Vec<Cow<'a, str>>>,
    /// At most so many jobs, up to 1,000; one if not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 1000))]
    pub max: Option<u32>,
    /// How long to wait for the first, up to `60s`; not at all if not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<Duration>,
    /// How long to hold them, this time; `1s` to `24h`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttr: Option<Duration>,
    /// Who asks, for people who look who holds a job.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 255))]
    pub consumer: Option<Cow<'a, str>>,
    /// Settle the jobs as they are handed out: at most once, no tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_ack: Option<bool>,
}

impl<'a> LeaseRequest<'a> {
    /// Reads a lease request, with its topics if the path does not name one.
    pub fn read(fields: &mut Fields<'a>, with_topics: bool) -> Self {
        let topics = with_topics.then(|| fields.needed("topics", |fields, name| fields.read(name, strings))).flatten();
        Self {
            topics,
            max: fields.whole("max", 1..=1_000).and_then(|max| u32::try_from(max).ok()),
            wait: fields.duration("wait"),
            ttr: fields.duration("ttr"),
            consumer: fields.string("consumer"),
            auto_ack: fields.flag("auto_ack"),
        }
    }
}

/// A list of strings.
pub(crate) fn strings(value: &RawValue) -> Result<Vec<Cow<'_, str>>, String> {
    let elements = read_array(value).ok_or_else(|| format!("{} is not a list of strings", shown(value)))?;
    let read = |element: &RawValue| serde_json::from_str::<String>(element.get()).map(Cow::Owned);
    elements
        .into_iter()
        .map(|element| read(element).map_err(|_| format!("{} in it is not a string", shown(element))))
        .collect()
}

/// The jobs handed out; none if none was there in time.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LeaseAnswer {
    /// Best first, each with the token that settles it.
    pub jobs: Vec<Job>,
}

/// A lease request whose path names the topic: stands for its form in the OpenAPI document.
#[cfg(feature = "openapi")]
#[derive(Debug, utoipa::ToSchema)]
pub struct LeaseTopic {}
