//! `dwell man`.

use clap::{Args, Command};
use clap_mangen::Man as Page;

use crate::exit::{Code, Exit};
use crate::output;

/// Print a manual page: of the program, or of one of its commands
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  dwell man > dwell.1
  dwell man put | man -l -")]
pub(crate) struct Man {
    /// Which command
    command: Option<String>,
}

impl Man {
    pub(super) fn run(&self, command: Command) -> Result<(), Exit> {
        let page = match &self.command {
            None => command,
            Some(name) => {
                let found = command.get_subcommands().find(|sub| sub.get_name() == name).cloned();
                let found = found.ok_or_else(|| Exit::new(Code::Usage, format!("there is no command {name}")))?;
                found.name(format!("dwell-{name}")).bin_name(format!("dwell {name}"))
            }
        };
        let mut text = Vec::new();
        let written = Page::new(page).render(&mut text);
        written.map_err(|error| Exit::failure(format!("cannot write the page: {error}")))?;
        output::line(String::from_utf8_lossy(&text).trim_end())
    }
}
