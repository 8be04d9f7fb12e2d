//! What Redis does with bare scripts, by `redis-benchmark`: the well-known recipe of a hash and a sorted set, and the put
//! script of the store itself. `redis-benchmark` sends the same words each time and no zero bytes, so both scripts make ids
//! and records of their own.

use std::path::Path;

use dwell_bench::Outcome;
use dwell_bench::http::{request, run};
use dwell_bench::redis::Redis;
use dwell_bench::server::Server;

use crate::{Args, Way};

/// Jobs of a call: what the store puts in one, too.
const CALL: usize = 100;

/// For each job a field of a hash and a score.
const PLAIN: &str = "
local jobs = tonumber(ARGV[1])
local n = redis.call('INCRBY', KEYS[1] .. ':n', jobs)
local bodies, due = {}, {}
for k = 1, jobs do
    local id = string.format('order-%08d', n + k)
    bodies[k * 2 - 1] = id
    bodies[k * 2] = ARGV[2]
    due[k * 2 - 1] = 1800000000000 + n
    due[k * 2] = id
end
redis.call('HSET', KEYS[1] .. ':bodies', unpack(bodies))
return redis.call('ZADD', KEYS[1] .. ':due', unpack(due))";

/// What makes the arguments of the store's put script before it runs.
const ARGUMENTS: &str = "
local ARGV = (function(given)
    local jobs, body, base = tonumber(given[1]), given[2], KEYS[1]
    local n = redis.call('INCRBY', base .. ':bench', jobs)
    local made = { '\\0\\0\\0\\0\\0\\0\\0000', struct.pack('>I4I4', 0, n), 'orders', '315360000000', '', '' }
    local head = struct.pack('>I4I1I2', 1024, 0, #body) .. '\\6orders'
    local heads = { struct.pack('>I2I2', 64, 0) }
    for k = 1, jobs do
        local id = string.format('order-%08d', n + k)
        heads[k + 1] = struct.pack('>I1I6', 1, 3600000)
        made[#made + 1] = head .. string.char(#id) .. id .. body
    end
    made[6] = table.concat(heads)
    return made
end)(ARGV)
";
const COMMON: &str = include_str!("../../../../crates/dwell-store-redis/src/scripts/common.lua");
const PUT: &str = include_str!("../../../../crates/dwell-store-redis/src/scripts/put.lua");

/// What the two scripts come to.
pub(crate) struct Rates {
    pub(crate) plain: Bare,
    pub(crate) ours: Bare,
}

/// What a script comes to.
#[derive(Clone, Copy)]
pub(crate) struct Bare {
    /// Jobs a second.
    pub(crate) rate: f64,
    /// Microseconds of Redis' processor time a job.
    pub(crate) redis: f64,
}

pub(crate) fn name(args: &Args, way: Way) -> String {
    match way {
        Way::Single => format!("1 job a call, {} connections", args.connections),
        Way::Batched => format!("{CALL} jobs a call, {} connections", args.batch_connections),
    }
}

pub(crate) fn measure(args: &Args, binary: &Path, redis: &Redis, way: Way) -> Outcome<Rates> {
    let (jobs, connections) = if way == Way::Single { (1, args.connections) } else { (CALL, args.batch_connections) };
    let calls = way.jobs(args) / jobs;
    let (each, body) = (jobs.to_string(), "x".repeat(args.body));
    redis.ask(&["FLUSHALL"])?;
    let run = |script: &str, key: &str| -> Outcome<Bare> {
        let before = redis.cpu()?;
        let rate = redis.script_rate(script, connections, calls, &["1", key, &each, &body])? * jobs as f64;
        Ok(Bare { rate, redis: (redis.cpu()? - before) * 1e6 / (calls * jobs) as f64 })
    };
    let plain = run(PLAIN, "plain")?;
    redis.ask(&["FLUSHALL"])?;
    let base = make_topic(binary, redis)?;
    let ours = run(&format!("#!lua\n{ARGUMENTS}\n{COMMON}\n{PUT}"), &base)?;
    let put = redis.ask(&["ZCARD", &format!("{base}:t:orders:due")])?;
    if put.parse::<usize>()? < calls * jobs {
        return Err(format!("the put script put {put} jobs of {}", calls * jobs).into());
    }
    redis.ask(&["FLUSHALL"])?;
    Ok(Rates { plain, ours })
}

/// Lets a server make the topic; the name of its partition.
fn make_topic(binary: &Path, redis: &Redis) -> Outcome<String> {
    let server = Server::start_on(binary, &redis.url())?;
    let put = |_| request("PUT", "/v1/topics/orders/jobs/first", "{\"delay\":\"1h\"}");
    run(&[&server.address], 1, 1, put, b"HTTP/1.1 201")?;
    server.stop()?;
    let key = redis.ask(&["KEYS", "dwell:*:t:orders"])?;
    Ok(key.strip_suffix(":t:orders").ok_or("a topic has a key")?.to_owned())
}
