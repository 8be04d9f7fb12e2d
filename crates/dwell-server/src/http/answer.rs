//! What goes out: JSON, or a problem.

#![expect(clippy::needless_pass_by_value, reason = "a reason for a refusal is handed over")]

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderName, HeaderValue, Response, StatusCode};
use axum::response::IntoResponse;
use dwell_core::{CancelError, ChangeError, ErrorKind, LeaseLost, PutError, StoreError, TopicError};
use dwell_wire::{Code, FieldError, Malformed, Problem};
use serde::Serialize;

/// What every handler answers.
pub(super) type Answer = Result<Response<Body>, Failure>;

/// A JSON answer.
pub(super) fn json(status: StatusCode, value: &impl Serialize) -> Answer {
    let body = serde_json::to_vec(value).map_err(|error| Failure::new(Code::Internal, error.to_string()))?;
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

/// A JSON answer to something that went well.
pub(super) fn ok(value: &impl Serialize) -> Answer {
    json(StatusCode::OK, value)
}

/// Went well, and there is nothing to say.
pub(super) fn no_content() -> Response<Body> {
    StatusCode::NO_CONTENT.into_response()
}

/// A problem on its way out.
#[derive(Debug)]
pub(super) struct Failure {
    problem: Box<Problem>,
    header: Option<(HeaderName, HeaderValue)>,
    store_has_failed: Option<String>,
}

/// Marks an answer after which the store answers nothing more, with the reason.
#[derive(Clone, Debug)]
pub(super) struct StoreHasFailed(pub(super) String);

impl Failure {
    pub(super) fn new(code: Code, detail: impl Into<String>) -> Self {
        let soon = (RETRY_AFTER, HeaderValue::from_static("1"));
        let header = matches!(code, Code::Overloaded | Code::RateLimited).then_some(soon);
        Self { problem: Box::new(Problem::new(code, detail)), header, store_has_failed: None }
    }

    /// A request with these mistakes.
    pub(super) fn invalid(errors: Vec<FieldError>) -> Self {
        Self { problem: Box::new(Problem::invalid(errors)), header: None, store_has_failed: None }
    }

    /// A request with one mistake.
    pub(super) fn field(field: &str, reason: impl ToString) -> Self {
        Self::invalid(vec![FieldError { field: field.to_owned(), reason: reason.to_string() }])
    }

    pub(super) fn with_header(self, name: HeaderName, value: HeaderValue) -> Self {
        Self { header: Some((name, value)), ..self }
    }

    /// What went wrong, without the way it is sent.
    pub(super) fn into_problem(self) -> Problem {
        *self.problem
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response<Body> {
        if self.problem.code == Code::Internal {
            tracing::error!(detail = self.problem.detail, "a bug");
        }
        let body = serde_json::to_vec(&*self.problem).unwrap_or_default();
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = StatusCode::from_u16(self.problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        response.headers_mut().extend(self.header.map(|(name, value)| (Some(name), value)));
        if let Some(detail) = self.store_has_failed {
            response.extensions_mut().insert(StoreHasFailed(detail));
        }
        response
    }
}

/// The one place where kinds of failure become codes.
fn code(kind: ErrorKind) -> Code {
    match kind {
        ErrorKind::InvalidRequest => Code::InvalidRequest,
        ErrorKind::NotFound => Code::NotFound,
        ErrorKind::JobExists => Code::JobExists,
        ErrorKind::JobLeased => Code::JobLeased,
        ErrorKind::LeaseLost => Code::LeaseLost,
        ErrorKind::LimitReached => Code::LimitReached,
        ErrorKind::VersionMismatch => Code::VersionMismatch,
        ErrorKind::TooLarge => Code::TooLarge,
        ErrorKind::Overloaded => Code::Overloaded,
        ErrorKind::StorageFull => Code::StorageFull,
        ErrorKind::StorageFailed => Code::StorageFailed,
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self { problem: Box::new(problem), header: None, store_has_failed: None }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let failure = Self::new(code(error.kind()), error.to_string());
        let store_has_failed = matches!(error, StoreError::Failed { .. }).then(|| error.to_string());
        Self { store_has_failed, ..failure }
    }
}

impl From<Malformed> for Failure {
    fn from(malformed: Malformed) -> Self {
        Self::new(Code::InvalidRequest, malformed.0)
    }
}

impl From<PutError> for Failure {
    fn from(error: PutError) -> Self {
        match error {
            PutError::Time(time) => Self::field("at", time),
            error => Self::new(code(error.kind()), with_force(error.to_string(), "replace")),
        }
    }
}

impl From<ChangeError> for Failure {
    fn from(error: ChangeError) -> Self {
        match error {
            ChangeError::Time(time) => Self::field("at", time),
            error => Self::new(code(error.kind()), with_force(error.to_string(), "change")),
        }
    }
}

impl From<CancelError> for Failure {
    fn from(error: CancelError) -> Self {
        Self::new(code(error.kind()), with_force(error.to_string(), "cancel"))
    }
}

impl From<LeaseLost> for Failure {
    fn from(error: LeaseLost) -> Self {
        Self::new(code(error.kind()), error.to_string())
    }
}

impl From<TopicError> for Failure {
    fn from(error: TopicError) -> Self {
        Self::new(code(error.kind()), error.to_string())
    }
}

/// How to do by force what the message says could be done so.
fn with_force(message: String, verb: &str) -> String {
    message.replace(&format!("{verb} it by force"), &format!("{verb} it with ?force=true"))
}
