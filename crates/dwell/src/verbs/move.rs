//! `dwell move`.

use clap::Args;
use dwell_client::Guard;
use dwell_wire::change::ChangeJob;
use dwell_wire::{Duration, Instant};

use super::parse;
use super::server::{self, Server};
use crate::exit::Exit;
use crate::output;

/// Move a job to another due time
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  dwell move orders.close order-42 --delay 10m

--delay 0s fires it now. A buried job is revived, with fresh attempts.
Exits with 3 if there is no such job, with 4 if a consumer holds it.")]
#[group(id = "when", required = true, multiple = false, args = ["delay", "at"])]
pub(crate) struct Move {
    /// Where it queues
    #[arg(value_parser = parse::topic)]
    topic: String,
    /// Its id
    #[arg(value_parser = parse::id)]
    id: String,
    /// Due that long from now: 90s, 1h30m, 2d
    #[arg(long, value_name = "DURATION", value_parser = parse::duration, allow_hyphen_values = true)]
    delay: Option<Duration>,
    /// Due then: 2026-11-15T17:38:00Z, with a zone
    #[arg(long, value_name = "INSTANT", value_parser = parse::instant)]
    at: Option<Instant>,
    /// Even if a consumer holds it; the lease is then lost
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    server: Server,
}

impl Move {
    pub(super) async fn run(self) -> Result<(), Exit> {
        let client = self.server.client()?;
        let change = ChangeJob { delay: self.delay, at: self.at, ..ChangeJob::default() };
        let guard = Guard { force: self.force, if_match: None };
        let job = client.change(&self.topic, &self.id, &change, guard).await?;
        if self.server.json {
            return output::object(&job);
        }
        let due = output::when(job.due_at, server::now(&client).await?);
        output::line(&format!("moved {} on {}, due {due}", job.id, job.topic))
    }
}
