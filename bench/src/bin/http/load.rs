//! Puts, one by one and in batches.

use std::fmt::Write as _;

use dwell_bench::Outcome;
use dwell_bench::http::{request, run};
use dwell_bench::program::seconds;

use crate::Args;

/// Thirty days in milliseconds: what due times are spread over.
const MONTH: u64 = 30 * 24 * 3_600 * 1_000;

/// Connections that send batches: enough to keep the next one ready.
pub(crate) const BATCH_CONNECTIONS: usize = 4;

/// Single durable puts a second.
pub(crate) fn single(args: &Args, address: &str) -> Outcome<f64> {
    let body = "x".repeat(args.body);
    let put = move |number: usize| {
        let json = format!("{{\"delay\":{},\"body\":\"{body}\"}}", spread(number));
        request("PUT", &format!("/v1/topics/orders/jobs/order-{number}"), &json)
    };
    let (count, connections) = (args.single, args.connections);
    let ((), time) = seconds(|| run(&[address], connections, count, put, b"HTTP/1.1 201"))?;
    Ok(count as f64 / time)
}

/// Durable puts a second in batches.
pub(crate) fn batched(args: &Args, address: &str) -> Outcome<f64> {
    let (body, size) = ("x".repeat(args.body), args.batch);
    let put = move |batch: usize| {
        let mut json = String::with_capacity(size * (body.len() + 80));
        json.push_str("{\"jobs\":[");
        for number in batch * size..(batch + 1) * size {
            let comma = if number % size == 0 { "" } else { "," };
            let _ = write!(
                json,
                "{comma}{{\"topic\":\"orders\",\"id\":\"order-{number}\",\"delay\":{},\"body\":\"{body}\"}}",
                spread(number)
            );
        }
        json.push_str("]}");
        request("POST", "/v1/jobs", &json)
    };
    let batches = args.batched / args.batch;
    let ((), time) = seconds(|| run(&[address], BATCH_CONNECTIONS, batches, put, b"HTTP/1.1 200"))?;
    Ok((batches * args.batch) as f64 / time)
}

/// A due time that looks random and is not.
fn spread(number: usize) -> u64 {
    (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) % MONTH
}
