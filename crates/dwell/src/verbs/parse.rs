//! What is typed, read as strictly as the server reads it, and refused in the same words.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use dwell_core::{JobId, TopicName};
use dwell_wire::job::State;
use dwell_wire::put::IfExists;
use dwell_wire::{Duration, Instant};

/// `30s`, `1h30m`, milliseconds.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    Duration::parse_query(text).map_err(|error| format!("\"{text}\" {error}"))
}

/// `2026-11-15T17:38:00Z`, milliseconds since 1970.
pub(super) fn instant(text: &str) -> Result<Instant, String> {
    Instant::parse_query(text).map_err(|error| format!("\"{text}\" {error}"))
}

pub(super) fn topic(text: &str) -> Result<String, String> {
    TopicName::new(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

pub(super) fn id(text: &str) -> Result<String, String> {
    JobId::new(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

/// `name=value`.
pub(super) fn header(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, value) = pair.ok_or("is not a header; try \"name=value\"")?;
    Ok((name.to_owned(), value.to_owned()))
}

pub(super) fn if_exists() -> impl TypedValueParser<Value = IfExists> {
    word(IfExists::WORDS)
}

pub(super) fn state() -> impl TypedValueParser<Value = State> {
    word(State::LIVE)
}

/// One of a few words.
fn word<T: Copy + Send + Sync + 'static, const N: usize>(
    words: [(&'static str, T); N],
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(words.map(|(word, _)| word)).map(move |given| {
        let found = words.iter().find(|(word, _)| *word == given);
        found.expect("the parser knows only these words").1
    })
}
