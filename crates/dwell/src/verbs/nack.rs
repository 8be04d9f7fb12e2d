//! `dwell nack`.

use clap::Args;
use dwell_wire::Duration;
use dwell_wire::settle::{Terms, Verb};

use super::parse;
use super::server::Server;
use super::settle::settle;
use crate::exit::Exit;

/// Say that jobs failed: they come again as their retry policy says, or are buried
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  dwell nack 1-6-c1d322451b29b383 --error 'the bank does not answer' --delay 5m

Exits with 4 if a lease is lost: it ran out, was settled or was revoked.")]
pub(crate) struct Nack {
    /// What the lease gave
    #[arg(required = true, value_name = "TOKEN")]
    tokens: Vec<String>,
    /// What went wrong
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    error: Option<String>,
    /// When to try again, instead of what the retry policy says
    #[arg(long, value_name = "DURATION", value_parser = parse::duration)]
    delay: Option<Duration>,
    #[command(flatten)]
    server: Server,
}

impl Nack {
    pub(super) async fn run(self) -> Result<(), Exit> {
        let terms = Terms { delay: self.delay, error: self.error.map(Into::into), ..Terms::default() };
        settle(&self.server, &self.tokens, Verb::Nack, &terms).await
    }
}
