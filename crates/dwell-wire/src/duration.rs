//! How long: `"250ms"`, `"90s"`, `"1h30m"`, `"2d"`, or milliseconds as a number.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::json::{shown, string};

/// A duration in milliseconds. It is sent as a number; it is read from a number or a string.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Duration(pub u64);

/// The units, longest first: they must come in this order, each at most once.
const UNITS: [(&str, u64); 6] =
    [("w", 604_800_000), ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

impl Duration {
    /// Reads what people write: `1h30m`. Bare digits are not a duration here, only as a JSON number or in a query.
    pub fn parse(text: &str) -> Result<Self, NotADuration> {
        let mut rest = text;
        let mut units = UNITS.iter();
        let mut total = 0_u64;
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or(NotADuration::Shape)?;
            let (number, tail) = rest.split_at(digits);
            let end = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
            let (unit, tail) = tail.split_at(end);
            let (_, length) = units.find(|(name, _)| *name == unit).ok_or(NotADuration::Shape)?;
            let number: u64 = match number {
                "" => return Err(NotADuration::Shape),
                digits => digits.parse().map_err(|_| NotADuration::TooLong)?,
            };
            total = number.checked_mul(*length).and_then(|n| n.checked_add(total)).ok_or(NotADuration::TooLong)?;
            rest = tail;
        }
        if text.is_empty() { Err(NotADuration::Shape) } else { Ok(Self(total)) }
    }

    /// The same in a query string or on a command line, where bare digits are milliseconds.
    pub fn parse_query(text: &str) -> Result<Self, NotADuration> {
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            return text.parse().map(Self).map_err(|_| NotADuration::TooLong);
        }
        Self::parse(text)
    }

    /// Reads a JSON string or number.
    pub fn from_json(value: &RawValue) -> Result<Self, String> {
        let text = value.get();
        let read = match string(value) {
            Ok(text) => Self::parse(&text),
            Err(_) if text.starts_with(|c: char| c.is_ascii_digit()) => Self::parse_query(text),
            Err(_) => Err(NotADuration::Shape),
        };
        read.map_err(|error| format!("{} {error}", shown(value)))
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        Self::from_json(<&RawValue>::deserialize(json)?).map_err(serde::de::Error::custom)
    }
}

/// Why a text is no duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotADuration {
    /// It does not look like one.
    Shape,
    /// More milliseconds than a number can hold.
    TooLong,
}

impl fmt::Display for NotADuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Shape => "is not a duration; try \"30s\", \"1h30m\" or milliseconds as a number",
            Self::TooLong => "is too long a duration; at most 3650d are allowed",
        })
    }
}

/// How the OpenAPI document describes it.
#[cfg(feature = "openapi")]
mod schema {
    use utoipa::openapi::RefOr;
    use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, OneOfBuilder, Schema, SchemaFormat, Type};
    use utoipa::{PartialSchema, ToSchema};

    use super::Duration;

    /// Units descending, each at most once, at least one of them.
    const PATTERN: &str =
        "^(?=.)([0-9]{1,3}w)?([0-9]{1,4}d)?([0-9]{1,5}h)?([0-9]{1,7}m)?([0-9]{1,9}s)?([0-9]{1,12}ms)?$";

    impl PartialSchema for Duration {
        fn schema() -> RefOr<Schema> {
            let words = ObjectBuilder::new().schema_type(Type::String).pattern(Some(PATTERN)).examples(["1h30m"]);
            let millis = ObjectBuilder::new()
                .schema_type(Type::Integer)
                .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
                .minimum(Some(0))
                .maximum(Some(315_360_000_000_u64));
            let about = "How long: `250ms`, `90s`, `1h30m`, `2d`, or milliseconds as a number. Answers have numbers.";
            OneOfBuilder::new().item(words).item(millis).description(Some(about)).into()
        }
    }

    impl ToSchema for Duration {}
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_people_write_is_read() {
        for (text, millis) in [
            ("250ms", 250),
            ("90s", 90_000),
            ("1h30m", 5_400_000),
            ("2d", 172_800_000),
            ("1w1d1h1m1s1ms", 694_861_001),
            ("0s", 0),
            ("007s", 7_000),
        ] {
            assert_eq!(Duration::parse(text), Ok(Duration(millis)), "{text}");
        }
    }

    #[test]
    fn everything_else_is_refused_and_never_read_as_now() {
        for text in [
            "", "soon", "30", "30 s", "-1s", "+1s", "1.5h", "1m1h", "1s1s", "500us", "1M", "1S", "s", "1h30", "1ns",
            "٣s",
        ] {
            assert_eq!(Duration::parse(text), Err(NotADuration::Shape), "{text}");
        }
        for text in ["99999999999999999999s", "18446744073709551615w", "18446744073709551615s1ms"] {
            assert_eq!(Duration::parse(text), Err(NotADuration::TooLong), "{text}");
        }
    }

    #[test]
    fn a_query_may_say_milliseconds() {
        assert_eq!(Duration::parse_query("250"), Ok(Duration(250)));
        assert_eq!(Duration::parse_query("250s"), Ok(Duration(250_000)));
        assert_eq!(Duration::parse_query("18446744073709551616"), Err(NotADuration::TooLong));
        assert_eq!(Duration::parse_query(""), Err(NotADuration::Shape));
    }

    #[test]
    fn json_is_a_string_or_a_whole_number() {
        let read = |json: &str| serde_json::from_str::<Duration>(json).map_err(|error| error.to_string());
        assert_eq!(read("\"1m\""), Ok(Duration(60_000)));
        assert_eq!(read("60000"), Ok(Duration(60_000)));
        for wrong in ["-1", "1.5", "1e3", "true", "null", "[]", "\"60000\""] {
            let error = read(wrong).unwrap_err();
            assert!(error.starts_with(&format!("{wrong} is not a duration; try \"30s\"")), "{error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC*") {
            let _ = Duration::parse(&text);
        }

        #[test]
        fn the_units_add_up(w in 0..99_u64, d in 0..99_u64, h in 0..99_u64, m in 0..99_u64, s in 0..99_u64, ms in 0..9999_u64) {
            let text = format!("{w}w{d}d{h}h{m}m{s}s{ms}ms");
            let millis = ((((w * 7 + d) * 24 + h) * 60 + m) * 60 + s) * 1_000 + ms;
            prop_assert_eq!(Duration::parse(&text), Ok(Duration(millis)));
        }
    }
}
