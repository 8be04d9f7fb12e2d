//! What the server says while it runs: for people on a terminal, as JSON otherwise. On standard error.

use std::io::{IsTerminal as _, stderr};

use tracing_subscriber::EnvFilter;

use super::settings::{LogFormat, Settings};
use crate::exit::{Code, Exit};

/// Starts the logs.
pub(super) fn start(settings: &Settings) -> Result<(), Exit> {
    let filter = EnvFilter::try_new(&settings.log).map_err(|error| {
        Exit::new(Code::BadConfiguration, format!("log = \"{}\" is not a level or filter: {error}", settings.log))
    })?;
    let is_terminal = stderr().is_terminal();
    let human = match settings.log_format {
        LogFormat::Auto => is_terminal,
        LogFormat::Human => true,
        LogFormat::Json => false,
    };
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(stderr).with_ansi(is_terminal);
    if human {
        logs.with_target(false).init();
    } else {
        logs.json().flatten_event(true).init();
    }
    Ok(())
}
