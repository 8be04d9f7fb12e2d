//! What the store measures of itself, for those who watch it. Written by its threads, read by anyone; nothing goes by it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dwell_core::{Measures, Spread};

/// All of it.
#[derive(Debug, Default)]
pub(crate) struct Gauges {
    /// From a job's due time to when it became ready.
    pub(crate) promoted: Gauge,
    /// How long a sync of the journal took.
    pub(crate) synced: Gauge,
}

impl Gauges {
    pub(crate) fn read(&self) -> Measures {
        Measures { promoted: Some(self.promoted.read()), synced: Some(self.synced.read()), sizes: None }
    }
}

/// How many of a kind took how long.
#[derive(Debug, Default)]
pub(crate) struct Gauge {
    counts: [AtomicU64; Spread::BOUNDS.len() + 1],
    sum: AtomicU64,
}

impl Gauge {
    pub(crate) fn note(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = Spread::BOUNDS.partition_point(|bound| *bound < micros);
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(micros, Ordering::Relaxed);
    }

    fn read(&self) -> Spread {
        let counts = std::array::from_fn(|bucket| self.counts[bucket].load(Ordering::Relaxed));
        Spread { counts, sum: self.sum.load(Ordering::Relaxed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_noted_is_in_its_place() {
        let gauge = Gauge::default();
        for micros in [0, 100, 101, 1_000, 600_000_000, 600_000_001] {
            gauge.note(Duration::from_micros(micros));
        }
        let spread = gauge.read();
        let last = Spread::BOUNDS.len();
        for (bucket, count) in [(0, 2), (1, 1), (3, 1), (last - 1, 1), (last, 1)] {
            assert_eq!(spread.counts[bucket], count, "{bucket}: {spread:?}");
        }
        assert_eq!((spread.counts.iter().sum::<u64>(), spread.sum), (6, 1_200_001_202));
    }
}
