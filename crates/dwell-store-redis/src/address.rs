//! Where the engine is: one Redis, a cluster, or sentinels that know the master.

use redis::io::tcp::TcpSettings;
use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion};

/// Where the engine is.
#[derive(Clone, Debug)]
pub enum Address {
    /// One Redis.
    Single(Box<ConnectionInfo>),
    /// Nodes of a cluster to begin with; it tells of the others.
    Cluster(Vec<ConnectionInfo>),
    /// Sentinels, and what to ask them for.
    Sentinel(Box<Sentinels>),
}

/// Sentinels, and what to ask them for.
#[derive(Clone, Debug)]
pub struct Sentinels {
    pub(crate) nodes: Vec<ConnectionInfo>,
    pub(crate) master: String,
    /// Credentials, database and so on of the master; its address is the sentinels' to tell.
    pub(crate) redis: ConnectionInfo,
    pub(crate) tls: bool,
}

/// Why an address was refused, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Nothing we know begins so.
    #[error(
        "is no address of Redis; try redis://host:6379, redis-cluster://host:6379,host2:6379 or \
         redis+sentinel://host:26379/master"
    )]
    Scheme,
    /// The library cannot read it.
    #[error("cannot be read: {0}")]
    Unreadable(String),
    /// Sentinels look after several masters.
    #[error("does not say which master the sentinels look after; end it with /NAME, such as /mymaster")]
    NoMaster,
    /// A cluster has no databases.
    #[error("names a database, which a cluster does not have; leave out what follows the last host")]
    Database,
}

/// Small packets go out at once.
pub(crate) fn tcp() -> TcpSettings {
    TcpSettings::default().set_nodelay(true)
}

impl Address {
    /// Reads `redis://`, `rediss://`, `redis+unix://`, `redis-cluster://`, `rediss-cluster://`, `redis+sentinel://` and
    /// `rediss+sentinel://`. Hosts of the last four are separated by commas; user and password stand before the first.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let (scheme, rest) = text.split_once("://").ok_or(AddressError::Scheme)?;
        match scheme {
            "redis" | "rediss" | "redis+unix" | "unix" => Ok(Self::Single(Box::new(node(text)?))),
            "redis-cluster" | "rediss-cluster" => {
                let tls = scheme.starts_with("rediss");
                if rest.contains('/') {
                    return Err(AddressError::Database);
                }
                Ok(Self::Cluster(hosts(rest, tls, 6379)?))
            }
            "redis+sentinel" | "rediss+sentinel" => sentinels(rest, scheme.starts_with("rediss")),
            _ => Err(AddressError::Scheme),
        }
    }

    /// The address as it may be shown: without password.
    pub fn shown(&self) -> String {
        let list =
            |nodes: &[ConnectionInfo]| nodes.iter().map(|node| node.addr().to_string()).collect::<Vec<_>>().join(",");
        match self {
            Self::Single(node) => format!("redis at {}", node.addr()),
            Self::Cluster(nodes) => format!("redis cluster at {}", list(nodes)),
            Self::Sentinel(sentinels) => {
                format!("redis master {} of sentinels at {}", sentinels.master, list(&sentinels.nodes))
            }
        }
    }
}

fn sentinels(rest: &str, tls: bool) -> Result<Address, AddressError> {
    let (nodes, path) = rest.split_once('/').ok_or(AddressError::NoMaster)?;
    let (master, database) = path.split_once('/').unwrap_or((path, "0"));
    if master.is_empty() {
        return Err(AddressError::NoMaster);
    }
    // User and password are those of the master; sentinels are asked without.
    let (credentials, bare) = nodes.rsplit_once('@').map_or(("", nodes), |(user, bare)| (user, bare));
    let at = if credentials.is_empty() { String::new() } else { format!("{credentials}@") };
    let redis = node(&format!("redis://{at}localhost/{database}"))?;
    let nodes = hosts(bare, tls, 26_379)?;
    Ok(Address::Sentinel(Box::new(Sentinels { nodes, master: master.to_owned(), redis, tls })))
}

/// Hosts separated by commas; user and password before the first are for all.
fn hosts(text: &str, tls: bool, port: u16) -> Result<Vec<ConnectionInfo>, AddressError> {
    let (credentials, hosts) =
        text.rsplit_once('@').map_or((String::new(), text), |(user, hosts)| (format!("{user}@"), hosts));
    let scheme = if tls { "rediss" } else { "redis" };
    let with_port = |host: &str| {
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        if has_port { host.to_owned() } else { format!("{host}:{port}") }
    };
    hosts.split(',').map(|host| node(&format!("{scheme}://{credentials}{}", with_port(host)))).collect()
}

fn node(url: &str) -> Result<ConnectionInfo, AddressError> {
    let wrong = |error: redis::RedisError| AddressError::Unreadable(error.to_string());
    let info = url.into_connection_info().map_err(wrong)?;
    if let ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } = info.addr()
        && host.is_empty()
    {
        return Err(AddressError::Scheme);
    }
    let redis = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
    Ok(info.set_redis_settings(redis).set_tcp_settings(tcp()))
}
