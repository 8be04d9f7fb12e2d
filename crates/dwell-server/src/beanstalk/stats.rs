//! What the server, a tube and a job look like, in YAML, with all the keys that beanstalkd has.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use beanstalk_protocol::Reply;
use dwell_core::{Found, JobRef, JobView, Lookup, Pause, Phase, State, StoreError, Timestamp, TopicInfo, TopicName};
use rustix::system::uname;

use super::registry::{Counted, TubeUse};
use super::{Edge, failure, names, tubes};

/// What clients that look at versions see: the protocol, and whose it is.
const VERSION: &str = concat!("1.13+dwell.", env!("CARGO_PKG_VERSION"));

/// Clock ticks of a second, as Linux shows them to every program.
const TICKS: u64 = 100;

/// Tells about the server.
pub(super) async fn server(edge: &Edge, out: &mut Vec<u8>) {
    match document(edge).await {
        Ok(text) => Reply::Ok(text.as_bytes()).write(out),
        Err(error) => failure(&error).write(out),
    }
}

/// What all topics have together.
#[derive(Default)]
struct Sums {
    states: [u64; 4],
    urgent: u64,
    timeouts: u64,
    jobs: u64,
}

async fn document(edge: &Edge) -> Result<String, StoreError> {
    let mut sums = Sums::default();
    let tubes = tubes::all(edge, |topic| {
        for (sum, state) in sums.states.iter_mut().zip(State::ALL) {
            *sum += topic.counts[state];
        }
        sums.urgent += topic.urgent;
        sums.timeouts += topic.totals.timed_out;
        sums.jobs += topic.totals.put;
    })
    .await?;
    let mut text = Text::new();
    let [delayed, ready, reserved, buried] = sums.states;
    text.jobs(sums.urgent, ready, reserved, delayed, buried);
    for (command, name) in Counted::ALL {
        text.line(&format!("cmd-{name}"), edge.registry.counted(command));
    }
    text.line("job-timeouts", sums.timeouts);
    text.line("total-jobs", sums.jobs);
    text.line("max-job-size", edge.config.max_body);
    text.line("current-tubes", tubes.len());
    let registry = &edge.registry;
    let counters = [
        ("current-connections", &registry.connections),
        ("current-producers", &registry.producers),
        ("current-workers", &registry.workers),
        ("current-waiting", &registry.waiting),
        ("total-connections", &registry.total_connections),
    ];
    for (name, counter) in counters {
        text.line(name, counter.load(Ordering::Relaxed));
    }
    text.process(edge);
    Ok(text.0)
}

/// Tells about a tube.
pub(super) async fn tube(edge: &Edge, tube: &TopicName, out: &mut Vec<u8>) {
    let found = match tubes::find(edge, tube).await {
        Ok(Some(found)) => found,
        Ok(None) => return Reply::NotFound.write(out),
        Err(error) => return failure(&error).write(out),
    };
    let now = match edge.store.status().await {
        Ok(status) => status.now,
        Err(error) => return failure(&error).write(out),
    };
    let text = of_tube(tube, found.as_ref(), edge.registry.of(tube), now);
    Reply::Ok(text.as_bytes()).write(out);
}

fn of_tube(tube: &TopicName, topic: Option<&TopicInfo>, using: TubeUse, now: Timestamp) -> String {
    let mut text = Text::new();
    text.quoted("name", tube.as_str());
    let count = |state| topic.map_or(0, |topic| topic.counts[state]);
    let urgent = topic.map_or(0, |topic| topic.urgent);
    text.jobs(urgent, count(State::Ready), count(State::Leased), count(State::Delayed), count(State::Buried));
    text.line("total-jobs", topic.map_or(0, |topic| topic.totals.put));
    text.line("current-using", using.using);
    text.line("current-watching", using.watching);
    text.line("current-waiting", topic.map_or(0, |topic| topic.waiting));
    text.line("cmd-delete", topic.map_or(0, |topic| topic.totals.acked + topic.totals.cancelled));
    text.line("cmd-pause-tube", using.pauses);
    let (pause, left) = match topic.map(|topic| topic.pause) {
        None | Some(Pause::Off) => (0, 0),
        Some(Pause::On) => (u64::from(u32::MAX), u64::from(u32::MAX)),
        Some(Pause::Until(until)) => {
            let left = until.since(now);
            // It may have been paused over HTTP, or before a restart: then what is left is all that is known. A pause
            // counts from the next whole millisecond.
            (u64::from(using.pause).max(left.saturating_sub(1).div_ceil(1_000)), left / 1_000)
        }
    };
    text.line("pause", pause);
    text.line("pause-time-left", left);
    text.0
}

/// Tells about a job.
pub(super) async fn job(edge: &Edge, id: u64, out: &mut Vec<u8>) {
    let Some(number) = names::number(id) else { return Reply::NotFound.write(out) };
    let found = match edge.store.get(vec![Lookup::Job(JobRef::Number(number))]).await {
        Ok(found) => found.into_iter().next().flatten().and_then(Found::live),
        Err(error) => return failure(&error).write(out),
    };
    let Some(view) = found else { return Reply::NotFound.write(out) };
    match edge.store.status().await {
        Ok(status) => Reply::Ok(of_job(&view, status.now).as_bytes()).write(out),
        Err(error) => failure(&error).write(out),
    }
}

fn of_job(view: &JobView, now: Timestamp) -> String {
    let job = &view.job;
    let state = match view.state {
        State::Delayed => "delayed",
        State::Ready => "ready",
        State::Leased => "reserved",
        State::Buried => "buried",
    };
    let left = match (&job.phase, view.state) {
        (Phase::Leased(lease), _) => lease.expires_at.since(now),
        (_, State::Delayed) => job.due_at.since(now),
        _ => 0,
    };
    let counters = &job.counters;
    let delay = if counters.leases == 0 && counters.kicks == 0 {
        job.due_at.since(job.created_at) / 1_000
    } else if view.state == State::Delayed {
        // How long it was delayed when it was released is not kept: what is left of it is.
        left.div_ceil(1_000)
    } else {
        0
    };
    let mut text = Text::new();
    text.line("id", job.number);
    text.quoted("tube", job.topic.as_str());
    text.line("state", state);
    text.line("pri", job.priority.0);
    text.line("age", now.since(job.created_at) / 1_000);
    text.line("delay", delay);
    text.line("ttr", view.ttr.as_millis() / 1_000);
    text.line("time-left", left / 1_000);
    text.line("file", 0);
    text.line("reserves", counters.leases);
    text.line("timeouts", counters.timeouts);
    text.line("releases", counters.releases);
    text.line("buries", counters.buries);
    text.line("kicks", counters.kicks);
    text.0
}

/// A document in the making.
struct Text(String);

impl Text {
    fn new() -> Self {
        Self("---\n".to_owned())
    }

    fn line(&mut self, key: &str, value: impl std::fmt::Display) {
        writeln!(self.0, "{key}: {value}").expect("a string takes everything");
    }

    fn quoted(&mut self, key: &str, value: &str) {
        let value: String =
            value.chars().map(|c| if c == '"' || c == '\\' || c.is_control() { '_' } else { c }).collect();
        self.line(key, format_args!("\"{value}\""));
    }

    fn jobs(&mut self, urgent: u64, ready: u64, reserved: u64, delayed: u64, buried: u64) {
        self.line("current-jobs-urgent", urgent);
        self.line("current-jobs-ready", ready);
        self.line("current-jobs-reserved", reserved);
        self.line("current-jobs-delayed", delayed);
        self.line("current-jobs-buried", buried);
    }

    /// The part about the process. Dwell's journal is no binlog: its keys are 0.
    fn process(&mut self, edge: &Edge) {
        let [user, system] = cpu_ticks();
        let machine = uname();
        self.line("pid", std::process::id());
        self.quoted("version", VERSION);
        self.line("rusage-utime", Ticks(user));
        self.line("rusage-stime", Ticks(system));
        self.line("uptime", edge.started.elapsed().as_secs());
        for key in ["oldest-index", "current-index", "records-migrated", "records-written", "max-size"] {
            self.line(&format!("binlog-{key}"), 0);
        }
        self.line("draining", edge.is_draining());
        self.line("id", &edge.id);
        self.quoted("hostname", &machine.nodename().to_string_lossy());
        self.quoted("os", &machine.version().to_string_lossy());
        self.quoted("platform", &machine.machine().to_string_lossy());
    }
}

/// Ticks as seconds with six digits.
struct Ticks(u64);

impl std::fmt::Display for Ticks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:06}", self.0 / TICKS, self.0 % TICKS * (1_000_000 / TICKS))
    }
}

/// The time that this process has taken from the processors, for itself and in the system; 0 where Linux does not say.
fn cpu_ticks() -> [u64; 2] {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the program is in parentheses and may have anything in it; twelve fields come between it and these.
    let fields = text.rsplit(") ").next().unwrap_or_default();
    let mut fields = fields.split(' ').skip(11).map(|field| field.parse().unwrap_or(0));
    [fields.next().unwrap_or(0), fields.next().unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_quoted_stays_in_its_quotes() {
        let mut text = Text::new();
        text.quoted("hostname", "a\"b\\c\nd");
        assert_eq!(text.0, "---\nhostname: \"a_b_c_d\"\n");
    }

    #[test]
    fn ticks_are_seconds() {
        assert_eq!((Ticks(0).to_string(), Ticks(12_345).to_string()), ("0.000000".to_owned(), "123.450000".to_owned()));
    }
}
