//! Which server is asked, and how its answers are shown.

use std::path::PathBuf;

use clap::Args;
use dwell_client::Client;
use dwell_wire::Instant;

use crate::exit::{Code, Exit};

/// What every verb can be told.
#[derive(Args, Debug)]
pub(super) struct Server {
    /// The server's address
    #[arg(long, env = "DWELL_URL", default_value = "http://127.0.0.1:3935")]
    pub(super) url: String,
    /// What the server asks for, if it was started with --token
    #[arg(long, env = "DWELL_TOKEN", hide_env_values = true)]
    pub(super) token: Option<String>,
    /// What the server's certificate is signed by, in PEM, if the system does not know it
    #[arg(long, env = "DWELL_CA", value_name = "FILE")]
    ca: Option<PathBuf>,
    /// One JSON object a line instead of text for people
    #[arg(long)]
    pub(super) json: bool,
}

impl Server {
    pub(super) fn client(&self) -> Result<Client, Exit> {
        let token = self.token.as_deref().filter(|token| !token.is_empty());
        let read = |path: &PathBuf| {
            let cannot = |error| Exit::new(Code::Usage, format!("--ca {} cannot be read: {error}", path.display()));
            std::fs::read(path).map_err(cannot)
        };
        let ca = self.ca.as_ref().map(read).transpose()?;
        Client::trusting(&self.url, token, ca.as_deref()).map_err(|error| Exit::new(Code::Usage, error))
    }
}

/// The server's time, which is what its instants are measured by.
pub(super) async fn now(client: &Client) -> Result<Instant, Exit> {
    Ok(client.info().await?.now)
}
