//! What a job carries for its consumer: body and headers.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::limits;

/// What the consumer gets. Its size is checked at the edge, where the operator's limit is known.
#[derive(Clone, PartialEq, Eq)]
pub enum Body {
    /// A JSON value, as the exact text that was sent.
    Json(Arc<[u8]>),
    /// Opaque bytes.
    Bytes(Arc<[u8]>),
}

impl Body {
    /// The JSON text or the bytes.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Json(text) => text,
            Self::Bytes(bytes) => bytes,
        }
    }

    /// The same, as it is kept.
    pub fn into_bytes(self) -> Arc<[u8]> {
        match self {
            Self::Json(bytes) | Self::Bytes(bytes) => bytes,
        }
    }

    /// How many bytes that is.
    pub fn len(&self) -> usize {
        self.as_bytes().len()
    }

    /// Whether that is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Default for Body {
    /// JSON `null`.
    fn default() -> Self {
        Self::Json(Arc::from(*b"null"))
    }
}

impl fmt::Debug for Body {
    /// Bodies are the users' data: their size is shown, never their content.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(text) => write!(f, "Json({} bytes)", text.len()),
            Self::Bytes(bytes) => write!(f, "Bytes({} bytes)", bytes.len()),
        }
    }
}

/// A caller's headers: names and values, at most 4 KiB together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers(BTreeMap<Box<str>, Box<str>>);

impl Headers {
    /// Takes headers that fit.
    pub fn new(headers: impl IntoIterator<Item = (String, String)>) -> Result<Self, HeadersTooLarge> {
        let headers: BTreeMap<Box<str>, Box<str>> =
            headers.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        let size = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        if size > limits::MAX_HEADERS { Err(HeadersTooLarge { size }) } else { Ok(Self(headers)) }
    }

    /// Names and values, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    /// The value of one header.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|value| &**value)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The headers do not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("have {size} bytes together; at most {} are allowed", limits::MAX_HEADERS)]
pub struct HeadersTooLarge {
    /// Bytes they have.
    pub size: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_never_print_their_content() {
        let body = Body::Bytes(Arc::from(*b"secret"));
        assert_eq!(format!("{body:?}"), "Bytes(6 bytes)");
        assert_eq!(format!("{:?}", Body::Json(Arc::from(*b"\"secret\""))), "Json(8 bytes)");
        assert_eq!(Body::default().as_bytes(), b"null");
    }

    #[test]
    fn headers_are_bounded_together() {
        let big = |n: usize| Headers::new([("a".to_owned(), "x".repeat(n))]);
        assert_eq!(big(4_095).unwrap().get("a").map(str::len), Some(4_095));
        assert_eq!(big(4_096), Err(HeadersTooLarge { size: 4_097 }));
    }

    #[test]
    fn headers_count_names_and_values() {
        let headers = |name: usize| Headers::new([("n".repeat(name), "x".repeat(96))]);
        assert!(headers(4_000).is_ok());
        assert_eq!(headers(4_001), Err(HeadersTooLarge { size: 4_097 }));
    }
}
