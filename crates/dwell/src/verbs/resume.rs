//! `dwell resume`.

use clap::Args;

use super::parse;
use super::server::Server;
use crate::exit::Exit;
use crate::output;

/// Start handing out a topic's jobs again
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  dwell resume orders.close")]
pub(crate) struct Resume {
    /// Which topic
    #[arg(value_parser = parse::topic)]
    topic: String,
    #[command(flatten)]
    server: Server,
}

impl Resume {
    pub(super) async fn run(self) -> Result<(), Exit> {
        let topic = self.server.client()?.resume(&self.topic).await?;
        if self.server.json {
            return output::object(&topic);
        }
        output::line(&format!("{} is resumed, {} ready", topic.name, topic.counts.ready))
    }
}
