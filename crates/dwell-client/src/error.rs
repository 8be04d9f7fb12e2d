//! What can go wrong with a call.

use std::error::Error as StdError;
use std::io;

use dwell_wire::{Code, FieldError, Problem};

/// Why a call did not go well.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The server said no, and why.
    #[error("{}", .0.detail)]
    Problem(Box<Problem>),
    /// There is no connection to the server: nothing was done.
    #[error("cannot reach {url}: {reason}")]
    Unreachable {
        /// The server's address.
        url: String,
        /// What is wrong.
        reason: String,
    },
    /// The server was reached and did not answer: what was asked may have been done.
    #[error("no answer from {url}: {reason}; it may have been done all the same")]
    Lost {
        /// The server's address.
        url: String,
        /// What is wrong.
        reason: String,
    },
    /// Something answers that is not a Dwell server.
    #[error("{url} is not a Dwell server: {reason}")]
    NotDwell {
        /// The server's address.
        url: String,
        /// What it answers.
        reason: String,
    },
}

impl Error {
    /// What the server refused, if it did.
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Problem(problem) => Some(problem.code),
            _ => None,
        }
    }

    /// A request that need not be sent: the server would refuse it.
    pub(crate) fn refused(field: &str, reason: String) -> Self {
        let error = FieldError { field: field.to_owned(), reason };
        Self::Problem(Box::new(Problem::invalid(vec![error])))
    }

    /// A call that got no answer.
    #[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` gives")]
    pub(crate) fn of_transport(url: &str, error: reqwest::Error) -> Self {
        let (url, reason) = (url.to_owned(), reason(&error));
        if error.is_connect() { Self::Unreachable { url, reason } } else { Self::Lost { url, reason } }
    }
}

/// What kept an answer from coming, in words.
fn reason(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "it takes too long".to_owned();
    }
    let causes = std::iter::successors(error.source(), |cause| (*cause).source());
    let kind = causes.filter_map(|cause| cause.downcast_ref::<io::Error>()).map(io::Error::kind).last();
    match kind {
        Some(
            kind @ (io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable),
        ) => kind.to_string(),
        _ => deepest(error),
    }
}

/// The first cause of an error, in its own words.
pub(crate) fn deepest(error: &dyn StdError) -> String {
    let first = std::iter::successors(Some(error), |cause| (*cause).source()).last();
    first.map(ToString::to_string).unwrap_or_default()
}
