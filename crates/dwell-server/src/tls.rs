//! TLS: the certificate that a server shows. It can be replaced while the server runs; connections that are there go on.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// A client must have shaken hands within this.
const HANDSHAKE: Duration = Duration::from_secs(15);

/// The protocols of HTTP, best first.
const OVER_HTTP: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// What a server shows its clients. Clones show the same.
#[derive(Clone)]
pub struct Tls(Arc<RwLock<Arc<ServerConfig>>>);

impl Tls {
    /// For HTTP: with the certificate chain and the private key of these PEM files.
    pub fn for_http(certificate: &Path, key: &Path) -> Result<Self, BadTls> {
        let mut config = with_identity(builder().with_no_client_auth(), certificate, key)?;
        config.alpn_protocols = OVER_HTTP.map(<[u8]>::to_vec).to_vec();
        Ok(Self::new(config))
    }

    /// For clients that show a certificate of their own, signed by one in the PEM file `clients`.
    pub fn for_known_clients(certificate: &Path, key: &Path, clients: &Path) -> Result<Self, BadTls> {
        let mut roots = RootCertStore::empty();
        for root in certificates(clients)? {
            roots.add(root).map_err(|error| BadTls::new(clients, &error))?;
        }
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::new(default_provider()));
        let verifier = verifier.build().map_err(|error| BadTls::new(clients, &error))?;
        Ok(Self::new(with_identity(builder().with_client_cert_verifier(verifier), certificate, key)?))
    }

    fn new(config: ServerConfig) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(config))))
    }

    /// From now on new connections see what `other` shows.
    pub fn replace(&self, other: &Self) {
        let config = other.config();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = config;
    }

    fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Shakes hands; `None` if the client does not, which is its own affair.
    pub(crate) async fn accept(&self, stream: TcpStream) -> Option<TlsStream<TcpStream>> {
        match timeout(HANDSHAKE, TlsAcceptor::from(self.config()).accept(stream)).await {
            Ok(Ok(stream)) => Some(stream),
            Ok(Err(error)) => {
                tracing::debug!(%error, "a TLS handshake failed");
                None
            }
            Err(_) => None,
        }
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

type Builder<S> = rustls::ConfigBuilder<ServerConfig, S>;

fn builder() -> Builder<rustls::WantsVerifier> {
    let builder = ServerConfig::builder_with_provider(Arc::new(default_provider()));
    builder.with_safe_default_protocol_versions().expect("the provider has what TLS 1.2 and 1.3 need")
}

fn with_identity(
    builder: Builder<rustls::server::WantsServerCert>,
    certificate: &Path,
    key: &Path,
) -> Result<ServerConfig, BadTls> {
    let chain = certificates(certificate)?;
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| BadTls::new(key, &error))?;
    builder.with_single_cert(chain, secret).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => {
            BadTls { path: key.to_owned(), reason: format!("is not the key of {}", certificate.display()) }
        }
        error => BadTls::new(certificate, &error),
    })
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, BadTls> {
    let wrong = |error| BadTls::new(path, &error);
    let found = CertificateDer::pem_file_iter(path).map_err(wrong)?.collect::<Result<Vec<_>, _>>().map_err(wrong)?;
    if found.is_empty() {
        return Err(BadTls { path: path.to_owned(), reason: "has no certificate in it".to_owned() });
    }
    Ok(found)
}

/// A file that cannot be used, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {reason}", path.display())]
pub struct BadTls {
    /// Which file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub reason: String,
}

impl BadTls {
    fn new(path: &Path, error: &dyn fmt::Display) -> Self {
        Self { path: path.to_owned(), reason: error.to_string() }
    }
}
