//! What travels over Dwell's HTTP API.
//!
//! - [`json`] reads requests strictly: objects only, no unknown or repeated fields, everything wrong said at once.
//! - [`duration`] and [`instant`] are the two ways to say when.
//! - The other modules are the requests and answers, one file a resource. Requests are read by hand with [`json`],
//!   because what is wrong with them must be said well; answers are derived.
//! - [`problem`] is what goes wrong, with its stable codes.
//!
//! Types here know nothing of stores or of what is allowed beyond shape; a name in here may be no valid name.

pub mod json;

pub mod duration;
pub mod instant;

pub mod cancel;
pub mod change;
pub mod delivery;
pub mod job;
pub mod lease;
pub mod put;
pub mod retry;
pub mod server;
pub mod settle;
pub mod topic;

pub mod problem;

pub use duration::Duration;
pub use instant::Instant;
pub use json::{FieldError, Fields, Malformed};
pub use problem::{Code, Problem};
