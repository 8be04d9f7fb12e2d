//! `dwell cancel`.

use clap::Args;
use dwell_client::Guard;
use serde::Serialize;

use super::parse;
use super::server::Server;
use crate::exit::Exit;
use crate::output;

/// Cancel a job: it will not be delivered
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  dwell cancel orders.close order-42

Exits with 3 if there is no such job, with 4 if a consumer holds it.")]
pub(crate) struct Cancel {
    /// Where it queues
    #[arg(value_parser = parse::topic)]
    topic: String,
    /// Its id
    #[arg(value_parser = parse::id)]
    id: String,
    /// Even if a consumer holds it
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    server: Server,
}

#[derive(Serialize)]
struct Cancelled<'a> {
    topic: &'a str,
    id: &'a str,
    outcome: &'a str,
}

impl Cancel {
    pub(super) async fn run(self) -> Result<(), Exit> {
        let (topic, id) = (&self.topic, &self.id);
        self.server.client()?.cancel(topic, id, Guard { force: self.force, if_match: None }).await?;
        if self.server.json {
            return output::object(&Cancelled { topic, id, outcome: "cancelled" });
        }
        output::line(&format!("cancelled {id} on {topic}"))
    }
}
