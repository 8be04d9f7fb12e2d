//! The addresses that the server listens on.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};

use dwell_server::beanstalk::Listener;
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::net::{TcpListener, TcpSocket, UnixListener, lookup_host};

use super::settings::{BeanstalkAddress, Mode, Settings};
use crate::exit::{Code, Exit};

/// File handles beside those of connections: the store's, and those of deliveries under way and of connections to targets
/// that are kept for a moment.
const OTHER_HANDLES: u64 = 2_304;

/// Bytes of answers that the system keeps for a client that does not read, or about twice as many: enough for 10 MB a second to
/// a client 25 ms away. Left to itself it takes 4 MB for each, and a server is kept busy for as long as that lasts.
const UNREAD: u32 = 256 << 10;

/// Connections that may wait to be accepted.
const BACKLOG: u32 = 1_024;

/// Where beanstalk clients look unless they are told otherwise.
const BEANSTALK: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 11_300);

/// Binds the address of HTTP, unless that would open the server to the world without a credential.
pub(super) async fn bind(settings: &Settings) -> Result<Option<TcpListener>, Exit> {
    let Some(address) = &settings.listen else { return Ok(None) };
    let found = look_up(address).await?;
    if let Some(open) = reachable(&found).filter(|_| settings.tokens.is_empty()) {
        let message = format!(
            "{open} can be reached from other machines, and no token is set: everyone could read and change \
             all jobs.\n       Set a token:\n\n         dwell serve --listen {address} --token \"$(openssl rand -hex 24)\"\n\n       \
             or listen on this machine only: --listen 127.0.0.1:{}",
            open.port(),
        );
        return Err(Exit::new(Code::BadConfiguration, message));
    }
    listen(&found).map(Some).map_err(|error| cannot_listen(address, &error))
}

/// Listens on the first of these addresses that is to be had.
fn listen(found: &[SocketAddr]) -> io::Result<TcpListener> {
    let mut refused = io::Error::from(ErrorKind::AddrNotAvailable);
    for address in found {
        match listen_on(*address) {
            Ok(listener) => return Ok(listener),
            Err(error) => refused = error,
        }
    }
    Err(refused)
}

/// What is set here, every connection that is accepted has, too.
fn listen_on(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A server that is started again need not wait for the connections of the one before.
    socket.set_reuseaddr(true)?;
    socket.set_send_buffer_size(UNREAD)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// A place where the beanstalk protocol is served. A socket in the file system is removed with it.
pub(super) struct BeanstalkPlace {
    /// What a client is told.
    pub(super) shown: String,
    socket: Option<PathBuf>,
}

impl Drop for BeanstalkPlace {
    fn drop(&mut self) {
        if let Some(path) = &self.socket {
            drop(std::fs::remove_file(path));
        }
    }
}

/// Binds the address of the beanstalk protocol, unless that would open it to the world by mistake.
pub(super) async fn bind_beanstalk(settings: &Settings) -> Result<Option<(Listener, BeanstalkPlace)>, Exit> {
    let listener = match &settings.beanstalk {
        None => return Ok(None),
        Some(BeanstalkAddress::Unix(path)) => return bind_unix(path).map(Some),
        Some(BeanstalkAddress::AnyOfThisMachine) => {
            let any = SocketAddr::from(([127, 0, 0, 1], 0));
            listen(&[BEANSTALK, any]).map_err(|error| cannot_listen(&BEANSTALK.to_string(), &error))?
        }
        Some(BeanstalkAddress::Tcp(address)) => {
            let found = look_up(address).await?;
            if let Some(open) =
                reachable(&found).filter(|_| !settings.beanstalk_insecure && settings.beanstalk_tls.is_none())
            {
                return Err(Exit::new(Code::BadConfiguration, open_beanstalk(settings, address, open)));
            }
            listen(&found).map_err(|error| cannot_listen(address, &error))?
        }
    };
    let shown = listener.local_addr().map_err(|error| Exit::failure(format!("cannot tell the address: {error}")))?;
    Ok(Some((Listener::Tcp(listener), BeanstalkPlace { shown: shown.to_string(), socket: None })))
}

fn open_beanstalk(settings: &Settings, address: &str, open: &SocketAddr) -> String {
    let (command, host) = if settings.mode == Mode::Beanstalkd {
        let (host, port) = address.rsplit_once(':').unwrap_or((address, "11300"));
        (format!("dwell beanstalkd -l {host} -p {port} --beanstalk-insecure"), "-l 127.0.0.1".to_owned())
    } else {
        let host = format!("--beanstalk 127.0.0.1:{}", open.port());
        (format!("dwell serve --beanstalk {address} --beanstalk-insecure"), host)
    };
    format!(
        "{open} can be reached from other machines, and the beanstalk protocol knows no credentials: everyone could \
         read and change all jobs.\n       If that is what you want, say so:\n\n         {command}\n\n       \
         or serve clients with a certificate alone: --tls-cert, --tls-key and --beanstalk-client-ca;\n       \
         or listen on this machine only: {host}"
    )
}

fn bind_unix(path: &Path) -> Result<(Listener, BeanstalkPlace), Exit> {
    let cannot = |error: &io::Error| cannot_listen(&format!("unix:{}", path.display()), error);
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    // A socket that a server has left behind when it was killed: nobody is there any more.
    if is_socket && StdUnixStream::connect(path).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused) {
        std::fs::remove_file(path).map_err(|error| cannot(&error))?;
    }
    let listener = UnixListener::bind(path).map_err(|error| cannot(&error))?;
    let place = BeanstalkPlace { shown: format!("unix:{}", path.display()), socket: Some(path.to_owned()) };
    Ok((Listener::Unix(listener), place))
}

async fn look_up(address: &str) -> Result<Vec<SocketAddr>, Exit> {
    Ok(lookup_host(address).await.map_err(|error| cannot_listen(address, &error))?.collect())
}

/// One of these that other machines can reach.
fn reachable(found: &[SocketAddr]) -> Option<&SocketAddr> {
    found.iter().find(|found| !found.ip().is_loopback())
}

/// Whether other machines can reach it.
pub(super) fn is_open(listener: &TcpListener) -> bool {
    listener.local_addr().map_or(true, |address| !address.ip().is_loopback())
}

fn cannot_listen(address: &str, error: &io::Error) -> Exit {
    Exit::failure(format!("cannot listen on {address}: {error}"))
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

#[cfg(test)]
mod tests {
    use tokio::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn a_client_that_does_not_read_is_not_kept_megabytes_for() {
        let listener = listen(&[SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0)]).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        server.writable().await.unwrap();
        let mut taken = 0;
        while let Ok(bytes) = server.try_write(&[7; 10_000]) {
            taken += bytes;
        }
        drop(client);
        assert!((100_000..1_000_000).contains(&taken), "{taken} bytes");
    }
}
