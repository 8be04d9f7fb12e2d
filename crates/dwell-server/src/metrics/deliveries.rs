//! What is counted of deliveries, by target.

use std::collections::BTreeSet;
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::OTHER;
use crate::delivery::Outcome;

/// Targets that have series of their own; all others share one.
const MOST_ORIGINS: usize = 200;

/// Seconds, from a millisecond to the time-out.
const TOOK: [f64; 10] = [0.001, 0.005, 0.02, 0.05, 0.1, 0.25, 1.0, 2.5, 5.0, 15.0];

/// What is counted of deliveries.
#[derive(Debug)]
pub(crate) struct Deliveries {
    named: RwLock<BTreeSet<String>>,
    ended: Family<OfOutcome, Counter>,
    took: Family<OfOrigin, Histogram, fn() -> Histogram>,
    in_flight: Family<OfOrigin, Gauge>,
    down: Family<OfOrigin, Gauge>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfOrigin {
    origin: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfOutcome {
    origin: String,
    outcome: &'static str,
}

impl Deliveries {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let took: Family<OfOrigin, Histogram, fn() -> Histogram> =
            Family::new_with_constructor(|| Histogram::new(TOOK));
        let this = Self {
            named: RwLock::default(),
            ended: Family::default(),
            took,
            in_flight: Family::default(),
            down: Family::default(),
        };
        registry.register("deliveries", "Deliveries by target and outcome", this.ended.clone());
        registry.register("delivery_seconds", "How long deliveries take, by target", this.took.clone());
        registry.register("deliveries_in_flight", "Deliveries under way, by target", this.in_flight.clone());
        registry.register("targets_down", "Targets that are left alone for a while", this.down.clone());
        this
    }

    pub(crate) fn started(&self, origin: &str) {
        self.in_flight.get_or_create(&self.of(origin)).inc();
    }

    pub(crate) fn ended(&self, origin: &str, outcome: Outcome, took: Duration) {
        let series = self.of(origin);
        self.took.get_or_create(&series).observe(took.as_secs_f64());
        let series = OfOutcome { origin: series.origin, outcome: outcome.name() };
        self.ended.get_or_create(&series).inc();
    }

    /// A delivery is over, well or not; `down` says if the target was found to be down, or not to be any more.
    pub(crate) fn over(&self, origin: &str, down: Option<bool>) {
        let series = self.of(origin);
        self.in_flight.get_or_create(&series).dec();
        if let Some(down) = down {
            self.down.get_or_create(&series).set(i64::from(down));
        }
    }

    /// What a target's series are called: its origin, if it is one of the first that were seen.
    fn of(&self, origin: &str) -> OfOrigin {
        if self.named.read().unwrap_or_else(PoisonError::into_inner).contains(origin) {
            return OfOrigin { origin: origin.to_owned() };
        }
        let mut named = self.named.write().unwrap_or_else(PoisonError::into_inner);
        let has_room = named.len() < MOST_ORIGINS || named.contains(origin);
        if has_room {
            named.insert(origin.to_owned());
        }
        OfOrigin { origin: if has_room { origin.to_owned() } else { OTHER.to_owned() } }
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[test]
    fn only_the_first_targets_have_series_of_their_own() {
        let mut registry = Registry::default();
        let deliveries = Deliveries::new(&mut registry);
        for number in 0..MOST_ORIGINS + 5 {
            let origin = format!("https://t{number}.example:443");
            deliveries.started(&origin);
            deliveries.ended(&origin, Outcome::Delivered, Duration::from_millis(3));
            deliveries.over(&origin, None);
        }
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let series = text.lines().filter(|line| line.starts_with("deliveries_total{")).count();
        assert_eq!(series, MOST_ORIGINS + 1);
        assert!(text.contains("deliveries_total{origin=\"*\",outcome=\"delivered\"} 5"), "{text}");
    }
}
