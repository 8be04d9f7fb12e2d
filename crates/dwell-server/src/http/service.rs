//! The way of a request: guard, credential, route.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderValue, Method, Request, Response};
use dwell_wire::Code;
use tower::ServiceExt;

use super::answer::{Failure, StoreHasFailed};
use super::rest::Rest;
use super::traced::Traced;
use super::{App, Shared, auth, docs, guard};
use crate::metrics::OfRequest;

/// What every connection calls with each of its requests.
#[derive(Clone)]
pub(super) struct Service {
    app: Shared,
    router: Router,
}

impl Service {
    pub(super) fn new(app: &Shared) -> Self {
        let router = docs::routes(app.config.dev_clock.is_some())
            .fallback(not_found)
            .method_not_allowed_fallback(method_not_allowed)
            .with_state(Arc::clone(app));
        Self { app: Arc::clone(app), router }
    }

    pub(super) fn app(&self) -> &App {
        &self.app
    }

    /// Answers one request.
    pub(super) fn call(&self, mut request: Request<Body>) -> impl Future<Output = Response<Body>> + Send + use<> {
        let (app, router) = (Arc::clone(&self.app), self.router.clone());
        async move {
            let method = name_of(request.method());
            let traced = app.config.tracer.as_ref().and_then(|tracer| Traced::start(tracer, &mut request));
            let (request, rest) = Rest::of(request);
            let response = match admit(&app, request) {
                Err(refusal) => axum::response::IntoResponse::into_response(refusal),
                Ok(request) => match router.oneshot(request).await {
                    Ok(response) => response,
                    Err(never) => match never {},
                },
            };
            rest.drain().await;
            if let Some(StoreHasFailed(why)) = response.extensions().get() {
                app.note_failure(why);
            }
            app.config.metrics.requests.get_or_create(&OfRequest { method, status: response.status().as_u16() }).inc();
            if let Some(traced) = traced {
                traced.end(method, &response);
            }
            response
        }
    }
}

/// Lets a request through, with who sent it, or says why it gets no further.
fn admit(app: &App, mut request: Request<Body>) -> Result<Request<Body>, Failure> {
    let path = request.uri().path();
    if matches!(path, "/healthz" | "/readyz") {
        return Ok(request);
    }
    let tokens = app.config.access.tokens();
    guard::check(&tokens, &request)?;
    let who = auth::check(&tokens, &request)?;
    who.0.count().map_err(|wait| too_many(who.0.name(), wait))?;
    if let Some(detail) = app.failure().filter(|_| path.starts_with("/v1/")) {
        return Err(Failure::new(Code::StorageFailed, detail));
    }
    request.extensions_mut().insert(who);
    Ok(request)
}

/// A request too many of one token.
fn too_many(name: &str, wait: Duration) -> Failure {
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    let detail = format!("the token \"{name}\" has sent as many requests as it may for now; try again in {seconds} s");
    Failure::new(Code::RateLimited, detail).with_header(RETRY_AFTER, HeaderValue::from(seconds))
}

async fn not_found(request: Request<Body>) -> Failure {
    let path = request.uri().path();
    Failure::new(Code::NotFound, format!("there is nothing at {path}; /docs shows what there is"))
}

async fn method_not_allowed(request: Request<Body>) -> Failure {
    let (method, path) = (request.method(), request.uri().path());
    Failure::new(
        Code::MethodNotAllowed,
        format!("{path} cannot be asked to {method}; the Allow header says what it takes"),
    )
}

/// A method as metrics call it: there are only so many.
fn name_of(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::PUT => "PUT",
        Method::POST => "POST",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        _ => "other",
    }
}
