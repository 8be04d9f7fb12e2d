//! Names in paths.

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use dwell_core::{JobId, TopicName};
use dwell_wire::{Code, FieldError};

use super::answer::Failure;

/// The topic that a path names.
pub(super) struct TopicPath(pub(super) TopicName);

/// The topic and the id that a path names.
pub(super) struct JobPath(pub(super) TopicName, pub(super) JobId);

/// The two last parts of a path that settles a lease.
pub(super) struct LeasePath {
    pub(super) token: String,
    pub(super) verb: String,
}

impl<S: Send + Sync> FromRequestParts<S> for TopicPath {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let params = params(parts, state).await?;
        let topic = TopicName::new(param(&params, "topic")).map_err(|error| Failure::field("topic", error))?;
        Ok(Self(topic))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for JobPath {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let params = params(parts, state).await?;
        let mut errors = Vec::new();
        let mut note = |field: &str, reason: String| errors.push(FieldError { field: field.to_owned(), reason });
        let topic = TopicName::new(param(&params, "topic")).map_err(|error| note("topic", error.to_string()));
        let id = JobId::new(param(&params, "id")).map_err(|error| note("id", error.to_string()));
        match (topic, id) {
            (Ok(topic), Ok(id)) => Ok(Self(topic, id)),
            _ => Err(Failure::invalid(errors)),
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for LeasePath {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let params = params(parts, state).await?;
        Ok(Self { token: param(&params, "token").to_owned(), verb: param(&params, "verb").to_owned() })
    }
}

async fn params<S: Send + Sync>(parts: &mut Parts, state: &S) -> Result<RawPathParams, Failure> {
    let read = RawPathParams::from_request_parts(parts, state).await;
    read.map_err(|_| Failure::new(Code::InvalidRequest, "the path is not UTF-8 once its percent-encoding is undone"))
}

fn param<'a>(params: &'a RawPathParams, name: &str) -> &'a str {
    params.iter().find(|(key, _)| *key == name).map_or("", |(_, value)| value)
}
