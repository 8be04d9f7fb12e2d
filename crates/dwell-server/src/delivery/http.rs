//! The courier of `http://` and `https://`: one POST, no redirects, no proxy of the environment, bounded in time and in
//! what is read of the answer.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::http::header::{DATE, HeaderMap, HeaderName, RETRY_AFTER};
use bytes::Bytes;
use dwell_core::limits;
use reqwest::redirect::Policy;
use reqwest::{Client, Response};
use tokio::sync::OnceCell;
use tokio::time::{Instant, timeout_at};

use super::courier::{Attempt, Courier, Landing, Parcel};
use super::guard::{Guard, Refused};
use super::resolve::{GuardedResolver, Unresolved};
use super::{TIMEOUT, letter, retry_after};

/// Bytes read of an answer; the rest is cut off, and the connection with it.
const MOST_READ: usize = 64 << 10;
/// How long a connection is kept for the next job. Shorter than what common servers keep theirs, so that none is used
/// in the moment in which its other end closes it.
const IDLE: Duration = Duration::from_secs(1);
/// Connections kept a target.
const KEPT: usize = 32;

/// Takes parcels to URLs.
pub(crate) struct HttpCourier {
    guard: Arc<Guard>,
    cloud_events: bool,
    plain: OnceCell<Result<Client, String>>,
    /// Made when it is first needed: reading the machine's certificates takes a while, and fails where there are none.
    secure: OnceCell<Result<Client, String>>,
}

impl HttpCourier {
    /// A courier that calls only what the guard allows.
    pub(crate) fn new(guard: Arc<Guard>, cloud_events: bool) -> Self {
        Self { guard, cloud_events, plain: OnceCell::new(), secure: OnceCell::new() }
    }

    async fn client(&self, is_secure: bool) -> &Result<Client, String> {
        let cell = if is_secure { &self.secure } else { &self.plain };
        let make = || async {
            let guard = Arc::clone(&self.guard);
            let made = tokio::task::spawn_blocking(move || client(guard, is_secure)).await;
            made.map_err(|error| error.to_string()).and_then(|made| made.map_err(|error| innermost(&error)))
        };
        cell.get_or_init(make).await
    }

    async fn attempt(&self, parcel: &Parcel) -> Landing {
        // Again at every attempt: what was allowed when the job was put may not be any more.
        let url = match self.guard.url(&parcel.address) {
            Ok(url) => url,
            Err(refused) => return Landing::Refused { reason: refused.to_string() },
        };
        let deadline = Instant::now() + TIMEOUT;
        let seconds = wall().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let headers = letter::headers(parcel, seconds, self.cloud_events);
        let body = Bytes::from_owner(parcel.body.clone().into_bytes());
        let client = match self.client(url.scheme() == "https").await {
            Ok(client) => client,
            Err(reason) => return Landing::Broken { reason: format!("no certificate can be checked here: {reason}") },
        };
        match timeout_at(deadline, client.post(url).headers(headers).body(body).send()).await {
            Err(_) => Landing::TimedOut,
            Ok(Err(error)) => broken(&error),
            Ok(Ok(response)) => answered(response, deadline).await,
        }
    }
}

impl Courier for HttpCourier {
    fn deliver<'a>(&'a self, parcel: &'a Parcel) -> Attempt<'a> {
        Box::pin(self.attempt(parcel))
    }
}

fn client(guard: Arc<Guard>, is_secure: bool) -> Result<Client, reqwest::Error> {
    let client = Client::builder()
        .redirect(Policy::none())
        .no_proxy()
        .referer(false)
        .dns_resolver(Arc::new(GuardedResolver::new(guard)))
        .pool_idle_timeout(IDLE)
        .pool_max_idle_per_host(KEPT)
        .tcp_nodelay(true)
        .user_agent(concat!("dwell/", env!("CARGO_PKG_VERSION")));
    if is_secure { client.build() } else { client.tls_certs_only([]).build() }
}

/// What an error says at its root.
fn innermost(error: &(dyn Error + 'static)) -> String {
    error.source().map_or_else(|| error.to_string(), innermost)
}

/// The status is the answer. What follows is only read for people to see, and so that the connection can be used again;
/// an answer that does not end, or breaks off, is an answer all the same.
async fn answered(mut response: Response, deadline: Instant) -> Landing {
    let status = response.status().as_u16();
    let text = |headers: &HeaderMap, name: HeaderName| headers.get(name)?.to_str().ok().map(str::to_owned);
    let (after, date) = (text(response.headers(), RETRY_AFTER), text(response.headers(), DATE));
    let retry_after = retry_after::read(after.as_deref(), date.as_deref(), wall());
    let (mut answer, mut read) = (Vec::new(), 0);
    while read < MOST_READ
        && let Ok(Ok(Some(chunk))) = timeout_at(deadline, response.chunk()).await
    {
        read += chunk.len();
        let room = limits::MAX_DELIVERY_ANSWER - answer.len();
        answer.extend_from_slice(&chunk[..chunk.len().min(room)]);
    }
    Landing::Answered { status, retry_after, answer }
}

/// Why nothing came back, in a line, from the innermost cause that says something.
fn broken(error: &reqwest::Error) -> Landing {
    let mut causes: Vec<&(dyn Error + 'static)> = Vec::new();
    let mut next: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(cause) = next {
        if let Some(refused) = cause.downcast_ref::<Refused>() {
            return Landing::Refused { reason: refused.to_string() };
        }
        causes.push(cause);
        next = cause.source();
    }
    let unresolved = causes.iter().find_map(|cause| cause.downcast_ref::<Unresolved>());
    if let Some(unresolved) = unresolved {
        return Landing::Broken { reason: format!("the target was not reached: {unresolved}") };
    }
    let kind = causes.iter().find_map(|cause| cause.downcast_ref::<io::Error>()).map(io::Error::kind);
    let reason = match kind {
        Some(io::ErrorKind::ConnectionRefused) => "connection refused".to_owned(),
        Some(io::ErrorKind::ConnectionReset) => "connection reset".to_owned(),
        Some(io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable) => "no way to it".to_owned(),
        _ => innermost(error),
    };
    let what = if error.is_connect() { "the target was not reached" } else { "the target broke off" };
    Landing::Broken { reason: format!("{what}: {reason}") }
}

#[expect(clippy::disallowed_methods, reason = "receivers hold the signature's time against their own clocks")]
pub(super) fn wall() -> SystemTime {
    SystemTime::now()
}
