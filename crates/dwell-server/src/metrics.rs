//! What Prometheus reads: what the server has done, and what the store says of its topics when it is asked.

mod deliveries;
mod process;
mod store;
mod topics;

use std::collections::BTreeSet;
use std::sync::{PoisonError, RwLock};

use dwell_core::{LeasedJob, Phase, Store, TopicName};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Topics that have series of their own; all others share one, called [`OTHER`].
const MOST_TOPICS: usize = 200;

/// What the series of all other topics are called: no topic can have this name.
const OTHER: &str = "*";

/// Seconds, from a millisecond to ten minutes.
const LATENESS: [f64; 15] = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0, 120.0, 600.0];

/// Everything that is counted.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    named: RwLock<BTreeSet<TopicName>>,
    lateness: Family<OfTopic, Histogram, fn() -> Histogram>,
    /// Requests answered.
    pub requests: Family<OfRequest, Counter>,
    /// Connections open.
    pub connections: Gauge,
    /// Connections refused because there were too many.
    pub refused_connections: Counter,
    /// Connections of the beanstalk protocol open.
    pub beanstalk_connections: Gauge,
    /// Connections of the beanstalk protocol refused because there were too many.
    pub refused_beanstalk: Counter,
    /// Spans that were handed to whoever collects them.
    pub spans_sent: Counter,
    /// Spans that were dropped instead.
    pub spans_dropped: Counter,
    /// Deliveries, by target.
    pub(crate) deliveries: deliveries::Deliveries,
}

/// A series of one topic.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfTopic {
    topic: String,
}

/// A series of one kind of request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct OfRequest {
    /// The HTTP method.
    pub method: &'static str,
    /// The status of the answer.
    pub status: u16,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("dwell");
        let lateness: Family<OfTopic, Histogram, fn() -> Histogram> =
            Family::new_with_constructor(|| Histogram::new(LATENESS));
        let (requests, connections, refused_connections) = (Family::default(), Gauge::default(), Counter::default());
        registry.register("lateness_seconds", "From a job's due time to its lease", lateness.clone());
        registry.register("http_requests", "HTTP requests answered", requests.clone());
        registry.register("http_connections", "HTTP connections open", connections.clone());
        let about = "HTTP connections refused because there were too many";
        registry.register("http_connections_refused", about, refused_connections.clone());
        let (beanstalk_connections, refused_beanstalk) = (Gauge::default(), Counter::default());
        registry.register("beanstalk_connections", "Beanstalk connections open", beanstalk_connections.clone());
        let about = "Beanstalk connections refused because there were too many";
        registry.register("beanstalk_connections_refused", about, refused_beanstalk.clone());
        let deliveries = deliveries::Deliveries::new(&mut registry);
        let (spans_sent, spans_dropped) = (Counter::default(), Counter::default());
        registry.register("otlp_spans_sent", "Spans that a collector has taken", spans_sent.clone());
        registry.register("otlp_spans_dropped", "Spans that no collector has taken", spans_dropped.clone());
        Self {
            registry,
            named: RwLock::default(),
            lateness,
            requests,
            connections,
            refused_connections,
            beanstalk_connections,
            refused_beanstalk,
            spans_sent,
            spans_dropped,
            deliveries,
        }
    }
}

impl Metrics {
    /// Notes how late jobs were handed out.
    pub fn leased(&self, jobs: &[LeasedJob]) {
        for job in jobs {
            let Phase::Leased(lease) = &job.view.job.phase else { continue };
            let leased_at = lease.expires_at.as_millis().saturating_sub(lease.ttr.as_millis());
            let late = leased_at.saturating_sub(job.view.job.due_at.as_millis());
            let series = OfTopic { topic: self.label(&job.view.job.topic) };
            self.lateness.get_or_create(&series).observe(seconds(late));
        }
    }

    /// The text that Prometheus reads.
    pub async fn text(&self, store: &dyn Store) -> String {
        let mut text = String::new();
        if encode(&mut text, &self.registry).is_err() {
            text.clear();
        }
        // Ours end with `# EOF`; the store's belong before it.
        let ours = text.strip_suffix("# EOF\n").unwrap_or(&text);
        let status = store.status().await.ok();
        let topics = topics::text(store, status.as_ref().map(|status| status.now), |topic| self.label(topic)).await;
        format!("{ours}{topics}{}{}# EOF\n", store::text(status.as_ref()), process::text())
    }

    /// What a topic's series are called: its name, if it is one of the first that were seen.
    fn label(&self, topic: &TopicName) -> String {
        if self.named.read().unwrap_or_else(PoisonError::into_inner).contains(topic) {
            return topic.to_string();
        }
        let mut named = self.named.write().unwrap_or_else(PoisonError::into_inner);
        if named.len() >= MOST_TOPICS && !named.contains(topic) {
            return OTHER.to_owned();
        }
        named.insert(topic.clone());
        topic.to_string()
    }
}

#[expect(clippy::cast_precision_loss, reason = "a lateness is far below 2^53 ms")]
fn seconds(millis: u64) -> f64 {
    millis as f64 / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_topics_have_series_of_their_own() {
        let metrics = Metrics::default();
        let label = |number: usize| metrics.label(&TopicName::new(&format!("t{number}")).unwrap());
        for number in 0..MOST_TOPICS {
            assert_eq!(label(number), format!("t{number}"));
        }
        assert_eq!(label(MOST_TOPICS), OTHER);
        assert_eq!(label(0), "t0");
        assert!(TopicName::new(OTHER).is_err(), "no topic can be taken for all others");
    }
}
