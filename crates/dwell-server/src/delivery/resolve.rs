//! What a target's name means, asked anew for every connection; the connection goes to the addresses that were checked.

use std::error::Error;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::sync::Semaphore;
use url::Host;

use super::guard::{Guard, Refused};

/// Names asked for at once: each has a thread of the system's resolver, which may take its time.
const MOST: usize = 128;

/// The system's resolver behind the guard: `/etc/hosts`, search lists and all that the machine is set up with.
pub(super) struct GuardedResolver {
    guard: Arc<Guard>,
    room: Arc<Semaphore>,
}

impl GuardedResolver {
    pub(super) fn new(guard: Arc<Guard>) -> Self {
        Self { guard, room: Arc::new(Semaphore::new(MOST)) }
    }
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (guard, room) = (Arc::clone(&self.guard), Arc::clone(&self.room));
        Box::pin(async move {
            let permit = room.acquire_owned().await?;
            let name = name.as_str().to_owned();
            let found = tokio::task::spawn_blocking(move || {
                // Held until the system has answered, even if nobody waits for it any more.
                let _permit = permit;
                lookup(&name)
            });
            let addresses = found.await?.map_err(|error| Box::<dyn Error + Send + Sync>::from(Unresolved(error)))?;
            check(&guard, &addresses)?;
            let addresses: Addrs = Box::new(addresses.into_iter());
            Ok(addresses)
        })
    }
}

/// What the system says that a name means.
pub(super) fn lookup(name: &str) -> io::Result<Vec<SocketAddr>> {
    let addresses: Vec<_> = (name, 0).to_socket_addrs()?.collect();
    if addresses.is_empty() { Err(io::Error::other("it has no address")) } else { Ok(addresses) }
}

impl Guard {
    /// What a target's name means on this machine now, if all of it may be called. Blocks while the system is asked.
    pub fn addresses(&self, address: &str) -> Result<Vec<IpAddr>, String> {
        let url = self.url(address).map_err(|refused| refused.to_string())?;
        let found = match url.host() {
            Some(Host::Domain(name)) => lookup(name).map_err(|error| Unresolved(error).to_string())?,
            Some(Host::Ipv4(address)) => vec![SocketAddr::new(address.into(), 0)],
            Some(Host::Ipv6(address)) => vec![SocketAddr::new(address.into(), 0)],
            None => Vec::new(),
        };
        check(self, &found).map_err(|refused| refused.to_string())?;
        Ok(found.iter().map(SocketAddr::ip).collect())
    }
}

/// Every address must be allowed: a name with one that is not is up to no good, or will be at its next answer.
pub(super) fn check(guard: &Guard, addresses: &[SocketAddr]) -> Result<(), Refused> {
    addresses.iter().try_for_each(|address| guard.check(address.ip()))
}

/// A name that means nothing.
#[derive(Debug, thiserror::Error)]
#[error("its name does not resolve: {0}")]
pub(super) struct Unresolved(io::Error);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_name_is_judged_by_every_address_it_means() {
        let resolve = |guard: Guard| async move {
            let resolver = GuardedResolver::new(Arc::new(guard));
            resolver.resolve("localhost".parse().unwrap()).await.map(Iterator::collect::<Vec<_>>)
        };
        let refused = resolve(Guard::default()).await.unwrap_err();
        assert!(refused.downcast_ref::<Refused>().is_some(), "{refused}");
        let allowed = resolve(Guard { loopback: true, ..Guard::default() }).await.unwrap();
        assert!(allowed.iter().all(|address| address.ip().is_loopback()) && !allowed.is_empty());
    }

    #[test]
    fn one_address_that_is_not_allowed_is_enough() {
        let addresses = |list: &[&str]| list.iter().map(|text| text.parse().unwrap()).collect::<Vec<SocketAddr>>();
        let guard = Guard::default();
        assert_eq!(check(&guard, &addresses(&["1.1.1.1:0", "[2606:4700::1111]:0"])), Ok(()));
        assert!(check(&guard, &addresses(&["1.1.1.1:0", "10.0.0.1:0"])).is_err());
        assert!(check(&guard, &addresses(&["[::ffff:127.0.0.1]:0", "1.1.1.1:0"])).is_err());
    }
}
