//! The address that the server listens on.

use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::net::{TcpListener, lookup_host};

use super::settings::Settings;
use crate::exit::{Code, Exit};

/// File handles beside those of connections.
const OTHER_HANDLES: u64 = 256;

/// Binds the address, unless that would open the server to the world without a credential.
pub(super) async fn bind(settings: &Settings) -> Result<TcpListener, Exit> {
    let address = &settings.listen;
    let cannot = |error| Exit::failure(format!("cannot listen on {address}: {error}"));
    let found: Vec<_> = lookup_host(address).await.map_err(cannot)?.collect();
    if let Some(open) = found.iter().find(|found| !found.ip().is_loopback()).filter(|_| settings.tokens.is_empty()) {
        let message = format!(
            "{open} can be reached from other machines, and no token is set: everyone could read and change \
             all jobs.\n       Set a token:\n\n         dwell serve --listen {address} --token \"$(openssl rand -hex 24)\"\n\n       \
             or listen on this machine only: --listen 127.0.0.1:{}",
            open.port(),
        );
        return Err(Exit::new(Code::BadConfiguration, message));
    }
    TcpListener::bind(&found[..]).await.map_err(cannot)
}

/// Raises the number of files this process may have open, as far as the system lets it.
pub(super) fn allow_many_connections(connections: usize) {
    let wanted = u64::try_from(connections).unwrap_or(u64::MAX).saturating_add(OTHER_HANDLES);
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < wanted) {
        limit.current = Some(limit.maximum.map_or(wanted, |maximum| maximum.min(wanted)));
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            tracing::warn!(%error, "cannot raise the number of open files");
        }
    }
    if let Some(current) = getrlimit(Resource::Nofile).current.filter(|current| *current < wanted) {
        tracing::warn!("the system allows {current} open files; {wanted} would be needed for all connections");
    }
}
