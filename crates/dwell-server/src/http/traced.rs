//! The span of a request, on a server that traces.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use axum::body::Body;
use axum::extract::MatchedPath;
use axum::http::{Request, Response};
use dwell_core::{JobId, LeasedJob, TopicName};
use percent_encoding::percent_decode_str;

use super::read::TRACEPARENT;
use crate::trace::{self, Context, Ended, Kind, Started, Tracer, Value};

/// Links that a span may have: what consumers lease at once can be more.
const MOST_LINKS: usize = 128;

/// A request whose span is under way.
pub(super) struct Traced {
    started: Started,
    path: String,
    notes: Arc<Notes>,
}

/// What is found out on the way of a request. Among its extensions if it is traced.
#[derive(Default)]
pub(super) struct Notes {
    route: OnceLock<MatchedPath>,
    leased: Mutex<Option<Leased>>,
}

struct Leased {
    jobs: usize,
    links: Vec<Context>,
}

impl Traced {
    /// Starts the span of a request, if there is to be one. What asks how the server is has one only if it says so.
    /// Boxed, so that who waits costs no more than before.
    pub(super) fn start(tracer: &Tracer, request: &mut Request<Body>) -> Option<Box<Self>> {
        let given = request.headers().get(TRACEPARENT).and_then(|value| value.to_str().ok());
        let (parent, path) = (given.and_then(Context::parse), request.uri().path());
        if parent.is_none() && matches!(path, "/healthz" | "/readyz" | "/metrics") {
            return None;
        }
        let started = tracer.start(trace::part_of(parent, Some(tracer)), parent)?;
        let (path, notes) = (path.to_owned(), Arc::new(Notes::default()));
        request.extensions_mut().insert(Arc::clone(&notes));
        Some(Box::new(Self { started, path, notes }))
    }

    /// It is answered.
    pub(super) fn end(self, method: &str, response: &Response<Body>) {
        let Self { started, path, notes } = self;
        let (status, is_known) = (response.status(), method != "other");
        let mut attributes = vec![
            ("http.request.method", Value::from(if is_known { method } else { "_OTHER" })),
            ("http.response.status_code", Value::from(u32::from(status.as_u16()))),
        ];
        let mut name = if is_known { method } else { "HTTP" }.to_owned();
        if let Some(route) = notes.route.get().map(MatchedPath::as_str) {
            name = format!("{name} {route}");
            attributes.push(("http.route", route.into()));
            attributes.extend(named(route, &path));
        }
        let leased = notes.leased.lock().unwrap_or_else(PoisonError::into_inner).take();
        attributes.extend(leased.as_ref().map(|leased| ("dwell.jobs", Value::from(leased.jobs as u64))));
        let links = leased.map(|leased| leased.links).unwrap_or_default();
        if status.is_server_error() {
            attributes.push(("error.type", status.as_str().into()));
        }
        let error = status.is_server_error().then(String::new);
        started.end(Ended { name, kind: Kind::Server, attributes, links, error });
    }
}

impl Notes {
    pub(super) fn of<T>(request: &Request<T>) -> Option<Arc<Self>> {
        request.extensions().get().cloned()
    }

    /// Which route it took.
    pub(super) fn route(&self, path: &MatchedPath) {
        drop(self.route.set(path.clone()));
    }

    /// What was leased: the span is linked to whatever put these jobs.
    pub(super) fn leased(&self, jobs: &[LeasedJob]) {
        let links = jobs.iter().filter_map(|job| trace::of_job(&job.view.job)).take(MOST_LINKS).collect();
        let leased = Leased { jobs: jobs.len(), links };
        *self.leased.lock().unwrap_or_else(PoisonError::into_inner) = Some(leased);
    }
}

/// The topic and the job that a path names.
fn named<'a>(route: &'a str, path: &'a str) -> impl Iterator<Item = (&'static str, Value)> + use<'a> {
    route.split('/').zip(path.split('/')).filter_map(|(name, part)| {
        let text = percent_decode_str(part).decode_utf8().ok()?;
        match name {
            "{topic}" => Some(("dwell.topic", TopicName::new(&text).ok()?.as_str().into())),
            "{id}" => Some(("dwell.job.id", JobId::new(&text).ok()?.as_str().into())),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_its_topic_and_its_job() {
        let found = |route, path| named(route, path).collect::<Vec<_>>();
        assert_eq!(
            found("/v1/topics/{topic}/jobs/{id}", "/v1/topics/a%2Fb/jobs/%E8%AE%A2"),
            [("dwell.topic", "a/b".into()), ("dwell.job.id", "订".into())]
        );
        assert_eq!(found("/v1/topics/{topic}", "/v1/topics/-bad"), []);
        assert_eq!(found("/v1/leases/{token}/{verb}", "/v1/leases/secret/ack"), []);
    }
}
