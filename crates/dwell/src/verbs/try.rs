//! `dwell try`.

use clap::Args;
use dwell_client::Client;
use dwell_wire::job::Job;
use dwell_wire::lease::LeaseRequest;
use dwell_wire::put::{PutJob, PutJobs};
use dwell_wire::{Code, Duration, Instant};
use serde::Serialize;

use super::clock::Clock;
use super::interrupt::Interrupt;
use super::server::{self, Server};
use crate::exit::{Exit, of_problem};
use crate::output;

/// The jobs: their ids, and when they are due.
const JOBS: [(&str, Duration); 3] = [("1s", Duration(1_000)), ("3s", Duration(3_000)), ("5s", Duration(5_000))];

/// How long to wait for one.
const WAIT: Duration = Duration(30_000);

/// Try a server: put three jobs, due in 1, 3 and 5 seconds, and see how late each one comes
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  dwell try

The lateness is what a consumer here sees: the way of the answer is part of it.
The jobs are on a topic of their own, which is deleted at the end.")]
pub(crate) struct Try {
    #[command(flatten)]
    server: Server,
}

#[derive(Serialize)]
struct Seen<'a> {
    id: &'a str,
    due_at: Instant,
    lateness_ms: u64,
}

impl Try {
    pub(super) async fn run(self) -> Result<(), Exit> {
        let client = self.server.client()?;
        let mut interrupt = Interrupt::listen()?;
        let topic = format!("dwell-try-{}-{}", server::now(&client).await?.0, std::process::id());
        let outcome = tokio::select! {
            outcome = self.watch(&client, &topic) => outcome,
            () = interrupt.comes() => Err(Exit::failure("interrupted")),
        };
        let cleaned = match client.delete_topic(&topic).await {
            Err(error) if error.code() != Some(Code::NotFound) => Err(Exit::from(error)),
            _ => Ok(()),
        };
        outcome.and(cleaned)
    }

    async fn watch(&self, client: &Client, topic: &str) -> Result<(), Exit> {
        let clock = Clock::read_passing(client).await?;
        if !self.server.json {
            output::line(&format!("Three jobs on {topic}, due in 1s, 3s and 5s:"))?;
        }
        put(client, topic).await?;
        let wanted = LeaseRequest {
            topics: Some(vec![topic.into()]),
            max: Some(3),
            wait: Some(WAIT),
            auto_ack: Some(true),
            ..LeaseRequest::default()
        };
        let mut seen = 0;
        while seen < JOBS.len() {
            let jobs = client.lease(&wanted).await?;
            let now = Instant(clock.micros() / 1_000);
            if jobs.is_empty() {
                return Err(Exit::failure(format!("no job came within {}", output::span(WAIT.0))));
            }
            seen += jobs.len();
            jobs.iter().try_for_each(|job| self.print(job, now))?;
        }
        Ok(())
    }

    fn print(&self, job: &Job, now: Instant) -> Result<(), Exit> {
        let lateness = now.0.saturating_sub(job.due_at.0);
        if self.server.json {
            return output::object(&Seen { id: &job.id, due_at: job.due_at, lateness_ms: lateness });
        }
        output::line(&format!("  {}  due {}, handed over {lateness} ms late", job.id, job.due_at))
    }
}

async fn put(client: &Client, topic: &str) -> Result<(), Exit> {
    let job = |(id, delay): (&'static str, Duration)| PutJob {
        topic: Some(topic.into()),
        id: Some(id.into()),
        delay: Some(delay),
        ..PutJob::default()
    };
    let results = client.put_many(&PutJobs { jobs: JOBS.map(job).into() }).await?;
    match results.into_iter().find_map(|result| Some((result.code?, result.detail))) {
        Some((code, detail)) => Err(Exit::new(of_problem(code), detail.unwrap_or_else(|| code.title().to_owned()))),
        None => Ok(()),
    }
}
