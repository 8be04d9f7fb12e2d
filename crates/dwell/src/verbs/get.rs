//! `dwell get`.

use clap::Args;
use dwell_wire::Instant;
use dwell_wire::job::{Attempt, Job};

use super::parse;
use super::server::{self, Server};
use crate::exit::Exit;
use crate::output::{self, Table};

/// Show a job, with all that it carries
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  dwell get orders.close order-42

Exits with 3 if there is no such job.")]
pub(crate) struct Get {
    /// Where it queues
    #[arg(value_parser = parse::topic)]
    topic: String,
    /// Its id
    #[arg(value_parser = parse::id)]
    id: String,
    #[command(flatten)]
    server: Server,
}

impl Get {
    pub(super) async fn run(self) -> Result<(), Exit> {
        let client = self.server.client()?;
        let job = client.get(&self.topic, &self.id).await?;
        if self.server.json {
            return output::object(&job);
        }
        Table::pairs(&pairs(&job, server::now(&client).await?)).print()
    }
}

fn pairs(job: &Job, now: Instant) -> Vec<(&'static str, String)> {
    let when = |instant| output::when(instant, now);
    let tried = match job.retry.as_ref().and_then(|retry| retry.attempts) {
        Some(most) => format!("{} of {most}", job.attempt),
        None => job.attempt.to_string(),
    };
    let headers = job.headers.iter().map(|(name, value)| format!("{name}={value}"));
    let some = |text: String| Some(text).filter(|text| !text.is_empty());
    let pairs = [
        ("topic", Some(job.topic.clone())),
        ("id", Some(job.id.clone())),
        ("state", Some(output::state(job))),
        ("due", Some(when(job.due_at))),
        ("put", Some(when(job.created_at))),
        ("attempt", Some(tried)),
        ("priority", job.priority.map(|priority| priority.to_string())),
        ("ttr", job.ttr_ms.map(output::span)),
        ("expires", job.expires_at.map(when)),
        ("held until", job.lease_expires_at.map(when)),
        ("held by", job.consumer.clone()),
        ("target", job.deliver_to.clone()),
        ("pushes", some(job.attempts.iter().map(|attempt| pushed(attempt, now)).collect::<Vec<_>>().join("; "))),
        ("last error", job.last_error.clone()),
        ("buried", job.buried_at.map(when)),
        ("because", job.buried_reason.clone()),
        ("done", job.done_at.map(when)),
        ("version", Some(job.version.to_string())),
        ("headers", some(headers.collect::<Vec<_>>().join(", "))),
        ("body", some(output::body(job))),
    ];
    pairs.into_iter().filter_map(|(name, value)| Some((name, output::plain(&value?)))).collect()
}

/// One push, in a few words.
fn pushed(attempt: &Attempt, now: Instant) -> String {
    let error = attempt.error.clone().unwrap_or_default();
    let what = attempt.status.map_or(error, |status| status.to_string());
    format!("{what} {}, {} ms", output::away(attempt.at, now), attempt.took_ms)
}
