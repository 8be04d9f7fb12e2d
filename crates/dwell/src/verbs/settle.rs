//! Settling leases, for `ack` and `nack`.

use dwell_wire::Code as Api;
use dwell_wire::settle::{ItemResult, SettleItem, SettleItems, Terms, Verb};
use serde::Serialize;

use super::server::Server;
use crate::exit::{Exit, of_problem};
use crate::output;

/// Items of one request.
const BATCH: usize = 10_000;

#[derive(Serialize)]
struct Settled<'a> {
    token: &'a str,
    verb: Verb,
    #[serde(flatten)]
    result: &'a ItemResult,
}

/// Settles every token; those that could not be settled are named, and the first of them gives the exit code.
pub(super) async fn settle(server: &Server, tokens: &[String], verb: Verb, terms: &Terms<'_>) -> Result<(), Exit> {
    let client = server.client()?;
    let (mut done, mut failed, mut first) = (0_usize, Vec::new(), None);
    for tokens in tokens.chunks(BATCH) {
        let item = |token: &String| SettleItem { token: token.clone().into(), verb, terms: terms.clone() };
        let results = client.settle(&SettleItems { items: tokens.iter().map(item).collect() }).await?;
        for (token, result) in tokens.iter().zip(&results) {
            if server.json {
                output::object(&Settled { token, verb, result })?;
            }
            match &result.code {
                None => done += 1,
                Some(code) => {
                    first = first.or(Some(*code));
                    failed.push(format!("{token}: {}", result.detail.as_deref().unwrap_or(code.title())));
                }
            }
        }
    }
    if done > 0 && !server.json {
        let jobs = if done == 1 { "job" } else { "jobs" };
        output::line(&format!("{}ed {done} {jobs}", verb.name()))?;
    }
    match first {
        None => Ok(()),
        Some(code) => Err(refused(code, &failed)),
    }
}

fn refused(code: Api, failed: &[String]) -> Exit {
    Exit::new(of_problem(code), failed.join("\ndwell: "))
}
