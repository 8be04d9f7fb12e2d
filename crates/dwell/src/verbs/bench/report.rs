//! What is said of a run.

use hdrhistogram::Histogram;
use serde::Serialize;

use super::load::Plan;
use super::record::Record;
use super::{Bench, micros};
use crate::exit::Exit;
use crate::output::{self, Align, Table};

#[derive(Serialize)]
struct Report<'a> {
    workload: &'static str,
    protocol: &'static str,
    mode: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<f64>,
    rate_reached: f64,
    batch: u32,
    connections: u32,
    consumers: u32,
    body_bytes: u32,
    delay_ms: u64,
    warm_up_ms: u64,
    length_ms: u64,
    failed: u64,
    never_sent: u64,
    not_taken: u64,
    series: Vec<Series>,
    #[serde(skip_serializing_if = "Option::is_none")]
    left: Option<&'a str>,
}

/// How long one kind of thing took.
#[derive(Serialize)]
struct Series {
    name: &'static str,
    count: u64,
    per_second: f64,
    mean_us: f64,
    p50_us: u64,
    p90_us: u64,
    p99_us: u64,
    p999_us: u64,
    max_us: u64,
    #[serde(skip)]
    about: &'static str,
}

impl Series {
    fn new(name: &'static str, about: &'static str, figures: &Histogram<u64>, seconds: f64) -> Self {
        let at = |share| figures.value_at_quantile(share);
        Self {
            name,
            count: figures.len(),
            per_second: per_second(figures.len(), seconds),
            mean_us: (figures.mean() * 10.0).round() / 10.0,
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: figures.max(),
            about,
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn per_second(count: u64, seconds: f64) -> f64 {
    (count as f64 / seconds * 10.0).round() / 10.0
}

pub(super) fn print(bench: &Bench, plan: &Plan, record: &Record, left: Option<&str>) -> Result<(), Exit> {
    let seconds = plan.length.as_secs_f64().max(0.001);
    let open = plan.interval.is_some();
    let series = [
        (
            true,
            "put",
            if open { "from when it was meant to leave to its answer" } else { "from sending to its answer" },
            &record.put,
        ),
        (open, "put_service", "from when it left", &record.put_service),
        (
            true,
            "handed_over",
            "from when the put was meant to leave to when a consumer had the job",
            &record.handed_over,
        ),
        (true, "lateness", "from when a job was due to when a consumer had it", &record.lateness),
        (true, "ack", "from sending to its answer", &record.ack),
    ];
    let series: Vec<Series> = series
        .into_iter()
        .filter(|(wanted, _, _, figures)| *wanted && !figures.is_empty())
        .map(|(_, name, about, figures)| Series::new(name, about, figures, seconds))
        .collect();
    let report = Report {
        workload: bench.workload.name(),
        protocol: plan.door.name(),
        mode: if open { "open_loop" } else { "max_throughput" },
        rate: open.then_some(bench.rate),
        rate_reached: per_second(record.put_service.len(), seconds),
        batch: plan.batch,
        connections: plan.producers,
        consumers: plan.consumers,
        body_bytes: bench.body_size,
        delay_ms: plan.delay.0,
        warm_up_ms: bench.warm_up.0,
        length_ms: bench.length.0,
        failed: record.failed,
        never_sent: record.never_sent,
        not_taken: record.not_taken,
        series,
        left,
    };
    if bench.server.json { output::object(&report) } else { people(&report) }
}

fn people(report: &Report<'_>) -> Result<(), Exit> {
    let rate = report.rate.map_or("as many as there can be".to_owned(), |rate| format!("{rate} jobs/s"));
    output::line(&format!(
        "{} over {}, {rate}, {} a request, {} connections, bodies of {} bytes, {} after {} of warm-up",
        report.workload,
        report.protocol,
        if report.batch == 1 { "one job".to_owned() } else { format!("{} jobs", report.batch) },
        report.connections,
        report.body_bytes,
        output::span(report.length_ms),
        output::span(report.warm_up_ms),
    ))?;
    let columns = ["", "JOBS", "JOBS/S", "P50", "P90", "P99", "P99.9", "MAX", ""];
    let align = |name: &'static str| (name, if name.is_empty() { Align::Left } else { Align::Right });
    let mut table = Table::new(&columns.map(align));
    for series in &report.series {
        let times = [series.p50_us, series.p90_us, series.p99_us, series.p999_us, series.max_us].map(micros);
        let name = series.name.replace('_', " ");
        let start = [name, series.count.to_string(), format!("{:.0}", series.per_second)];
        table.row(start.into_iter().chain(times).chain([series.about.to_owned()]));
    }
    table.print()?;
    if report.never_sent > 0 {
        output::line(&format!(
            "The server did not keep up: {:.0} jobs/s were done; {} requests never left, and count as they had waited.",
            report.rate_reached, report.never_sent
        ))?;
    }
    if report.not_taken > 0 {
        output::line(&format!("{} jobs were put and not handed over in time.", report.not_taken))?;
    }
    if report.rate.is_none() {
        output::line("Each connection waited for its answers: this says how much, not how long under load.")?;
    }
    report.left.map_or(Ok(()), output::line)
}
