//! Names and short texts, each a type that can only be built valid.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use crate::limits;

/// The name of a topic: 1–200 bytes of `A-Z a-z 0-9 . _ - + / ; $ ( )`, not starting with `-`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicName(Arc<str>);

impl TopicName {
    /// Takes a name that keeps the rules.
    pub fn new(name: &str) -> Result<Self, NameError> {
        check_length(name, limits::MAX_TOPIC_NAME)?;
        let allowed = |c: char| c.is_ascii_alphanumeric() || "._-+/;$()".contains(c);
        if let Some(found) = name.chars().find(|&c| !allowed(c)) {
            return Err(NameError::TopicCharacter { found });
        }
        if name.starts_with('-') {
            return Err(NameError::LeadingDash);
        }
        check_dots(name)?;
        Ok(Self(name.into()))
    }

    /// Whether the name is one of Dwell's own (it starts with `$`): users read such topics, only Dwell puts there.
    pub fn is_own(&self) -> bool {
        self.0.starts_with('$')
    }

    /// The name itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for TopicName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// The caller's own id of a job, unique among the live jobs of its topic: 1–255 bytes without control characters.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(Arc<str>);

impl JobId {
    /// Takes an id that keeps the rules.
    pub fn new(id: &str) -> Result<Self, NameError> {
        Self::check(id)?;
        Ok(Self(id.into()))
    }

    /// Whether an id keeps the rules.
    pub fn check(id: &str) -> Result<(), NameError> {
        check_length(id, limits::MAX_JOB_ID)?;
        check_controls(id)?;
        check_dots(id)
    }

    /// The id of a job that came without one and is known by its number alone.
    pub fn from_number(number: crate::job::Number) -> Self {
        Self(format!("${number}").into())
    }

    /// Whether the id is one of Dwell's own (it starts with `$`): users read such jobs, only Dwell names them.
    pub fn is_own(&self) -> bool {
        self.0.starts_with('$')
    }

    /// The id itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for JobId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// What a consumer calls itself, for people who look who holds a job. At most 255 bytes.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Consumer(Arc<str>);

impl Consumer {
    /// Takes a name that keeps the rules.
    pub fn new(name: &str) -> Result<Self, NameError> {
        check_length(name, limits::MAX_CONSUMER)?;
        check_controls(name)?;
        Ok(Self(name.into()))
    }

    /// The name itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Why a job was buried: one of the constants, or a consumer's own words. At most 255 bytes.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Reason(Arc<str>);

impl Reason {
    /// The last attempt of the retry policy failed.
    pub const ATTEMPTS_EXHAUSTED: &str = "attempts_exhausted";
    /// The job's ttl ran out before it was done.
    pub const EXPIRED: &str = "expired";
    /// A consumer buried it and gave no reason.
    pub const BURIED: &str = "buried";
    /// The push target answered that it is gone for good.
    pub const GONE: &str = "gone";
    /// The push target may not be called.
    pub const TARGET_REFUSED: &str = "target_refused";

    /// Takes a reason that keeps the rules.
    pub fn new(reason: &str) -> Result<Self, NameError> {
        check_length(reason, limits::MAX_REASON)?;
        check_controls(reason)?;
        Ok(Self(reason.into()))
    }

    /// One of the constants above.
    pub fn own(reason: &'static str) -> Self {
        Self(reason.into())
    }

    /// The reason itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What went wrong at an attempt, in the consumer's words; cut to 1 KiB rather than refused.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ErrorText(Arc<str>);

impl ErrorText {
    /// The error of a lease that ran out.
    pub const LEASE_EXPIRED: &str = "lease expired";

    /// Takes a text, without what is over the limit.
    pub fn new(text: &str) -> Self {
        Self(text[..text.floor_char_boundary(limits::MAX_ERROR)].into())
    }

    /// The text itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

macro_rules! shown_as_text {
    ($($name:ident),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    )*};
}

shown_as_text!(TopicName, JobId, Consumer, Reason, ErrorText);

/// Why a name was refused, and what would be right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Nothing there.
    #[error("is empty; it needs at least one character")]
    Empty,
    /// Over the limit.
    #[error("has {length} bytes; at most {most} are allowed")]
    TooLong {
        /// Bytes it has.
        length: usize,
        /// Bytes it may have.
        most: usize,
    },
    /// A character that no topic has.
    #[error("contains {found:?}; topics are made of A-Z a-z 0-9 . _ - + / ; $ ( )")]
    TopicCharacter {
        /// The first such character.
        found: char,
    },
    /// A topic that would read as a flag.
    #[error("starts with '-'; begin with a letter or digit")]
    LeadingDash,
    /// A control character.
    #[error("contains the control character {found:?}")]
    Control {
        /// The first such character.
        found: char,
    },
    /// `.` or `..`, which URL libraries swallow.
    #[error("is {0:?}, which URLs cannot carry; choose another name")]
    Dots(&'static str),
}

fn check_length(text: &str, most: usize) -> Result<(), NameError> {
    match text.len() {
        0 => Err(NameError::Empty),
        length if length > most => Err(NameError::TooLong { length, most }),
        _ => Ok(()),
    }
}

fn check_controls(text: &str) -> Result<(), NameError> {
    // Nearly all names are plain, and that is told without taking them apart.
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return Ok(());
    }
    text.chars().find(|c| c.is_control()).map_or(Ok(()), |found| Err(NameError::Control { found }))
}

fn check_dots(text: &str) -> Result<(), NameError> {
    match text {
        "." => Err(NameError::Dots(".")),
        ".." => Err(NameError::Dots("..")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_keep_to_their_alphabet() {
        for good in ["a", "orders.close", "A-z_0+9/;$()", "$schedules", "...", &"x".repeat(200)] {
            assert_eq!(TopicName::new(good).map(|t| t.as_str().to_owned()), Ok(good.to_owned()));
        }
        assert_eq!(TopicName::new(""), Err(NameError::Empty));
        assert_eq!(TopicName::new("a b"), Err(NameError::TopicCharacter { found: ' ' }));
        assert_eq!(TopicName::new("a,b"), Err(NameError::TopicCharacter { found: ',' }));
        assert_eq!(TopicName::new("ä"), Err(NameError::TopicCharacter { found: 'ä' }));
        assert_eq!(TopicName::new("-a"), Err(NameError::LeadingDash));
        assert_eq!(TopicName::new(".."), Err(NameError::Dots("..")));
        assert_eq!(TopicName::new(&"x".repeat(201)), Err(NameError::TooLong { length: 201, most: 200 }));
    }

    #[test]
    fn ids_take_any_text_that_prints() {
        for good in ["order-42", "订单/42", "-", "a b", &"é".repeat(127)] {
            assert_eq!(JobId::new(good).map(|t| t.as_str().to_owned()), Ok(good.to_owned()));
        }
        assert_eq!(JobId::new("a\nb"), Err(NameError::Control { found: '\n' }));
        assert_eq!(JobId::new("a\u{85}b"), Err(NameError::Control { found: '\u{85}' }));
        assert_eq!(JobId::new("."), Err(NameError::Dots(".")));
        assert_eq!(JobId::new(&"é".repeat(128)), Err(NameError::TooLong { length: 256, most: 255 }));
    }

    #[test]
    fn own_names_start_with_a_dollar() {
        assert!(TopicName::new("$schedules").unwrap().is_own());
        assert!(!TopicName::new("a$").unwrap().is_own());
        assert!(JobId::from_number(crate::job::Number::new(7).unwrap()).is_own());
        assert!(!JobId::new("a$").unwrap().is_own());
    }

    #[test]
    fn long_errors_are_cut_between_characters() {
        let text = ErrorText::new(&"€".repeat(500));
        assert_eq!(text.as_str().len(), 1_023);
        assert_eq!(text.as_str(), "€".repeat(341));
    }

    #[test]
    fn consumers_and_reasons_are_short_and_print() {
        let long = "x".repeat(255);
        assert_eq!(Consumer::new(&long).map(|c| c.as_str().to_owned()), Ok(long.clone()));
        assert_eq!(Reason::new(&long).map(|r| r.as_str().to_owned()), Ok(long.clone()));
        for (wrong, why) in [
            (String::new(), NameError::Empty),
            ("a\nb".to_owned(), NameError::Control { found: '\n' }),
            (long + "x", NameError::TooLong { length: 256, most: 255 }),
        ] {
            assert_eq!(Consumer::new(&wrong), Err(why));
            assert_eq!(Reason::new(&wrong), Err(why));
        }
    }
}
