//! The peer: `BullMQ` with delayed jobs, by a script for node. Its library does in the caller's process what a server does here.

use std::path::Path;
use std::process::{Command, Stdio};

use dwell_bench::Outcome;
use dwell_bench::redis::Redis;
use tempfile::TempDir;

use crate::dwell::PACED;
use crate::{Args, Figure, Way, Work};

/// What is installed.
const PACKAGES: [&str; 2] = ["bullmq@6.7.0", "ioredis@6.0.0"];
const SCRIPT: &str = include_str!("bullmq.js");

/// An installation in a directory of its own.
pub(crate) struct Bullmq(TempDir);

impl Bullmq {
    pub(crate) fn install(directory: &Path) -> Outcome<Self> {
        let directory = tempfile::tempdir_in(directory)?;
        std::fs::write(directory.path().join("package.json"), "{\"private\": true}")?;
        std::fs::write(directory.path().join("bullmq.js"), SCRIPT)?;
        let install = ["install", "--silent", "--no-audit", "--no-fund"];
        let mut npm = Command::new("npm");
        let status = npm.args(install).args(PACKAGES).current_dir(directory.path()).stdout(Stdio::null()).status();
        let status = status.map_err(|error| format!("npm: {error}; on Debian: apt-get install nodejs npm"))?;
        if status.success() { Ok(Self(directory)) } else { Err("npm did not install BullMQ".into()) }
    }

    pub(crate) fn measure(&self, args: &Args, redis: &Redis, way: Way, work: Work) -> Outcome<Figure> {
        let what = if work == Work::Put { "put" } else { "cycle" };
        let (size, callers) =
            if way == Way::Single { (1, args.connections) } else { (args.batch, args.batch_connections) };
        // It is slower by far: a part of the jobs tells as much.
        let jobs = (way.jobs(args) / 5).max(size) / size * size;
        let before = redis.cpu()?;
        let said = self.run(redis, what, [jobs, size, callers, args.body.saturating_sub(2)])?;
        let after = redis.cpu()?;
        redis.ask(&["FLUSHALL"])?;
        let micros = |seconds: f64| seconds * 1e6 / jobs as f64;
        Ok(Figure {
            rate: jobs as f64 / number(&said, "seconds")?,
            redis: micros(after - before),
            user: micros(number(&said, "cpu")?),
        })
    }

    /// Median and 99th percentile of lateness.
    pub(crate) fn lateness(&self, args: &Args, redis: &Redis) -> Outcome<[f64; 2]> {
        let said = self.run(redis, "lateness", [args.pace * PACED, args.pace, 1, args.body])?;
        redis.ask(&["FLUSHALL"])?;
        Ok([number(&said, "p50")?, number(&said, "p99")?])
    }

    /// Bytes of Redis' memory a waiting job.
    pub(crate) fn bytes(&self, args: &Args, redis: &Redis) -> Outcome<f64> {
        let jobs = args.batched / 5 / args.batch * args.batch;
        let before = redis.info("memory", "used_memory_dataset")?;
        self.run(redis, "put", [jobs, args.batch, args.batch_connections, args.body])?;
        let after = redis.info("memory", "used_memory_dataset")?;
        redis.ask(&["FLUSHALL"])?;
        Ok((after - before) / jobs as f64)
    }

    fn run(&self, redis: &Redis, what: &str, numbers: [usize; 4]) -> Outcome<String> {
        let mut node = Command::new("node");
        node.arg("bullmq.js").arg(redis.port()).arg(what).args(numbers.map(|number| number.to_string()));
        let output = node.current_dir(self.0.path()).stderr(Stdio::inherit()).output()?;
        if output.status.success() { Ok(String::from_utf8(output.stdout)?) } else { Err("BullMQ failed".into()) }
    }
}

/// A number of a flat JSON object.
fn number(json: &str, field: &str) -> Outcome<f64> {
    let rest = json.split(&format!("\"{field}\":")).nth(1).ok_or_else(|| format!("{field} is not in {json}"))?;
    Ok(rest.split([',', '}']).next().unwrap_or_default().parse()?)
}
