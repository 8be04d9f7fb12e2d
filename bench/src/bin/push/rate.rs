//! How many deliveries a second.

use std::path::Path;
use std::thread;
use std::time::Duration;

use dwell_bench::Outcome;

use crate::api::{self, Job};
use crate::receivers::{Kind, Receivers};
use crate::{Args, print, server};

/// Pushes jobs that are all ready, to one target, a hundred and a thousand.
pub(crate) fn measure(args: &Args, binary: &Path) -> Outcome<()> {
    print("| targets | jobs | deliveries/s |\n|---|---|---|")?;
    for targets in [1, 100, 1_000] {
        let (server, _directory) = server(args, binary)?;
        let receivers = Receivers::start(vec![Kind::Good; targets])?;
        api::ask(&server.address, "POST", "/v1/topics/ready/pause", "{}")?;
        let port = |id: usize| receivers.ports[id % targets];
        api::put(&server.address, (0..args.jobs).map(|id| Job { topic: "ready", id, due: 1, port: port(id) }))?;
        api::ask(&server.address, "POST", "/v1/topics/ready/resume", "{}")?;
        wait(&receivers, args.jobs)?;
        let seen = receivers.seen();
        let first = seen.iter().map(|seen| seen.at).fold(f64::INFINITY, f64::min);
        let last = seen.iter().map(|seen| seen.at).fold(0.0, f64::max);
        let rate = args.jobs as f64 / (last - first) * 1_000.0;
        print(&format!("| {targets} | {} | {rate:.0} |", args.jobs))?;
        server.stop()?;
    }
    Ok(())
}

/// Waits until so many have come.
#[expect(clippy::disallowed_methods, reason = "the figures come from the receivers, not from this")]
fn wait(receivers: &Receivers, jobs: usize) -> Outcome<()> {
    let mut quiet = 0;
    let mut before = 0;
    while receivers.count() < jobs {
        thread::sleep(Duration::from_millis(50));
        quiet = if receivers.count() == before { quiet + 1 } else { 0 };
        before = receivers.count();
        if quiet > 400 {
            return Err(format!("only {before} of {jobs} deliveries came").into());
        }
    }
    Ok(())
}
