//! One JSON object, split into its fields; or one that holds a list of them.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::fields::Fields;

/// A text that is no request at all: not JSON, or not an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed(pub String);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

const NOT_AN_OBJECT: &str = "the request must be a JSON object, like {\"delay\": \"30s\"}";

/// One field as it came.
#[derive(Debug)]
pub(super) struct Entry<'a> {
    pub(super) name: Cow<'a, str>,
    pub(super) value: &'a RawValue,
}

/// What stood where an object should be.
pub(super) enum Parsed<'a> {
    Object(Vec<Entry<'a>>),
    SomethingElse,
}

/// Splits a text into the fields of the object that it is. No text at all is an object without fields.
pub fn read_object(text: &[u8]) -> Result<Fields<'_>, Malformed> {
    let text = utf8(text)?;
    if text.is_empty() {
        return Ok(Fields::new(Vec::new()));
    }
    let mut json = serde_json::Deserializer::from_str(text);
    let parsed = ObjectSeed.deserialize(&mut json).map_err(not_json)?;
    json.end().map_err(not_json)?;
    match parsed {
        Parsed::Object(entries) => Ok(Fields::new(entries)),
        Parsed::SomethingElse => Err(Malformed(NOT_AN_OBJECT.to_owned())),
    }
}

/// Reads an object whose one field `name` is a list, item by item, and answers how many there were. An item that is no
/// object is given as `None`. After `most` items the rest is only counted.
pub fn read_list<'a>(
    text: &'a [u8],
    name: &'static str,
    most: usize,
    mut item: impl FnMut(Option<Fields<'a>>),
) -> Result<usize, Malformed> {
    let mut json = serde_json::Deserializer::from_str(utf8(text)?);
    let list = List { name, most, item: &mut item };
    let found = json.deserialize_any(list).map_err(not_json)?;
    json.end().map_err(not_json)?;
    found
}

fn utf8(text: &[u8]) -> Result<&str, Malformed> {
    std::str::from_utf8(text)
        .map_err(|error| Malformed(format!("the request is not UTF-8 from byte {} on", error.valid_up_to())))
}

#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` gives")]
fn not_json(error: serde_json::Error) -> Malformed {
    Malformed(format!("the request is not JSON: {error}"))
}

/// Reads whatever comes; an object is split.
struct ObjectSeed;

impl<'de> DeserializeSeed<'de> for ObjectSeed {
    type Value = Parsed<'de>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_any(self)
    }
}

/// Everything that is no object.
macro_rules! something_else {
    ($otherwise:expr) => {
        fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
            Ok($otherwise)
        }
        fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
            Ok($otherwise)
        }
        fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
            Ok($otherwise)
        }
        fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
            Ok($otherwise)
        }
        fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
            Ok($otherwise)
        }
        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok($otherwise)
        }
    };
}

impl<'de> Visitor<'de> for ObjectSeed {
    type Value = Parsed<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::with_capacity(8);
        while let Some(name) = map.next_key_seed(NameSeed)? {
            entries.push(Entry { name, value: map.next_value()? });
        }
        Ok(Parsed::Object(entries))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        while list.next_element::<&RawValue>()?.is_some() {}
        Ok(Parsed::SomethingElse)
    }

    something_else!(Parsed::SomethingElse);
}

/// Reads a name, borrowed where it has no escapes.
struct NameSeed;

impl<'de> DeserializeSeed<'de> for NameSeed {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for NameSeed {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(name))
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(name.to_owned()))
    }
}

/// An object with one field, a list.
struct List<'f, F> {
    name: &'static str,
    most: usize,
    item: &'f mut F,
}

impl<F> List<'_, F> {
    fn wrong(&self) -> Malformed {
        Malformed(format!("the request must be a JSON object with one list: {{\"{}\": [{{…}}, …]}}", self.name))
    }
}

impl<'de, F: FnMut(Option<Fields<'de>>)> Visitor<'de> for List<'_, F> {
    type Value = Result<usize, Malformed>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let wrong = self.wrong();
        let items = Items { most: self.most, item: self.item };
        match map.next_key_seed(NameSeed)? {
            Some(name) if name == self.name => {
                let counted = map.next_value_seed(items)?;
                let more = map.next_key::<IgnoredAny>()?.is_some();
                if more {
                    map.next_value::<&RawValue>()?;
                    while map.next_entry::<IgnoredAny, &RawValue>()?.is_some() {}
                }
                Ok(counted.filter(|_| !more).ok_or(wrong))
            }
            Some(_) => {
                map.next_value::<&RawValue>()?;
                while map.next_entry::<IgnoredAny, &RawValue>()?.is_some() {}
                Ok(Err(wrong))
            }
            None => Ok(Err(wrong)),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        while list.next_element::<&RawValue>()?.is_some() {}
        Ok(Err(self.wrong()))
    }

    something_else!(Err(Malformed(NOT_AN_OBJECT.to_owned())));
}

/// The list itself; `None` if it is something else.
struct Items<'f, F> {
    most: usize,
    item: &'f mut F,
}

impl<'de, F: FnMut(Option<Fields<'de>>)> DeserializeSeed<'de> for Items<'_, F> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de, F: FnMut(Option<Fields<'de>>)> Visitor<'de> for Items<'_, F> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut count = 0;
        while count < self.most {
            match list.next_element_seed(ObjectSeed)? {
                Some(Parsed::Object(entries)) => (self.item)(Some(Fields::new(entries))),
                Some(Parsed::SomethingElse) => (self.item)(None),
                None => return Ok(Some(count)),
            }
            count += 1;
        }
        while list.next_element::<&RawValue>()?.is_some() {
            count += 1;
        }
        Ok(Some(count))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, &RawValue>()?.is_some() {}
        Ok(None)
    }

    something_else!(None);
}
