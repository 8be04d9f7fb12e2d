//! Who is called, and with what credential.

use std::net::IpAddr;
use std::time::Duration;

use reqwest::header::HeaderValue;
use reqwest::{Certificate, Url, redirect};

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(10);

/// A Dwell server. Clones share their connections.
#[derive(Clone, Debug)]
pub struct Client {
    pub(crate) http: reqwest::Client,
    pub(crate) url: String,
    pub(crate) authorization: Option<HeaderValue>,
}

/// Why there cannot be a client of such a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadServer {
    /// The address makes no sense.
    #[error("\"{url}\" is not the address of a server: {reason}; try \"http://127.0.0.1:3935\"")]
    Url {
        /// What was given.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The token cannot be sent.
    #[error("the token must be printable ASCII")]
    Token,
    /// What the server's certificate is to be signed by makes no sense.
    #[error("the certificates to trust cannot be used: {0}")]
    Ca(String),
    /// The system lacks what is needed for TLS.
    #[error("cannot speak TLS: {0}")]
    Tls(String),
}

impl Client {
    /// A client of the server at `url` (`http://127.0.0.1:3935`) that shows `token`, if there is one. It connects when
    /// it is first used.
    pub fn new(url: &str, token: Option<&str>) -> Result<Self, BadServer> {
        Self::trusting(url, token, None)
    }

    /// The same, of a server with a certificate that one in `ca` (PEM) has signed; `None`: one that the system trusts.
    pub fn trusting(url: &str, token: Option<&str>, ca: Option<&[u8]>) -> Result<Self, BadServer> {
        let parsed = check(url).map_err(|reason| BadServer::Url { url: url.to_owned(), reason })?;
        let mut http = reqwest::Client::builder()
            .connect_timeout(CONNECT)
            .redirect(redirect::Policy::none())
            .tcp_nodelay(true)
            .user_agent(concat!("dwell-client/", env!("CARGO_PKG_VERSION")));
        if parsed.scheme() == "http" {
            // Reading the system's certificates takes a while, and fails where there are none.
            http = http.tls_certs_only([]);
        } else if let Some(ca) = ca {
            let roots =
                Certificate::from_pem_bundle(ca).map_err(|error| BadServer::Ca(crate::error::deepest(&error)))?;
            if roots.is_empty() {
                return Err(BadServer::Ca("there is no certificate in it".to_owned()));
            }
            http = http.tls_certs_only(roots);
        }
        if is_this_machine(&parsed) {
            http = http.no_proxy();
        }
        let http = http.build().map_err(|error| BadServer::Tls(crate::error::deepest(&error)))?;
        let authorization = token.map(bearer).transpose()?;
        Ok(Self { http, url: parsed.as_str().trim_end_matches('/').to_owned(), authorization })
    }

    /// The server's address.
    pub fn url(&self) -> &str {
        &self.url
    }
}

fn check(url: &str) -> Result<Url, String> {
    let parsed = Url::parse(url).map_err(|error| error.to_string())?;
    let wrong = match &parsed {
        url if !["http", "https"].contains(&url.scheme()) => "it must start with http:// or https://",
        url if url.query().is_some() || url.fragment().is_some() => "it must not have a query",
        url if !url.username().is_empty() || url.password().is_some() => "a user cannot log in; show a token instead",
        _ => return Ok(parsed),
    };
    Err(wrong.to_owned())
}

/// Whether no proxy can be on the way.
fn is_this_machine(url: &Url) -> bool {
    url.host_str().is_some_and(|host| {
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    })
}

fn bearer(token: &str) -> Result<HeaderValue, BadServer> {
    let mut header = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| BadServer::Token)?;
    header.set_sensitive(true);
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_taken_with_or_without_a_slash_at_its_end() {
        for url in ["http://127.0.0.1:3935", "http://127.0.0.1:3935/"] {
            assert_eq!(Client::new(url, None).unwrap().url(), "http://127.0.0.1:3935");
        }
        assert_eq!(Client::new("http://example.org/dwell/", None).unwrap().url(), "http://example.org/dwell");
    }

    #[test]
    fn what_is_no_address_is_refused_with_its_reason() {
        for (url, reason) in [
            ("127.0.0.1:3935", "relative URL without a base"),
            ("localhost:3935", "it must start with http:// or https://"),
            ("ftp://localhost", "it must start with http:// or https://"),
            ("http://", "empty host"),
            ("http://localhost/?a=b", "it must not have a query"),
            ("http://me:secret@localhost", "a user cannot log in; show a token instead"),
        ] {
            let refused = Client::new(url, None).unwrap_err();
            assert_eq!(refused, BadServer::Url { url: url.to_owned(), reason: reason.to_owned() });
        }
        assert_eq!(Client::new("http://localhost", Some("a\nb")).unwrap_err(), BadServer::Token);
    }

    #[test]
    fn a_token_is_not_shown() {
        let client = Client::new("http://localhost", Some("secret")).unwrap();
        assert!(!format!("{client:?}").contains("secret"));
    }

    #[test]
    fn no_proxy_is_on_the_way_to_this_machine() {
        for (url, is) in [
            ("http://localhost:1", true),
            ("http://127.1.2.3", true),
            ("http://[::1]:3935", true),
            ("http://10.0.0.1", false),
            ("http://example.org", false),
        ] {
            assert_eq!(is_this_machine(&Url::parse(url).unwrap()), is, "{url}");
        }
    }
}
