//! When: RFC 3339 with a zone, or milliseconds since 1970 as a number.

use std::fmt;

use jiff::SignedDuration;
use jiff::civil::DateTime;
use jiff::fmt::StdFmtWrite;
use jiff::fmt::temporal::{DateTimeParser, DateTimePrinter};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::json::{shown, string};

/// An instant, in milliseconds since 1970. It is sent as RFC 3339 in UTC with milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(pub u64);

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// 9999-12-31T23:59:59.999Z: the last instant that RFC 3339 can write.
const LAST: u64 = 253_402_300_799_999;

impl Instant {
    /// Reads RFC 3339 with a zone. Parts of a millisecond round up, so that nothing is early.
    pub fn parse(text: &str) -> Result<Self, NotAnInstant> {
        let shape = Shape::of(text).ok_or(NotAnInstant::Shape)?;
        let local = DateTimeParser::new().parse_datetime(shape.local).map_err(|_| NotAnInstant::Shape)?;
        let offset = shape.offset_seconds.ok_or(NotAnInstant::Shape)?;
        let nanos = local.duration_since(EPOCH).as_nanos() + i128::from(shape.leap_seconds - offset) * 1_000_000_000;
        let nanos = u128::try_from(nanos).map_err(|_| NotAnInstant::TooEarly)?;
        Self::from_millis(u64::try_from(nanos.div_ceil(1_000_000)).map_err(|_| NotAnInstant::TooLate)?)
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
        let read = match string(value) {
            Ok(text) => Self::parse(&text),
            Err(_) if text.starts_with(|c: char| c.is_ascii_digit()) => Self::parse_query(text),
            Err(_) if text.starts_with('-') => Err(NotAnInstant::TooEarly),
            Err(_) => Err(NotAnInstant::Shape),
        };
        read.map_err(|error| format!("{} {error}", shown(value)))
    }

    fn from_millis(millis: u64) -> Result<Self, NotAnInstant> {
        if millis > LAST { Err(NotAnInstant::TooLate) } else { Ok(Self(millis)) }
    }
}

/// The parts of `YYYY-MM-DDTHH:MM:SS[.fff](Z|±HH:MM)`. jiff's own instants end a day before the year does and take more
/// spellings than RFC 3339 has, so it only reads the local part.
struct Shape<'a> {
    local: &'a str,
    /// Seconds east of Greenwich; `None` if there is no such place.
    offset_seconds: Option<i64>,
    /// 1 in a leap second, which jiff takes for the one before.
    leap_seconds: i64,
}

impl<'a> Shape<'a> {
    fn of(text: &'a str) -> Option<Self> {
        let (head, tail) = text.as_bytes().split_at_checked(19)?;
        let fits = head.iter().zip(b"0000-00-00T00:00:00").all(|(byte, like)| match like {
            b'0' => byte.is_ascii_digit(),
            b'T' => matches!(byte, b'T' | b't'),
            like => byte == like,
        });
        let fraction = match tail.strip_prefix(b".") {
            Some(rest) => 1 + rest.iter().take_while(|byte| byte.is_ascii_digit()).count(),
            None => 0,
        };
        if !fits || fraction == 1 || fraction > 10 {
            return None;
        }
        let offset_seconds = match &tail[fraction..] {
            [b'Z' | b'z'] => Some(0),
            [sign @ (b'+' | b'-'), a, b, b':', c, d] => {
                let digits = [a, b, c, d].map(|byte| i64::from(byte.wrapping_sub(b'0')));
                let (hours, minutes) = (digits[0] * 10 + digits[1], digits[2] * 10 + digits[3]);
                let fits = digits.iter().all(|digit| *digit < 10) && hours < 24 && minutes < 60;
                let east = if *sign == b'+' { 1 } else { -1 };
                fits.then_some(east * (hours * 3_600 + minutes * 60))
            }
            _ => return None,
        };
        let leap_seconds = i64::from(&head[17..] == b"60");
        Some(Self { local: &text[..19 + fraction], offset_seconds, leap_seconds })
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const PRINTER: DateTimePrinter = DateTimePrinter::new().precision(Some(3));
        let millis = i64::try_from(self.0.min(LAST)).map_err(|_| fmt::Error)?;
        let utc = EPOCH.checked_add(SignedDuration::from_millis(millis)).map_err(|_| fmt::Error)?;
        PRINTER.print_datetime(&utc, StdFmtWrite(&mut *f)).map_err(|_| fmt::Error)?;
        f.write_str("Z")
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
                .minimum(Some(0))
                .maximum(Some(super::LAST));
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
