//! Settling leases.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::json::Fields;
use crate::put::priority;
use crate::{Code, Duration, FieldError};

/// Many leases to be settled, each judged on its own.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SettleItems<'a> {
    /// At most 10,000.
    #[cfg_attr(feature = "openapi", schema(max_items = 10_000, value_type = Vec<SettleItem>))]
    pub items: Vec<SettleItem<'a>>,
}

/// One lease to be settled.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SettleItem<'a> {
    /// What the lease gave.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub token: Cow<'a, str>,
    /// What to do.
    pub verb: Verb,
    /// Of the other fields, those that fit the verb.
    #[serde(flatten)]
    pub terms: Terms<'a>,
}

/// What a verb may say beside itself. `delay`: nack, release. `error`: nack. `reason`: bury. `priority`: release, bury.
/// `ttr`: extend.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Terms<'a> {
    /// nack: instead of the policy's step; release: due that long from now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<Duration>,
    /// nack: what went wrong; cut to 1 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Cow<'a, str>>,
    /// bury: why.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 255))]
    pub reason: Option<Cow<'a, str>>,
    /// release, bury: a new priority.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 4_294_967_295_u64))]
    pub priority: Option<u32>,
    /// extend: the lease ends that long from now; its own ttr if not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttr: Option<Duration>,
}

/// What a holder says of its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Verb {
    /// Done: the job is gone.
    Ack,
    /// Failed: the retry policy says when it is due again, or buries it.
    Nack,
    /// Given back without blame.
    Release,
    /// Put aside until someone redrives, moves or cancels it.
    Bury,
    /// Held for longer.
    Extend,
}

impl Verb {
    /// All of them, by name.
    pub const WORDS: [(&str, Self); 5] = [
        ("ack", Self::Ack),
        ("nack", Self::Nack),
        ("release", Self::Release),
        ("bury", Self::Bury),
        ("extend", Self::Extend),
    ];

    fn takes(self, field: &str) -> bool {
        let fields: &[&str] = match self {
            Self::Ack => &[],
            Self::Nack => &["delay", "error"],
            Self::Release => &["delay", "priority"],
            Self::Bury => &["reason", "priority"],
            Self::Extend => &["ttr"],
        };
        fields.contains(&field)
    }

    /// Its name, as sent.
    pub fn name(self) -> &'static str {
        Self::WORDS.iter().find(|(_, verb)| *verb == self).map_or("", |(word, _)| word)
    }
}

impl<'a> SettleItem<'a> {
    /// Reads one lease to be settled.
    pub fn read(fields: &mut Fields<'a>) -> Option<Self> {
        let token = fields.needed("token", Fields::string);
        let verb = fields.needed("verb", |fields, name| fields.word(name, &Verb::WORDS));
        let terms = Terms::read(fields, verb);
        Some(Self { token: token?, verb: verb?, terms })
    }
}

impl<'a> Terms<'a> {
    /// Reads what a verb may say beside itself; a verb that is not known was refused already.
    pub fn read(fields: &mut Fields<'a>, verb: Option<Verb>) -> Self {
        let terms = Self {
            delay: fields.duration("delay"),
            error: fields.string("error"),
            reason: fields.string("reason"),
            priority: priority(fields),
            ttr: fields.duration("ttr"),
        };
        let given = [
            ("delay", terms.delay.is_some()),
            ("error", terms.error.is_some()),
            ("reason", terms.reason.is_some()),
            ("priority", terms.priority.is_some()),
            ("ttr", terms.ttr.is_some()),
        ];
        if let Some(verb) = verb {
            for (field, _) in given.into_iter().filter(|(field, given)| *given && !verb.takes(field)) {
                fields.error(field, format!("does not fit \"{}\"", verb.name()));
            }
        }
        terms
    }
}

/// What became of each item of a batch, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ItemResults {
    /// One an item.
    pub results: Vec<ItemResult>,
}

/// What became of one item of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ItemResult {
    /// As if it had been sent alone.
    pub status: u16,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// What went wrong, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// What is wrong with which field.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(required = false))]
    pub errors: Vec<FieldError>,
}

impl ItemResult {
    /// One that went well.
    pub fn ok(status: u16) -> Self {
        Self { status, code: None, detail: None, errors: Vec::new() }
    }
}
