//! What can go wrong: one small enum per operation, each of which knows its [`ErrorKind`].
//!
//! Each edge has one match over the kinds; none needs to know the operations.

use crate::limits;
use crate::state::Refusal;
use crate::time::TimeError;

/// What kind of failure it is: what protocols turn into status codes and words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The request makes no sense.
    InvalidRequest,
    /// There is no such job or topic.
    NotFound,
    /// A put that must not meet a live job met one.
    JobExists,
    /// A consumer holds the job.
    JobLeased,
    /// The token is unknown, expired, settled or revoked.
    LeaseLost,
    /// Too many of something that is counted.
    LimitReached,
    /// The job has another version than the caller thought.
    VersionMismatch,
    /// A body over the limit.
    TooLarge,
    /// The store has too much to do; try again shortly.
    Overloaded,
    /// No room for more jobs.
    StorageFull,
    /// The store failed; what became of the call is unknown.
    StorageFailed,
}

/// What fails a whole call, whatever the operation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The store failed and answers nothing more until it is started again. The outcome of this call is unknown.
    #[error("the store has failed: {detail}; the outcome of this call is unknown")]
    Failed {
        /// What happened, where.
        detail: String,
    },
    /// The engine behind the store did not answer in time or is out of reach. The outcome of this call is unknown.
    #[error("the store is out of reach: {detail}; the outcome of this call is unknown")]
    Unreachable {
        /// What happened, where.
        detail: String,
    },
    /// What was asked for is there and cannot be read; nothing was done. Everything else goes on.
    #[error("what was asked for cannot be read: {detail}; nothing was done")]
    Unreadable {
        /// What is damaged, and where.
        detail: String,
    },
    /// Too much at once; nothing was done.
    #[error("the store has too much to do; try again shortly")]
    Overloaded,
    /// The store is shutting down; nothing was done.
    #[error("the store is shutting down")]
    Closed,
}

impl StoreError {
    /// What kind of failure it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Failed { .. } | Self::Unreachable { .. } | Self::Unreadable { .. } => ErrorKind::StorageFailed,
            Self::Overloaded | Self::Closed => ErrorKind::Overloaded,
        }
    }
}

/// Why one job was not put.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PutError {
    /// `reject` met a live (or remembered) job.
    #[error("a job with this topic and id exists")]
    JobExists,
    /// `replace` met a leased job.
    #[error("a consumer holds the job; wait for it, or replace it by force")]
    JobLeased,
    /// The live job has another version, or there is none.
    #[error("the job has another version, or does not exist")]
    VersionMismatch,
    /// The due time is no good.
    #[error("the due time {0}")]
    Time(#[from] TimeError),
    /// It would be one topic too many.
    #[error("the store has as many topics as it may have")]
    TooManyTopics,
    /// A body that no store takes.
    #[error("the body is larger than {} bytes", limits::MAX_BODY)]
    TooLarge,
    /// No room.
    #[error("there is no room for more jobs")]
    StorageFull,
}

impl PutError {
    /// What kind of failure it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::JobExists => ErrorKind::JobExists,
            Self::JobLeased => ErrorKind::JobLeased,
            Self::VersionMismatch => ErrorKind::VersionMismatch,
            Self::Time(_) => ErrorKind::InvalidRequest,
            Self::TooManyTopics => ErrorKind::LimitReached,
            Self::TooLarge => ErrorKind::TooLarge,
            Self::StorageFull => ErrorKind::StorageFull,
        }
    }
}

/// Why one job was not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// No live job.
    #[error("there is no live job with this topic and id")]
    NotFound,
    /// The job has another version.
    #[error("the job has another version")]
    VersionMismatch,
    /// Someone holds it.
    #[error("a consumer holds the job; wait for it, or change it by force")]
    JobLeased,
    /// The new due time is no good.
    #[error("the due time {0}")]
    Time(#[from] TimeError),
    /// A body that no store takes.
    #[error("the body is larger than {} bytes", limits::MAX_BODY)]
    TooLarge,
    /// No room for a larger body.
    #[error("there is no room for a larger job")]
    StorageFull,
}

impl ChangeError {
    /// What kind of failure it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NotFound => ErrorKind::NotFound,
            Self::VersionMismatch => ErrorKind::VersionMismatch,
            Self::JobLeased => ErrorKind::JobLeased,
            Self::Time(_) => ErrorKind::InvalidRequest,
            Self::TooLarge => ErrorKind::TooLarge,
            Self::StorageFull => ErrorKind::StorageFull,
        }
    }
}

impl From<Refusal> for ChangeError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Leased => Self::JobLeased,
            Refusal::Time(error) => Self::Time(error),
            Refusal::TooLarge => Self::TooLarge,
            Refusal::NotReady | Refusal::LeaseLost | Refusal::NotParked => {
                unreachable!("a change is never refused for {refusal:?}")
            }
        }
    }
}

/// Why one job was not cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CancelError {
    /// No live job.
    #[error("there is no live job with this topic and id")]
    NotFound,
    /// The job has another version.
    #[error("the job has another version")]
    VersionMismatch,
    /// Someone holds it.
    #[error("a consumer holds the job; wait for it, or cancel it by force")]
    JobLeased,
}

impl CancelError {
    /// What kind of failure it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NotFound => ErrorKind::NotFound,
            Self::VersionMismatch => ErrorKind::VersionMismatch,
            Self::JobLeased => ErrorKind::JobLeased,
        }
    }
}

/// Why one lease was not settled: there is only one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the lease is lost: it ran out, was settled or was revoked")]
pub struct LeaseLost;

impl LeaseLost {
    /// What kind of failure it is.
    pub fn kind(self) -> ErrorKind {
        ErrorKind::LeaseLost
    }
}

/// Why something was not done to a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopicError {
    /// Never seen, or deleted.
    #[error("there is no such topic; a topic is created by its first job, policy or pause")]
    NotFound,
    /// It would be one too many.
    #[error("the store has as many topics as it may have")]
    TooManyTopics,
}

impl TopicError {
    /// What kind of failure it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NotFound => ErrorKind::NotFound,
            Self::TooManyTopics => ErrorKind::LimitReached,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_has_its_kind() {
        let puts = [
            (PutError::JobExists, ErrorKind::JobExists),
            (PutError::JobLeased, ErrorKind::JobLeased),
            (PutError::VersionMismatch, ErrorKind::VersionMismatch),
            (PutError::Time(TimeError::TooFar), ErrorKind::InvalidRequest),
            (PutError::TooManyTopics, ErrorKind::LimitReached),
            (PutError::StorageFull, ErrorKind::StorageFull),
        ];
        for (error, kind) in puts {
            assert_eq!(error.kind(), kind, "put: {error}");
        }
        let changes = [
            (ChangeError::NotFound, ErrorKind::NotFound),
            (ChangeError::VersionMismatch, ErrorKind::VersionMismatch),
            (ChangeError::JobLeased, ErrorKind::JobLeased),
            (ChangeError::Time(TimeError::TooFar), ErrorKind::InvalidRequest),
            (ChangeError::StorageFull, ErrorKind::StorageFull),
        ];
        for (error, kind) in changes {
            assert_eq!(error.kind(), kind, "change: {error}");
        }
        let cancels = [
            (CancelError::NotFound, ErrorKind::NotFound),
            (CancelError::VersionMismatch, ErrorKind::VersionMismatch),
            (CancelError::JobLeased, ErrorKind::JobLeased),
        ];
        for (error, kind) in cancels {
            assert_eq!(error.kind(), kind, "cancel: {error}");
        }
        let topics =
            [(TopicError::NotFound, ErrorKind::NotFound), (TopicError::TooManyTopics, ErrorKind::LimitReached)];
        for (error, kind) in topics {
            assert_eq!(error.kind(), kind, "topic: {error}");
        }
        assert_eq!(LeaseLost.kind(), ErrorKind::LeaseLost);
    }

    /// A caller may try again at once what was not done, and must look first where nobody knows.
    #[test]
    fn an_unknown_outcome_is_never_called_overload() {
        let detail = || "disk".to_owned();
        assert_eq!(StoreError::Failed { detail: detail() }.kind(), ErrorKind::StorageFailed);
        assert_eq!(StoreError::Unreachable { detail: detail() }.kind(), ErrorKind::StorageFailed);
        assert_eq!(StoreError::Overloaded.kind(), ErrorKind::Overloaded);
        assert_eq!(StoreError::Closed.kind(), ErrorKind::Overloaded);
    }

    #[test]
    fn a_refused_change_says_why() {
        assert_eq!(ChangeError::from(Refusal::Leased), ChangeError::JobLeased);
        assert_eq!(ChangeError::from(Refusal::Time(TimeError::TooFar)), ChangeError::Time(TimeError::TooFar));
    }
}
