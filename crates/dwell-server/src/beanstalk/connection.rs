//! One connection: reads, does what it is told, writes.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use beanstalk_protocol::Decoder;
use bytes::{Buf as _, BytesMut};
use dwell_core::Consumer;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout, timeout_at};

use super::run::{Alone, Items, Next, Run, Taking};
use super::session::Session;
use super::{Edge, look, put, reserve, settle, stats, tubes};

/// Bytes read at once: at first, and by a connection that always has more.
const LEAST_READ: usize = 4 << 10;
const MOST_READ: usize = 256 << 10;
/// Answers that are this long are written before more are made.
const LARGE_ANSWERS: usize = 256 << 10;
/// Larger jobs share [`super::BODY_ROOM`].
const LARGE_JOB: usize = 64 << 10;
/// A client must take some of its answers, and send some of a large job, within this.
const PATIENCE: Duration = Duration::from_mins(1);
/// Saying good-bye may take this long.
const LAST_WORD: Duration = Duration::from_millis(500);
/// A large job must arrive within this.
const WHOLE_JOB: Duration = Duration::from_mins(5);

/// Serves one connection to its end, and gives back what it holds before that end is seen: who comes next finds it.
pub(super) async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    edge: Arc<Edge>,
    consumer: Option<Consumer>,
) {
    let mut session = Session::new(Arc::clone(&edge), consumer);
    if let Err(error) = work(&edge, &mut session, &mut stream).await {
        tracing::trace!(%error, "a beanstalk connection broke");
    }
    settle::give_up(&edge, &mut session).await;
    // Over TLS an end that is not said looks like an attack.
    drop(timeout(LAST_WORD, stream.shutdown()).await);
}

async fn work(edge: &Edge, session: &mut Session, stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
    let mut wire = Wire::new(stream);
    let mut decoder = Decoder::new(u32::try_from(edge.config.max_body).unwrap_or(u32::MAX));
    let mut run = Run::default();
    loop {
        let mut taking = Taking { edge, session: &mut *session, out: &mut wire.out };
        let (consumed, next) = run.next(&mut decoder, &wire.received, &mut taking);
        wire.received.advance(consumed);
        match next {
            Next::Taken => continue,
            Next::Alone(command) => alone(edge, session, command, &mut wire.out).await,
            Next::RunFirst => finish(edge, session, &mut wire, &mut run).await?,
            Next::Close => {
                finish(edge, session, &mut wire, &mut run).await?;
                return wire.flush().await;
            }
            Next::More => {
                finish(edge, session, &mut wire, &mut run).await?;
                wire.flush().await?;
                if wire.is_at_end || !receive(edge, session, &mut wire, &decoder).await? {
                    return Ok(());
                }
            }
        }
        wire.flush_if_large().await?;
    }
}

/// Does a run, and leaves an empty one.
async fn finish<S: AsyncRead + AsyncWrite + Unpin>(
    edge: &Edge,
    session: &mut Session,
    wire: &mut Wire<S>,
    run: &mut Run,
) -> io::Result<()> {
    let Run { items, mut between } = std::mem::take(run);
    match items {
        Items::None => {}
        Items::Puts { jobs, .. } => put::run(edge, jobs, &mut between, &mut wire.out).await,
        Items::Asks(asks) => settle::run(edge, session, &asks, &mut between, &mut wire.out).await,
        Items::Reserves(reserves) => reserve::run(edge, session, wire, reserves, &mut between).await?,
    }
    Ok(())
}

async fn alone(edge: &Edge, session: &mut Session, command: Alone, out: &mut Vec<u8>) {
    match command {
        Alone::ReserveJob(id) => reserve::this_job(edge, session, id, out).await,
        Alone::Peek(id) => look::peek(edge, id, out).await,
        Alone::PeekNext(state) => look::peek_next(edge, session, state, out).await,
        Alone::Kick(bound) => settle::kick(edge, session, bound).await.write(out),
        Alone::KickJob(id) => settle::kick_job(edge, id).await.write(out),
        Alone::Stats => stats::server(edge, out).await,
        Alone::StatsJob(id) => stats::job(edge, id, out).await,
        Alone::StatsTube(tube) => stats::tube(edge, &tube, out).await,
        Alone::ListTubes => tubes::list(edge, out).await,
        Alone::PauseTube(tube, seconds) => tubes::pause(edge, tube, seconds).await.write(out),
    }
}

/// Receives more; `false` if the server stops and the connection has nothing under way.
async fn receive<S: AsyncRead + AsyncWrite + Unpin>(
    edge: &Edge,
    session: &Session,
    wire: &mut Wire<S>,
    decoder: &Decoder,
) -> io::Result<bool> {
    let is_busy = session.holds_any() || !wire.received.is_empty();
    let stops = async {
        edge.shutdown.started().await;
        if is_busy {
            edge.end.started().await;
        }
    };
    let needs = decoder.needs(&wire.received);
    tokio::select! {
        biased;
        received = wire.receive(edge, needs) => received.map(|()| true),
        () = stops => Ok(false),
    }
}

/// A socket, what came in and was not dealt with, and what is to go out.
pub(super) struct Wire<S> {
    stream: S,
    received: BytesMut,
    pub(super) out: Vec<u8>,
    /// Bytes of `out` that are written.
    written: usize,
    /// Bytes to read at once.
    chunk: usize,
    /// The client will send no more.
    pub(super) is_at_end: bool,
    /// The room that a large job takes, and until when.
    room: Option<(OwnedSemaphorePermit, Instant)>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    fn new(stream: S) -> Self {
        let (received, out) = (BytesMut::new(), Vec::new());
        Self { stream, received, out, written: 0, chunk: LEAST_READ, is_at_end: false, room: None }
    }

    /// Receives some bytes, towards the `needs` that there must be before anything can be done.
    async fn receive(&mut self, edge: &Edge, needs: usize) -> io::Result<()> {
        if needs <= LARGE_JOB {
            self.room = None;
            return self.read().await;
        }
        if self.room.is_none() {
            let units = u32::try_from(needs / 1_024 + 1).unwrap_or(u32::MAX);
            let room = Arc::clone(&edge.room).acquire_many_owned(units).await;
            self.room = room.ok().map(|room| (room, Instant::now() + WHOLE_JOB));
        }
        self.received.reserve(needs.saturating_sub(self.received.len()));
        let soon = Instant::now() + PATIENCE;
        let until = self.room.as_ref().map_or(soon, |(_, until)| soon.min(*until));
        timeout_at(until, self.read()).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    /// Reads all that is there, up to a limit, or waits for it: without a buffer, if there is nothing in it. The more of a
    /// pipeline is there, the more of it is done in one go.
    async fn read(&mut self) -> io::Result<()> {
        let before = self.received.len();
        poll_fn(|context| {
            loop {
                if self.received.capacity() - self.received.len() < self.chunk / 2 {
                    self.received.reserve(self.chunk);
                }
                match pin!(self.stream.read_buf(&mut self.received)).poll(context) {
                    Poll::Ready(Ok(0)) => self.is_at_end = true,
                    Poll::Ready(Ok(_)) if self.received.len() - before < MOST_READ => continue,
                    Poll::Ready(Ok(_)) => {}
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending if self.received.len() > before => {}
                    Poll::Pending => {
                        if self.received.is_empty() {
                            self.received = BytesMut::new();
                        }
                        return Poll::Pending;
                    }
                }
                return Poll::Ready(Ok(()));
            }
        })
        .await?;
        let count = self.received.len() - before;
        if count >= self.chunk / 2 {
            self.chunk = (self.chunk * 2).min(MOST_READ);
        } else if count < self.chunk / 8 {
            self.chunk = (self.chunk / 2).max(LEAST_READ);
        }
        Ok(())
    }

    /// Writes all answers.
    pub(super) async fn flush(&mut self) -> io::Result<()> {
        while self.written < self.out.len() {
            let write = timeout(PATIENCE, self.stream.write(&self.out[self.written..])).await;
            match write.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                count => self.written += count,
            }
        }
        self.written = 0;
        self.out.clear();
        self.out.shrink_to(LEAST_READ);
        Ok(())
    }

    /// Writes all answers if they are many.
    pub(super) async fn flush_if_large(&mut self) -> io::Result<()> {
        if self.out.len() >= LARGE_ANSWERS { self.flush().await } else { Ok(()) }
    }

    /// Writes all answers, then waits until the client will send no more. What it sends until then is kept, up to a
    /// limit; past that nobody looks. May be given up at any time.
    pub(super) async fn until_end(&mut self) -> io::Result<()> {
        self.flush().await?;
        while !self.is_at_end {
            if self.received.len() >= LARGE_JOB {
                return std::future::pending().await;
            }
            self.read().await?;
        }
        Ok(())
    }
}
