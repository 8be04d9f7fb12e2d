//! The query string, read as strictly as a body.

#![expect(clippy::needless_pass_by_value, reason = "a reason for a refusal is handed over")]

use std::borrow::Cow;
use std::fmt::Display;

use axum::http::Uri;
use dwell_wire::{Duration, FieldError, Instant};

use super::answer::Failure;

/// The parameters of one request. Take each by its name, then call [`Query::done`].
pub(super) struct Query<'a> {
    pairs: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    asked: Vec<&'static str>,
    errors: Vec<FieldError>,
}

impl<'a> Query<'a> {
    pub(super) fn of(uri: &'a Uri) -> Self {
        let query = uri.query().unwrap_or("");
        let pairs = form_urlencoded::parse(query.as_bytes()).collect();
        Self { pairs, asked: Vec::new(), errors: Vec::new() }
    }

    /// A parameter as text.
    pub(super) fn text(&mut self, name: &'static str) -> Option<Cow<'a, str>> {
        self.asked.push(name);
        let found = self.pairs.iter().position(|(key, _)| key == name)?;
        let (_, value) = self.pairs.swap_remove(found);
        if self.pairs.iter().any(|(key, _)| key == name) {
            self.error(name, "is given twice");
            self.pairs.retain(|(key, _)| key != name);
        }
        Some(value)
    }

    /// A parameter read by `read`, which says what is wrong.
    pub(super) fn read<T, E: Display>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        let text = self.text(name)?;
        read(&text).map_err(|error| self.error(name, format!("\"{text}\" {error}"))).ok()
    }

    /// `true` or `false`; absent is false.
    pub(super) fn flag(&mut self, name: &'static str) -> bool {
        let read = |text: &str| match text {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err("is neither true nor false"),
        };
        self.read(name, read).unwrap_or(false)
    }

    /// A whole number from 1 to `most`.
    pub(super) fn count(&mut self, name: &'static str, most: u32) -> Option<u32> {
        self.read(name, |text| {
            let plain = text.bytes().all(|byte| byte.is_ascii_digit());
            let count = text.parse().ok().filter(|count| plain && (1..=most).contains(count));
            count.ok_or_else(|| format!("is not a whole number from 1 to {most}"))
        })
    }

    pub(super) fn duration(&mut self, name: &'static str) -> Option<Duration> {
        self.read(name, Duration::parse_query)
    }

    pub(super) fn instant(&mut self, name: &'static str) -> Option<Instant> {
        // A `+` that was not encoded is a space in a query; an instant has no space.
        self.read(name, |text| Instant::parse_query(&text.replace(' ', "+")))
    }

    /// Notes what is wrong with a parameter.
    pub(super) fn error(&mut self, name: &str, reason: impl ToString) {
        self.errors.push(FieldError { field: name.to_owned(), reason: reason.to_string() });
    }

    /// Refuses what nobody asked for, and says everything that is wrong.
    pub(super) fn done(mut self) -> Result<(), Failure> {
        for (name, _) in std::mem::take(&mut self.pairs).into_iter().take(20) {
            self.error(&name, dwell_wire::json::unknown(&name, &self.asked.clone()));
        }
        if self.errors.is_empty() { Ok(()) } else { Err(Failure::invalid(self.errors)) }
    }
}
