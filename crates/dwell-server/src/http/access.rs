//! What each call needs, and whether a request has it.
//!
//! One table, [`CALLS`], with a row for every documented route; a route without a row is a test that fails. What a path
//! names is judged here. Topics in bodies, and those of leases, are judged by the handlers, with [`Who`].

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequestParts, MatchedPath, RawPathParams, Request};
use axum::http::request::Parts;
use axum::http::{Method, Response};
use axum::middleware::Next;
use axum::response::IntoResponse as _;
use dwell_core::TopicName;
use dwell_wire::Code;

use super::answer::Failure;
use super::traced::Notes;
use crate::auth::{Grant, Scope};

/// What the audit log is called among the logs.
pub const AUDIT: &str = "audit";

/// What a call needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needs {
    /// Nothing, not even a token.
    Nothing,
    /// Any token.
    Token,
    /// This scope, and a right to what is reached.
    Scope(Scope, Reach),
}

/// What a call reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// The topic of its path.
    Path,
    /// The topics that its handler finds, and judges.
    Found,
    /// All topics at once: not for tokens that are for some.
    All,
}

use Needs::{Nothing, Scope as For, Token};
use Reach::{All, Found, Path};
use Scope::{Admin, Consume, Operate, Put, Read};

/// Every call.
const CALLS: &[(&str, &str, Needs)] = &[
    ("PUT", "/v1/topics/{topic}/jobs/{id}", For(Put, Path)),
    ("GET", "/v1/topics/{topic}/jobs/{id}", For(Read, Path)),
    ("PATCH", "/v1/topics/{topic}/jobs/{id}", For(Put, Path)),
    ("DELETE", "/v1/topics/{topic}/jobs/{id}", For(Put, Path)),
    ("POST", "/v1/topics/{topic}/jobs", For(Put, Path)),
    ("GET", "/v1/topics/{topic}/jobs", For(Read, Path)),
    ("DELETE", "/v1/topics/{topic}/jobs", For(Operate, Path)),
    ("POST", "/v1/jobs", For(Put, Found)),
    ("POST", "/v1/cancel", For(Put, Found)),
    ("POST", "/v1/topics/{topic}/lease", For(Consume, Path)),
    ("POST", "/v1/lease", For(Consume, Found)),
    ("POST", "/v1/settle", For(Consume, Found)),
    ("POST", "/v1/leases/{token}/{verb}", For(Consume, Found)),
    ("GET", "/v1/topics", For(Read, Found)),
    ("GET", "/v1/topics/{topic}", For(Read, Path)),
    ("DELETE", "/v1/topics/{topic}", For(Admin, Path)),
    ("PUT", "/v1/topics/{topic}/policy", For(Admin, Path)),
    ("POST", "/v1/topics/{topic}/pause", For(Operate, Path)),
    ("POST", "/v1/topics/{topic}/resume", For(Operate, Path)),
    ("POST", "/v1/topics/{topic}/test-delivery", For(Operate, Path)),
    ("POST", "/v1/topics/{topic}/redrive", For(Operate, Path)),
    ("GET", "/v1/topics/{topic}/timeline", For(Read, Path)),
    ("GET", "/v1/timeline", For(Read, All)),
    ("GET", "/v1/info", Token),
    ("GET", "/healthz", Nothing),
    ("GET", "/readyz", Nothing),
    ("GET", "/metrics", For(Read, All)),
    ("GET", "/v1/dev/clock", Token),
    ("POST", "/v1/dev/clock", For(Admin, All)),
];

/// What a route needs. One that nobody has thought of needs everything.
fn needs(method: &Method, path: &str) -> Needs {
    // HEAD is answered by what answers GET.
    let method = if method == Method::HEAD { &Method::GET } else { method };
    let row = CALLS.iter().find(|(its_method, its_path, _)| *its_path == path && *its_method == method.as_str());
    row.map_or(For(Admin, All), |(_, _, needs)| *needs)
}

/// Lets a request through to its handler if it has what its route needs.
pub(super) async fn check(path: MatchedPath, request: Request, next: Next) -> Response<Body> {
    if let Some(notes) = Notes::of(&request) {
        notes.route(&path);
    }
    let (mut head, body) = request.into_parts();
    let For(scope, reach) = needs(&head.method, path.as_str()) else {
        return next.run(Request::from_parts(head, body)).await;
    };
    let entry = matches!(scope, Operate | Admin).then(|| Entry::new(&head, &path));
    let response = match judge(scope, reach, &mut head).await {
        Err(refused) => refused.into_response(),
        Ok(()) => next.run(Request::from_parts(head, body)).await,
    };
    if let Some(entry) = entry {
        entry.write(response.status().as_u16());
    }
    response
}

/// A line of the audit log: who has asked for what, and what became of it. Bodies are not in it: they may hold secrets.
struct Entry {
    who: Option<Who>,
    call: String,
    path: String,
}

impl Entry {
    fn new(head: &Parts, route: &MatchedPath) -> Self {
        let path = head.uri.path_and_query().map_or_else(|| head.uri.path(), |path| path.as_str());
        let call = format!("{} {}", head.method, route.as_str());
        Self { who: Who::of(head).ok(), call, path: path.to_owned() }
    }

    fn write(self, status: u16) {
        let who = self.who.as_ref().map_or("", |who| who.0.name());
        let outcome = if status < 400 { "done" } else { "refused" };
        tracing::info!(target: AUDIT, who, call = self.call, path = self.path, status, outcome);
    }
}

async fn judge(scope: Scope, reach: Reach, head: &mut Parts) -> Result<(), Failure> {
    let who = Who::of(head)?;
    if !who.0.has(scope) {
        let detail =
            format!("this call needs the scope \"{scope}\", which the token \"{}\" does not have", who.0.name());
        return Err(Failure::new(Code::Forbidden, detail));
    }
    match (reach, who.0.topics()) {
        (_, None) | (Found, _) => Ok(()),
        (All, Some(_)) => {
            let detail = format!("this call is about all topics, and the token \"{}\" is for some", who.0.name());
            Err(Failure::new(Code::Forbidden, detail))
        }
        (Path, Some(_)) => {
            let params = RawPathParams::from_request_parts(head, &()).await;
            let name = params.as_ref().ok().and_then(|params| params.iter().find(|(key, _)| *key == "topic"));
            // What is no topic is said to be none by the handler.
            name.and_then(|(_, name)| TopicName::new(name).ok()).map_or(Ok(()), |topic| who.check(&topic))
        }
    }
}

/// Whoever sent a request.
#[derive(Clone)]
pub(super) struct Who(pub(super) Arc<Grant>);

impl Who {
    fn of(head: &Parts) -> Result<Self, Failure> {
        // Nothing is routed before it is known who sent it.
        head.extensions.get().cloned().ok_or_else(|| Failure::new(Code::Internal, "a request of nobody"))
    }

    /// Refuses a topic that is not theirs, whether or not it is there.
    pub(super) fn check(&self, topic: &TopicName) -> Result<(), Failure> {
        if self.0.covers(topic) {
            return Ok(());
        }
        let detail = format!("the token \"{}\" is not for the topic \"{topic}\"", self.0.name());
        Err(Failure::new(Code::Forbidden, detail))
    }

    /// How the names of their topics start, unless all are theirs.
    pub(super) fn topics(&self) -> Option<&[String]> {
        self.0.topics()
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Who {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        Self::of(parts)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_route_has_its_row_and_every_row_its_route() {
        let document = super::super::docs::document(true);
        let mut routes = BTreeSet::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            let methods = ["get", "put", "post", "patch", "delete", "head", "options", "trace"];
            routes.extend(
                methods
                    .iter()
                    .filter(|method| item[**method].is_object())
                    .map(|method| (method.to_uppercase(), path.clone())),
            );
        }
        let rows: BTreeSet<_> =
            CALLS.iter().map(|(method, path, _)| ((*method).to_owned(), (*path).to_owned())).collect();
        assert_eq!(rows, routes);
        assert_eq!(rows.len(), CALLS.len(), "a call has two rows");
    }

    #[test]
    fn a_topic_in_a_path_is_judged_by_the_path() {
        for (method, path, needs) in CALLS {
            let is_judged = matches!(needs, For(_, Path));
            assert_eq!(is_judged, path.contains("{topic}"), "{method} {path}");
        }
    }

    #[test]
    fn a_route_without_a_row_is_not_open() {
        assert_eq!(needs(&Method::POST, "/v1/new"), For(Admin, All));
        assert_eq!(needs(&Method::HEAD, "/v1/topics"), For(Read, Found));
    }
}
