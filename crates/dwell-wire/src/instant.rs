//! When: RFC 3339 with a zone, or milliseconds since 1970 as a number.

use std::fmt;

use jiff::Timestamp;
use jiff::fmt::temporal::{DateTimeParser, DateTimePrinter};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::json::shown;

/// An instant, in milliseconds since 1970. It is sent as RFC 3339 in UTC with milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(pub u64);

/// 9999-12-31T23:59:59.999Z: the last instant that RFC 3339 can write.
const LAST: u64 = 253_402_300_799_999;

impl Instant {
    /// Reads RFC 3339 with a zone. Parts of a millisecond round up, so that nothing is early.
    pub fn parse(text: &str) -> Result<Self, NotAnInstant> {
        let leap = check_shape(text).ok_or(NotAnInstant::Shape)?;
        let parsed = DateTimeParser::new().parse_timestamp(text).map_err(|_| NotAnInstant::Shape)?;
        let nanos = parsed.as_nanosecond() + if leap { 1_000_000_000 } else { 0 };
        if nanos < 0 {
            return Err(NotAnInstant::TooEarly);
        }
        let millis = u64::try_from(nanos).map_err(|_| NotAnInstant::TooLate)?.div_ceil(1_000_000);
        Self::from_millis(millis)
    }

    /// The same in a query string or on a command line, where digits are milliseconds since 1970.
    pub fn parse_query(text: &str) -> Result<Self, NotAnInstant> {
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            return text.parse().map_err(|_| NotAnInstant::TooLate).and_then(Self::from_millis);
        }
        Self::parse(text)
    }

    /// Reads a JSON string or number.
    pub fn from_json(value: &RawValue) -> Result<Self, String> {
        let text = value.get();
        let read = match text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
            Some(text) => Self::parse(text),
            None if text.starts_with(|c: char| c.is_ascii_digit()) => Self::parse_query(text),
            None if text.starts_with('-') => Err(NotAnInstant::TooEarly),
            None => Err(NotAnInstant::Shape),
        };
        read.map_err(|error| format!("{} {error}", shown(value)))
    }

    fn from_millis(millis: u64) -> Result<Self, NotAnInstant> {
        if millis > LAST { Err(NotAnInstant::TooLate) } else { Ok(Self(millis)) }
    }
}

/// Whether the text is `YYYY-MM-DDTHH:MM:SS[.fff](Z|±HH:MM)`, and if so whether its second is a leap second, which the
/// parser takes for the one before.
fn check_shape(text: &str) -> Option<bool> {
    let bytes = text.as_bytes();
    let (head, tail) = bytes.split_at_checked(19)?;
    let fits = head.iter().zip(b"0000-00-00T00:00:00").all(|(byte, like)| match like {
        b'0' => byte.is_ascii_digit(),
        b'T' => matches!(byte, b'T' | b't'),
        like => byte == like,
    });
    let tail = match tail.strip_prefix(b".") {
        Some(rest) => {
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            if digits == 0 || digits > 9 {
                return None;
            }
            &rest[digits..]
        }
        None => tail,
    };
    let zone = match tail {
        [b'Z' | b'z'] => true,
        [b'+' | b'-', a, b, b':', c, d] => [a, b, c, d].iter().all(|byte| byte.is_ascii_digit()),
        _ => false,
    };
    (fits && zone).then_some(&head[17..] == b"60")
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const PRINTER: DateTimePrinter = DateTimePrinter::new().precision(Some(3));
        let millis = i64::try_from(self.0.min(LAST)).expect("the last instant fits");
        let timestamp = Timestamp::from_millisecond(millis).map_err(|_| fmt::Error)?;
        PRINTER.print_timestamp(&timestamp, jiff::fmt::StdFmtWrite(f)).map_err(|_| fmt::Error)
    }
}

impl Serialize for Instant {
    fn serialize<S: Serializer>(&self, json: S) -> Result<S::Ok, S::Error> {
        json.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Instant {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        Self::from_json(<&RawValue>::deserialize(json)?).map_err(serde::de::Error::custom)
    }
}

/// Why a text is no instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAnInstant {
    /// It does not look like one.
    Shape,
    /// Before 1970.
    TooEarly,
    /// After 9999.
    TooLate,
}

impl fmt::Display for NotAnInstant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Shape => {
                "is not an instant; try \"2026-11-15T17:38:00Z\", with a zone, or milliseconds since 1970 as a number"
            }
            Self::TooEarly => "is before 1970",
            Self::TooLate => "is past the year 9999; numbers are milliseconds since 1970",
        })
    }
}

/// How the OpenAPI document describes it.
#[cfg(feature = "openapi")]
mod schema {
    use utoipa::openapi::RefOr;
    use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, OneOfBuilder, Schema, SchemaFormat, Type};
    use utoipa::{PartialSchema, ToSchema};

    use super::Instant;

    impl PartialSchema for Instant {
        fn schema() -> RefOr<Schema> {
            let words = ObjectBuilder::new()
                .schema_type(Type::String)
                .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
                .examples(["2026-11-15T17:38:00.250Z"]);
            let millis = ObjectBuilder::new()
                .schema_type(Type::Integer)
                .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
                .minimum(Some(0));
            let about =
                "When: RFC 3339 with a zone, or milliseconds since 1970 as a number. Answers have RFC 3339 in UTC.";
            OneOfBuilder::new().item(words).item(millis).description(Some(about)).into()
        }
    }

    impl ToSchema for Instant {}
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rfc_3339_is_read() {
        for (text, millis) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2026-11-15T17:38:00.250Z", 1_794_764_280_250),
            ("2026-11-16T01:38:00.250+08:00", 1_794_764_280_250),
            ("2026-11-15t17:38:00z", 1_794_764_280_000),
            ("2024-02-29T00:00:00-00:00", 1_709_164_800_000),
            ("9999-12-31T23:59:59.999Z", LAST),
        ] {
            assert_eq!(Instant::parse(text), Ok(Instant(millis)), "{text}");
        }
    }

    #[test]
    fn parts_of_a_millisecond_and_leap_seconds_are_never_early() {
        assert_eq!(Instant::parse("1970-01-01T00:00:00.000000001Z"), Ok(Instant(1)));
        assert_eq!(Instant::parse("1970-01-01T00:00:00.250999Z"), Ok(Instant(251)));
        assert_eq!(Instant::parse("2016-12-31T23:59:60Z"), Instant::parse("2017-01-01T00:00:00Z"));
        assert_eq!(Instant::parse("9999-12-31T23:59:59.9999Z"), Err(NotAnInstant::TooLate));
    }

    #[test]
    fn everything_else_is_refused() {
        for text in [
            "",
            "now",
            "2026-11-15",
            "2026-11-15T17:38:00",
            "2026-11-15 17:38:00Z",
            "2026-11-15T17:38Z",
            "2026-11-15T17:38:00.Z",
            "2026-11-15T17:38:00,5Z",
            "2026-11-15T17:38:00+0800",
            "2026-11-15T17:38:00+08:00[Asia/Shanghai]",
            "2026-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-11-15T24:00:00Z",
            "+02026-11-15T17:38:00Z",
        ] {
            assert_eq!(Instant::parse(text), Err(NotAnInstant::Shape), "{text}");
        }
        assert_eq!(Instant::parse("1969-12-31T23:59:59Z"), Err(NotAnInstant::TooEarly));
        assert_eq!(Instant::parse("1970-01-01T00:00:00+00:01"), Err(NotAnInstant::TooEarly));
    }

    #[test]
    fn json_is_a_string_or_a_whole_number_of_milliseconds() {
        let read = |json: &str| serde_json::from_str::<Instant>(json).map_err(|error| error.to_string());
        assert_eq!(read("1794764280250"), Ok(Instant(1_794_764_280_250)));
        assert_eq!(read("\"1970-01-01T00:00:01Z\""), Ok(Instant(1_000)));
        assert!(read("1794764280250000").unwrap_err().contains("past the year 9999"));
        assert!(read("-1").unwrap_err().contains("before 1970"));
        for wrong in ["1.5", "1e3", "true", "null", "{}", "\"1794764280250\""] {
            assert!(read(wrong).unwrap_err().contains("is not an instant"), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_back(millis in 0..=LAST) {
            let text = Instant(millis).to_string();
            prop_assert_eq!(text.len(), 24);
            prop_assert_eq!(Instant::parse(&text), Ok(Instant(millis)));
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,40}") {
            let _ = Instant::parse(&text);
        }
    }
}
