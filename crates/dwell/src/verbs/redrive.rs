//! `dwell redrive`.

use clap::Args;
use dwell_wire::Duration;
use dwell_wire::topic;

use super::parse;
use super::server::Server;
use crate::exit::Exit;
use crate::output;

/// Bring dead letters back, with fresh attempts, oldest first
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  dwell redrive orders.close --reason attempts_exhausted --rate 10")]
pub(crate) struct Redrive {
    /// Where they queue
    #[arg(value_parser = parse::topic)]
    topic: String,
    /// Only this one; may be repeated
    #[arg(long = "id", value_name = "ID", value_parser = parse::id)]
    ids: Vec<String>,
    /// Only those buried for this reason
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// At most so many; 1000 if not said
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    max: Option<u32>,
    /// Due that long from now, instead of now
    #[arg(long, value_name = "DURATION", value_parser = parse::duration)]
    delay: Option<Duration>,
    /// Jobs a second, so that not all are due at once
    #[arg(long, value_name = "NUMBER")]
    rate: Option<f64>,
    #[command(flatten)]
    server: Server,
}

impl Redrive {
    pub(super) async fn run(self) -> Result<(), Exit> {
        let wanted = topic::Redrive {
            ids: (!self.ids.is_empty()).then(|| self.ids.into_iter().map(Into::into).collect()),
            reason: self.reason.map(Into::into),
            max: self.max,
            delay: self.delay,
            rate: self.rate,
        };
        let done = self.server.client()?.redrive(&self.topic, &wanted).await?;
        if self.server.json {
            return output::object(&done);
        }
        output::line(&format!("{} brought back, {} left", done.redriven, done.remaining))
    }
}
