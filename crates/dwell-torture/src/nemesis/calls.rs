//! System calls that fail: the first, the second, … of each kind, and in turn all from then on.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::skipped;
use crate::Outcome;
use crate::checker::Wrong;
use crate::fleet::Load;
use crate::history::Means;
use crate::run::{Options, Run, Stage};
use crate::server::text;

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Up to the n-th call of each kind
    #[arg(long, default_value_t = 30)]
    up_to: u32,
    /// How many faults before everything is consumed and judged
    #[arg(long, default_value_t = 15)]
    per_round: u32,
    /// Only this call, such as `pread64`
    #[arg(long)]
    only: Option<String>,
}

impl Args {
    pub(crate) fn up_to(up_to: u32) -> Self {
        Self { up_to, per_round: 15, only: None }
    }
}

/// The calls that a store makes, each up to the n-th that occurs while a server starts and works for a moment.
const CALLS: [(&str, u32); 7] = [
    ("pwrite64", u32::MAX),
    ("fdatasync", u32::MAX),
    ("fsync", 12),
    ("rename", 6),
    ("openat", 60),
    ("pread64", 20),
    ("unlink", 4),
];

pub(crate) async fn run(args: &Args, options: &Options) -> Outcome<bool> {
    let name = format!("failing calls up to the {}th", args.up_to);
    if skipped(&name, &strace()) {
        return Ok(true);
    }
    let load = Load { writers: 3, consumers: 2, ..Load::MIXED };
    let mut run = Run::new(&name, load, options)?;
    let trace = run.place().join("trace");
    let wanted = |(call, _): &&(&str, u32)| args.only.as_ref().is_none_or(|only| only == call);
    let faults: Vec<(&str, u32)> = CALLS
        .iter()
        .filter(wanted)
        .flat_map(|(call, most)| (1..=args.up_to.min(*most)).map(|nth| (*call, nth)))
        .collect();
    let (mut failed, mut refused) = (0, 0);
    for (number, faults) in faults.chunks(usize::try_from(args.per_round)?).enumerate() {
        // Every round begins in an empty directory.
        let data = run.place().join(format!("data-{number}"));
        run.keep_in(&data);
        let mut stage = run.begin()?;
        let plain = stage.recipe.clone();
        for (call, nth) in faults {
            if call.contains("read") {
                run.fail_reads();
            }
            stage.recipe.wrapper = wrapper(&trace, call, *nth)?;
            match stage.try_start()? {
                Ok(()) => {
                    until_failed(&mut stage, *nth).await;
                    stage.kill()?;
                }
                Err(not_started) => {
                    refused += 1;
                    if not_started.said.is_empty() {
                        let what = format!("{call} {nth} failed, and it ended with {} and no word", not_started.status);
                        run.wrong(Wrong::Odd, what);
                    }
                }
            }
            if std::fs::read_to_string(&trace)?.contains("(INJECTED)") {
                failed += 1;
                stage.fault(&format!("failed {call}"), Means::Nothing);
            }
        }
        stage.recipe = plain;
        stage.start()?;
        run.end(stage).await?;
        std::fs::remove_dir_all(&data)?;
    }
    println!("  {failed} calls failed, {refused} of them kept a server from starting, each with a reason");
    Ok(run.finish())
}

/// Lets the clients go on until the store has failed, or the call should have come long ago. Not every call that fails
/// is one that a store cannot do without.
async fn until_failed(stage: &mut Stage, nth: u32) {
    stage.load(Duration::from_millis(120)).await;
    for _ in 0..nth {
        if stage.failure().await.is_some() {
            break;
        }
        stage.load(Duration::from_millis(8)).await;
    }
    // Clients go on asking, and must hear nothing good.
    stage.load(Duration::from_millis(40)).await;
}

/// Odd ones fail once, as a disk does that recovers; even ones for ever. Three kinds of error take turns.
fn wrapper(trace: &Path, call: &str, nth: u32) -> Outcome<Vec<String>> {
    let (from, error) = (if nth.is_multiple_of(2) { "+" } else { "" }, ["EIO", "ENOSPC", "EROFS"][nth as usize % 3]);
    let inject = format!("inject={call}:error={error}:when={nth}{from}");
    let filter = format!("trace={call}");
    let words = ["strace", "-D", "-f", "-qq", "--seccomp-bpf", "-o", text(trace)?, "-e", &filter, "-e", &inject];
    Ok(words.map(str::to_owned).to_vec())
}

fn strace() -> Result<(), String> {
    let status = Command::new("strace").args(["-o", "/dev/null", "true"]).stderr(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err("strace may not trace here".to_owned()),
        Err(_) => Err("there is no strace".to_owned()),
    }
}
