//! Spans, sent to a collector: OTLP over HTTP, in protobuf.
//!
//! Whoever makes spans never waits: they go into a queue of a fixed size, and one task sends them from there in batches
//! (`exporter`). What does not fit, and what the collector does not take, is dropped and counted. `messages` is what
//! travels, as far as we use it; `encode` makes it of spans.

mod encode;
mod exporter;
mod messages;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use dwell_server::metrics::Metrics;
use dwell_server::trace::{Span, Spans};
use dwell_server::{Shutdown, Tracer};
use reqwest::Url;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use self::exporter::Work;
use super::settings::Settings;
use crate::exit::Exit;

/// Spans that wait to be sent. At about half a kibibyte each, some 4 MiB.
const QUEUE: usize = 8_192;
/// How long the last spans may take when the server stops.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Where a collector takes spans.
#[derive(Clone, Debug)]
pub(super) struct Endpoint(Url);

impl Endpoint {
    /// Reads the address of a collector, to which the path of OTLP is added unless it is there.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        const WRONG: &str = "is not the address of a collector; try \"http://127.0.0.1:4318\"";
        let mut url = Url::parse(text).map_err(|_| WRONG)?;
        let is_plain = url.query().is_none() && url.fragment().is_none();
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() || !is_plain {
            return Err(WRONG.to_owned());
        }
        let path = url.path().trim_end_matches('/');
        if !path.ends_with("/v1/traces") {
            url.set_path(&format!("{path}/v1/traces"));
        }
        Ok(Self(url))
    }
}

/// Without a password.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = self.0.clone();
        // An address with a host can do without them.
        let _ = (shown.set_username(""), shown.set_password(None));
        shown.fmt(f)
    }
}

/// Which share of the traces that begin here is sampled.
pub(super) fn ratio(text: &str) -> Result<f64, String> {
    let ratio = text.parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
    ratio.ok_or_else(|| "is not a number from 0 to 1".to_owned())
}

/// Sends spans until it is told to finish.
pub(super) struct Exporter {
    finish: Shutdown,
    task: JoinHandle<()>,
}

/// Starts to send spans, if the settings say where to.
pub(super) fn start(settings: &Settings, metrics: &Arc<Metrics>) -> Result<Option<(Tracer, Exporter)>, Exit> {
    let Some(endpoint) = &settings.otlp_endpoint else { return Ok(None) };
    let (sender, spans) = mpsc::channel(QUEUE);
    let finish = Shutdown::default();
    let work = Work::new(endpoint.0.clone(), spans, Arc::clone(metrics), finish.clone());
    let work = work.map_err(|error| Exit::failure(format!("spans cannot be sent to {endpoint}: {error}")))?;
    let task = tokio::spawn(work.run());
    let queue = Queue { spans: sender, metrics: Arc::clone(metrics) };
    Ok(Some((Tracer::new(Arc::new(queue), settings.otlp_ratio), Exporter { finish, task })))
}

impl Exporter {
    /// Sends what is left, as far as that is soon done.
    pub(super) async fn finish(mut self) {
        self.finish.start();
        if timeout(LAST_WORDS, &mut self.task).await.is_err() {
            self.task.abort();
            tracing::warn!("the last spans were not taken in time; they are dropped");
        }
    }
}

struct Queue {
    spans: mpsc::Sender<Span>,
    metrics: Arc<Metrics>,
}

impl Spans for Queue {
    fn take(&self, span: Span) {
        if self.spans.try_send(span).is_err() {
            self.metrics.spans_dropped.inc();
        }
    }
}

#[cfg(test)]
mod tests {
    use dwell_server::trace::{Context, Kind};

    use super::*;

    #[test]
    fn an_address_gets_the_path_of_otlp_and_never_shows_its_password() {
        for (given, shown) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("http://127.0.0.1:4318/", "http://127.0.0.1:4318/v1/traces"),
            ("https://user:secret@otel.example/otlp", "https://otel.example/otlp/v1/traces"),
            ("http://[::1]:4318/v1/traces", "http://[::1]:4318/v1/traces"),
        ] {
            assert_eq!(Endpoint::parse(given).unwrap().to_string(), shown);
        }
        for wrong in ["", "127.0.0.1:4318", "grpc://a:4317", "http://", "http://a?b=c", "http://a#b", "unix:/a"] {
            assert!(Endpoint::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_does_not_fit_into_the_queue_is_dropped_and_counted() {
        let (sender, mut spans) = mpsc::channel(2);
        let (metrics, links) = (Arc::<Metrics>::default(), Vec::new());
        let queue = Queue { spans: sender, metrics: Arc::clone(&metrics) };
        let (context, kind) = (Context::root(), Kind::Server);
        let attributes = Vec::new();
        let span = Span {
            context,
            parent: None,
            name: "a".to_owned(),
            kind,
            start: 1,
            end: 2,
            attributes,
            links,
            error: None,
        };
        for _ in 0..5 {
            queue.take(span.clone());
        }
        assert_eq!(metrics.spans_dropped.get(), 3);
        assert_eq!((spans.try_recv(), spans.len()), (Ok(span), 1));
    }

    #[test]
    fn a_share_is_from_nothing_to_everything() {
        assert_eq!((ratio("0"), ratio("1"), ratio("0.25")), (Ok(0.0), Ok(1.0), Ok(0.25)));
        for wrong in ["", "-0.1", "1.1", "NaN", "inf", "all", "10%"] {
            assert!(ratio(wrong).is_err(), "{wrong}");
        }
    }
}
