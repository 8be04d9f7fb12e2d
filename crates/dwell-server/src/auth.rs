//! Who may talk to a server: whoever shows one of its tokens.

use std::fmt;
use std::sync::Arc;

use subtle::ConstantTimeEq;

/// The tokens of a server. Never printed.
#[derive(Clone, Default)]
pub struct Tokens(Arc<[Box<[u8]>]>);

impl Tokens {
    /// Takes the tokens; an empty one is refused.
    pub fn new<'a>(tokens: impl IntoIterator<Item = &'a str>) -> Result<Self, EmptyToken> {
        let tokens: Vec<Box<[u8]>> = tokens.into_iter().map(|token| token.as_bytes().into()).collect();
        if tokens.iter().any(|token| token.is_empty()) { Err(EmptyToken) } else { Ok(Self(tokens.into())) }
    }

    /// Whether there are none, so that everyone may talk.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `shown` is one of them. Takes as long wherever two tokens of one length differ, and always compares all.
    pub fn allow(&self, shown: &[u8]) -> bool {
        self.0.iter().fold(subtle::Choice::from(0), |found, token| found | token.ct_eq(shown)).into()
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tokens({})", self.0.len())
    }
}

/// A token without a character would let everyone in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmptyToken;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_of_a_token_is_a_token() {
        let tokens = Tokens::new(["secret", "other"]).unwrap();
        assert!(tokens.allow(b"secret") && tokens.allow(b"other"));
        for wrong in ["", "s", "secre", "secret ", "secrets", "SECRET"] {
            assert!(!tokens.allow(wrong.as_bytes()), "{wrong}");
        }
        assert!(Tokens::default().is_empty() && !Tokens::default().allow(b""));
    }

    #[test]
    fn an_empty_token_is_none_and_none_is_printed() {
        assert!(Tokens::new([""]).is_err());
        assert_eq!(format!("{:?}", Tokens::new(["secret"]).unwrap()), "Tokens(1)");
    }
}
