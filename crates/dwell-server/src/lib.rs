//! The server of Dwell: protocol edges in front of any store.
//!
//! An edge decodes, calls one method of [`dwell_core::Store`] and encodes. Nothing in here knows which store it is.
//!
//! - [`config`] says what a server is told before it starts; [`auth`] who may talk to it.
//! - [`http`] is the HTTP API, [`beanstalk`] the protocol of beanstalkd.
//! - [`delivery`] hands jobs over to their targets.
//! - [`metrics`] is what Prometheus reads, [`trace`] what is told of single requests and deliveries.
//! - [`tls`] is the certificate that it shows.
//! - [`shutdown`] is how everyone hears that the server is going away.

mod accepting;

pub mod auth;
pub mod beanstalk;
pub mod config;
pub mod delivery;
pub mod http;
pub mod metrics;
pub mod shutdown;
pub mod tls;
pub mod trace;

pub use auth::{Access, Scope, Scopes, Token, Tokens};
pub use config::{Config, MovableClock};
pub use delivery::{DeliveryConfig, Guard, push};
pub use http::serve;
pub use shutdown::Shutdown;
pub use tls::Tls;
pub use trace::Tracer;
