//! The fields of one object, handed out by name; what is wrong with them is collected.

use std::borrow::Cow;
use std::fmt::Display;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::depth;
use super::object::{Entry, read_object};
use crate::{Duration, Instant};

/// One thing that is wrong with a request, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FieldError {
    /// The field, with dots into nested objects: `retry.backoff`.
    pub field: String,
    /// What is wrong with it, and what would be right.
    pub reason: String,
}

/// Mistakes of one request that are named.
const MOST_ERRORS: usize = 20;

/// The fields of one object. Take each by its name, then call [`Fields::done`].
#[derive(Debug)]
pub struct Fields<'a> {
    entries: Vec<Entry<'a>>,
    asked: Vec<&'static str>,
    prefix: String,
    errors: Vec<FieldError>,
}

impl<'a> Fields<'a> {
    pub(super) fn new(entries: Vec<Entry<'a>>) -> Self {
        Self { entries, asked: Vec::new(), prefix: String::new(), errors: Vec::new() }
    }

    /// Whether there are no fields at all.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The exact text of a field, `null` too.
    pub fn raw(&mut self, name: &'static str) -> Option<&'a RawValue> {
        self.asked.push(name);
        let found = self.entries.iter().position(|entry| entry.name == name)?;
        let value = self.entries.remove(found).value;
        if self.entries.iter().any(|entry| entry.name == name) {
            self.error(name, "is given twice");
            self.entries.retain(|entry| entry.name != name);
        }
        // The object that holds the field is a level of its own.
        if depth::deeper_than(value.get(), depth::MOST - 1) {
            self.error(name, format!("is nested deeper than {} levels", depth::MOST));
            return None;
        }
        Some(value)
    }

    /// Whether a field is given as `null`; if so, it is taken.
    pub fn take_null(&mut self, name: &'static str) -> bool {
        let null = self.entries.iter().any(|entry| entry.name == name && entry.value.get() == "null");
        null && self.raw(name).is_some()
    }

    /// A field read by `read`, which says what is wrong.
    pub fn read<T, E: Display>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&'a RawValue) -> Result<T, E>,
    ) -> Option<T> {
        let value = self.raw(name)?;
        read(value).map_err(|error| self.error(name, error)).ok()
    }

    /// A field that must be there, read by `read`.
    pub fn needed<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&mut Self, &'static str) -> Option<T>,
    ) -> Option<T> {
        if !self.entries.iter().any(|entry| entry.name == name) {
            self.error(name, "is missing");
        }
        read(self, name)
    }

    /// A string.
    pub fn string(&mut self, name: &'static str) -> Option<Cow<'a, str>> {
        self.read(name, string)
    }

    /// One of a few words.
    pub fn word<T: Copy>(&mut self, name: &'static str, words: &[(&str, T)]) -> Option<T> {
        self.read(name, |value| {
            let given = string(value).ok();
            let found = words.iter().find(|(word, _)| Some(*word) == given.as_deref());
            found.map(|(_, meaning)| *meaning).ok_or_else(|| {
                let known: Vec<_> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
                format!("{} is none of {}", shown(value), known.join(", "))
            })
        })
    }

    /// `true` or `false`.
    pub fn flag(&mut self, name: &'static str) -> Option<bool> {
        self.read(name, |value| match value.get() {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(format!("{} is neither true nor false", shown(value))),
        })
    }

    /// A whole number in a range.
    pub fn whole(&mut self, name: &'static str, range: RangeInclusive<u64>) -> Option<u64> {
        self.read(name, |value| {
            let number = value.get().parse().ok().filter(|number| range.contains(number));
            let (least, most) = (range.start(), range.end());
            number.ok_or_else(|| format!("{} is not a whole number from {least} to {most}", shown(value)))
        })
    }

    /// A number.
    pub fn number(&mut self, name: &'static str) -> Option<f64> {
        self.read(name, |value| {
            serde_json::from_str::<f64>(value.get()).map_err(|_| format!("{} is not a number", shown(value)))
        })
    }

    /// A duration.
    pub fn duration(&mut self, name: &'static str) -> Option<Duration> {
        self.read(name, Duration::from_json)
    }

    /// An instant.
    pub fn instant(&mut self, name: &'static str) -> Option<Instant> {
        self.read(name, Instant::from_json)
    }

    /// An object of its own.
    pub fn object<T>(&mut self, name: &'static str, read: impl FnOnce(&mut Fields<'a>) -> T) -> Option<T> {
        let value = self.raw(name)?;
        self.nested(name, value, read)
    }

    /// Reads `value`, found under `name`, as an object of its own.
    pub fn nested<T>(&mut self, name: &str, value: &'a RawValue, read: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if !value.get().starts_with('{') {
            self.error(name, format!("{} is not an object", shown(value)));
            return None;
        }
        let mut inner = match read_object(value.get().as_bytes()) {
            Ok(inner) => inner,
            Err(malformed) => {
                self.error(name, malformed);
                return None;
            }
        };
        inner.prefix = format!("{}{name}.", self.prefix);
        let value = read(&mut inner);
        self.errors.extend(inner.done());
        Some(value)
    }

    /// Notes what is wrong with a field.
    pub fn error(&mut self, name: &str, reason: impl Display) {
        // Enough to mend a request by; one of a million wrong fields must not have an answer as large.
        if self.errors.len() < MOST_ERRORS {
            self.errors.push(FieldError { field: format!("{}{name}", self.prefix), reason: reason.to_string() });
        }
    }

    /// Refuses what nobody asked for, and says everything that is wrong.
    pub fn done(mut self) -> Vec<FieldError> {
        for entry in std::mem::take(&mut self.entries) {
            let reason = unknown(&entry.name, &self.asked);
            self.error(&entry.name, reason);
        }
        self.errors
    }
}

/// A JSON string, with what it has escaped: some encoders write `+` as `\\u002b`.
pub(crate) fn string(value: &RawValue) -> Result<Cow<'_, str>, String> {
    let text = value.get();
    let plain = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).filter(|text| !text.contains('\\'));
    if let Some(plain) = plain {
        return Ok(Cow::Borrowed(plain));
    }
    serde_json::from_str(text).map(Cow::Owned).map_err(|_| format!("{} is not a string", shown(value)))
}

/// A value as messages quote it: its own text, cut if it is long.
pub(crate) fn shown(value: &RawValue) -> Cow<'_, str> {
    const MOST: usize = 60;
    let text = value.get();
    if text.len() <= MOST {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{}…", &text[..text.floor_char_boundary(MOST)]))
}

/// Why a field is refused that nobody asked for.
pub fn unknown(name: &str, known: &[&str]) -> String {
    let near = known.iter().map(|known| (strsim::jaro_winkler(name, known), known));
    match near.max_by(|a, b| a.0.total_cmp(&b.0)) {
        None => "is unknown; nothing is expected here".to_owned(),
        Some((likeness, near)) if likeness > 0.8 => format!("is unknown; did you mean \"{near}\"?"),
        Some(_) => format!("is unknown; known are {}", known.join(", ")),
    }
}
