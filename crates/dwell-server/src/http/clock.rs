//! The clock of a test server, which can be moved.

use axum::body::Body;
use axum::extract::State;
use axum::http::Request;
use dwell_core::limits;
use dwell_wire::Code;
use dwell_wire::json::read_object;
use dwell_wire::server::{AdvanceClock, Clock};

use super::answer::{Answer, Failure, ok};
use super::query::Query;
use super::read::Mistakes;
use super::{App, Shared, body, show};

/// The store's time.
#[utoipa::path(
    get, path = "/v1/dev/clock", operation_id = "getClock", tag = "testing",
    responses((status = 200, description = "The store's time", body = Clock)),
)]
pub(super) async fn get_clock(State(app): State<Shared>, request: Request<Body>) -> Answer {
    Query::of(request.uri()).done()?;
    body::none(&app, request).await?;
    tell(&app).await
}

/// Moves the store's time ahead.
#[utoipa::path(
    post, path = "/v1/dev/clock", operation_id = "advanceClock", tag = "testing",
    request_body = AdvanceClock,
    responses((status = 200, description = "The store's time now", body = Clock)),
)]
pub(super) async fn advance_clock(State(app): State<Shared>, request: Request<Body>) -> Answer {
    Query::of(request.uri()).done()?;
    let text = body::read(&app, request).await?;
    let mut fields = read_object(&text.bytes)?;
    let wanted = AdvanceClock::read(&mut fields);
    Mistakes(fields.done()).none()?;
    let millis = wanted.map_or(0, |wanted| wanted.advance.0);
    if millis > limits::MAX_DELAY {
        return Err(Failure::field("advance", "must be from 0s to 3650d"));
    }
    let Some(clock) = &app.config.dev_clock else {
        return Err(Failure::new(Code::NotFound, "this server's clock cannot be moved"));
    };
    clock.advance(millis);
    let told = tell(&app).await;
    app.config.clock_moved.notify_waiters();
    told
}

async fn tell(app: &App) -> Answer {
    // Asking the store also makes it look at the time.
    ok(&Clock { now: show::instant(app.store.status().await?.now) })
}
