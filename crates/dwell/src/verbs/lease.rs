//! `dwell lease`.

use clap::Args;
use dwell_wire::job::Job;
use dwell_wire::lease::LeaseRequest;
use dwell_wire::{Duration, Instant};

use super::parse;
use super::server::{self, Server};
use crate::exit::{Code, Exit};
use crate::output::{self, Align, Table};

/// Take jobs that are due, to work on them and then ack or nack them
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  dwell lease orders.close --wait 20s --json | jq -r .token | xargs dwell ack

Exits with 7 if no job was due in time. A job that is not settled before its lease runs out comes again.")]
pub(crate) struct Lease {
    /// Where to look; the best job of all comes first
    #[arg(required = true, value_name = "TOPIC", value_parser = parse::topic)]
    topics: Vec<String>,
    /// At most so many
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    max: u32,
    /// How long to wait for the first, up to 60s
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = parse::duration)]
    wait: Duration,
    /// How long to hold them, this time; 1s to 24h
    #[arg(long, value_name = "DURATION", value_parser = parse::duration)]
    ttr: Option<Duration>,
    /// Settle them as they are handed out: at most once, nothing to ack
    #[arg(long)]
    auto_ack: bool,
    /// Who asks, for people who look who holds a job
    #[arg(long, value_name = "NAME")]
    consumer: Option<String>,
    #[command(flatten)]
    server: Server,
}

impl Lease {
    pub(super) async fn run(self) -> Result<(), Exit> {
        let client = self.server.client()?;
        let wanted = LeaseRequest {
            topics: Some(self.topics.iter().map(Into::into).collect()),
            max: Some(self.max),
            wait: Some(self.wait),
            ttr: self.ttr,
            consumer: self.consumer.as_deref().map(Into::into),
            auto_ack: Some(self.auto_ack),
        };
        let jobs = client.lease(&wanted).await?;
        if jobs.is_empty() {
            let topics = self.topics.join(", ");
            let within =
                if self.wait.0 == 0 { "now".to_owned() } else { format!("within {}", output::span(self.wait.0)) };
            return Err(Exit::new(Code::NothingLeased, format!("nothing is due on {topics} {within}")));
        }
        if self.server.json {
            return jobs.iter().try_for_each(output::object);
        }
        let now = server::now(&client).await?;
        let mut table = Table::new(&[
            ("TOPIC", Align::Left),
            ("ID", Align::Left),
            ("ATTEMPT", Align::Right),
            ("EXPIRES", Align::Left),
            ("TOKEN", Align::Left),
            ("BODY", Align::Left),
        ]);
        for job in &jobs {
            table.row(row(job, now));
        }
        table.print()
    }
}

fn row(job: &Job, now: Instant) -> [String; 6] {
    [
        job.topic.clone(),
        job.id.clone(),
        job.attempt.to_string(),
        job.lease_expires_at.map(|at| output::away(at, now)).unwrap_or_default(),
        job.token.clone().unwrap_or_default(),
        output::short(&output::body(job)),
    ]
}
