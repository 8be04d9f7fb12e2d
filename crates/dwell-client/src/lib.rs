//! A client of a Dwell server.
//!
//! ```no_run
//! use dwell_client::wire::lease::LeaseRequest;
//! use dwell_client::wire::put::PutJob;
//! use dwell_client::wire::Duration;
//! use dwell_client::{Client, Error, Guard};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let dwell = Client::new("http://127.0.0.1:3935", None)?;
//!
//! // Close an order in half an hour, unless it is paid first.
//! let body = serde_json::value::to_raw_value(&42)?;
//! let close = PutJob { delay: Some(Duration(30 * 60_000)), body: Some(&body), ..PutJob::default() };
//! dwell.put("orders.close", "order-42", &close, Guard::default()).await?;
//! dwell.cancel("orders.close", "order-42", Guard::default()).await?;
//!
//! // Wait for what is due, and say that it is done.
//! let wanted = LeaseRequest {
//!     topics: Some(vec!["orders.close".into()]),
//!     wait: Some(Duration(20_000)),
//!     ..LeaseRequest::default()
//! };
//! for job in dwell.lease(&wanted).await? {
//!     if let Some(token) = &job.token {
//!         dwell.ack(token).await?;
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! - [`Client`] has one method a call of the API; requests and answers are those of [`wire`].
//! - [`Worker`] takes jobs as they become due and has a handler do them: leases, retries and shutdown are its business.
//! - [`Error`] tells what the server refused, and why, from a server that is not there.
//! - Bodies are kept exactly as they are: a body is a [`RawValue`](serde_json::value::RawValue), never read on the way.
//! - Every future may be dropped. A lease that waits is then given up: the server sees the connection close and gives
//!   jobs that were on their way to somebody else.
//!
//! Inside, [`client`] is who is called and `call` one request and its answer; the other modules hold the methods of
//! [`Client`], one file a resource; [`worker`] stands on them.

mod call;
pub mod client;
mod error;

mod jobs;
mod leases;
mod server;
mod topics;

pub mod worker;

pub use client::{BadServer, Client};
pub use dwell_wire as wire;
pub use error::Error;
pub use jobs::Guard;
pub use topics::{JobsQuery, TimelineQuery, TopicsQuery};
pub use worker::{Retry, Work, Worker};
