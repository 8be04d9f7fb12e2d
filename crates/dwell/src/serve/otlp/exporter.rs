//! The task that sends spans.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use dwell_server::Shutdown;
use dwell_server::metrics::Metrics;
use dwell_server::trace::Span;
use prost::Message as _;
use reqwest::header::CONTENT_TYPE;
use reqwest::redirect::Policy;
use reqwest::{Client, Response, StatusCode, Url};
use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, sleep, sleep_until};

use super::encode;
use super::messages::{ExportTraceServiceResponse, Resource};

/// Spans of one request.
const BATCH: usize = 512;
/// How long a batch waits for more.
const LINGER: Duration = Duration::from_secs(1);
/// How long one request may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How long to rest before a batch is sent again that was not taken for reasons that pass.
const AGAIN: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(1)];
/// What is dropped is told at most this often.
const TELL: Duration = Duration::from_mins(1);
/// Bytes read of an answer.
const MOST_READ: usize = 64 << 10;

/// What the task has.
pub(super) struct Work {
    url: Url,
    client: Client,
    resource: Resource,
    spans: Receiver<Span>,
    metrics: Arc<Metrics>,
    finish: Shutdown,
    /// Why spans were not taken, last.
    why: Option<String>,
    /// When that was told, and how many had been dropped by then.
    told: Option<(Instant, u64)>,
}

/// Why a request did not go well.
struct Failed {
    why: String,
    /// Whether the same may go well later.
    passes: bool,
}

impl Work {
    pub(super) fn new(
        url: Url,
        spans: Receiver<Span>,
        metrics: Arc<Metrics>,
        finish: Shutdown,
    ) -> Result<Self, reqwest::Error> {
        let client = client(url.scheme() == "https")?;
        Ok(Self { url, client, resource: encode::resource(), spans, metrics, finish, why: None, told: None })
    }

    /// Sends spans until it is to finish and there are no more.
    pub(super) async fn run(mut self) {
        let mut batch = Vec::with_capacity(BATCH);
        while self.gather(&mut batch).await {
            let count = batch.len() as u64;
            let body = encode::request(&self.resource, &mut batch);
            let rejected = match self.send(body).await {
                Ok((0, _)) => 0,
                Ok((rejected, why)) => {
                    self.why = Some(format!("the collector rejects them: {why}"));
                    rejected.min(count)
                }
                Err(failed) => {
                    self.why = Some(failed.why);
                    count
                }
            };
            self.metrics.spans_sent.inc_by(count - rejected);
            self.metrics.spans_dropped.inc_by(rejected);
            self.tell();
        }
    }

    /// Fills a batch; false if there is nothing more to come.
    async fn gather(&mut self, batch: &mut Vec<Span>) -> bool {
        let mut until = None;
        while batch.len() < BATCH {
            let room = BATCH - batch.len();
            let linger = async {
                match until {
                    Some(until) => sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                count = self.spans.recv_many(batch, room) => if count == 0 { break },
                () = self.finish.started() => break,
                () = linger => break,
            }
            until = until.or_else(|| Some(Instant::now() + LINGER));
        }
        !batch.is_empty()
    }

    /// Sends a batch, again if it must be; says how many spans of it were not taken, and why.
    async fn send(&self, body: Vec<u8>) -> Result<(u64, String), Failed> {
        for rest in AGAIN {
            match self.post(body.clone()).await {
                Err(failed) if failed.passes && !self.finish.has_started() => {}
                outcome => return outcome,
            }
            tokio::select! {
                () = sleep(rest) => {}
                () = self.finish.started() => {}
            }
        }
        self.post(body).await
    }

    async fn post(&self, body: Vec<u8>) -> Result<(u64, String), Failed> {
        let request = self.client.post(self.url.clone()).header(CONTENT_TYPE, "application/x-protobuf").body(body);
        let response = request.send().await;
        let response = response.map_err(|error| Failed { why: innermost(&error), passes: !error.is_timeout() })?;
        let status = response.status();
        if !status.is_success() {
            let passes = matches!(
                status,
                StatusCode::TOO_MANY_REQUESTS
                    | StatusCode::BAD_GATEWAY
                    | StatusCode::SERVICE_UNAVAILABLE
                    | StatusCode::GATEWAY_TIMEOUT
            );
            return Err(Failed { why: format!("the collector answered {status}"), passes });
        }
        Ok(rejected(response).await)
    }

    /// Says that spans are dropped, once in a while.
    fn tell(&mut self) {
        let dropped = self.metrics.spans_dropped.get();
        let (at, before) = self.told.map_or((None, 0), |(at, before)| (Some(at), before));
        if dropped == before || at.is_some_and(|at| at.elapsed() < TELL) {
            return;
        }
        let why = self.why.take().unwrap_or_else(|| "the collector does not take them fast enough".to_owned());
        tracing::warn!(dropped = dropped - before, why, "spans were dropped");
        self.told = Some((Instant::now(), dropped));
    }
}

fn client(is_secure: bool) -> Result<Client, reqwest::Error> {
    let client = Client::builder()
        .redirect(Policy::none())
        .no_proxy()
        .referer(false)
        .timeout(TIMEOUT)
        .pool_max_idle_per_host(1)
        .user_agent(concat!("dwell/", env!("CARGO_PKG_VERSION")));
    // The machine's certificates are read only where they are needed: there may be none.
    if is_secure { client.build() } else { client.tls_certs_only([]).build() }
}

/// How many spans the collector says it has not taken, and why. An answer that cannot be read says nothing of the kind.
async fn rejected(mut response: Response) -> (u64, String) {
    let mut answer = Vec::new();
    while answer.len() < MOST_READ
        && let Ok(Some(chunk)) = response.chunk().await
    {
        answer.extend_from_slice(&chunk);
    }
    let answer = ExportTraceServiceResponse::decode(&answer[..]).unwrap_or_default();
    let partial = answer.partial_success.unwrap_or_default();
    (u64::try_from(partial.rejected_spans).unwrap_or(0), partial.error_message)
}

/// What an error says at its root.
fn innermost(error: &(dyn Error + 'static)) -> String {
    error.source().map_or_else(|| error.to_string(), innermost)
}
