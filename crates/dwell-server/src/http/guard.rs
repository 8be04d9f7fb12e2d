//! Keeping other web sites out.
//!
//! A server without tokens trusts whoever reaches it, so a page from anywhere must not be able to reach it through a
//! visitor's browser: neither by a name that was pointed at this machine (`Host`) nor from a page of another site
//! (`Origin`). With tokens only a browser that remembers one as a password could be misused so.

use axum::body::Body;
use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, Request};
use dwell_wire::Code;

use super::answer::Failure;
use super::auth;
use crate::auth::Tokens;

/// Refuses a request that may come from another web site.
pub(super) fn check(tokens: &Tokens, request: &Request<Body>) -> Result<(), Failure> {
    let host = request.uri().authority().map(axum::http::uri::Authority::as_str);
    let host = host.or_else(|| text(request.headers(), HOST.as_str()));
    if tokens.is_empty()
        && let Some(host) = host
        && !is_local(name_of(host))
    {
        let detail = format!(
            "this server has no token and takes requests for localhost only, not for \"{host}\"; \
             start it with --token to open it to others"
        );
        return Err(Failure::new(Code::Forbidden, detail));
    }
    if auth::is_bearer(request.headers()) && !tokens.is_empty() {
        return Ok(());
    }
    let cross_site = text(request.headers(), "sec-fetch-site").is_some_and(|site| site == "cross-site");
    let foreign = text(request.headers(), ORIGIN.as_str()).is_some_and(|origin| !is_same(origin, host));
    if cross_site || foreign {
        return Err(Failure::new(Code::Forbidden, "requests from pages of other web sites are refused"));
    }
    Ok(())
}

/// A header as text; one that is no text is foreign to everything.
fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().unwrap_or(""))
}

/// Whether a page at `origin` is one of this very server.
fn is_same(origin: &str, host: Option<&str>) -> bool {
    let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    authority.is_some() && authority == host
}

/// A host without its port.
fn name_of(host: &str) -> &str {
    if host.starts_with('[') {
        return host.split_inclusive(']').next().unwrap_or(host);
    }
    host.rsplit_once(':').map_or(host, |(name, _)| name)
}

fn is_local(name: &str) -> bool {
    let name = name.trim_end_matches('.');
    let address = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost")
        || name.to_ascii_lowercase().ends_with(".localhost")
        || address.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_local() {
        for host in
            ["localhost", "LOCALHOST:3935", "127.0.0.1:3935", "127.9.9.9", "[::1]:80", "[::1]", "dwell.localhost:1"]
        {
            assert!(is_local(name_of(host)), "{host}");
        }
        for host in
            ["example.com", "127.0.0.1.example.com", "localhost.example.com:3935", "10.0.0.1", "0.0.0.0", "", "[::2]:1"]
        {
            assert!(!is_local(name_of(host)), "{host}");
        }
    }

    #[test]
    fn a_page_is_ours_only_from_our_own_host_and_port() {
        assert!(is_same("http://127.0.0.1:3935", Some("127.0.0.1:3935")));
        for origin in ["null", "http://127.0.0.1:8080", "http://evil.example", "127.0.0.1:3935", ""] {
            assert!(!is_same(origin, Some("127.0.0.1:3935")), "{origin}");
        }
        assert!(!is_same("http://127.0.0.1", None));
    }
}
