//! What the system says of the process, under the names that Prometheus clients give it. From `/proc`: where there is none,
//! there are no series.

use std::fmt::Write as _;
use std::fs;

/// The series of this process.
pub(super) fn text() -> String {
    let mut text = String::new();
    let mut gauge = |name: &str, help: &str, value: Option<f64>| {
        if let Some(value) = value {
            let _ = writeln!(text, "# HELP {name} {help}.\n# TYPE {name} gauge\n{name} {value}");
        }
    };
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Names of processes may hold anything but come in parentheses.
    let fields: Vec<_> = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
    // The first is the third field of the manual's count.
    let field = |number: usize| fields.get(number - 3).and_then(|field| field.parse::<f64>().ok());
    let ticks = whole(rustix::param::clock_ticks_per_second());
    gauge("process_virtual_memory_bytes", "Address space of the process", field(23));
    let page = whole(u64::try_from(rustix::param::page_size()).unwrap_or(0));
    gauge("process_resident_memory_bytes", "Memory of the process", field(24).map(|pages| pages * page));
    gauge("process_threads", "Threads of the process", field(20));
    let open = fs::read_dir("/proc/self/fd").ok().map(|files| whole(u64::try_from(files.count()).unwrap_or(0)));
    gauge("process_open_fds", "Files and sockets that are open", open);
    gauge("process_max_fds", "Files and sockets that may be open", most_files());
    let started = field(22).zip(booted_at()).map(|(after, boot)| boot + after / ticks);
    gauge("process_start_time_seconds", "When the process started, in seconds since 1970", started);
    if let Some((user, system)) = field(14).zip(field(15)) {
        let name = "process_cpu_seconds";
        let _ = writeln!(text, "# HELP {name} Processor time that was used.\n# TYPE {name} counter");
        let _ = writeln!(text, "{name}_total {}", (user + system) / ticks);
    }
    text
}

fn most_files() -> Option<f64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

fn booted_at() -> Option<f64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

#[expect(clippy::cast_precision_loss, reason = "such numbers are far below 2^53")]
fn whole(number: u64) -> f64 {
    number as f64
}
