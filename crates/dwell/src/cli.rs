//! What can be said on the command line.

use clap::error::Error as UsageError;
use clap::{ArgMatches, Command, FromArgMatches as _, Subcommand as _};

use crate::exit::{Code, Exit};
use crate::serve;
use crate::verbs::Verb;

const ABOUT: &str = "A durable delay queue: give it a job and a time; it hands the job over at that time.";

const FIRST_STEPS: &str = "\
First steps:
  dwell serve                          start a server; jobs are in ./dwell-data
  dwell try                            see whether it hands jobs over in time
  dwell put hello --delay 5s --body hi
  dwell tail hello                     see it come

Exit codes: 0 ok, 1 failure, 2 usage, 3 not found, 4 conflict,
5 not authorised, 6 unreachable, 7 nothing leased in time,
78 bad configuration.";

fn command() -> Command {
    let command = Command::new("dwell")
        .version(env!("CARGO_PKG_VERSION"))
        .after_help(FIRST_STEPS)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(serve::command())
        .subcommand(serve::dev_command())
        .subcommand(serve::beanstalkd::command());
    // The verbs bring a description of their own.
    Verb::augment_subcommands(command).about(ABOUT)
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
        Some(("beanstalkd", matches)) => serve::beanstalkd::run(matches),
        _ => Verb::from_arg_matches(matches).map_err(|error| Exit::new(Code::Usage, error))?.run(command()),
    }
}
