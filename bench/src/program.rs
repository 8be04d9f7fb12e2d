//! How every program of this crate begins, speaks and measures.

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::{Outcome, server};

/// Runs a program: what goes wrong goes to standard error.
pub fn main(run: impl FnOnce() -> Outcome<()>) -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            drop(writeln!(std::io::stderr(), "error: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// The `dwell` that is measured: the one that is given, or one that is built now, in release.
pub fn binary(given: Option<&Path>) -> Outcome<PathBuf> {
    given.map_or_else(server::build, |given| Ok(given.to_owned()))
}

/// Prints a line of the report.
pub fn print(line: &str) -> Outcome<()> {
    writeln!(std::io::stdout(), "{line}")?;
    Ok(())
}

/// Says on a terminal how far it has come, over what was said before; where nobody looks, nothing.
pub fn progress(text: &str) {
    let mut out = std::io::stderr();
    if out.is_terminal() {
        drop(write!(out, "\r\x1b[2K{text}").and_then(|()| out.flush()));
    }
}

/// How many seconds something took.
#[expect(clippy::disallowed_methods, reason = "measuring is about time")]
pub fn seconds<T>(work: impl FnOnce() -> Outcome<T>) -> Outcome<(T, f64)> {
    let start = Instant::now();
    let done = work()?;
    Ok((done, start.elapsed().as_secs_f64()))
}

/// Milliseconds since 1970, and a part of one.
#[expect(clippy::disallowed_methods, reason = "measuring is about time")]
pub fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64() * 1_000.0)
}

/// The value that so much of all is not above.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "an index")]
pub fn share(sorted: &[f64], share: f64) -> f64 {
    let index = ((sorted.len() as f64 * share).ceil() as usize).clamp(1, sorted.len().max(1));
    sorted.get(index - 1).copied().unwrap_or(f64::NAN)
}
