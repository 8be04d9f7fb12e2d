//! `dwell jobs`.

use clap::Args;
use dwell_client::JobsQuery;
use dwell_wire::Instant;
use dwell_wire::job::{Job, State};

use super::parse;
use super::server::{self, Server};
use crate::exit::Exit;
use crate::output::{self, Align, Table};

/// Jobs of one request.
const PAGE: u32 = 1_000;

/// List a topic's jobs: those that wait by due time, then those that are held, then dead letters
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  dwell jobs orders.close --state buried")]
pub(crate) struct Jobs {
    /// Where they queue
    #[arg(value_parser = parse::topic)]
    topic: String,
    /// Only jobs in this state
    #[arg(long, value_name = "STATE", value_parser = parse::state())]
    state: Option<State>,
    /// At most so many
    #[arg(long, value_name = "NUMBER", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    #[command(flatten)]
    server: Server,
}

impl Jobs {
    pub(super) async fn run(self) -> Result<(), Exit> {
        let client = self.server.client()?;
        let (mut found, mut left, mut cursor) = (Vec::new(), self.limit, None::<String>);
        while left > 0 {
            let query = JobsQuery { state: self.state, limit: Some(left.min(PAGE)), cursor: cursor.as_deref() };
            let page = client.jobs(&self.topic, query).await?;
            left = left.saturating_sub(u32::try_from(page.jobs.len()).unwrap_or(u32::MAX));
            if self.server.json {
                page.jobs.iter().try_for_each(output::object)?;
            } else {
                found.extend(page.jobs);
            }
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        if self.server.json {
            return Ok(());
        }
        print(&found, server::now(&client).await?)?;
        match cursor {
            Some(_) => output::line(&format!("There are more; --limit {} shows more.", self.limit.saturating_mul(10))),
            None => Ok(()),
        }
    }
}

fn print(jobs: &[Job], now: Instant) -> Result<(), Exit> {
    let mut table = Table::new(&[
        ("ID", Align::Left),
        ("STATE", Align::Left),
        ("DUE", Align::Left),
        ("", Align::Left),
        ("ATTEMPT", Align::Right),
        ("BODY", Align::Left),
    ]);
    for job in jobs {
        table.row([
            job.id.clone(),
            output::state(job),
            job.due_at.to_string(),
            output::away(job.due_at, now),
            job.attempt.to_string(),
            output::short(&output::body(job)),
        ]);
    }
    table.print()
}
