//! `dwell timeline`.

use clap::Args;
use dwell_client::TimelineQuery;
use dwell_wire::topic::Bucket;
use dwell_wire::{Duration, Instant};

use super::parse;
use super::server::{self, Server};
use crate::exit::Exit;
use crate::output::{self, Align, Table};

/// Show how many jobs are due when
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  dwell timeline orders.close --step 5m --until 2026-11-16T00:00:00Z")]
pub(crate) struct Timeline {
    /// Of one topic; of all if not said
    #[arg(value_parser = parse::topic)]
    topic: Option<String>,
    /// From when on; now if not said
    #[arg(long, value_name = "INSTANT", value_parser = parse::instant)]
    from: Option<Instant>,
    /// Until when; a day later if not said
    #[arg(long, value_name = "INSTANT", value_parser = parse::instant)]
    until: Option<Instant>,
    /// How long one row is, in whole minutes; 1h if not said
    #[arg(long, value_name = "DURATION", value_parser = parse::duration)]
    step: Option<Duration>,
    #[command(flatten)]
    server: Server,
}

impl Timeline {
    pub(super) async fn run(self) -> Result<(), Exit> {
        let client = self.server.client()?;
        let query = TimelineQuery { topic: self.topic.as_deref(), from: self.from, until: self.until, step: self.step };
        let buckets = client.timeline(query).await?.buckets;
        if self.server.json {
            return buckets.iter().try_for_each(output::object);
        }
        print(&buckets, server::now(&client).await?)
    }
}

fn print(buckets: &[Bucket], now: Instant) -> Result<(), Exit> {
    let mut table = Table::new(&[("FROM", Align::Left), ("", Align::Left), ("JOBS", Align::Right), ("", Align::Left)]);
    let most = buckets.iter().map(|bucket| bucket.count).max().unwrap_or(0);
    for bucket in buckets {
        let away = output::away(bucket.from, now);
        table.row([bucket.from.to_string(), away, bucket.count.to_string(), bar(bucket.count, most)]);
    }
    table.print()
}

/// A share as a bar; what is not nothing is never shown as nothing.
fn bar(count: u64, most: u64) -> String {
    const WIDTH: u128 = 40;
    let length = (u128::from(count) * WIDTH).div_ceil(u128::from(most.max(1)));
    "#".repeat(usize::try_from(length).unwrap_or(0))
}
