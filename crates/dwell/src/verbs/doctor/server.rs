//! Whether a server answers, and what it says of itself.

use dwell_client::Client;

use super::Finding;

pub(super) async fn check(client: &Client) -> Vec<Finding> {
    let info = match client.info().await {
        Ok(info) => info,
        Err(error) => return vec![Finding::of("server", Err(error.to_string()))],
    };
    vec![
        Finding::of("server", Ok(format!("Dwell {} at {}", info.version, client.url()))),
        Finding::of("store", Ok(format!("{}: {}", info.store, info.durability))),
        Finding::of("clock", Ok(format!("it is {} there", info.now))),
    ]
}
