//! A great many jobs due at once, and how long a call keeps Redis from everybody else.
//!
//! Redis' slow log says how long a call took inside Redis. On a machine whose processors are shared, that is also the time for
//! which the system ran something else in the middle of a call; so Redis is put before all others here, if that is allowed,
//! and what the system still took away from it is said.

use std::path::Path;
use std::process::Command;

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
    let first = if put_first(redis)? { "Redis before all others" } else { "Redis among others" };
    print(&format!("\n{jobs} jobs due in the same instant, two servers, {first}:\n"))?;
    print(
        "| | jobs/s | calls | a call, µs | calls over 1 ms | over 5 ms | longest, ms | set aside | files written anew |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|",
    )?;
    let put = row(redis, "put", jobs, || dwell::put_at_once(args, &addresses, jobs))?;
    let drained = row(redis, "lease + ack", jobs, || dwell::drain(args, &addresses, jobs))?;
    let (long, longest) = (put.0 + drained.0, put.1.max(drained.1));
    print(&format!(
        "\nBy its slow log, {long} calls kept Redis busy for more than 5 ms, the longest for {longest:.1} ms."
    ))?;
    for server in servers {
        server.stop()?;
    }
    Ok(())
}

/// Puts Redis before all others on this machine's processors; whether that was allowed.
fn put_first(redis: &Redis) -> Outcome<bool> {
    let pid = pid(redis)?;
    // The child that writes its file anew is not meant. Linux still takes 50 ms of a second in which it never rests.
    let output = Command::new("chrt").args(["--reset-on-fork", "--fifo", "--pid", "1", &pid]).output()?;
    Ok(output.status.success())
}

fn pid(redis: &Redis) -> Outcome<String> {
    Ok(redis.info("server", "process_id")?.to_string())
}

/// How often the system has run something else although Redis was not done.
fn set_aside(redis: &Redis) -> Outcome<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", pid(redis)?))?;
    let line = status.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"));
    Ok(line.ok_or("Linux tells of a program's switches")?.trim().parse()?)
}

/// How many calls took more than 5 ms, and the longest in milliseconds.
fn row(redis: &Redis, name: &str, jobs: usize, work: impl FnOnce() -> Outcome<()>) -> Outcome<(usize, f64)> {
    redis.ask(&["CONFIG", "RESETSTAT"])?;
    redis.ask(&["SLOWLOG", "RESET"])?;
    let before = (set_aside(redis)?, redis.info("persistence", "aof_rewrites")?);
    let ((), time) = seconds(work)?;
    let after = (set_aside(redis)?, redis.info("persistence", "aof_rewrites")?);
    let stats = redis.ask(&["INFO", "commandstats"])?;
    let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:")).ok_or("scripts were run")?;
    let field = |name: &str| line.split(',').find_map(|field| field.strip_prefix(name)).unwrap_or("0");
    let slow = slow(redis)?;
    let over = |micros: u64| slow.iter().filter(|time| **time >= micros).count();
    let longest = slow.iter().max().copied().unwrap_or(0) as f64 / 1_000.0;
    print(&format!(
        "| {name} | {:.0} | {} | {} | {} | {} | {longest:.1} | {} | {} |",
        jobs as f64 / time,
        field("calls="),
        field("usec_per_call="),
        over(1_000),
        over(5_000),
        after.0 - before.0,
        after.1 - before.1,
    ))?;
    Ok((over(5_000), longest))
}

/// Microseconds of the slowest scripts.
fn slow(redis: &Redis) -> Outcome<Vec<u64>> {
    // Of each entry only its time is wanted: the rest are the script's arguments.
    let script = "local times = {} for _, entry in ipairs(redis.call('SLOWLOG', 'GET', -1)) do \
                  if entry[4][1] == 'EVALSHA' then times[#times + 1] = entry[3] end end return times";
    let times = redis.ask(&["EVAL", script, "0"])?;
    Ok(times.lines().filter_map(|line| line.trim().parse().ok()).collect())
}
