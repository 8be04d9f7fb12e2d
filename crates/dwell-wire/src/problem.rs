//! What goes wrong, as RFC 9457 problems with stable codes.

use serde::{Deserialize, Serialize};

use crate::json::FieldError;

/// An answer that says what went wrong: `application/problem+json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Problem {
    /// `about:blank`: the status and the code say it all.
    pub r#type: String,
    /// The code in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What programs go by.
    pub code: Code,
    /// What people go by: what was wrong, and what would be right.
    pub detail: String,
    /// What is wrong with which field.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(required = false))]
    pub errors: Vec<FieldError>,
}

impl Problem {
    /// A problem of this code.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            r#type: "about:blank".to_owned(),
            title: code.title().to_owned(),
            status: code.status(),
            code,
            detail: detail.into(),
            errors: Vec::new(),
        }
    }

    /// A request with these mistakes; there is at least one.
    pub fn invalid(errors: Vec<FieldError>) -> Self {
        let said: Vec<_> = errors.iter().map(|error| format!("\"{}\": {}", error.field, error.reason)).collect();
        Self { errors, ..Self::new(Code::InvalidRequest, said.join("; ")) }
    }
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $word:literal, $status:literal, $title:literal;)*) => {
        /// The stable name of what went wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        pub enum Code {
            $($(#[$doc])* #[serde(rename = $word)] $name,)*
        }

        impl Code {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The HTTP status it comes with.
            pub fn status(self) -> u16 {
                match self { $(Self::$name => $status),* }
            }

            /// Its name as sent.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $word),* }
            }

            /// Its name in words.
            pub fn title(self) -> &'static str {
                match self { $(Self::$name => $title),* }
            }
        }
    };
}

codes! {
    /// Malformed JSON, a bad name, a bad duration, both `delay` and `at`, an unknown field.
    InvalidRequest = "invalid_request", 400, "The request makes no sense";
    /// No credential, or a wrong one.
    Unauthorized = "unauthorized", 401, "A credential is needed";
    /// No right to this; also a foreign host or site while no token is configured.
    Forbidden = "forbidden", 403, "Not allowed";
    /// No such job, topic, schedule or route.
    NotFound = "not_found", 404, "Not found";
    /// The route has no such method; `Allow` says which it has.
    MethodNotAllowed = "method_not_allowed", 405, "Method not allowed";
    /// A put that must not meet a live job met one.
    JobExists = "job_exists", 409, "The job exists";
    /// A consumer holds the job.
    JobLeased = "job_leased", 409, "A consumer holds the job";
    /// The token is unknown, malformed, expired, settled or revoked.
    LeaseLost = "lease_lost", 409, "The lease is lost";
    /// Too many topics, lanes or schedules.
    LimitReached = "limit_reached", 409, "A limit is reached";
    /// `If-Match` names another version.
    VersionMismatch = "version_mismatch", 412, "The job has another version";
    /// Body, batch or request over the limit.
    TooLarge = "too_large", 413, "Too large";
    /// A body that is not `application/json`.
    UnsupportedMediaType = "unsupported_media_type", 415, "Not JSON";
    /// Too many requests; `Retry-After` says when to try again.
    RateLimited = "rate_limited", 429, "Too many requests";
    /// A bug of the server's.
    Internal = "internal", 500, "A bug in the server";
    /// The server has too much to do, or is going away; nothing was done.
    Overloaded = "overloaded", 503, "Too much to do";
    /// The store failed; the outcome is unknown.
    StorageFailed = "storage_failed", 503, "The store failed";
    /// No room for more jobs.
    StorageFull = "storage_full", 507, "No room";
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Programs rely on these words and numbers.
    #[test]
    fn codes_are_what_was_promised() {
        let all: Vec<_> = Code::ALL.iter().map(|code| format!("{} {}", code.as_str(), code.status())).collect();
        assert_eq!(
            all.join(", "),
            "invalid_request 400, unauthorized 401, forbidden 403, not_found 404, method_not_allowed 405, \
             job_exists 409, job_leased 409, lease_lost 409, limit_reached 409, version_mismatch 412, too_large 413, \
             unsupported_media_type 415, rate_limited 429, internal 500, overloaded 503, storage_failed 503, \
             storage_full 507"
        );
    }

    #[test]
    fn mistakes_are_said_in_words_and_by_field() {
        let error = |field: &str| FieldError { field: field.to_owned(), reason: "is odd".to_owned() };
        let problem = Problem::invalid(vec![error("delay"), error("retry.attempts")]);
        assert_eq!(problem.detail, "\"delay\": is odd; \"retry.attempts\": is odd");
        let json = serde_json::to_value(&problem).unwrap();
        assert_eq!(json["code"], "invalid_request");
        assert_eq!((&json["type"], &json["status"]), (&"about:blank".into(), &400.into()));
        assert_eq!(serde_json::from_value::<Problem>(json).unwrap(), problem);
    }
}
