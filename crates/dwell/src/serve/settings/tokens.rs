//! The tokens that the configuration file describes: `[[tokens]]`, each with a name, scopes and topics.

use std::num::NonZeroU32;
use std::ops::Range;

use dwell_core::TopicName;
use dwell_server::{Scope, Scopes, Token};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// What they are called in the file.
pub(super) const TABLE: &str = "tokens";

/// Every field of a token.
pub(super) const FIELDS: [&str; 6] = ["name", "token", "token_file", "scopes", "topics", "rate"];

/// Reads all tokens; what is wrong is told with its place, and whether that place must not be shown.
pub(super) fn read(value: &Spanned<DeValue<'_>>, mut wrong: impl FnMut(Range<usize>, bool, &str)) -> Vec<Token> {
    let DeValue::Array(entries) = value.get_ref() else {
        wrong(value.span(), true, "must be tables: write [[tokens]] above each");
        return Vec::new();
    };
    let mut tokens = Vec::new();
    for entry in entries {
        match entry.get_ref() {
            DeValue::Table(table) => {
                let mut reader = Reader { entry: entry.span(), table, wrong: &mut wrong };
                tokens.extend(reader.token());
            }
            _ => wrong(entry.span(), true, "must be a table: write [[tokens]] above it"),
        }
    }
    tokens
}

/// The secrets in it, which must not be shown with what stands beside them.
pub(super) fn secrets<'a>(value: &'a Spanned<DeValue<'_>>) -> Vec<&'a str> {
    let DeValue::Array(entries) = value.get_ref() else { return Vec::new() };
    let secret = |entry: &'a Spanned<DeValue<'_>>| match entry.get_ref() {
        DeValue::Table(table) => table.get("token").and_then(|token| token.get_ref().as_str()),
        _ => None,
    };
    entries.iter().filter_map(secret).filter(|secret| !secret.is_empty()).collect()
}

/// Something was wrong, and has been told.
struct Refused;

struct Reader<'a, 'i> {
    entry: Range<usize>,
    table: &'a DeTable<'i>,
    wrong: &'a mut dyn FnMut(Range<usize>, bool, &str),
}

impl Reader<'_, '_> {
    fn token(&mut self) -> Option<Token> {
        for name in self.table.keys() {
            if !FIELDS.contains(&name.get_ref().as_ref()) {
                let reason = format!("\"{}\" is unknown; a token has {}", name.get_ref(), FIELDS.join(", "));
                (self.wrong)(name.span(), true, &reason);
            }
        }
        let (name, secret, scopes, topics) = (self.name(), self.secret(), self.scopes(), self.topics());
        let rate = self.rate();
        Some(Token { name: name?, secret: secret?, scopes: scopes?, topics: topics.ok()?, rate: rate.ok()? })
    }

    fn name(&mut self) -> Option<String> {
        let Some(value) = self.table.get("name") else {
            return self.missing("a token needs a name, which logs call it by");
        };
        let is_name = |text: &str| {
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
            (1..=64).contains(&text.len()) && text.bytes().all(allowed)
        };
        match value.get_ref().as_str().filter(|text| is_name(text)) {
            Some(name) => Some(name.to_owned()),
            None => self.refuse(value, "must be 1 to 64 of A-Z a-z 0-9 . _ -"),
        }
    }

    fn secret(&mut self) -> Option<String> {
        match (self.table.get("token"), self.table.get("token_file")) {
            (None, None) => self.missing("a token needs \"token\" or \"token_file\""),
            (Some(_), Some(file)) => self.refuse(file, "and \"token\" are both given; choose one"),
            (Some(value), None) => {
                let text = value.get_ref().as_str().map(str::to_owned);
                self.checked(value, text.ok_or_else(|| "must be a string".to_owned()))
            }
            (None, Some(value)) => {
                let text = match value.get_ref().as_str() {
                    Some(path) => {
                        let read = std::fs::read_to_string(path);
                        read.map(|text| text.trim().to_owned()).map_err(|error| format!("cannot be read: {error}"))
                    }
                    None => Err("must be a string".to_owned()),
                };
                self.checked(value, text)
            }
        }
    }

    fn checked(&mut self, value: &Spanned<DeValue<'_>>, text: Result<String, String>) -> Option<String> {
        match text.and_then(|text| check_secret(&text).map(|()| text).map_err(str::to_owned)) {
            Ok(text) => Some(text),
            Err(reason) => self.refuse(value, &reason),
        }
    }

    fn scopes(&mut self) -> Option<Scopes> {
        let known = || Scope::ALL.map(Scope::name).join(", ");
        let Some(value) = self.table.get("scopes") else {
            return self.missing(&format!("a token needs scopes, some of {}", known()));
        };
        let texts = self.texts(value)?;
        match texts.iter().map(|text| Scope::named(text)).collect() {
            Some(scopes) if !texts.is_empty() => Some(scopes),
            _ => self.refuse(value, &format!("must be some of {}", known())),
        }
    }

    fn topics(&mut self) -> Result<Option<Vec<String>>, Refused> {
        let Some(value) = self.table.get("topics") else { return Ok(None) };
        let texts = self.texts(value).ok_or(Refused)?;
        // What no topic can start with would quietly be no topic at all.
        let is_start = |text: &String| TopicName::new(text).is_ok() || matches!(text.as_str(), "." | "..");
        if texts.is_empty() || !texts.iter().all(is_start) {
            let reason = "must be how names of topics start, such as [\"orders.\"]; without it: all";
            return self.refuse(value, reason).ok_or(Refused);
        }
        Ok(Some(texts))
    }

    fn rate(&mut self) -> Result<Option<NonZeroU32>, Refused> {
        let Some(value) = self.table.get("rate") else { return Ok(None) };
        let number = match value.get_ref() {
            DeValue::Integer(number) => parse_rate(&number.to_string()),
            _ => None,
        };
        number.map(Some).ok_or(Refused).or_else(|_| self.refuse(value, RATE).ok_or(Refused))
    }

    fn texts(&mut self, value: &Spanned<DeValue<'_>>) -> Option<Vec<String>> {
        let texts = match value.get_ref() {
            DeValue::Array(values) => values.iter().map(|value| value.get_ref().as_str().map(str::to_owned)).collect(),
            _ => None,
        };
        texts.or_else(|| self.refuse(value, "must be a list of strings"))
    }

    fn missing<T>(&mut self, reason: &str) -> Option<T> {
        (self.wrong)(self.entry.clone(), true, reason);
        None
    }

    fn refuse<T>(&mut self, value: &Spanned<DeValue<'_>>, reason: &str) -> Option<T> {
        let is_secret = self.table.get("token").is_some_and(|token| token.span() == value.span());
        (self.wrong)(value.span(), is_secret, reason);
        None
    }
}

/// What a rate must be.
pub(super) const RATE: &str = "must be a whole number of requests a second, from 1 to 1000000";

/// Requests a second.
pub(super) fn parse_rate(text: &str) -> Option<NonZeroU32> {
    text.parse().ok().filter(|rate: &NonZeroU32| rate.get() <= 1_000_000)
}

/// Says what is wrong with a secret that no header could carry, or that would let everyone in.
pub(super) fn check_secret(text: &str) -> Result<(), &'static str> {
    if text.is_empty() {
        return Err("is empty, which would let everyone in");
    }
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("has a space or a character beyond ASCII in it, which no header can carry");
    }
    Ok(())
}
