//! `dwell pause`.

use clap::Args;
use dwell_wire::Duration;
use dwell_wire::topic;

use super::parse;
use super::server::{self, Server};
use crate::exit::Exit;
use crate::output;

/// Stop handing out a topic's jobs; they are still taken in and become ready
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  dwell pause orders.close --for 15m")]
pub(crate) struct Pause {
    /// Which topic
    #[arg(value_parser = parse::topic)]
    topic: String,
    /// For that long; until resumed if not said
    #[arg(long = "for", value_name = "DURATION", value_parser = parse::duration)]
    length: Option<Duration>,
    #[command(flatten)]
    server: Server,
}

impl Pause {
    pub(super) async fn run(self) -> Result<(), Exit> {
        let client = self.server.client()?;
        let topic = client.pause(&self.topic, topic::Pause { length: self.length }).await?;
        if self.server.json {
            return output::object(&topic);
        }
        let until = match topic.paused_until {
            Some(until) => output::when(until, server::now(&client).await?),
            None => "it is resumed".to_owned(),
        };
        output::line(&format!("{} is paused until {until}", topic.name))
    }
}
