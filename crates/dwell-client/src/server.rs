//! The server itself.

use dwell_wire::Duration;
use dwell_wire::server::{AdvanceClock, Clock, Health, Info};
use reqwest::Method;

use crate::call::Path;
use crate::client::Client;
use crate::error::Error;

impl Client {
    /// What the server is, promises and allows, and its time.
    pub async fn info(&self) -> Result<Info, Error> {
        self.call(Method::GET, Path::new("info")).answer().await
    }

    /// Whether the server does its work, and what is not at its best. Needs no token.
    pub async fn readiness(&self) -> Result<Health, Error> {
        self.call(Method::GET, Path::root("readyz")).answer_or_unavailable().await
    }

    /// The time of a server that was started with `--dev-clock`.
    pub async fn clock(&self) -> Result<Clock, Error> {
        self.call(Method::GET, Path::new("dev/clock")).answer().await
    }

    /// Moves the time of a server that was started with `--dev-clock`; the time it is then. What becomes due by that
    /// is handed out as ever.
    pub async fn advance_clock(&self, advance: Duration) -> Result<Clock, Error> {
        self.call(Method::POST, Path::new("dev/clock")).json(&AdvanceClock { advance }).answer().await
    }
}
