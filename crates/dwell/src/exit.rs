//! How the process ends: scripts go by these numbers.

use std::fmt;
use std::io::{Write as _, stderr};
use std::process::ExitCode;

/// Why the process ends other than well.
#[derive(Debug)]
pub(crate) struct Exit {
    code: Code,
    message: String,
}

/// What scripts go by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Code {
    /// It did not work.
    Failure = 1,
    /// What the server or a store was told makes no sense.
    BadConfiguration = 78,
}

impl Exit {
    pub(crate) fn new(code: Code, message: impl fmt::Display) -> Self {
        Self { code, message: message.to_string() }
    }

    /// Something that did not work.
    pub(crate) fn failure(message: impl fmt::Display) -> Self {
        Self::new(Code::Failure, message)
    }

    /// Says why, and gives the number.
    pub(crate) fn report(self) -> ExitCode {
        // Nobody may be listening.
        drop(writeln!(stderr(), "dwell: {}", self.message));
        ExitCode::from(self.code as u8)
    }
}

impl From<anyhow::Error> for Exit {
    fn from(error: anyhow::Error) -> Self {
        Self::failure(format!("{error:#}"))
    }
}
