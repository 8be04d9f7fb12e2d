//! Calls of the HTTP API that several programs make: puts in batches, leases, acks.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::Outcome;
use crate::http::{Connection, each, request};

/// What ends a drain: everything has been consumed.
const DONE: &str = "done";

/// So many jobs of the topic `orders`, from this number on, due as `when` says.
pub fn put_batch(first: usize, jobs: usize, when: &str, body: &str) -> String {
    let mut json = "{\"jobs\":[".to_owned();
    for number in first..first + jobs {
        let comma = if number == first { "" } else { "," };
        let _ = write!(json, "{comma}{{\"topic\":\"orders\",\"id\":\"order-{number:08}\",{when},\"body\":\"{body}\"}}");
    }
    json.push_str("]}");
    request("POST", "/v1/jobs", &json)
}

/// Leases up to so many of them; the tokens.
pub async fn lease(connection: &mut Connection, most: usize) -> Result<Vec<String>, String> {
    let lease = request("POST", "/v1/topics/orders/lease", &format!("{{\"max\":{most},\"wait\":\"5s\"}}"));
    let answer = connection.exchange(lease.as_bytes(), b"HTTP/1.1 200").await?;
    let tokens = String::from_utf8_lossy(answer);
    let tokens = tokens.split("\"token\":\"").skip(1).filter_map(|rest| rest.split('"').next()).map(str::to_owned);
    Ok(tokens.collect())
}

/// Acks all of these, none of which may be refused.
pub async fn ack(connection: &mut Connection, tokens: &[String]) -> Result<(), String> {
    let mut json = "{\"items\":[".to_owned();
    for (k, token) in tokens.iter().enumerate() {
        let _ = write!(json, "{}{{\"token\":\"{token}\",\"verb\":\"ack\"}}", if k == 0 { "" } else { "," });
    }
    json.push_str("]}");
    let answer = connection.exchange(request("POST", "/v1/settle", &json).as_bytes(), b"HTTP/1.1 200").await?;
    let lost = String::from_utf8_lossy(answer).matches("\"code\"").count();
    if lost == 0 { Ok(()) } else { Err(format!("{lost} acks were refused")) }
}

/// Leases and acks so many jobs, up to `most` at a time on each connection.
pub fn drain(addresses: &[&str], connections: usize, jobs: usize, most: usize) -> Outcome<()> {
    let left = Arc::new(AtomicUsize::new(jobs));
    let drained = each(addresses, connections, usize::MAX, move |mut connection, _| {
        let left = Arc::clone(&left);
        async move {
            let tokens = lease(&mut connection, most).await?;
            if tokens.is_empty() {
                return Ok(connection);
            }
            ack(&mut connection, &tokens).await?;
            let before = left.fetch_sub(tokens.len(), Ordering::SeqCst);
            if before == tokens.len() { Err(DONE.to_owned()) } else { Ok(connection) }
        }
    });
    drained.or_else(|error| if error.to_string() == DONE { Ok(()) } else { Err(error) })
}
