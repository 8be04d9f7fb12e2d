//! What all accept loops share.

use std::io;
use std::time::Duration;

/// How long to wait before accepting again after the system refused, for want of file handles say.
pub(crate) const AFTER_REFUSAL: Duration = Duration::from_millis(50);

/// Whether an accept failed because of the one connection it was about.
pub(crate) fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
