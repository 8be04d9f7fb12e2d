//! One connection: HTTP/1.1 or HTTP/2, never left hanging.
//!
//! hyper has one time-out for reading a head, which also ends connections that merely rest between two requests. So a
//! connection notes its own [`Pulse`] — resting, in the middle of a head, busy, unable to write — and is ended when
//! that has lasted too long.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Version};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, sleep_until};

use super::service::Service;

/// A request head must arrive within this.
const HEAD: Duration = Duration::from_secs(15);
/// How often a connection is looked at: more often than any limit.
const LOOK: Duration = Duration::from_secs(10);
/// A connection may rest this long between two requests: longer than the pools of common clients and proxies keep one.
const REST: Duration = Duration::from_mins(3);
/// A client must take some of its answer within this.
const WRITE: Duration = Duration::from_secs(30);
/// A connection that was asked to end may take this long.
const END: Duration = Duration::from_secs(5);
/// Streams at once on one HTTP/2 connection: parked consumers share connections.
const STREAMS: u32 = 1_000;

/// Serves one connection to its end.
pub(super) async fn run(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static, service: Service) {
    let pulse = Arc::new(Pulse::new());
    let shutdown = service.app().shutdown.clone();
    let io = TokioIo::new(Watched { stream, pulse: Arc::clone(&pulse) });
    let handler = {
        let pulse = Arc::clone(&pulse);
        service_fn(move |request: Request<Incoming>| {
            let busy = Busy::new(&pulse, request.version());
            let answer = service.call(request.map(Body::new));
            async move { Ok::<_, Infallible>(answer.await.map(|body| Answer { body, _busy: busy })) }
        })
    };
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(None).half_close(false);
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(STREAMS);
    let mut connection = pin!(builder.serve_connection(io, handler));
    let mut overdue = pin!(pulse.overdue());
    tokio::select! {
        ended = connection.as_mut() => return note(ended),
        resting = overdue.as_mut() => {
            if !resting {
                return;
            }
        }
        () = shutdown.started() => {}
    }
    connection.as_mut().graceful_shutdown();
    // A connection that rested too long has nothing under way; one of a server that stops is given its time by `serve`.
    if !shutdown.has_started() {
        drop(tokio::time::timeout(END, connection).await);
        return;
    }
    tokio::select! {
        ended = connection => note(ended),
        _ = pulse.overdue() => {}
    }
}

fn note(ended: Result<(), Box<dyn std::error::Error + Send + Sync>>) {
    if let Err(error) = ended {
        tracing::trace!(%error, "a connection broke");
    }
}

/// What a connection is doing, and since when.
struct Pulse(Mutex<State>);

struct State {
    doing: Doing,
    stuck_since: Option<Instant>,
    is_http2: bool,
}

#[derive(Clone, Copy)]
enum Doing {
    /// Between two requests.
    Resting(Instant),
    /// In the middle of a request's head; a new connection too.
    Head(Instant),
    /// With so many requests.
    Busy(usize),
}

impl Pulse {
    fn new() -> Self {
        Self(Mutex::new(State { doing: Doing::Head(Instant::now()), stuck_since: None, is_http2: false }))
    }

    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn heard(&self) {
        self.with(|state| {
            if let Doing::Resting(_) = state.doing {
                // What an HTTP/2 peer says between requests is mostly not the beginning of one.
                let now = Instant::now();
                state.doing = if state.is_http2 { Doing::Resting(now) } else { Doing::Head(now) };
            }
        });
    }

    fn wrote(&self, took_some: bool) {
        self.with(|state| match (took_some, state.stuck_since) {
            (true, Some(_)) => state.stuck_since = None,
            (false, None) => state.stuck_since = Some(Instant::now()),
            _ => {}
        });
    }

    /// Waits until the connection has been at something for too long; answers whether that is mere resting.
    async fn overdue(&self) -> bool {
        loop {
            let (until, resting) = self.with(|state| state.limit());
            if Instant::now() >= until {
                return resting;
            }
            // It may begin something with a shorter limit meanwhile: look often enough to be on time for that.
            sleep_until(until.min(Instant::now() + LOOK)).await;
        }
    }
}

impl State {
    /// When what it is doing now will have lasted too long, and whether it is only resting; a busy connection may be
    /// so for as long as it likes.
    fn limit(&self) -> (Instant, bool) {
        if let Some(since) = self.stuck_since {
            return (since + WRITE, false);
        }
        match self.doing {
            Doing::Resting(since) => (since + REST, true),
            Doing::Head(since) => (since + HEAD, false),
            Doing::Busy(_) => (Instant::now() + LOOK, false),
        }
    }
}

/// One request under way, until its answer has been taken.
struct Busy(Arc<Pulse>);

impl Busy {
    fn new(pulse: &Arc<Pulse>, version: Version) -> Self {
        pulse.with(|state| {
            state.is_http2 = version == Version::HTTP_2;
            state.doing = match state.doing {
                Doing::Busy(requests) => Doing::Busy(requests + 1),
                Doing::Resting(_) | Doing::Head(_) => Doing::Busy(1),
            };
        });
        Self(Arc::clone(pulse))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.with(|state| {
            state.doing = match state.doing {
                Doing::Busy(requests) if requests > 1 => Doing::Busy(requests - 1),
                _ => Doing::Resting(Instant::now()),
            };
        });
    }
}

/// An answer's body, which keeps its request under way until it is written or dropped.
struct Answer {
    body: Body,
    _busy: Busy,
}

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The socket, which tells the pulse.
struct Watched<S> {
    stream: S,
    pulse: Arc<Pulse>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        if buffer.filled().len() > before {
            self.pulse.heard();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.pulse.wrote(written.is_ready());
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.pulse.wrote(written.is_ready());
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests;
