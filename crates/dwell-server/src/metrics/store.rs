//! What the store says of itself, as Prometheus reads it.

use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use dwell_core::{Sizes, Spread, Status};

/// The series of a store; of one that does not answer, that it has failed.
pub(super) fn text(status: Option<&Status>) -> String {
    let mut text = String::new();
    let failed = status.is_none_or(|status| status.failed.is_some());
    let about = "Whether the store has failed and needs a restart";
    let _ = writeln!(text, "# HELP dwell_store_failed {about}.\n# TYPE dwell_store_failed gauge");
    let _ = writeln!(text, "dwell_store_failed {}", u8::from(failed));
    let Some(status) = status else { return text };
    let about = "How far the store's time is ahead of the system's";
    let _ = writeln!(text, "# HELP dwell_clock_gap_seconds {about}.\n# TYPE dwell_clock_gap_seconds gauge");
    let _ = writeln!(text, "dwell_clock_gap_seconds {}", gap(status));
    if let Some(spread) = &status.measures.promoted {
        histogram(&mut text, "dwell_promotion_seconds", "From a job's due time to when it became ready", spread);
    }
    if let Some(spread) = &status.measures.synced {
        histogram(&mut text, "dwell_sync_seconds", "How long making changes durable takes", spread);
    }
    if let Some(sizes) = &status.measures.sizes {
        sizes_text(&mut text, sizes);
    }
    text
}

fn sizes_text(text: &mut String, sizes: &Sizes) {
    let gauges = [
        ("dwell_near_jobs", "Jobs in memory", Some(sizes.near_jobs)),
        ("dwell_near_bytes", "Memory that jobs take", Some(sizes.near_bytes)),
        ("dwell_near_limit_bytes", "Memory that jobs may take", Some(sizes.near_limit)),
        ("dwell_shelf_jobs", "Jobs in runs", Some(sizes.shelf_jobs)),
        ("dwell_shelf_runs", "Runs", Some(sizes.shelf_runs)),
        ("dwell_shelf_bytes", "Bytes of runs", Some(sizes.shelf_bytes)),
        ("dwell_journal_segments", "Segments of the journal that are still needed", Some(sizes.journal_segments)),
        ("dwell_disk_free_bytes", "Bytes that are free on the disk", sizes.disk_free),
    ];
    for (name, about, value) in gauges {
        if let Some(value) = value {
            let _ = writeln!(text, "# HELP {name} {about}.\n# TYPE {name} gauge\n{name} {value}");
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the system's time is what the store's is compared with")]
#[expect(clippy::cast_precision_loss, reason = "times are far below 2^53 ms")]
fn gap(status: &Status) -> f64 {
    let system = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    status.now.as_millis() as f64 / 1e3 - system.as_secs_f64()
}

#[expect(clippy::cast_precision_loss, reason = "times are far below 2^53 µs")]
fn histogram(text: &mut String, name: &str, about: &str, spread: &Spread) {
    let _ = writeln!(text, "# HELP {name} {about}.\n# TYPE {name} histogram");
    let mut count = 0;
    for (bound, more) in Spread::BOUNDS.iter().zip(spread.counts) {
        count += more;
        let _ = writeln!(text, "{name}_bucket{{le=\"{:?}\"}} {count}", *bound as f64 / 1e6);
    }
    let all: u64 = spread.counts.iter().sum();
    let _ = writeln!(text, "{name}_bucket{{le=\"+Inf\"}} {all}");
    let _ = writeln!(text, "{name}_sum {}\n{name}_count {all}", spread.sum as f64 / 1e6);
}
