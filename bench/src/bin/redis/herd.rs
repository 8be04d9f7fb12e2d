//! A great many jobs due at once, and how long a call keeps Redis from everybody else.

use std::path::Path;

use dwell_bench::Outcome;
use dwell_bench::program::{print, seconds};
use dwell_bench::redis::Redis;

use crate::Args;
use crate::dwell;

pub(crate) fn measure(args: &Args, binary: &Path, redis: &Redis) -> Outcome<()> {
    redis.ask(&["FLUSHALL"])?;
    let servers = dwell::start(binary, redis, 2)?;
    let addresses: Vec<&str> = servers.iter().map(|server| server.address.as_str()).collect();
    redis.ask(&["CONFIG", "SET", "slowlog-log-slower-than", "1000"])?;
    redis.ask(&["CONFIG", "SET", "slowlog-max-len", "100000"])?;
    let jobs = args.herd / args.batch * args.batch;
    print(&format!("\n{jobs} jobs due in the same instant, two servers:\n"))?;
    print(
        "| | jobs/s | calls | a call, µs | calls over 1 ms | over 5 ms | longest, ms |\n|---|--:|--:|--:|--:|--:|--:|",
    )?;
    row(redis, "put", jobs, || dwell::put_at_once(args, &addresses, jobs))?;
    row(redis, "lease + ack", jobs, || dwell::drain(args, &addresses, jobs))?;
    for server in servers {
        server.stop()?;
    }
    Ok(())
}

fn row(redis: &Redis, name: &str, jobs: usize, work: impl FnOnce() -> Outcome<()>) -> Outcome<()> {
    redis.ask(&["CONFIG", "RESETSTAT"])?;
    redis.ask(&["SLOWLOG", "RESET"])?;
    let ((), time) = seconds(work)?;
    let stats = redis.ask(&["INFO", "commandstats"])?;
    let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:")).ok_or("scripts were run")?;
    let field = |name: &str| line.split(',').find_map(|field| field.strip_prefix(name)).unwrap_or("0");
    let slow = slow(redis)?;
    let over = |micros: u64| slow.iter().filter(|time| **time >= micros).count();
    print(&format!(
        "| {name} | {:.0} | {} | {} | {} | {} | {:.1} |",
        jobs as f64 / time,
        field("calls="),
        field("usec_per_call="),
        over(1_000),
        over(5_000),
        slow.iter().max().copied().unwrap_or(0) as f64 / 1_000.0,
    ))
}

/// Microseconds of the slowest scripts.
fn slow(redis: &Redis) -> Outcome<Vec<u64>> {
    // Of each entry only its time is wanted: the rest are the script's arguments.
    let script = "local times = {} for _, entry in ipairs(redis.call('SLOWLOG', 'GET', -1)) do \
                  if entry[4][1] == 'EVALSHA' then times[#times + 1] = entry[3] end end return times";
    let times = redis.ask(&["EVAL", script, "0"])?;
    Ok(times.lines().filter_map(|line| line.trim().parse().ok()).collect())
}
