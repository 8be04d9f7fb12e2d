//! How a failed job is tried again: `{"attempts": 3, "backoff": ["15s", "3m"]}`.

use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::json::{Fields, read_array, shown};
use crate::{Duration, FieldError};

/// A retry policy. What is not said is the server's default; a ladder's attempts are its steps and one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Retry {
    /// Deliveries in all; 1 buries on the first failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 4_294_967_295_u64))]
    pub attempts: Option<u32>,
    /// The rest after each failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Backoff>,
}

/// The rest after each failure: a ladder of rests, whose last step repeats, or one that grows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Backoff {
    /// Step k follows failure k.
    Ladder(Vec<LooseDuration>),
    /// `initial × factor^(k−1)` after failure k.
    Exponential(Exponential),
}

/// A rest that grows by a factor, with a lid, spread at random.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Exponential {
    /// The rest after the first failure; `1s` if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Duration>))]
    pub initial: Option<LooseDuration>,
    /// By what each rest is longer than the one before, 1 to 1000; 2 if not said.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "plainly")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 1000))]
    pub factor: Option<f64>,
    /// The longest rest; `1h`, or the first if that is longer, if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Duration>))]
    pub max: Option<LooseDuration>,
    /// The share added to each rest at random, 0 to 1; 0.1 if not said.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "plainly")]
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 1))]
    pub jitter: Option<f64>,
}

impl Retry {
    /// Reads a retry policy.
    pub fn read(fields: &mut Fields<'_>) -> Self {
        let attempts = fields.whole("attempts", 1..=u64::from(u32::MAX));
        let backoff = fields.raw("backoff").and_then(|value| Backoff::read(fields, value));
        Self { attempts: attempts.and_then(|attempts| u32::try_from(attempts).ok()), backoff }
    }
}

impl Backoff {
    fn read<'a>(fields: &mut Fields<'a>, value: &'a RawValue) -> Option<Self> {
        const NAME: &str = "backoff";
        if let Some(steps) = read_array(value) {
            let read = |(index, step): (usize, &RawValue)| {
                let error = |reason| FieldError { field: format!("{NAME}[{index}]"), reason };
                Duration::from_json(step).map(LooseDuration).map_err(error)
            };
            return match steps.into_iter().enumerate().map(read).collect() {
                Ok(steps) => Some(Self::Ladder(steps)),
                Err(FieldError { field, reason }) => {
                    fields.error(&field, reason);
                    None
                }
            };
        }
        if value.get().starts_with('{') {
            return fields.nested(NAME, value, |fields| Self::Exponential(Exponential::read(fields)));
        }
        fields.error(NAME, format!("{} is neither a list of durations nor an object", shown(value)));
        None
    }
}

impl Exponential {
    fn read(fields: &mut Fields<'_>) -> Self {
        Self {
            initial: fields.duration("initial").map(LooseDuration),
            factor: fields.number("factor"),
            max: fields.duration("max").map(LooseDuration),
            jitter: fields.number("jitter"),
        }
    }
}

/// A [`Duration`] that can also be read inside an untagged enum, where the exact text is lost. Answers only have numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LooseDuration(#[serde(deserialize_with = "millis")] pub Duration);

fn millis<'de, D: serde::Deserializer<'de>>(json: D) -> Result<Duration, D::Error> {
    u64::deserialize(json).map(Duration)
}

/// How the OpenAPI document describes a backoff.
#[cfg(feature = "openapi")]
mod schema {
    use utoipa::openapi::schema::{ArrayBuilder, OneOfBuilder, Schema};
    use utoipa::openapi::{Ref, RefOr};
    use utoipa::{PartialSchema, ToSchema};

    use super::{Backoff, Exponential};

    impl PartialSchema for Backoff {
        fn schema() -> RefOr<Schema> {
            let ladder =
                ArrayBuilder::new().items(Ref::from_schema_name("Duration")).min_items(Some(1)).max_items(Some(100));
            let about = "The rest after each failure: a ladder, whose last step repeats, or one that grows.";
            let grows = Ref::from_schema_name("Exponential");
            OneOfBuilder::new().item(ladder).item(grows).description(Some(about)).into()
        }
    }

    impl ToSchema for Backoff {
        fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
            schemas.push(("Exponential".to_owned(), Exponential::schema()));
            Exponential::schemas(schemas);
        }
    }
}

/// Writes whole numbers without `.0`, as they were most likely sent.
#[expect(clippy::ref_option, reason = "serde asks for it")]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be whole and small")]
fn plainly<S: Serializer>(number: &Option<f64>, json: S) -> Result<S::Ok, S::Error> {
    match number {
        Some(number) if number.fract() == 0.0 && (0.0..1e9).contains(number) => json.serialize_u64(*number as u64),
        number => number.serialize(json),
    }
}
