//! The configuration file: TOML with any of the keys. Every mistake is shown in its line, with a caret.

use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;

use dwell_server::Token;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::keys::{KEYS, Key, Kind};
use super::sources::{Given, Origin, is_secret};
use super::tokens;

/// What a file says.
#[derive(Default)]
pub(super) struct InFile {
    pub(super) given: Vec<(&'static Key, Given)>,
    pub(super) tokens: Vec<Token>,
}

/// A place in the file.
#[derive(Clone, Debug)]
pub(super) struct Place {
    path: String,
    text: Arc<str>,
    span: Range<usize>,
    is_secret: bool,
}

impl Place {
    /// The line with a caret under the place, and what is wrong there.
    pub(super) fn explain(&self, reason: &str) -> String {
        let start = self.text[..self.span.start.min(self.text.len())].rfind('\n').map_or(0, |at| at + 1);
        let line = self.text[start..].lines().next().unwrap_or("");
        let number = self.text[..start].matches('\n').count() + 1;
        let column = self.text[start..self.span.start.min(self.text.len())].chars().count();
        let end = self.span.end.min(start + line.len()).max(self.span.start);
        let carets = self.text.get(self.span.start..end).map_or(1, |text| text.chars().count().max(1));
        let line = if self.is_secret {
            format!("{}…", line.chars().take(column).collect::<String>())
        } else {
            line.to_owned()
        };
        let carets = if self.is_secret { 1 } else { carets };
        let margin = " ".repeat(number.to_string().len());
        let mut shown = String::new();
        let _ = writeln!(shown, "{margin}--> {}:{number}:{}", self.path, column + 1);
        let _ = writeln!(shown, "{margin} |\n{number} | {line}");
        let _ = write!(shown, "{margin} | {}{} {reason}", " ".repeat(column), "^".repeat(carets));
        shown
    }
}

/// Reads a file; what is wrong with it goes to `mistakes`.
pub(super) fn read(path: &str, mistakes: &mut Vec<String>) -> InFile {
    let text: Arc<str> = match std::fs::read_to_string(path) {
        Ok(text) => text.into(),
        Err(error) => {
            mistakes.push(format!("the configuration file {path} cannot be read: {error}"));
            return InFile::default();
        }
    };
    let place = |span: Range<usize>| Place { path: path.to_owned(), text: Arc::clone(&text), span, is_secret: false };
    let (table, errors) = DeTable::parse_recoverable(&text);
    for error in errors {
        mistakes.push(place(error.span().unwrap_or(0..0)).explain(error.message()));
    }
    let (mut given, mut described) = (Vec::new(), Vec::new());
    for (name, value) in table.get_ref() {
        if name.get_ref() == tokens::TABLE {
            let secrets = tokens::secrets(value);
            described = tokens::read(value, |span, is_secret, reason| {
                let shown = Place { is_secret, ..place(span) }.explain(reason);
                mistakes.push(secrets.iter().fold(shown, |shown, secret| shown.replace(secret, "…")));
            });
            continue;
        }
        let known = name.get_ref().replace('-', "_");
        let Some(key) = KEYS.iter().find(|key| key.name == known && key.name != "config") else {
            mistakes.push(place(name.span()).explain(&unknown(name.get_ref())));
            continue;
        };
        let place = |texts: &[String]| Place { is_secret: is_secret(key, texts), ..place(value.span()) };
        match texts(key, value) {
            Ok(texts) => given.push((key, Given { origin: Origin::File(place(&texts)), texts })),
            Err(reason) => mistakes.push(place(&[]).explain(reason)),
        }
    }
    InFile { given, tokens: described }
}

fn texts(key: &Key, value: &Spanned<DeValue<'_>>) -> Result<Vec<String>, &'static str> {
    match (key.kind, value.get_ref()) {
        (Kind::Many(_), DeValue::Array(values)) => {
            let text = |value: &Spanned<DeValue<'_>>| match (key.kind, value.get_ref()) {
                (Kind::Many("PORT"), DeValue::Integer(number)) => Some(number.to_string()),
                (_, value) => value.as_str().map(str::to_owned),
            };
            values.iter().map(text).collect::<Option<_>>().ok_or("must be a string or a list of strings")
        }
        (Kind::Flag, DeValue::Boolean(flag)) => Ok(vec![flag.to_string()]),
        (Kind::Flag, _) => Err("must be true or false"),
        (Kind::One(_) | Kind::Many(_), DeValue::String(text)) => Ok(vec![text.to_string()]),
        (Kind::One("SHARE"), DeValue::Float(number)) => Ok(vec![number.to_string()]),
        (Kind::One("NUMBER" | "SHARE" | "SIZE") | Kind::Many("PORT"), DeValue::Integer(number)) => {
            Ok(vec![number.to_string()])
        }
        (Kind::One(_), _) => Err("must be a string"),
        (Kind::Many(_), _) => Err("must be a string or a list of strings"),
    }
}

fn unknown(name: &str) -> String {
    let known = KEYS.iter().map(|key| key.name).filter(|known| *known != "config").chain([tokens::TABLE]);
    let likeness = |known: &str| strsim::jaro_winkler(name, known);
    let near = known.clone().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    match near.filter(|near| likeness(near) > 0.7) {
        Some(near) => format!("is unknown; did you mean \"{near}\"?"),
        None => format!("is unknown; known are {}", known.collect::<Vec<_>>().join(", ")),
    }
}
