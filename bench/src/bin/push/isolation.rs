//! What bad targets do to good ones.

use std::collections::HashSet;
use std::path::Path;

use dwell_bench::Outcome;

use crate::lateness::paced;
use crate::receivers::{Kind, Receivers};
use crate::{Args, print, server, share};

/// One of a hundred is of each bad kind.
fn with_bad(target: usize) -> Kind {
    match target % 100 {
        13 => Kind::Hangs,
        37 => Kind::Fails,
        59 => Kind::Resets,
        83 => Kind::Endless,
        _ => Kind::Good,
    }
}

pub(crate) fn measure(args: &Args, binary: &Path) -> Outcome<()> {
    print(
        "\n| targets | good jobs | p50 | p99 | worst | twice | lost | memory grew by |\n|---|---|---|---|---|---|---|---|",
    )?;
    let all_good = run(args, binary, "all good", |_| Kind::Good)?;
    let some_bad = run(args, binary, "1 % each hang, fail, reset, never end", with_bad)?;
    print(&format!("\nWith bad targets the good ones' p99 is {:.2} times what it is without.", some_bad / all_good))
}

/// The good targets' p99.
fn run(args: &Args, binary: &Path, name: &str, kind: fn(usize) -> Kind) -> Outcome<f64> {
    let (server, _directory) = server(args, binary)?;
    let receivers = Receivers::start((0..args.targets).map(kind).collect())?;
    // Once around, so that what every target costs for ever is there before it is measured.
    let around = Args { seconds: args.targets.div_ceil(args.pace), ..args.clone() };
    let before = paced(&around, "first", &server.address, &receivers)?.len();
    let memory = server.memory()?;
    let seen = paced(args, "due", &server.address, &receivers)?.split_off(before);
    let grown = server.memory()?.saturating_sub(memory);
    let good: Vec<_> = seen.iter().filter(|seen| kind(seen.target) == Kind::Good).collect();
    let ids: HashSet<usize> = good.iter().map(|seen| seen.id).collect();
    let sent = (0..args.pace * args.seconds).filter(|id| kind(id % args.targets) == Kind::Good).count();
    let mut late: Vec<f64> = good.iter().map(|seen| seen.lateness()).collect();
    late.sort_by(f64::total_cmp);
    let p99 = share(&late, 0.99);
    print(&format!(
        "| {name} | {sent} | {:.2} ms | {p99:.2} ms | {:.2} ms | {} | {} | {:.1} MiB |",
        share(&late, 0.5),
        share(&late, 1.0),
        good.len() - ids.len(),
        sent - ids.len(),
        grown as f64 / 1_024.0,
    ))?;
    server.stop()?;
    Ok(p99)
}
