//! What the server says when it is up, on standard output.

use std::io::{Write as _, stdout};

use dwell_core::Store;
use tokio::net::TcpListener;

use super::listen::BeanstalkPlace;
use super::settings::{Mode, Settings, StoreChoice};
use crate::exit::Exit;

/// Prints addresses, data directory, promise, access and a line to try.
pub(super) async fn print(
    settings: &Settings,
    listener: Option<&TcpListener>,
    beanstalk: Option<&BeanstalkPlace>,
    store: &dyn Store,
) -> Result<(), Exit> {
    let address = listener.map(TcpListener::local_addr).transpose();
    let address = address.map_err(|error| Exit::failure(format!("cannot tell the address: {error}")))?;
    let scheme = if settings.tls.is_some() { "https" } else { "http" };
    let url = address.map(|address| format!("{scheme}://{address}"));
    let status = store.status().await.map_err(Exit::failure)?;
    let mut lines = vec![format!("Dwell {}", env!("CARGO_PKG_VERSION"))];
    lines.extend(url.as_ref().map(|url| format!("  address     {url}   (docs: {url}/docs)")));
    let over_tls = if is_over_tls(settings, beanstalk) { "   (TLS)" } else { "" };
    lines.extend(beanstalk.map(|place| format!("  beanstalk   {}{over_tls}", place.shown)));
    lines.push(format!("  data        {}", data(settings)));
    lines.push(format!("  durability  {}", status.promise));
    lines.push(format!("  access      {}", access(settings, beanstalk)));
    lines.extend(settings.otlp_endpoint.as_ref().map(|endpoint| format!("  traces      {endpoint}")));
    lines.extend(url.as_ref().and_then(|url| clock(settings, url)));
    lines.extend(status.troubles.iter().map(|trouble| format!("  note        {trouble}")));
    lines.push(format!("  try         {}", something_to_try(settings, url.as_deref(), beanstalk)));
    // Whoever started the server may not be listening; that is no reason not to serve.
    drop(writeln!(stdout(), "{}", lines.join("\n")));
    Ok(())
}

fn data(settings: &Settings) -> String {
    match &settings.store {
        StoreChoice::Directory(directory) => {
            let shown = std::fs::canonicalize(directory).unwrap_or_else(|_| directory.clone());
            let note = if settings.mode == Mode::Dev { " (removed at the end)" } else { "" };
            format!("{}{note}", shown.display())
        }
        StoreChoice::Memory => "in memory".to_owned(),
        StoreChoice::Redis(address) => {
            let place = dwell_store_redis::Address::parse(address).map(|address| address.shown());
            format!("{}, keys {}:*", place.unwrap_or_default(), settings.redis_prefix)
        }
    }
}

fn clock(settings: &Settings, url: &str) -> Option<String> {
    let how = match settings.mode {
        Mode::Dev => "can be moved",
        _ if settings.dev_clock => "stands still until it is moved",
        _ => return None,
    };
    Some(format!("  clock       {how}: POST {url}/v1/dev/clock"))
}

/// A socket in the file system is never served over TLS.
fn is_over_tls(settings: &Settings, beanstalk: Option<&BeanstalkPlace>) -> bool {
    settings.beanstalk_tls.is_some() && beanstalk.is_some_and(|place| !place.shown.starts_with("unix:"))
}

fn access(settings: &Settings, beanstalk: Option<&BeanstalkPlace>) -> &'static str {
    if is_over_tls(settings, beanstalk) {
        return if settings.tokens.is_empty() {
            "everyone on this machine; over beanstalk whoever has a certificate"
        } else {
            "whoever shows a token; over beanstalk whoever has a certificate"
        };
    }
    let reach = (settings.tokens.is_empty(), beanstalk.is_some(), settings.beanstalk_insecure);
    match reach {
        (_, true, true) => "everyone who can reach the beanstalk address: the protocol knows no credentials",
        (true, ..) if settings.listen.is_none() => "everyone on this machine",
        (true, ..) => "everyone on this machine; --token sets a token",
        (false, false, _) => "whoever shows a token",
        (false, true, false) => "whoever shows a token; over beanstalk everyone on this machine",
    }
}

fn something_to_try(settings: &Settings, url: Option<&str>, beanstalk: Option<&BeanstalkPlace>) -> String {
    match (url, beanstalk) {
        (None, Some(place)) => {
            let nc = match place.shown.strip_prefix("unix:") {
                Some(path) => format!("nc -U {path}"),
                None => format!("nc {}", place.shown.replace(':', " ")),
            };
            format!("printf 'put 0 5 60 2\\r\\nhi\\r\\nquit\\r\\n' | {nc}")
        }
        (url, _) => {
            let (url, token) = (url.unwrap_or_default(), " -H \"authorization: Bearer $DWELL_TOKEN\"");
            let header = if settings.tokens.is_empty() { "" } else { token };
            format!(
                "curl -X PUT{header} -H 'content-type: application/json' {url}/v1/topics/hello/jobs/first -d '{{\"delay\": \"5s\", \"body\": \"hi\"}}'"
            )
        }
    }
}
