//! `dwell bench`.
//!
//! Load has a schedule: request k is meant to leave at k / rate, whether or not the server has answered those before.
//! Latency counts from that moment. A server that stalls for a second so has a second's worth of late requests, not one
//! (`load`). What carries requests is in `http` and `beanstalk`; `record` keeps the figures and `report` shows them.

mod beanstalk;
mod http;
mod load;
mod record;
mod report;

use std::sync::Arc;
use std::time::Duration as Length;

use clap::{Args, ValueEnum};
use dwell_wire::{Code as Api, Duration};

use self::load::Plan;
use super::clock::Clock;
use super::interrupt::Interrupt;
use super::parse;
use super::server::{self, Server};
use crate::exit::{Code, Exit};
use crate::output;

/// Measure a server: put, hand over and ack jobs at a steady rate, and see how long that takes
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  dwell bench put --rate 2000
  dwell bench put-lease-ack --rate 5000 --batch 50 --for 30s
  dwell bench delayed --rate 500 --delay 3s
  dwell bench put --beanstalk 127.0.0.1:11300 --max-throughput

Requests leave by a schedule, whether or not the server keeps up, and latency
counts from the moment a request was meant to leave. --max-throughput keeps no
schedule: each connection sends as soon as it has its answer, which says how
much a server can do and little about how long it takes.
The jobs are on a topic of their own, which is deleted at the end.")]
pub(crate) struct Bench {
    /// What is done with jobs
    #[arg(value_enum, default_value_t = Workload::Put)]
    workload: Workload,
    /// Jobs put a second
    #[arg(long, value_name = "NUMBER", default_value_t = 1_000.0, value_parser = rate)]
    rate: f64,
    /// No schedule: as many as there can be
    #[arg(long, conflicts_with = "rate")]
    max_throughput: bool,
    /// How long to measure
    #[arg(long = "for", value_name = "DURATION", default_value = "10s", value_parser = parse::duration)]
    length: Duration,
    /// How long before that to do the same without measuring
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = parse::duration)]
    warm_up: Duration,
    /// Jobs of one request; over beanstalk, of one pipeline
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    batch: u32,
    /// Producers, each with a connection of its own
    #[arg(long, value_name = "NUMBER", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    connections: u32,
    /// Consumers, each with a connection of its own
    #[arg(long, value_name = "NUMBER", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    consumers: u32,
    /// Bytes of a body
    #[arg(long, value_name = "BYTES", default_value_t = 256, value_parser = clap::value_parser!(u32).range(64..=1_000_000))]
    body_size: u32,
    /// When jobs are due; 1h for put, so that they only rest, and 2s for delayed; whole seconds over beanstalk
    #[arg(long, value_name = "DURATION", value_parser = parse::duration)]
    delay: Option<Duration>,
    /// Use the beanstalk protocol at this address, such as 127.0.0.1:11300, or at a socket
    #[arg(long, value_name = "ADDRESS")]
    beanstalk: Option<String>,
    #[command(flatten)]
    server: Server,
}

/// What is done with jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Workload {
    /// They are put, and rest
    Put,
    /// They are put, due at once, handed to consumers and acked
    PutLeaseAck,
    /// They are put with a delay; how late consumers get them is measured
    Delayed,
}

impl Workload {
    fn name(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::PutLeaseAck => "put-lease-ack",
            Self::Delayed => "delayed",
        }
    }

    fn delay(self) -> Duration {
        match self {
            Self::Put => Duration(3_600_000),
            Self::PutLeaseAck => Duration(0),
            Self::Delayed => Duration(2_000),
        }
    }
}

/// Jobs a second.
fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if (0.1..=1e7).contains(&rate) => Ok(rate),
        _ => Err(format!("\"{text}\" is not a rate; try 1000, jobs a second, 0.1 to 10000000")),
    }
}

impl Bench {
    pub(super) async fn run(self) -> Result<(), Exit> {
        let mut interrupt = Interrupt::listen()?;
        let plan = Arc::new(self.plan().await?);
        let outcome = tokio::select! {
            outcome = load::run(&plan) => outcome,
            () = interrupt.comes() => Err(Exit::failure("interrupted")),
        };
        let left = plan.door.clean(&plan.topic).await;
        let record = match outcome {
            Ok(record) => record,
            Err(exit) => {
                return Err(match left {
                    Ok(_) => exit,
                    Err(left) => exit.and(&format!("; {left}")),
                });
            }
        };
        report::print(&self, &plan, &record, left.as_ref().ok().and_then(Option::as_deref))?;
        if let Err(left) = left {
            return Err(Exit::failure(left));
        }
        record.errors.map_or(Ok(()), |errors| Err(Exit::failure(errors)))
    }

    async fn plan(&self) -> Result<Plan, Exit> {
        let millis = |duration: Duration| Length::from_millis(duration.0);
        let delay = self.delay.unwrap_or(self.workload.delay());
        let (door, topic) = if let Some(address) = &self.beanstalk {
            if !delay.0.is_multiple_of(1_000) {
                return Err(Exit::new(Code::Usage, "over beanstalk --delay must be whole seconds"));
            }
            let door = beanstalk::Door::open(address).await?;
            (Door::Beanstalk(door), format!("dwell-bench-{}", std::process::id()))
        } else {
            let client = self.server.client()?;
            let topic = format!("dwell-bench-{}-{}", server::now(&client).await?.0, std::process::id());
            let clock = match self.workload {
                Workload::Delayed => Clock::read_passing(&client).await?,
                Workload::Put | Workload::PutLeaseAck => Clock::read(&client).await?,
            };
            (Door::Http(http::Door { client, clock }), topic)
        };
        Ok(Plan {
            topic,
            door,
            interval: (!self.max_throughput).then(|| f64::from(self.batch) / self.rate),
            warm_up: millis(self.warm_up),
            length: millis(self.length),
            batch: self.batch,
            producers: self.connections,
            consumers: if self.workload == Workload::Put { 0 } else { self.consumers },
            body_size: usize::try_from(self.body_size).unwrap_or(usize::MAX),
            delay,
            measures_lateness: self.workload == Workload::Delayed,
        })
    }
}

/// How the server is reached.
enum Door {
    Http(http::Door),
    Beanstalk(beanstalk::Door),
}

impl Door {
    fn name(&self) -> &'static str {
        match self {
            Self::Http(_) => "http",
            Self::Beanstalk(_) => "beanstalk",
        }
    }

    /// Takes away what was put; what stays by nature, or what could not be taken away.
    async fn clean(&self, topic: &str) -> Result<Option<String>, String> {
        match self {
            Self::Http(door) => match door.client.delete_topic(topic).await {
                Err(error) if error.code() != Some(Api::NotFound) => {
                    Err(format!("the topic {topic} could not be deleted and stays: {error}"))
                }
                _ => Ok(None),
            },
            Self::Beanstalk(door) => {
                let cleaned = door.clean().await;
                cleaned.map(Some).map_err(|error| format!("jobs on {topic} could not be deleted and stay: {error}"))
            }
        }
    }
}

/// A length in microseconds, as exactly as people care for.
fn micros(micros: u64) -> String {
    match micros {
        0..1_000 => format!("{micros}µs"),
        1_000..10_000 => format!("{}.{:02}ms", micros / 1_000, micros % 1_000 / 10),
        10_000..1_000_000 => format!("{}.{}ms", micros / 1_000, micros % 1_000 / 100),
        _ => output::span(micros / 1_000),
    }
}
