//! What the server says while it runs: for people on a terminal, as JSON otherwise; the audit log always as
//! JSON. On standard error.

use std::io::{IsTerminal as _, stderr};

use dwell_server::http::AUDIT;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::fmt::layer;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, registry};

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
    let logs = layer().with_writer(stderr).with_ansi(is_terminal);
    let logs = if human { logs.with_target(false).boxed() } else { logs.json().flatten_event(true).boxed() };
    // Whatever else is logged, and however: who has administered what is always there, for programs to read.
    let audit = layer().with_writer(stderr).with_ansi(false).json().flatten_event(true);
    registry()
        .with(logs.with_filter(filter).with_filter(filter_fn(|about| about.target() != AUDIT)))
        .with(audit.with_filter(filter_fn(|about| about.target() == AUDIT)))
        .init();
    Ok(())
}
