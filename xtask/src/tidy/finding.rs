//! What a rule reports.

use std::fmt::{self, Display, Formatter};

/// One thing that is wrong in one place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    pub(crate) path: String,
    pub(crate) line: usize,
    /// What is wrong; what would be right.
    pub(crate) message: String,
}

impl Finding {
    pub(crate) fn new(path: &str, line: usize, wrong: impl Display, right: impl Display) -> Self {
        Self { path: path.to_owned(), line, message: format!("{wrong}; {right}") }
    }
}

impl Display for Finding {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}
