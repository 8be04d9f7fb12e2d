//! What the server says when it is up, on standard output.

use std::io::{Write as _, stdout};

use dwell_core::Store;
use tokio::net::TcpListener;

use super::settings::{Settings, StoreChoice};
use crate::exit::Exit;

/// Prints addresses, data directory, promise, access and a line to try.
pub(super) async fn print(settings: &Settings, listener: &TcpListener, store: &dyn Store) -> Result<(), Exit> {
    let address = listener.local_addr().map_err(|error| Exit::failure(format!("cannot tell the address: {error}")))?;
    let url = format!("http://{address}");
    let status = store.status().await.map_err(Exit::failure)?;
    let data = match &settings.store {
        StoreChoice::Directory(directory) => {
            let shown = std::fs::canonicalize(directory).unwrap_or_else(|_| directory.clone());
            let note = if settings.is_dev { " (removed at the end)" } else { "" };
            format!("{}{note}", shown.display())
        }
        StoreChoice::Memory => "in memory".to_owned(),
    };
    let (access, header) = if settings.tokens.is_empty() {
        ("everyone on this machine; --token sets a token", "")
    } else {
        ("whoever shows a token", " -H \"authorization: Bearer $DWELL_TOKEN\"")
    };
    let mut lines = vec![
        format!("Dwell {}", env!("CARGO_PKG_VERSION")),
        format!("  address     {url}   (docs: {url}/docs)"),
        format!("  data        {data}"),
        format!("  durability  {}", status.promise),
        format!("  access      {access}"),
    ];
    if settings.dev_clock {
        lines.push(format!("  clock       can be moved: POST {url}/v1/dev/clock"));
    }
    lines.extend(status.troubles.iter().map(|trouble| format!("  note        {trouble}")));
    lines.push(format!(
        "  try         curl -X PUT{header} -H 'content-type: application/json' {url}/v1/topics/hello/jobs/first -d '{{\"delay\": \"5s\", \"body\": \"hi\"}}'"
    ));
    // Whoever started the server may not be listening; that is no reason not to serve.
    drop(writeln!(stdout(), "{}", lines.join("\n")));
    Ok(())
}
