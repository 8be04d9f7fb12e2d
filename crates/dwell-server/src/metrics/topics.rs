//! What the store says of its topics, as Prometheus reads it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use dwell_core::{State, Store, Timestamp, TopicInfo, TopicName, TopicsQuery, Totals, limits};

use super::seconds;

/// Topics looked at in one go; a store with more shows these.
const MOST: usize = limits::DEFAULT_MAX_TOPICS;

/// One name per state, in the order of [`State::ALL`].
const STATES: [&str; 4] = ["delayed", "ready", "leased", "buried"];

#[derive(Default)]
struct Sums {
    states: [u64; 4],
    events: [u64; 10],
    waiting: u64,
    /// Milliseconds that the oldest ready job has been due.
    oldest: u64,
}

/// The series of all topics; none if the store does not answer.
pub(super) async fn text(store: &dyn Store, now: Option<Timestamp>, label: impl Fn(&TopicName) -> String) -> String {
    let mut sums: BTreeMap<String, Sums> = BTreeMap::new();
    let mut query = TopicsQuery { limit: limits::MAX_PAGE, ..TopicsQuery::default() };
    let mut seen = 0;
    while seen < MOST {
        let Ok(page) = store.topics(query.clone()).await else { break };
        for topic in &page {
            add(sums.entry(label(&topic.name)).or_default(), topic, now);
        }
        seen += page.len();
        match page.last() {
            Some(last) if page.len() == limits::MAX_PAGE as usize => query.after = Some(last.name.clone()),
            _ => break,
        }
    }
    print(&sums)
}

fn add(sums: &mut Sums, topic: &TopicInfo, now: Option<Timestamp>) {
    for (sum, state) in sums.states.iter_mut().zip(State::ALL) {
        *sum += topic.counts[state];
    }
    for (sum, (_, count)) in sums.events.iter_mut().zip(events(&topic.totals)) {
        *sum += count;
    }
    sums.waiting += topic.waiting;
    if let Some((now, since)) = now.zip(topic.oldest_ready_at) {
        sums.oldest = sums.oldest.max(now.as_millis().saturating_sub(since.as_millis()));
    }
}

/// What has happened, by name.
fn events(totals: &Totals) -> [(&'static str, u64); 10] {
    [
        ("put", totals.put),
        ("leased", totals.leased),
        ("acked", totals.acked),
        ("nacked", totals.nacked),
        ("timed_out", totals.timed_out),
        ("released", totals.released),
        ("buried", totals.buried),
        ("redriven", totals.redriven),
        ("cancelled", totals.cancelled),
        ("purged", totals.purged),
    ]
}

fn print(sums: &BTreeMap<String, Sums>) -> String {
    let mut text = String::new();
    let mut line = |args: std::fmt::Arguments<'_>| text.write_fmt(args).expect("a string takes everything");
    line(format_args!("# HELP dwell_jobs Live jobs by topic and state.\n# TYPE dwell_jobs gauge\n"));
    for (topic, sums) in sums {
        for (state, count) in STATES.iter().zip(sums.states) {
            line(format_args!("dwell_jobs{{topic=\"{topic}\",state=\"{state}\"}} {count}\n"));
        }
    }
    line(format_args!("# HELP dwell_waiting_consumers Consumers waiting in a lease call.\n"));
    line(format_args!("# TYPE dwell_waiting_consumers gauge\n"));
    for (topic, sums) in sums {
        line(format_args!("dwell_waiting_consumers{{topic=\"{topic}\"}} {}\n", sums.waiting));
    }
    line(format_args!("# HELP dwell_oldest_ready_seconds How long the oldest ready job has been due.\n"));
    line(format_args!("# TYPE dwell_oldest_ready_seconds gauge\n"));
    for (topic, sums) in sums {
        line(format_args!("dwell_oldest_ready_seconds{{topic=\"{topic}\"}} {}\n", seconds(sums.oldest)));
    }
    line(format_args!("# HELP dwell_job_events What has happened to jobs since their topic was created.\n"));
    line(format_args!("# TYPE dwell_job_events counter\n"));
    for (topic, sums) in sums {
        for ((event, _), count) in events(&Totals::default()).iter().zip(sums.events) {
            line(format_args!("dwell_job_events_total{{topic=\"{topic}\",event=\"{event}\"}} {count}\n"));
        }
    }
    text
}
