//! Servers on one Redis, over HTTP.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex};

use dwell_bench::Outcome;
use dwell_bench::calls::{ack, drain as drain_all, lease, put_batch};
use dwell_bench::http::{each, request, run};
use dwell_bench::program::{now, seconds, share};
use dwell_bench::redis::Redis;
use dwell_bench::server::Server;

use crate::{Args, Figure, Way, Work};

/// An hour, in milliseconds.
const HOUR: u64 = 3_600_000;
/// Seconds that lateness is measured for.
pub(crate) const PACED: usize = 10;
/// Milliseconds until the first job of it is due.
pub(crate) const AHEAD: u64 = 2_000;

pub(crate) fn start(binary: &Path, redis: &Redis, servers: usize) -> Outcome<Vec<Server>> {
    (0..servers).map(|_| Server::start_on(binary, &redis.url())).collect()
}

/// A text that is a body of so many bytes with its quotes.
fn text(args: &Args) -> String {
    "x".repeat(args.body.saturating_sub(2))
}

fn addresses(servers: &[Server]) -> Vec<&str> {
    servers.iter().map(|server| server.address.as_str()).collect()
}

/// Rates and processor time of so many servers, and calls of scripts a job.
pub(crate) fn measure(
    args: &Args,
    binary: &Path,
    redis: &Redis,
    servers: usize,
    way: Way,
    work: Work,
) -> Outcome<(Figure, f64)> {
    let servers = start(binary, redis, servers)?;
    let addresses = addresses(&servers);
    let cpu = || -> Outcome<(f64, f64)> {
        let mut user = 0.0;
        for server in &servers {
            user += server.cpu()?;
        }
        Ok((redis.cpu()?, user))
    };
    let (before, calls) = (cpu()?, script_calls(redis)?);
    let jobs = way.jobs(args);
    let ((), time) = seconds(|| match (work, way) {
        (Work::Put, Way::Single) => put_single(args, &addresses),
        (Work::Put, Way::Batched) => put_batches(args, &addresses, args.batched, HOUR),
        (Work::Cycle, _) => cycle(args, &addresses, way),
    })?;
    let (after, calls) = (cpu()?, script_calls(redis)? - calls);
    for server in servers {
        server.stop()?;
    }
    redis.ask(&["FLUSHALL"])?;
    let micros = |seconds: f64| seconds * 1e6 / jobs as f64;
    let figure =
        Figure { rate: jobs as f64 / time, redis: micros(after.0 - before.0), user: micros(after.1 - before.1) };
    Ok((figure, calls / jobs as f64))
}

/// How many calls of scripts Redis has had.
fn script_calls(redis: &Redis) -> Outcome<f64> {
    let stats = redis.ask(&["INFO", "commandstats"])?;
    let calls = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    Ok(calls.and_then(|calls| calls.split(',').next()).unwrap_or("0").parse()?)
}

fn put_single(args: &Args, addresses: &[&str]) -> Outcome<()> {
    let json = format!("{{\"delay\":{HOUR},\"body\":\"{}\"}}", text(args));
    let put = move |number: usize| request("PUT", &format!("/v1/topics/orders/jobs/order-{number:08}"), &json);
    run(addresses, args.connections, args.single, put, b"HTTP/1.1 201")
}

pub(crate) fn put_batches(args: &Args, addresses: &[&str], jobs: usize, delay: u64) -> Outcome<()> {
    let (body, size) = (text(args), args.batch);
    let put = move |batch: usize| put_batch(batch * size, size, &format!("\"delay\":{delay}"), &body);
    run(addresses, args.batch_connections, jobs / args.batch, put, b"HTTP/1.1 200")
}

/// Each connection puts jobs due in a millisecond, leases as many and acks them.
fn cycle(args: &Args, addresses: &[&str], way: Way) -> Outcome<()> {
    let (size, connections) =
        if way == Way::Single { (1, args.connections) } else { (args.batch, args.batch_connections) };
    let body: Arc<str> = text(args).into();
    each(addresses, connections, way.jobs(args) / size, move |mut connection, number| {
        let body = Arc::clone(&body);
        async move {
            let put = put_batch(number * size, size, "\"delay\":1", &body);
            connection.exchange(put.as_bytes(), b"HTTP/1.1 200").await?;
            let mut left = size;
            while left > 0 {
                let tokens = lease(&mut connection, left).await?;
                left -= tokens.len();
                ack(&mut connection, &tokens).await?;
            }
            Ok(connection)
        }
    })
}

/// Median and 99th percentile of lateness, as consumers see it, with jobs that fall due evenly; two servers.
pub(crate) fn lateness(args: &Args, binary: &Path, redis: &Redis) -> Outcome<[f64; 2]> {
    let servers = start(binary, redis, 2)?;
    let addresses = addresses(&servers);
    let jobs = args.pace * PACED;
    let begin = whole_now() + AHEAD;
    let body: String = (0..jobs).fold("{\"jobs\":[".to_owned(), |mut json, number| {
        let due = begin + (number * 1_000 / args.pace) as u64;
        let comma = if number == 0 { "" } else { "," };
        let _ = write!(json, "{comma}{{\"topic\":\"orders\",\"id\":\"{number}\",\"at\":{due},\"body\":\"due-{due}\"}}");
        json
    });
    run(&addresses, 1, 1, move |_| request("POST", "/v1/jobs", &format!("{body}]}}")), b"HTTP/1.1 200")?;
    let late: Arc<Mutex<Vec<f64>>> = Arc::default();
    let seen = Arc::clone(&late);
    each(&addresses, 8, usize::MAX, move |mut connection, _| {
        let seen = Arc::clone(&seen);
        async move {
            let lease = request("POST", "/v1/topics/orders/lease", "{\"max\":10,\"wait\":\"3s\",\"auto_ack\":true}");
            let answer = connection.exchange(lease.as_bytes(), b"HTTP/1.1 200").await?;
            let now = now();
            let answer = String::from_utf8_lossy(answer);
            let dues = answer.split("\"due-").skip(1).filter_map(|rest| rest.split('"').next()?.parse::<f64>().ok());
            let late: Vec<f64> = dues.map(|due| now - due).collect();
            let mut seen = seen.lock().expect("nobody panics");
            seen.extend(late);
            if seen.len() >= jobs { Err(DONE.to_owned()) } else { Ok(connection) }
        }
    })
    .or_else(|error| if error.to_string() == DONE { Ok(()) } else { Err(error) })?;
    let mut late = late.lock().expect("nobody panics").clone();
    late.sort_by(f64::total_cmp);
    if late.first().is_some_and(|first| *first < 0.0) {
        return Err(format!("a job was early: {late:?}").into());
    }
    for server in servers {
        server.stop()?;
    }
    redis.ask(&["FLUSHALL"])?;
    Ok([share(&late, 0.5), share(&late, 0.99)])
}

/// What ends the consumers of a measurement that has all it wanted.
const DONE: &str = "all jobs were seen";

/// Bytes of Redis' memory a waiting job.
pub(crate) fn bytes(args: &Args, binary: &Path, redis: &Redis) -> Outcome<f64> {
    let before = redis.info("memory", "used_memory_dataset")?;
    let servers = start(binary, redis, 1)?;
    let jobs = args.batched / args.batch * args.batch;
    put_batches(args, &addresses(&servers), jobs, HOUR)?;
    for server in servers {
        server.stop()?;
    }
    // What jobs take, without the buffers of connections and of the file.
    let after = redis.info("memory", "used_memory_dataset")?;
    redis.ask(&["FLUSHALL"])?;
    Ok((after - before) / jobs as f64)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time after 1970")]
fn whole_now() -> u64 {
    now() as u64
}

/// Puts jobs that are all due in the same instant, once all of them are there.
pub(crate) fn put_at_once(args: &Args, addresses: &[&str], jobs: usize) -> Outcome<()> {
    // A topic that is paused hands nothing out: what is put is due at once, and waits.
    run(addresses, 1, 1, |_| request("POST", "/v1/topics/orders/pause", "{}"), b"HTTP/1.1 200")?;
    let (body, size, due) = (text(args), args.batch, whole_now());
    let put = move |batch: usize| put_batch(batch * size, size, &format!("\"at\":{due}"), &body);
    run(addresses, args.batch_connections, jobs / args.batch, put, b"HTTP/1.1 200")
}

/// Lets a paused topic go, and consumes all of it.
pub(crate) fn drain(args: &Args, addresses: &[&str], jobs: usize) -> Outcome<()> {
    run(addresses, 1, 1, |_| request("POST", "/v1/topics/orders/resume", "{}"), b"HTTP/1.1 200")?;
    drain_all(addresses, args.batch_connections, jobs, args.batch.min(1_000))
}
