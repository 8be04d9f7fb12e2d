//! Samples that show whether a target takes what is pushed to it.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::json::Fields;

/// A sample to be sent.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TestDelivery<'a> {
    /// Where to; to the topic's target if not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::job::TargetAddress>))]
    pub deliver_to: Option<Cow<'a, str>>,
    /// What it carries; null if not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = serde_json::Value))]
    pub body: Option<&'a RawValue>,
}

impl<'a> TestDelivery<'a> {
    /// Reads what is to be sent.
    pub fn read(fields: &mut Fields<'a>) -> Self {
        Self { deliver_to: fields.string("deliver_to"), body: fields.raw("body") }
    }
}

/// What became of a sample.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TestDelivered {
    /// Whether a job would have been acked.
    pub delivered: bool,
    /// Where it went.
    pub deliver_to: String,
    /// Its `webhook-id`.
    pub webhook_id: String,
    /// Whether it was signed: the topic has a secret.
    pub signed: bool,
    /// How long it took.
    pub took_ms: u64,
    /// What the target answered, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The first bytes of the answer, up to 256.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
