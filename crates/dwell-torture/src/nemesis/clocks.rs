//! A wall clock that is set, under a running server and between two starts; the monotonic clock goes on.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::skipped;
use crate::Outcome;
use crate::checker::Wrong;
use crate::fleet::Load;
use crate::history::Means;
use crate::run::{Options, Run};
use crate::server::text;

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// By how many seconds, forward and back
    #[arg(long, value_delimiter = ',', default_values_t = [1, 10, 60, 3_600, 86_400])]
    seconds: Vec<i64>,
    /// How long a clock that was set stays so, in seconds; past 30 a clock that is ahead is believed
    #[arg(long, default_value_t = 4)]
    hold: u64,
}

/// Where Debian keeps it.
const LIBRARIES: [&str; 2] =
    ["/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1", "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1"];

/// More than this behind what the data has seen, in seconds, and a server does not start.
const TOO_FAR_BEHIND: i64 = 3_600;

pub(crate) async fn run(args: &Args, options: &Options) -> Outcome<bool> {
    let library = LIBRARIES.iter().map(PathBuf::from).find(|path| path.exists());
    let name = format!("clock steps of ± {:?} s, held for {} s", args.seconds, args.hold);
    if skipped(&name, &library.as_ref().map(|_| ()).ok_or_else(|| "there is no libfaketime".to_owned())) {
        return Ok(true);
    }
    let library = library.ok_or("there is a library")?;
    let mut run = Run::new(&name, Load::MIXED, options)?;
    let clock = run.place().join("clock");
    let mut refused = 0;
    for (number, step) in args.seconds.iter().flat_map(|step| [*step, -*step]).enumerate() {
        let data = run.place().join(format!("data-{number}"));
        run.keep_in(&data);
        let means = if step > 0 { Means::ClockAhead } else { Means::Nothing };
        let mut stage = run.begin()?;
        stage.recipe.environment.extend(faked(&library, &clock)?);
        set(&clock, 0)?;
        stage.start()?;
        stage.load(Duration::from_millis(700)).await;
        stage.fault("clock steps", means);
        set(&clock, step)?;
        stage.load(Duration::from_secs(args.hold)).await;
        // As far again, while no server runs.
        stage.kill()?;
        stage.fault("clock steps", means);
        set(&clock, 2 * step)?;
        if let Err(not_started) = stage.try_start()? {
            refused += 1;
            if step >= -TOO_FAR_BEHIND / 2 || not_started.status.code() != Some(78) {
                run.wrong(Wrong::Odd, format!("{step} s: no start ({}): {}", not_started.status, not_started.said));
            }
            stage.recipe.flags.push("--accept-clock".to_owned());
            stage.start()?;
        }
        stage.load(Duration::from_millis(700)).await;
        run.end(stage).await?;
        std::fs::remove_dir_all(&data)?;
    }
    println!("  {refused} starts refused because the clock was far behind, and made with --accept-clock");
    Ok(run.finish())
}

/// What makes a process believe a file.
fn faked(library: &Path, clock: &Path) -> Outcome<Vec<(String, String)>> {
    let pairs = [
        ("LD_PRELOAD", text(library)?),
        ("FAKETIME_TIMESTAMP_FILE", text(clock)?),
        ("FAKETIME_NO_CACHE", "1"),
        ("DONT_FAKE_MONOTONIC", "1"),
    ];
    Ok(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec())
}

/// Sets the clock to so many seconds from the true time.
fn set(clock: &Path, offset: i64) -> Outcome<()> {
    let whole = clock.with_extension("new");
    std::fs::write(&whole, format!("{offset:+}\n"))?;
    Ok(std::fs::rename(whole, clock)?)
}
