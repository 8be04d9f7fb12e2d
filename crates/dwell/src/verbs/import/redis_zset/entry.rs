//! One job of the old queue, and what becomes of it here.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use dwell_core::{JobId, TopicName};
use dwell_wire::Instant;
use dwell_wire::put::{IfExists, PutJob};
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use xxhash_rust::xxh3::xxh3_128;

use super::Unit;
use super::old::Place;
use crate::output;
use crate::verbs::body::Body;

/// The header that tells jobs that came this way.
pub(super) const ORIGIN: &str = "imported-from";

/// A job as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) member: Vec<u8>,
    /// As Redis writes it; none in a list.
    pub(super) score: Option<String>,
    /// What the hash has of it.
    pub(super) value: Option<Vec<u8>>,
    /// Of the value, to see whether it has changed.
    pub(super) hash: String,
}

/// The same as a job of Dwell.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) topic: String,
    pub(super) id: String,
    /// None if it is due and nobody knows since when.
    pub(super) at: Option<Instant>,
    body: Body,
    /// Where it was, and there its score and the hash of its body: what tells it from others, and from what it was before.
    origin: String,
    place: String,
}

/// What a job of a pool says of itself.
#[derive(Deserialize)]
struct Pooled<'a> {
    topic: String,
    #[serde(borrow)]
    body: Option<&'a RawValue>,
}

impl Entry {
    /// What it becomes, or why it cannot.
    pub(super) fn job(&self, place: &Place, unit: Unit) -> Result<Job, String> {
        let score = self.score.as_deref().map(|score| score.parse::<f64>().unwrap_or(f64::NAN));
        let at = match score {
            Some(score) => Some(unit.instant(score).ok_or(format!("a score of {score} is no time"))?),
            None => None,
        };
        let (topic, body) = match &place.topic {
            // What has no body of its own is all there is of the job.
            Some(topic) => (topic.clone(), body(self.value.as_deref().unwrap_or(&self.member))?),
            None => self.pooled()?,
        };
        let named = TopicName::new(&topic).map_err(|error| format!("topic \"{topic}\": {error}"))?;
        if named.is_own() {
            return Err(format!("topic \"{topic}\": names with $ in front are the server's own"));
        }
        let score = self.score.as_deref().unwrap_or("due");
        let origin = format!("{} {score} {}", output::plain(&place.name()), self.hash);
        Ok(Job {
            topic,
            id: id(&self.member),
            at,
            body,
            place: output::plain(&place.name()),
            origin: origin.trim().to_owned(),
        })
    }

    fn pooled(&self) -> Result<(String, Body), String> {
        let value = self.value.as_deref().unwrap_or_default();
        let job: Pooled<'_> =
            serde_json::from_slice(value).map_err(|error| format!("is no JSON object with a topic: {error}"))?;
        let body = match job.body {
            Some(body) => Body::Json(body.to_owned()),
            None => body(value)?,
        };
        Ok((job.topic, body))
    }

    /// The member, safe to show.
    pub(super) fn shown(&self) -> String {
        output::short(&String::from_utf8_lossy(&self.member))
    }
}

impl Job {
    /// The put that brings it here.
    pub(super) fn put(&self, if_exists: IfExists) -> PutJob<'_> {
        let (body, body_base64) = self.body.fields();
        PutJob {
            topic: Some(self.topic.as_str().into()),
            id: Some(self.id.as_str().into()),
            at: self.at,
            body,
            body_base64,
            headers: Some(BTreeMap::from([(ORIGIN.to_owned(), self.origin.clone())])),
            if_exists: Some(if_exists),
            ..PutJob::default()
        }
    }

    /// Whether a job that is here is an earlier state of this one: it came from the same place, and was changed there since.
    pub(super) fn is_later_than(&self, headers: &BTreeMap<String, String>) -> bool {
        let is_of = |origin: &String| origin.strip_prefix(&self.place).is_some_and(|rest| rest.starts_with(' '));
        headers.get(ORIGIN).is_some_and(|origin| *origin != self.origin && is_of(origin))
    }
}

impl Unit {
    /// The instant of a score. Parts of a millisecond round up, so that nothing is early.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked")]
    pub(super) fn instant(self, score: f64) -> Option<Instant> {
        let millis = match self {
            Self::Seconds => (score * 1_000.0).round().max((score * 1_000.0 - 1e-3).ceil()),
            Self::Milliseconds => score.ceil(),
        };
        (0.0..=253_402_300_799_999.0).contains(&millis).then_some(Instant(millis as u64))
    }

    /// The score of an instant.
    #[expect(clippy::cast_precision_loss, reason = "instants have 48 bits")]
    pub(super) fn score(self, instant: Instant) -> f64 {
        match self {
            Self::Seconds => instant.0 as f64 / 1_000.0,
            Self::Milliseconds => instant.0 as f64,
        }
    }
}

/// The id of a member: itself if it can be one, else a number made from it. The same in every run.
fn id(member: &[u8]) -> String {
    match std::str::from_utf8(member) {
        Ok(text) if JobId::new(text).is_ok_and(|id| !id.is_own()) => text.to_owned(),
        _ => format!("zset-{:032x}", xxh3_128(member)),
    }
}

/// JSON if it is JSON, else text if it is text, else bytes.
fn body(bytes: &[u8]) -> Result<Body, String> {
    let Ok(text) = std::str::from_utf8(bytes) else { return Ok(Body::Base64(STANDARD.encode(bytes))) };
    match serde_json::from_str::<Box<RawValue>>(text) {
        Ok(json) => Ok(Body::Json(json)),
        Err(_) => to_raw_value(text).map(Body::Json).map_err(|error| format!("the body: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_instants_and_never_early() {
        let seconds = |score| Unit::Seconds.instant(score).map(|instant| instant.0);
        assert_eq!(seconds(1_800_000_000.0), Some(1_800_000_000_000));
        assert_eq!(seconds(1_800_000_000.25), Some(1_800_000_000_250));
        assert_eq!(seconds(1_800_000_000.123_4), Some(1_800_000_000_124));
        assert_eq!(seconds(1_731_744_000.1), Some(1_731_744_000_100), "what a float cannot hold adds nothing");
        assert_eq!(Unit::Milliseconds.instant(1_800_000_000_000.5).map(|at| at.0), Some(1_800_000_000_001));
        for wrong in [-1.0, f64::NAN, f64::INFINITY, 1e18] {
            assert_eq!(Unit::Seconds.instant(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn members_that_cannot_be_ids_get_one_made_from_them() {
        assert_eq!(id(b"order-42"), "order-42");
        for member in [&b"\xff\x00"[..], b"", b"$7", b"a\nb", &[b'x'; 300]] {
            let made = id(member);
            assert!(made.starts_with("zset-") && JobId::new(&made).is_ok(), "{made}");
            assert_eq!(made, id(member));
        }
        assert_ne!(id(b"a\nb"), id(b"a\nc"));
    }

    #[test]
    fn jobs_of_a_pool_say_their_topic_and_may_have_a_body() {
        let place = Place { key: b"b".to_vec(), hash: b"p".to_vec(), topic: None, is_list: false };
        let entry = |value: &str| Entry {
            member: b"1".to_vec(),
            score: Some("1800000000".to_owned()),
            value: Some(value.as_bytes().to_vec()),
            hash: String::new(),
        };
        let job = |value: &str| entry(value).job(&place, Unit::Seconds);
        let sent = |value: &str| job(value).unwrap().put(IfExists::Keep).body.unwrap().get().to_owned();
        assert_eq!(sent(r#"{"topic": "t", "body": {"n":  1}}"#), r#"{"n":  1}"#);
        assert_eq!(sent(r#"{"topic": "t", "to": "me"}"#), r#"{"topic": "t", "to": "me"}"#);
        for wrong in ["", "{}", "[]", r#"{"topic": 7}"#, r#"{"topic": "a b"}"#, r#"{"topic": "$own"}"#] {
            assert!(job(wrong).is_err(), "{wrong}");
        }
    }
}
