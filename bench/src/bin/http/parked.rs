//! What a parked consumer costs.

use std::path::Path;
use std::time::Duration;

use dwell_bench::Outcome;
use dwell_bench::http::{Connection, request};
use dwell_bench::program::print;
use dwell_bench::server::Server;
use tokio::runtime::Builder;

use crate::Args;

/// Parks consumers, one connection each, and says how much larger the server became.
pub(crate) fn measure(args: &Args, binary: &Path) -> Outcome<()> {
    let directory = tempfile::tempdir_in(&args.directory)?;
    let server = Server::start(binary, directory.path(), &[])?;
    let before = server.memory()?;
    let request = request("POST", "/v1/topics/parked/lease", "{\"wait\": \"60s\"}");
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let after = runtime.block_on(async {
        let mut connections = Vec::with_capacity(args.parked);
        for _ in 0..args.parked {
            let mut connection = Connection::open(&server.address).await?;
            connection.send(request.as_bytes()).await?;
            connections.push(connection);
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
        server.memory()
    })?;
    server.stop()?;
    let each = (after - before) * 1_024 / args.parked as u64;
    print(&format!(
        "\n{} parked consumers, one connection each: {} MiB, {each} bytes each",
        args.parked,
        (after - before) >> 10
    ))
}
