//! Who may talk to a server, and what they may do.
//!
//! A [`Token`] says what it opens: [`Scope`]s, and topics by the start of their names. [`Tokens`] are those of a server,
//! [`Access`] is where it looks them up, so that they can be replaced while it runs. What a request may do is its
//! [`Grant`].

mod grant;
mod scope;

pub use grant::Grant;
pub use scope::{Scope, Scopes};

use std::fmt;
use std::num::NonZeroU32;
use std::sync::{Arc, PoisonError, RwLock};

use aws_lc_rs::digest::{SHA256, digest};
use subtle::{ConditionallySelectable, ConstantTimeEq};

/// A token as it is given to a server. Never printed.
#[derive(Clone)]
pub struct Token {
    /// What logs call whoever shows it.
    pub name: String,
    /// What is shown.
    pub secret: String,
    /// What may be done with it.
    pub scopes: Scopes,
    /// How the names of its topics start; `None`: all topics.
    pub topics: Option<Vec<String>>,
    /// Requests a second, and as many at once; `None`: as many as one likes.
    pub rate: Option<NonZeroU32>,
}

impl Token {
    /// A token that opens everything.
    pub fn for_everything(name: impl Into<String>, secret: impl Into<String>) -> Self {
        Self { name: name.into(), secret: secret.into(), scopes: Scopes::ALL, topics: None, rate: None }
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({})", self.name)
    }
}

/// The tokens of a server. What is kept of their secrets are digests: they cannot be printed, and all take as long to
/// compare.
#[derive(Clone, Default)]
pub struct Tokens(Arc<[(Digest, Arc<Grant>)]>);

type Digest = [u8; 32];

impl Tokens {
    /// Takes the tokens. An empty secret is refused, and so are two tokens of one secret or one name.
    pub fn new(tokens: Vec<Token>) -> Result<Self, BadTokens> {
        let mut taken: Vec<(Digest, Arc<Grant>)> = Vec::with_capacity(tokens.len());
        for token in tokens {
            if token.secret.is_empty() {
                return Err(BadTokens::Empty(token.name));
            }
            let secret = digest_of(token.secret.as_bytes());
            for (other, grant) in &taken {
                if grant.name() == token.name {
                    return Err(BadTokens::SameName(token.name));
                }
                if *other == secret {
                    return Err(BadTokens::SameSecret(grant.name().to_owned(), token.name));
                }
            }
            taken.push((secret, Arc::new(Grant::new(token))));
        }
        Ok(Self(taken.into()))
    }

    /// Whether there are none, so that everyone may talk.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What `shown` may do, if it is one of them. Always compares all, and takes as long wherever they differ.
    pub fn find(&self, shown: &[u8]) -> Option<Arc<Grant>> {
        let shown = digest_of(shown);
        let mut found = u32::MAX;
        for (index, (secret, _)) in (0..).zip(self.0.iter()) {
            found.conditional_assign(&index, secret.ct_eq(&shown));
        }
        self.0.get(found as usize).map(|(_, grant)| Arc::clone(grant))
    }
}

fn digest_of(secret: &[u8]) -> Digest {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest(&SHA256, secret).as_ref());
    bytes
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tokens({})", self.0.len())
    }
}

/// Why tokens are not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadTokens {
    /// It would let everyone in.
    #[error("the token \"{0}\" is empty, which would let everyone in")]
    Empty(String),
    /// Logs could not tell them apart.
    #[error("two tokens have the name \"{0}\"")]
    SameName(String),
    /// Nobody could say which one is shown.
    #[error("the tokens \"{0}\" and \"{1}\" are the same")]
    SameSecret(String, String),
}

/// Where a server looks up tokens. Clones look in the same place.
#[derive(Clone, Debug, Default)]
pub struct Access(Arc<RwLock<Tokens>>);

impl Access {
    /// These tokens, until they are replaced.
    pub fn new(tokens: Tokens) -> Self {
        Self(Arc::new(RwLock::new(tokens)))
    }

    /// The tokens that hold now.
    pub fn tokens(&self) -> Tokens {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// From now on these hold; requests under way go on.
    pub fn replace(&self, tokens: Tokens) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = tokens;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(secrets: &[&str]) -> Result<Tokens, BadTokens> {
        let named = |(index, secret): (usize, &&str)| Token::for_everything(format!("t{index}"), *secret);
        Tokens::new(secrets.iter().enumerate().map(named).collect())
    }

    #[test]
    fn only_the_whole_of_a_token_is_a_token() {
        let tokens = tokens(&["secret", "other"]).unwrap();
        assert_eq!(tokens.find(b"secret").unwrap().name(), "t0");
        assert_eq!(tokens.find(b"other").unwrap().name(), "t1");
        for wrong in ["", "s", "secre", "secret ", "secrets", "SECRET"] {
            assert!(tokens.find(wrong.as_bytes()).is_none(), "{wrong}");
        }
        assert!(Tokens::default().is_empty() && Tokens::default().find(b"").is_none());
    }

    #[test]
    fn what_could_be_mistaken_is_refused_and_no_secret_is_printed() {
        assert_eq!(tokens(&[""]).unwrap_err(), BadTokens::Empty("t0".to_owned()));
        assert_eq!(tokens(&["a", "a"]).unwrap_err(), BadTokens::SameSecret("t0".to_owned(), "t1".to_owned()));
        let twice = vec![Token::for_everything("n", "a"), Token::for_everything("n", "b")];
        assert_eq!(Tokens::new(twice).unwrap_err(), BadTokens::SameName("n".to_owned()));
        assert_eq!(format!("{:?}", tokens(&["secret"]).unwrap()), "Tokens(1)");
        assert_eq!(format!("{:?}", Token::for_everything("n", "secret")), "Token(n)");
    }

    #[test]
    fn replaced_tokens_hold_at_once_for_all_clones() {
        let access = Access::new(tokens(&["old"]).unwrap());
        let clone = access.clone();
        access.replace(tokens(&["new"]).unwrap());
        assert!(clone.tokens().find(b"old").is_none() && clone.tokens().find(b"new").is_some());
    }
}
