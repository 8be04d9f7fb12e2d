//! What the verbs say, on standard output: tables and sentences for people, one JSON object a line for programs.

mod progress;
mod table;
mod times;

use std::io::{self, Write as _, stderr, stdout};

use dwell_wire::job::Job;
use serde::Serialize;

pub(crate) use self::progress::Progress;
pub(crate) use self::table::{Align, Table};
pub(crate) use self::times::{away, span, when};
use crate::exit::{Code, Exit};

/// Prints a line.
pub(crate) fn line(text: &str) -> Result<(), Exit> {
    let mut out = stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).map_err(|error| unwritten(&error))
}

/// Prints a value as JSON, on a line of its own.
pub(crate) fn object(value: &impl Serialize) -> Result<(), Exit> {
    line(&json_line(value)?)
}

/// A value as JSON that has no line end.
pub(crate) fn json_line(value: &impl Serialize) -> Result<String, Exit> {
    let text = serde_json::to_string(value).map_err(|error| Exit::failure(format!("cannot write JSON: {error}")))?;
    // A body is printed exactly as it was sent. Line ends in it stand between values, never inside a string.
    Ok(text.replace(['\n', '\r'], " "))
}

/// Says something beside the output.
pub(crate) fn warn(text: &str) {
    // Nobody may be listening.
    drop(writeln!(stderr(), "dwell: {text}"));
}

/// Why a line could not be written to standard output.
pub(crate) fn unwritten(error: &io::Error) -> Exit {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Exit::new(Code::Closed, ""),
        _ => Exit::failure(format!("cannot write to standard output: {error}")),
    }
}

/// Others' text, safe to show: what moves cursors or ends lines is a space.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Others' text, safe to show in a table: not long either.
pub(crate) fn short(text: &str) -> String {
    const MOST: usize = 60;
    let cut = text.char_indices().nth(MOST).map_or(text.len(), |(end, _)| end);
    let rest = if cut < text.len() { "…" } else { "" };
    format!("{}{rest}", plain(&text[..cut]))
}

/// So many of something: `1 job`, `2 jobs`.
pub(crate) fn counted(count: u64, what: &str) -> String {
    let many = if count == 1 { "" } else { "s" };
    format!("{count} {what}{many}")
}

/// A job's body as people see it.
pub(crate) fn body(job: &Job) -> String {
    match (&job.body, &job.body_base64) {
        (Some(body), _) => body.get().to_owned(),
        (None, Some(bytes)) => format!("base64:{bytes}"),
        (None, None) => String::new(),
    }
}

/// A job's state as people see it.
pub(crate) fn state(job: &Job) -> String {
    format!("{:?}", job.state).to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_cannot_move_the_cursor() {
        assert_eq!(plain("a\u{1b}[2Jb\nc\u{9b}d"), "a [2Jb c d");
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(short(&"é".repeat(60)), "é".repeat(60));
        assert_eq!(short(&"é".repeat(61)), format!("{}…", "é".repeat(60)));
    }
}
