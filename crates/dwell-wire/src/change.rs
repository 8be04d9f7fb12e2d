//! Changing and moving a job.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::json::Fields;
use crate::put::{headers, not_both, priority};
use crate::retry::Retry;
use crate::{Duration, Instant};

/// A change. What is not named stays; `null` clears an optional field, and `"body": null` is a body.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ChangeJob<'a> {
    /// Due that long from now; 0 fires now. Of a buried job: revives it with fresh attempts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<Duration>,
    /// Due at that instant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Instant>,
    /// Lower goes first; null: 1024.
    #[serde(skip_serializing_if = "Edit::is_keep")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u32>, minimum = 0, maximum = 4_294_967_295_u64))]
    pub priority: Edit<u32>,
    /// Any JSON value.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = serde_json::Value, required = false))]
    pub body: Option<&'a RawValue>,
    /// Opaque bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(format = "byte"))]
    pub body_base64: Option<Cow<'a, str>>,
    /// All headers; null: none.
    #[serde(skip_serializing_if = "Edit::is_keep")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<BTreeMap<String, String>>))]
    pub headers: Edit<BTreeMap<String, String>>,
    /// Its own time-to-run; null: as the topic says.
    #[serde(skip_serializing_if = "Edit::is_keep")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Duration>))]
    pub ttr: Edit<Duration>,
    /// Its own retry policy; null: as the topic says.
    #[serde(skip_serializing_if = "Edit::is_keep")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Retry>))]
    pub retry: Edit<Retry>,
    /// Its own ttl; null: as the topic says.
    #[serde(skip_serializing_if = "Edit::is_keep")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Duration>))]
    pub ttl: Edit<Duration>,
    /// Its own target; null: as the topic says.
    #[serde(skip_serializing_if = "Edit::is_keep")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::job::TargetAddress>))]
    pub deliver_to: Edit<Cow<'a, str>>,
}

/// What happens to an optional field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Edit<T> {
    /// It stays.
    #[default]
    Keep,
    /// It is unset.
    Clear,
    /// It is set.
    Set(T),
}

impl<T> Edit<T> {
    pub(crate) fn is_keep(&self) -> bool {
        matches!(self, Self::Keep)
    }

    /// Reads a field that may be `null`. One that is wrong stays, and the mistake is noted.
    pub(crate) fn read<'a>(
        fields: &mut Fields<'a>,
        name: &'static str,
        read: impl FnOnce(&mut Fields<'a>) -> Option<T>,
    ) -> Self {
        if fields.take_null(name) { Self::Clear } else { read(fields).map_or(Self::Keep, Self::Set) }
    }
}

impl<T: Serialize> Serialize for Edit<T> {
    fn serialize<S: Serializer>(&self, json: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Keep | Self::Clear => json.serialize_none(),
            Self::Set(value) => value.serialize(json),
        }
    }
}

impl<'a> ChangeJob<'a> {
    /// Reads a change.
    pub fn read(fields: &mut Fields<'a>) -> Self {
        let change = Self {
            delay: fields.duration("delay"),
            at: fields.instant("at"),
            priority: Edit::read(fields, "priority", priority),
            body: fields.raw("body"),
            body_base64: fields.string("body_base64"),
            headers: Edit::read(fields, "headers", |fields| {
                fields.raw("headers").and_then(|value| headers(fields, value))
            }),
            ttr: Edit::read(fields, "ttr", |fields| fields.duration("ttr")),
            retry: Edit::read(fields, "retry", |fields| fields.object("retry", Retry::read)),
            ttl: Edit::read(fields, "ttl", |fields| fields.duration("ttl")),
            deliver_to: Edit::read(fields, "deliver_to", |fields| fields.string("deliver_to")),
        };
        not_both(fields, ("delay", change.delay.is_some()), ("at", change.at.is_some()));
        not_both(fields, ("body", change.body.is_some()), ("body_base64", change.body_base64.is_some()));
        change
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::read_object;

    #[test]
    fn what_stays_what_goes_and_what_is_set_are_told_apart() {
        let body = serde_json::value::to_raw_value(&()).unwrap();
        let change = ChangeJob {
            delay: Some(Duration(0)),
            body: Some(&body),
            priority: Edit::Clear,
            ttr: Edit::Set(Duration(5_000)),
            ..ChangeJob::default()
        };
        let text = serde_json::to_string(&change).unwrap();
        assert_eq!(text, r#"{"delay":0,"priority":null,"body":null,"ttr":5000}"#);

        let mut fields = read_object(text.as_bytes()).unwrap();
        let read = ChangeJob::read(&mut fields);
        assert_eq!(fields.done(), []);
        assert_eq!((read.delay, read.priority, read.ttr), (change.delay, change.priority, change.ttr));
        assert_eq!((read.headers, read.retry, read.ttl), (Edit::Keep, Edit::Keep, Edit::Keep));
        assert_eq!(read.body.map(RawValue::get), Some("null"));
    }
}
