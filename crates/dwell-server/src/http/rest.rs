//! What a request still has to send when it is answered.
//!
//! A sender that is cut off in the middle never reads why. So what is left of a request that was refused before it was
//! read is read and dropped, up to a point, and the answer goes out then.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use axum::http::header::EXPECT;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::time::{Instant, timeout};

use super::body;

/// Bytes that are read and dropped.
const MOST: usize = 32 << 20;
/// How long that may take.
const LONGEST: Duration = Duration::from_secs(30);

/// The rest of a request. Its handler has the body on loan.
pub(super) struct Rest(Option<Arc<Mutex<Lent>>>);

struct Lent {
    body: Body,
    /// Whether the sender sends: one that asks first waits until the body is wanted.
    sends: bool,
    /// When the sender last sent some of it.
    heard_at: Instant,
}

impl Rest {
    /// Parts the request from what will be left of it.
    pub(super) fn of(request: Request<Body>) -> (Request<Body>, Self) {
        if http_body::Body::is_end_stream(request.body()) {
            return (request, Self(None));
        }
        let (head, body) = request.into_parts();
        let lent =
            Arc::new(Mutex::new(Lent { body, sends: !head.headers.contains_key(EXPECT), heard_at: Instant::now() }));
        (Request::from_parts(head, Body::new(OnLoan(Arc::clone(&lent)))), Self(Some(lent)))
    }

    /// Reads and drops it.
    pub(super) async fn drain(self) {
        let Some(lent) = self.0 else { return };
        let body = {
            let mut lent = lock(&lent);
            // One that has stopped sending has been waited for already.
            let stopped = lent.heard_at.elapsed() >= body::PART;
            if !lent.sends || stopped || http_body::Body::is_end_stream(&lent.body) {
                return;
            }
            std::mem::take(&mut lent.body)
        };
        drop(timeout(LONGEST, drain(body)).await);
    }
}

async fn drain(mut body: Body) {
    let mut dropped = 0;
    while dropped < MOST
        && let Ok(Some(part)) = body::next(&mut body).await
    {
        dropped += part.len();
    }
}

struct OnLoan(Arc<Mutex<Lent>>);

fn lock(lent: &Mutex<Lent>) -> MutexGuard<'_, Lent> {
    lent.lock().unwrap_or_else(PoisonError::into_inner)
}

impl http_body::Body for OnLoan {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let mut lent = lock(&self.0);
        lent.sends = true;
        let polled = Pin::new(&mut lent.body).poll_frame(context);
        if polled.is_ready() {
            lent.heard_at = Instant::now();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        lock(&self.0).body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        lock(&self.0).body.size_hint()
    }
}
