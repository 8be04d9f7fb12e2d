//! The server itself.

use dwell_wire::server::Info;
use reqwest::Method;

use crate::call::Path;
use crate::client::Client;
use crate::error::Error;

impl Client {
    /// What the server is, promises and allows, and its time.
    pub async fn info(&self) -> Result<Info, Error> {
        self.call(Method::GET, Path::new("info")).answer().await
    }
}
