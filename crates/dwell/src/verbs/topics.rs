//! `dwell topics`.

use clap::Args;
use dwell_client::TopicsQuery;
use dwell_wire::Instant;
use dwell_wire::topic::Topic;

use super::server::{self, Server};
use crate::exit::Exit;
use crate::output::{self, Align, Table};

/// List topics and what they hold
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  dwell topics --prefix orders.")]
pub(crate) struct Topics {
    /// Only names that start so
    #[arg(long, value_name = "TEXT")]
    prefix: Option<String>,
    #[command(flatten)]
    server: Server,
}

impl Topics {
    pub(super) async fn run(self) -> Result<(), Exit> {
        let client = self.server.client()?;
        let mut found = Vec::new();
        let mut cursor = None;
        loop {
            let query = TopicsQuery { prefix: self.prefix.as_deref(), limit: Some(1_000), cursor: cursor.as_deref() };
            let page = client.topics(query).await?;
            if self.server.json {
                page.topics.iter().try_for_each(output::object)?;
            } else {
                found.extend(page.topics);
            }
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        if self.server.json { Ok(()) } else { print(&found, server::now(&client).await?) }
    }
}

fn print(topics: &[Topic], now: Instant) -> Result<(), Exit> {
    let mut table = Table::new(&[
        ("TOPIC", Align::Left),
        ("DELAYED", Align::Right),
        ("READY", Align::Right),
        ("LEASED", Align::Right),
        ("BURIED", Align::Right),
        ("NEXT DUE", Align::Left),
        ("PAUSED", Align::Left),
    ]);
    for topic in topics {
        table.row([
            topic.name.clone(),
            topic.counts.delayed.to_string(),
            topic.counts.ready.to_string(),
            topic.counts.leased.to_string(),
            topic.counts.buried.to_string(),
            topic.next_due_at.map(|due| output::away(due, now)).unwrap_or_default(),
            paused(topic, now),
        ]);
    }
    table.print()
}

fn paused(topic: &Topic, now: Instant) -> String {
    match topic.paused_until {
        _ if !topic.paused => String::new(),
        Some(until) => format!("ends {}", output::away(until, now)),
        None => "until resumed".to_owned(),
    }
}
