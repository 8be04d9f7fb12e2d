//! The guard: which addresses this server may call. Whoever may put a job may have the server send a request, so what is
//! inside its network must not be reachable by that, however its address is spelled.
//!
//! A target is judged twice. When it is read, for what can be known then: its shape, its port, and its host if that is an
//! address or this machine's own name. And at every attempt, for what its name means then: all addresses that it resolves
//! to must be allowed, and the connection goes to one of those very addresses.

mod networks;
#[cfg(test)]
mod tests;

use std::fmt;
use std::net::IpAddr;

use dwell_core::limits;
use dwell_core::target::{Target, TargetError};
use url::{Host, Url};

pub use self::networks::{Network, NotANetwork};

use self::networks::{Kind, carried, kind};

/// Which targets may be called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guard {
    /// Loopback, RFC 1918 and `fc00::/7` too.
    pub private: bool,
    /// This machine too: what `dwell dev` allows.
    pub loopback: bool,
    /// These networks too, whatever they are, but for what no target may be.
    pub networks: Vec<Network>,
    /// Only these ports; none named: all.
    pub ports: Vec<u16>,
}

/// Why a target was refused. What it says fits behind the word "target" or a field's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Over the limit, or empty.
    #[error(transparent)]
    Length(#[from] TargetError),
    /// It is no address of a kind that is known here.
    #[error("must begin with http:// or https://; try \"https://example.com/hook\"")]
    Scheme,
    /// It does not parse.
    #[error("is not a URL: {0}")]
    Malformed(String),
    /// A character that means different things to different readers of URLs.
    #[error("contains {0:?}; percent-encode it")]
    Character(char),
    /// A name and a password in the URL.
    #[error("contains credentials, which everyone who reads the job would see; sign deliveries with deliver_secret")]
    Credentials,
    /// Not one of the ports that are allowed.
    #[error("has port {0}, which this server may not call; see target_ports")]
    Port(u16),
    /// An address that may not be called.
    #[error("{0}")]
    Address(RefusedAddress),
}

/// An address that may not be called, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedAddress {
    address: IpAddr,
    kind: Kind,
}

impl fmt::Display for RefusedAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = self.address;
        let shown = match address {
            IpAddr::V6(six) => carried(six).map_or_else(|| address.to_string(), |four| format!("{address} ({four})")),
            IpAddr::V4(_) => address.to_string(),
        };
        match self.kind {
            Kind::Never(what) => write!(f, "is {shown}, {what}, which is never called"),
            Kind::Private(what) => write!(f, "is {shown}, {what}; --allow-private-targets would allow it"),
            Kind::Special(what) => write!(f, "is {shown}, {what}; target_networks can allow it"),
            Kind::Public => write!(f, "is {shown}, which is not allowed"),
        }
    }
}

impl Guard {
    /// Reads an address as it was given, and refuses what can be refused already.
    pub fn read(&self, address: &str) -> Result<Target, Refused> {
        if address.len() > limits::MAX_TARGET {
            return Err(TargetError::TooLong { length: address.len() }.into());
        }
        let url = self.url(address)?;
        Ok(Target::new(address, &origin(&url)?)?)
    }

    /// The address as a URL that may be called as far as can be said without asking what its name means.
    pub(super) fn url(&self, address: &str) -> Result<Url, Refused> {
        if address.is_empty() {
            return Err(TargetError::Empty.into());
        }
        // Readers of URLs disagree on these: one drops them, another takes what follows for something else.
        if let Some(found) = address.chars().find(|c| c.is_control() || c.is_whitespace() || *c == '\\') {
            return Err(Refused::Character(found));
        }
        let is = |scheme: &str| address.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
        if !is("http://") && !is("https://") {
            return Err(Refused::Scheme);
        }
        let url = Url::parse(address).map_err(|error| Refused::Malformed(error.to_string()))?;
        let authority = &address[address.find("://").map_or(0, |at| at + 3)..];
        let authority = authority.split(['/', '?', '#']).next().unwrap_or_default();
        if authority.is_empty() {
            return Err(Refused::Malformed("it has no host".to_owned()));
        }
        if authority.contains('@') {
            return Err(Refused::Credentials);
        }
        let port = url.port_or_known_default().unwrap_or(0);
        if port == 0 || (!self.ports.is_empty() && !self.ports.contains(&port)) {
            return Err(Refused::Port(port));
        }
        match url.host() {
            Some(Host::Ipv4(address)) => self.check(IpAddr::V4(address))?,
            Some(Host::Ipv6(address)) => self.check(IpAddr::V6(address))?,
            // RFC 6761: these names are this machine, whatever a resolver says.
            Some(Host::Domain(name)) if is_localhost(name) => self.check(IpAddr::from([127, 0, 0, 1]))?,
            Some(Host::Domain(name)) if bare(name).is_empty() => {
                return Err(Refused::Malformed("it has no host".to_owned()));
            }
            Some(Host::Domain(_)) => {}
            None => return Err(Refused::Malformed("it has no host".to_owned())),
        }
        Ok(url)
    }

    /// Whether this very address may be called.
    pub fn check(&self, address: IpAddr) -> Result<(), Refused> {
        let kind = kind(address);
        let is_loopback = kind == Kind::Private(LOOPBACK);
        let allowed = match kind {
            Kind::Public => true,
            Kind::Never(_) => false,
            Kind::Private(_) => self.private || (self.loopback && is_loopback) || self.is_named(address),
            Kind::Special(_) => self.is_named(address),
        };
        if allowed { Ok(()) } else { Err(Refused::Address(RefusedAddress { address, kind })) }
    }

    /// Whether the operator named a network that it is in; one that carries an IPv4 address is in that one's.
    fn is_named(&self, address: IpAddr) -> bool {
        let inner = match address {
            IpAddr::V6(address) => carried(address).map(IpAddr::V4),
            IpAddr::V4(_) => None,
        };
        self.networks.iter().any(|network| network.contains(inner.unwrap_or(address)))
    }
}

const LOOPBACK: &str = "a loopback address";

/// Scheme, host and port, always spelled the same: what caps, breakers, metrics and lines go by.
fn origin(url: &Url) -> Result<String, Refused> {
    let host = url.host_str().ok_or_else(|| Refused::Malformed("it has no host".to_owned()))?;
    let port = url.port_or_known_default().unwrap_or(0);
    Ok(format!("{}://{}:{port}", url.scheme(), bare(host)))
}

/// A name without the dot that says that it is whole.
fn bare(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}

fn is_localhost(name: &str) -> bool {
    let name = bare(name).to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}
