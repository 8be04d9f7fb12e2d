//! The peer: one script that sets a hash field and a sorted-set score, as the well-known recipe has it.

use dwell_bench::Outcome;
use dwell_bench::redis::Redis;

use crate::Args;

const SCRIPT: &str = "redis.call('HSET', KEYS[2], ARGV[1], ARGV[3]); \
                      return redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])";

/// Calls of the script a second.
pub(crate) fn measure(args: &Args) -> Outcome<f64> {
    let redis = Redis::start(&args.directory, &["--appendonly", "yes", "--appendfsync", "always"])?;
    let body = "x".repeat(args.body);
    let arguments = ["2", "due", "jobs", "order-__rand_int__", "__rand_int__", &body];
    redis.script_rate(SCRIPT, args.connections, args.single, &arguments)
}
