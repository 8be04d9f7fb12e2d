//! `dwell tail`.

use clap::Args;
use dwell_client::Client;
use dwell_wire::Duration;
use dwell_wire::job::Job;
use dwell_wire::lease::LeaseRequest;
use dwell_wire::settle::{SettleItem, SettleItems, Terms, Verb};
use tokio::time::{self, Instant};

use super::interrupt::Interrupt;
use super::parse;
use super::server::Server;
use crate::exit::Exit;
use crate::output;

/// How long one request waits.
const WAIT: time::Duration = time::Duration::from_secs(30);

/// Jobs of one request: few, so that none waits long to be printed.
const BATCH: u64 = 100;

/// How long to rest after an answer that came too soon, as from a server that is about to stop.
const REST: time::Duration = time::Duration::from_secs(1);

/// Print jobs as they become due, and ack them
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  dwell tail orders.close

A job is acked after it was printed. Goes on until interrupted, or until --max jobs were printed.")]
pub(crate) struct Tail {
    /// Where to look
    #[arg(required = true, value_name = "TOPIC", value_parser = parse::topic)]
    topics: Vec<String>,
    /// Stop after so many
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    max: Option<u64>,
    #[command(flatten)]
    server: Server,
}

impl Tail {
    pub(super) async fn run(self) -> Result<(), Exit> {
        let client = self.server.client()?;
        let mut interrupt = Interrupt::listen()?;
        let mut left = self.max.unwrap_or(u64::MAX);
        while left > 0 {
            // A job that was leased is printed and settled; only waiting can be interrupted.
            let jobs = tokio::select! {
                biased;
                () = interrupt.comes() => return Ok(()),
                jobs = self.lease(&client, left.min(BATCH)) => jobs?,
            };
            left -= u64::try_from(jobs.len()).unwrap_or(left).min(left);
            let (printed, unprinted, outcome) = self.print(&jobs);
            settle(&client, printed, Verb::Ack).await?;
            settle(&client, unprinted, Verb::Release).await?;
            outcome?;
        }
        Ok(())
    }

    async fn lease(&self, client: &Client, max: u64) -> Result<Vec<Job>, Exit> {
        let asked_at = Instant::now();
        let wanted = LeaseRequest {
            topics: Some(self.topics.iter().map(Into::into).collect()),
            max: u32::try_from(max).ok(),
            wait: u64::try_from(WAIT.as_millis()).ok().map(Duration),
            consumer: Some("dwell tail".into()),
            ..LeaseRequest::default()
        };
        let jobs = client.lease(&wanted).await?;
        if jobs.is_empty() && asked_at.elapsed() < WAIT / 2 {
            time::sleep(REST).await;
        }
        Ok(jobs)
    }

    /// Prints jobs until one cannot be printed: those that were, those that were not, and why.
    fn print<'a>(&self, jobs: &'a [Job]) -> (&'a [Job], &'a [Job], Result<(), Exit>) {
        for (index, job) in jobs.iter().enumerate() {
            if let Err(exit) = self.print_one(job) {
                return (&jobs[..index], &jobs[index..], Err(exit));
            }
        }
        (jobs, &[], Ok(()))
    }

    fn print_one(&self, job: &Job) -> Result<(), Exit> {
        if self.server.json {
            return output::object(job);
        }
        let again = if job.attempt > 1 { format!("  (attempt {})", job.attempt) } else { String::new() };
        let body = output::plain(&output::body(job));
        output::line(&format!("{}  {}  {}{again}  {body}", job.due_at, job.topic, job.id))
    }
}

async fn settle(client: &Client, jobs: &[Job], verb: Verb) -> Result<(), Exit> {
    if jobs.is_empty() {
        return Ok(());
    }
    let item = |job: &Job| {
        let token = job.token.clone().unwrap_or_default().into();
        SettleItem { token, verb, terms: Terms::default() }
    };
    let results = client.settle(&SettleItems { items: jobs.iter().map(item).collect() }).await?;
    for (job, result) in jobs.iter().zip(results) {
        if let Some(code) = result.code {
            let detail = result.detail.as_deref().unwrap_or(code.title());
            output::warn(&format!("{} on {}: {detail}", job.id, job.topic));
        }
    }
    Ok(())
}
