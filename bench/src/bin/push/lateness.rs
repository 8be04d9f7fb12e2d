//! How late deliveries are while many jobs wait.

use std::path::Path;
use std::thread;
use std::time::Duration;

use dwell_bench::Outcome;

use crate::api::{self, Job};
use crate::receivers::{Kind, Receivers, Seen};
use crate::{Args, now, print, server, share};

/// Thirty days in milliseconds: when those are due that only wait.
const MONTH: u64 = 30 * 24 * 3_600 * 1_000;
/// Time to put everything before the first job is due.
const AHEAD: u64 = 5_000;
/// Targets of the jobs that are due.
const TARGETS: usize = 100;

pub(crate) fn measure(args: &Args, binary: &Path) -> Outcome<()> {
    let (server, _directory) = server(args, binary)?;
    let receivers = Receivers::start(vec![Kind::Good; TARGETS])?;
    let far = whole_now() + MONTH;
    let waiting = |id: usize| Job { topic: "waiting", id, due: far + id as u64, port: receivers.ports[id % TARGETS] };
    api::put(&server.address, (0..args.waiting).map(waiting))?;
    let seen = paced(args, "due", &server.address, &receivers)?;
    let mut late: Vec<f64> = seen.iter().map(Seen::lateness).collect();
    late.sort_by(f64::total_cmp);
    print("\n| measure | value |\n|---|---|")?;
    print(&format!("| jobs waiting beside | {} |", args.waiting))?;
    print(&format!("| due | {} a second, {TARGETS} targets |", args.pace))?;
    for (name, part) in [("p50", 0.5), ("p99", 0.99), ("worst", 1.0)] {
        print(&format!("| lateness, {name} | {:.2} ms |", share(&late, part)))?;
    }
    let early = late.iter().filter(|late| **late < 0.0).count();
    print(&format!("| early | {early} |"))?;
    server.stop()
}

/// Puts jobs that fall due evenly, each target in turn; answers what has come when all have had time to.
pub(crate) fn paced(args: &Args, topic: &'static str, address: &str, receivers: &Receivers) -> Outcome<Vec<Seen>> {
    let (start, jobs) = (whole_now() + AHEAD, args.pace * args.seconds);
    let ports = &receivers.ports;
    let due = |id: usize| start + (id * 1_000 / args.pace) as u64;
    api::put(address, (0..jobs).map(|id| Job { topic, id, due: due(id), port: ports[id % ports.len()] }))?;
    let end = due(jobs) + 3_000;
    sleep_until(end);
    Ok(receivers.seen())
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time after 1970")]
fn whole_now() -> u64 {
    now() as u64
}

#[expect(clippy::disallowed_methods, reason = "jobs are due at certain times")]
fn sleep_until(end: u64) {
    thread::sleep(Duration::from_millis(end.saturating_sub(whole_now())));
}
