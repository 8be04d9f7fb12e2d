//! What can be said on the command line.

use clap::error::Error as UsageError;
use clap::{ArgMatches, Command};

use crate::exit::Exit;
use crate::serve;

const ABOUT: &str = "A durable delay queue: give it a job and a time; it hands the job over at that time.";

const FIRST_STEPS: &str = "\
First steps:
  dwell serve                                     start a server here; jobs are kept in ./dwell-data
  curl -X PUT localhost:3935/v1/topics/orders.close/jobs/order-42 \\
    -H 'content-type: application/json' -d '{\"delay\": \"30m\", \"body\": {\"order\": 42}}'

Exit codes: 0 ok, 1 failure, 2 usage, 78 bad configuration.";

fn command() -> Command {
    Command::new("dwell")
        .version(env!("CARGO_PKG_VERSION"))
        .about(ABOUT)
        .after_help(FIRST_STEPS)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(serve::command())
        .subcommand(serve::dev_command())
}

/// Reads the command line.
pub(crate) fn parse() -> Result<ArgMatches, UsageError> {
    command().try_get_matches()
}

/// Does what it says.
pub(crate) fn run(matches: &ArgMatches) -> Result<(), Exit> {
    match matches.subcommand() {
        Some(("serve", matches)) => serve::run(matches),
        Some(("dev", matches)) => serve::run_dev(matches),
        _ => Err(Exit::failure("there is no such command")),
    }
}
