//! How the process ends: scripts go by these numbers.

use std::fmt;
use std::io::{Write as _, stderr};
use std::process::ExitCode;

use dwell_client::Error as ClientError;

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
    /// Whoever read the output went away: no fault of ours, and nobody is left to be told.
    Closed = 0,
    /// It did not work.
    Failure = 1,
    /// What was asked makes no sense.
    Usage = 2,
    /// There is no such job or topic.
    NotFound = 3,
    /// A job or a lease is not in the state that it would have to be in.
    Conflict = 4,
    /// No credential, a wrong one, or one that does not allow this.
    NotAuthorised = 5,
    /// No server answers.
    Unreachable = 6,
    /// No job was due in time.
    NothingLeased = 7,
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

    /// The same, with more to say.
    pub(crate) fn and(self, more: &str) -> Self {
        Self { message: format!("{}{more}", self.message), ..self }
    }

    /// Says why, and gives the number.
    pub(crate) fn report(self) -> ExitCode {
        if self.code != Code::Closed {
            // Nobody may be listening.
            drop(writeln!(stderr(), "dwell: {}", self.message));
        }
        ExitCode::from(self.code as u8)
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<ClientError> for Exit {
    fn from(error: ClientError) -> Self {
        let code = match &error {
            ClientError::Problem(problem) => of_problem(problem.code),
            ClientError::Unreachable { .. } | ClientError::Lost { .. } => Code::Unreachable,
            ClientError::NotDwell { .. } => Code::Failure,
        };
        // Where the server speaks of HTTP, say it in flags.
        let message = match &error {
            ClientError::Problem(problem) if problem.code == dwell_wire::Code::JobLeased => {
                "a consumer holds the job; wait for it, or say --force".to_owned()
            }
            ClientError::Problem(problem) if problem.code == dwell_wire::Code::Unauthorized => {
                "not authorised; --token or DWELL_TOKEN must be a token of this server".to_owned()
            }
            ClientError::Unreachable { reason, .. } if reason == "connection refused" => {
                format!("{error}; is a server running? try: dwell serve")
            }
            _ => error.to_string(),
        };
        Self::new(code, message)
    }
}

/// The one place where the codes of the API become numbers.
pub(crate) fn of_problem(code: dwell_wire::Code) -> Code {
    use dwell_wire::Code as Api;
    match code {
        Api::InvalidRequest => Code::Usage,
        Api::NotFound => Code::NotFound,
        Api::JobExists | Api::JobLeased | Api::LeaseLost | Api::LimitReached | Api::VersionMismatch => Code::Conflict,
        Api::Unauthorized | Api::Forbidden => Code::NotAuthorised,
        Api::MethodNotAllowed
        | Api::TooLarge
        | Api::UnsupportedMediaType
        | Api::RateLimited
        | Api::Internal
        | Api::Overloaded
        | Api::StorageFailed
        | Api::StorageFull => Code::Failure,
    }
}

impl From<anyhow::Error> for Exit {
    fn from(error: anyhow::Error) -> Self {
        Self::failure(format!("{error:#}"))
    }
}
