//! `dwell import`.
//!
//! `lines` reads what `dwell export` writes; `batch` puts jobs, whoever read them, and keeps count.

mod batch;
mod lines;

use std::path::PathBuf;

use clap::Args;
use dwell_wire::put::IfExists;

use self::batch::Batch;
use super::parse;
use super::server::Server;
use crate::exit::Exit;

/// Put jobs from JSON lines, as `dwell export` writes them
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  dwell import jobs.jsonl
  dwell export orders.close | dwell import --url http://other:3935

A line is an item of POST /v1/jobs: {\"topic\": …, \"id\": …, \"at\": …, \"body\": …}, or
what a topic says for all its jobs: {\"topic\": …, \"policy\": {…}}. An import that was
cut short can be run again: jobs that are there already stay as they are.")]
pub(crate) struct Import {
    /// The file; standard input if not said
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// What to do with an id that is live already
    #[arg(long, value_name = "WHAT", default_value = "keep", value_parser = parse::if_exists())]
    if_exists: IfExists,
    #[command(flatten)]
    server: Server,
}

impl Import {
    pub(super) async fn run(self) -> Result<(), Exit> {
        let batch = Batch::new(self.server.client()?, self.if_exists);
        let sum = lines::import(self.file.as_deref(), batch).await?;
        sum.tell(self.server.json)
    }
}
