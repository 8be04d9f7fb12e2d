//! Reading a request's body: JSON, bounded, and never more at once than there is room for.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, EXPECT};
use axum::http::{HeaderMap, Request};
use bytes::{Bytes, BytesMut};
use dwell_wire::Code;
use dwell_wire::json::read_object;
use http_body_util::BodyExt;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use super::answer::Failure;
use super::read::Mistakes;
use super::{App, REQUEST_ROOM};

/// Bytes of a request.
pub(super) const MOST: usize = 64 << 20;
/// Some of a body must arrive within this.
pub(super) const PART: Duration = Duration::from_secs(15);
/// All of a body must arrive within this.
const WHOLE: Duration = Duration::from_mins(5);
/// Bytes that there is room for before any have come.
const FIRST: usize = 64 << 10;
/// How long a request waits for room.
const ROOM: Duration = Duration::from_secs(10);
/// Bodies over this are decoded off the threads that serve connections.
const HEAVY: usize = 128 << 10;

/// A request's JSON text, and the room that it takes while it is worked on.
pub(super) struct Text {
    pub(super) bytes: Bytes,
    _room: OwnedSemaphorePermit,
}

/// Reads a body; it may be empty.
pub(super) async fn read(app: &App, request: Request<Body>) -> Result<Text, Failure> {
    let headers = request.headers();
    let announced = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    let is_empty = announced == Some(0) || http_body::Body::is_end_stream(request.body());
    if !is_empty && !is_json(headers) {
        // Who does not say how much is to come may have nothing to send; who asks first has something.
        let may_be_empty = announced.is_none() && !headers.contains_key(EXPECT);
        return if may_be_empty { nothing(app, request).await } else { Err(not_json()) };
    }
    if announced.is_some_and(|length| length > MOST) {
        return Err(too_large());
    }
    // Room for what is announced is taken as it comes: who announces much and sends nothing must not keep others out.
    let first = announced.unwrap_or(0).min(FIRST);
    let room = timeout(ROOM, Arc::clone(&app.room).acquire_many_owned(units(first))).await;
    let Ok(Ok(mut room)) = room else { return Err(no_room()) };
    match timeout(WHOLE, collect(app, request.into_body(), announced, &mut room)).await {
        Ok(bytes) => Ok(Text { bytes: bytes?, _room: room }),
        Err(_) => Err(too_slow()),
    }
}

/// Reads the body of a call that takes none: there is none, or an object without fields.
pub(super) async fn none(app: &App, request: Request<Body>) -> Result<(), Failure> {
    if http_body::Body::is_end_stream(request.body()) {
        return Ok(());
    }
    let text = read(app, request).await?;
    Mistakes(read_object(&text.bytes)?.done()).none()
}

/// Reads a body that is not JSON and so has to be empty.
async fn nothing(app: &App, request: Request<Body>) -> Result<Text, Failure> {
    if next(&mut request.into_body()).await?.is_some() {
        return Err(not_json());
    }
    let room = Arc::clone(&app.room).acquire_many_owned(0).await.map_err(|_| no_room())?;
    Ok(Text { bytes: Bytes::new(), _room: room })
}

async fn collect(
    app: &App,
    mut body: Body,
    announced: Option<usize>,
    room: &mut OwnedSemaphorePermit,
) -> Result<Bytes, Failure> {
    let Some(first) = next(&mut body).await? else { return Ok(Bytes::new()) };
    if announced == Some(first.len()) {
        return Ok(first);
    }
    let mut whole = BytesMut::with_capacity(announced.unwrap_or(0).min(FIRST).max(first.len() * 2));
    whole.extend_from_slice(&first);
    while let Some(part) = next(&mut body).await? {
        if whole.len() + part.len() > MOST {
            return Err(too_large());
        }
        let short = units(whole.len() + part.len()).saturating_sub(u32::try_from(room.num_permits()).unwrap_or(0));
        if short > 0 {
            // Waiting here, with room in hand, could wait for ever.
            let more = Arc::clone(&app.room).try_acquire_many_owned(short).map_err(|_| no_room())?;
            room.merge(more);
        }
        whole.extend_from_slice(&part);
    }
    Ok(whole.freeze())
}

/// The next part of a body.
pub(super) async fn next(body: &mut Body) -> Result<Option<Bytes>, Failure> {
    loop {
        match timeout(PART, body.frame()).await {
            Err(_) => return Err(too_slow()),
            Ok(None) => return Ok(None),
            Ok(Some(Err(error))) => {
                return Err(Failure::new(Code::InvalidRequest, format!("the request's body broke off: {error}")));
            }
            Ok(Some(Ok(frame))) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
        }
    }
}

/// Does `work` on a text of that many bytes where it keeps nobody waiting.
pub(super) async fn decode<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    if bytes <= HEAVY {
        return Ok(work());
    }
    tokio::task::spawn_blocking(work).await.map_err(|error| Failure::new(Code::Internal, error.to_string()))
}

fn is_json(headers: &HeaderMap) -> bool {
    let Some(Ok(value)) = headers.get(CONTENT_TYPE).map(|value| value.to_str()) else { return false };
    let essence = value.split(';').next().unwrap_or("").trim();
    essence.eq_ignore_ascii_case("application/json")
}

/// Room for that many bytes: the text, and about as much again for what is made of it.
fn units(bytes: usize) -> u32 {
    u32::try_from((bytes / 512 + 1).min(REQUEST_ROOM / 2)).unwrap_or(u32::MAX)
}

fn not_json() -> Failure {
    let detail = "a request with a body needs the header \"content-type: application/json\"";
    Failure::new(Code::UnsupportedMediaType, detail)
}

fn too_large() -> Failure {
    Failure::new(Code::TooLarge, format!("the request is larger than {} MiB", MOST >> 20))
}

fn too_slow() -> Failure {
    Failure::new(Code::InvalidRequest, "the request's body did not arrive in time")
}

fn no_room() -> Failure {
    Failure::new(Code::Overloaded, "the server is busy with other large requests; try again shortly")
}
