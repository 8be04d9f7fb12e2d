//! What the server says of itself: info, health, metrics.

use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Request, Response, StatusCode};
use dwell_core::limits;
use dwell_wire::Code;
use dwell_wire::server::{Health, HealthStatus, Info, Limits};
use tokio::time::timeout;

use super::answer::{Answer, Failure, json, ok};
use super::query::Query;
use super::{App, Shared, body, show};

/// A store that takes longer than this to say how it is does not answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// What the server is, promises and allows.
#[utoipa::path(
    get, path = "/v1/info", operation_id = "getInfo", tag = "operating",
    responses((status = 200, description = "The server", body = Info)),
)]
pub(super) async fn info(State(app): State<Shared>, request: Request<Body>) -> Answer {
    Query::of(request.uri()).done()?;
    body::none(&app, request).await?;
    let status = app.store.status().await?;
    if let Some(why) = status.failed {
        return Err(Failure::new(Code::StorageFailed, why));
    }
    ok(&Info {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        store: status.store,
        durability: status.promise,
        limits: allowed(&app),
        now: show::instant(status.now),
    })
}

fn allowed(app: &App) -> Limits {
    let bytes = |bytes: usize| u64::try_from(bytes).unwrap_or(u64::MAX);
    Limits {
        body: bytes(app.config.max_body),
        request: bytes(body::MOST),
        headers: bytes(limits::MAX_HEADERS),
        topic_name: bytes(limits::MAX_TOPIC_NAME),
        job_id: bytes(limits::MAX_JOB_ID),
        batch: bytes(limits::MAX_BATCH),
        lease: u64::from(limits::MAX_LEASE),
        lease_topics: bytes(limits::MAX_LEASE_TOPICS),
        wait_ms: limits::MAX_WAIT,
        delay_ms: limits::MAX_DELAY,
        ttr_min_ms: limits::MIN_TTR,
        ttr_max_ms: limits::MAX_TTR,
        page: u64::from(limits::MAX_PAGE),
        buckets: u64::from(limits::MAX_BUCKETS),
    }
}

/// Whether the process is up.
#[utoipa::path(
    get, path = "/healthz", operation_id = "getHealth", tag = "operating", security(()),
    responses((status = 200, description = "It is", body = Health)),
)]
pub(super) async fn health() -> Answer {
    ok(&Health { status: HealthStatus::Ok, reasons: Vec::new() })
}

/// Whether the store answers and the server is not going away.
#[utoipa::path(
    get, path = "/readyz", operation_id = "getReadiness", tag = "operating", security(()),
    responses(
        (status = 200, description = "Ready; the reasons say what is not at its best", body = Health),
        (status = 503, description = "Not ready; the reasons say why", body = Health),
    ),
)]
pub(super) async fn readiness(State(app): State<Shared>) -> Answer {
    let (mut failing, mut reasons) = (false, Vec::new());
    match timeout(PATIENCE, app.store.status()).await {
        Ok(Ok(status)) => {
            failing |= status.failed.is_some();
            reasons.extend(status.failed.map(|why| format!("the store has failed: {why}")));
            reasons.extend(status.troubles);
        }
        Ok(Err(error)) => {
            failing = true;
            reasons.push(error.to_string());
        }
        Err(_) => {
            failing = true;
            reasons.push(format!("the store has not answered for {} s", PATIENCE.as_secs()));
        }
    }
    if app.shutdown.has_started() {
        failing = true;
        reasons.push("the server is shutting down".to_owned());
    }
    if failing {
        return json(StatusCode::SERVICE_UNAVAILABLE, &Health { status: HealthStatus::Failing, reasons });
    }
    ok(&Health { status: HealthStatus::Ok, reasons })
}

/// Metrics for Prometheus.
#[utoipa::path(
    get, path = "/metrics", operation_id = "getMetrics", tag = "operating",
    responses((status = 200, description = "OpenMetrics text", body = String,
        content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8")),
)]
pub(super) async fn metrics(State(app): State<Shared>) -> Answer {
    const TEXT: HeaderValue = HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
    let mut response = Response::new(Body::from(app.config.metrics.text(&*app.store).await));
    response.headers_mut().insert(CONTENT_TYPE, TEXT);
    Ok(response)
}
