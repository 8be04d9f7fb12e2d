//! `dwell import`: jobs from elsewhere, one file a source.
//!
//! `lines` reads what `dwell export` writes; `batch` puts its jobs and keeps count. `redis_zset` empties a queue made by
//! hand of Redis sorted sets.

mod batch;
mod lines;
mod redis_zset;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use dwell_wire::put::IfExists;

use self::batch::Batch;
use super::parse;
use super::server::Server;
use crate::exit::Exit;

/// Put jobs from JSON lines, as `dwell export` writes them, or from another queue
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
Examples:
  dwell import jobs.jsonl
  dwell export orders.close | dwell import --url http://other:3935
  dwell import redis-zset --help            a queue made of Redis sorted sets

A line is an item of POST /v1/jobs: {\"topic\": …, \"id\": …, \"at\": …, \"body\": …}, or
what a topic says for all its jobs: {\"topic\": …, \"policy\": {…}}. An import that was
cut short can be run again: jobs that are there already stay as they are."
)]
pub(crate) struct Import {
    #[command(subcommand)]
    source: Option<Source>,
    /// The file; standard input if not said
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// What to do with an id that is live already
    #[arg(long, value_name = "WHAT", default_value = "keep", value_parser = parse::if_exists())]
    if_exists: IfExists,
    #[command(flatten)]
    server: Server,
}

/// Where jobs come from, if not from lines.
#[derive(Debug, Subcommand)]
enum Source {
    RedisZset(redis_zset::RedisZset),
}

impl Import {
    pub(super) async fn run(self) -> Result<(), Exit> {
        if let Some(Source::RedisZset(redis_zset)) = self.source {
            return redis_zset.run().await;
        }
        let batch = Batch::new(self.server.client()?, self.if_exists);
        let sum = lines::import(self.file.as_deref(), batch).await?;
        sum.tell(self.server.json)
    }
}
