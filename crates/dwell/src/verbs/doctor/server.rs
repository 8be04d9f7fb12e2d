//! Whether a server answers, what it says of itself, and who else it answers.

use std::time::SystemTime;

use dwell_client::Client;
use dwell_wire::server::{HealthStatus, Info};

use super::Finding;
use crate::exit::{Code, Exit};
use crate::output;
use crate::verbs::clock::Clock;
use crate::verbs::server::Server;

/// Milliseconds that clocks may be apart before someone looks at them.
const APART: u64 = 1_000;

pub(super) async fn check(server: &Server) -> Result<Vec<Finding>, Exit> {
    let client = server.client()?;
    let info = match client.info().await {
        Ok(info) => info,
        Err(error) => return Ok(vec![Finding::of("server", Err(error.to_string()))]),
    };
    let mut findings =
        vec![Finding::of("server", Ok(format!("Dwell {} at {}", info.version, client.url()))), store(&info)];
    findings.extend(readiness(&client).await);
    findings.push(clock(&client).await);
    findings.push(exposure(server).await?);
    Ok(findings)
}

fn store(info: &Info) -> Finding {
    let said = format!("{}: {}", info.store, info.durability);
    // What a store on an engine promises depends on that engine's settings, which the server looked at when it started.
    if info.store == "memory" { Finding::note("store", said) } else { Finding::of("store", Ok(said)) }
}

async fn readiness(client: &Client) -> Vec<Finding> {
    match client.readiness().await {
        Err(error) => vec![Finding::of("ready", Err(error.to_string()))],
        Ok(health) if health.status == HealthStatus::Failing => {
            vec![Finding::of("ready", Err(health.reasons.join("; ")))]
        }
        Ok(health) if health.reasons.is_empty() => vec![Finding::of("ready", Ok("it takes work".to_owned()))],
        Ok(health) => health.reasons.into_iter().map(|reason| Finding::note("ready", reason)).collect(),
    }
}

/// The server's clock beside this machine's. The way of the answer makes the server look behind, never ahead.
async fn clock(client: &Client) -> Finding {
    let there = match Clock::read(client).await {
        Ok(clock) => clock.micros() / 1_000,
        Err(_) => return Finding::of("clock", Err("the server does not tell its time".to_owned())),
    };
    let apart = there.abs_diff(here());
    let said = format!("it is {} there", dwell_wire::Instant(there));
    if apart <= APART {
        return Finding::of("clock", Ok(format!("{said}, as here")));
    }
    let which = if there > here() { "ahead of" } else { "behind" };
    let wrong = format!("{said}, {} {which} this machine; set the clocks of both by NTP", output::span(apart));
    Finding::of("clock", Err(wrong))
}

#[expect(clippy::disallowed_methods, reason = "this machine's clock is what is looked at")]
fn here() -> u64 {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX)
}

/// Who can talk to it, as far as that can be seen from here.
async fn exposure(server: &Server) -> Result<Finding, Exit> {
    let nobody = Client::new(&server.url, None).map_err(|error| Exit::new(Code::Usage, error))?;
    let open = nobody.info().await.is_ok();
    let host = server.url.split_once("://").map_or("", |(_, rest)| rest);
    let is_local = ["127.", "localhost", "[::1]"].iter().any(|local| host.starts_with(local));
    Ok(match (open, is_local, server.url.starts_with("https://")) {
        (true, true, _) => Finding::of("exposure", Ok("it needs no token, at an address of this machine".to_owned())),
        (true, false, _) => {
            let wrong = "it needs no token, at an address that other machines may reach; start it with --token";
            Finding::of("exposure", Err(wrong.to_owned()))
        }
        (false, false, false) => {
            let wrong = "tokens and bodies travel in the clear; use https://, through a proxy or a tunnel";
            Finding::of("exposure", Err(wrong.to_owned()))
        }
        (false, ..) => Finding::of("exposure", Ok("it needs a token".to_owned())),
    })
}
