//! `dwell ack`.

use clap::Args;
use dwell_wire::settle::{Terms, Verb};

use super::server::Server;
use super::settle::settle;
use crate::exit::Exit;

/// Say that jobs are done: they are gone
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  dwell lease orders.close --json | jq -r .token | xargs dwell ack

Exits with 4 if a lease is lost: it ran out, was settled or was revoked.")]
pub(crate) struct Ack {
    /// What the lease gave
    #[arg(required = true, value_name = "TOKEN")]
    tokens: Vec<String>,
    #[command(flatten)]
    server: Server,
}

impl Ack {
    pub(super) async fn run(self) -> Result<(), Exit> {
        settle(&self.server, &self.tokens, Verb::Ack, &Terms::default()).await
    }
}
