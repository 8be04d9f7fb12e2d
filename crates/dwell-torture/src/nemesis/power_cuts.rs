//! Power cuts of a file system under load.

use std::time::Duration;

use tokio::time::sleep;

use super::{Weight, skipped};
use crate::Outcome;
use crate::disk::{self, Disk, Kind};
use crate::history::Means;
use crate::run::{Options, Run};

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// How many
    #[arg(long, default_value_t = 10)]
    pub(crate) count: u32,
    /// How many of them before everything is consumed and judged
    #[arg(long, default_value_t = 2)]
    pub(crate) per_round: u32,
    /// The kind of file system
    #[arg(long, default_value = "ext4")]
    pub(crate) fs: Kind,
    /// What clients do
    #[arg(long, default_value = "mixed")]
    pub(crate) load: Weight,
}

impl Default for Args {
    fn default() -> Self {
        Self { count: 10, per_round: 5, fs: Kind::Ext4, load: Weight::Mixed }
    }
}

/// MiB of the disk.
const SIZE: u64 = 4_096;

pub(crate) async fn run(args: &Args, options: &Options) -> Outcome<bool> {
    let name = format!("{} power cuts ({:?}, {:?} load)", args.count, args.fs, args.load).to_lowercase();
    if skipped(&name, &disk::possible(args.fs)) {
        return Ok(true);
    }
    let mut disk = Disk::new(args.fs, SIZE, &options.place())?;
    let mut run = Run::new(&name, args.load.load(), options)?;
    run.keep_in(&disk.root().join("data"));
    let mut left = args.count;
    while left > 0 {
        let mut stage = run.begin()?;
        stage.start()?;
        for _ in 0..left.min(args.per_round) {
            stage.load(Duration::from_millis(200 + run.chance(1_000))).await;
            stage.fault("power cuts", Means::NoMachine);
            disk.cut()?;
            // A machine takes its processes with it; here they go a little later, and may say what they like.
            sleep(Duration::from_millis(run.chance(60))).await;
            stage.kill()?;
            disk.remount()?;
            stage.start()?;
        }
        left -= left.min(args.per_round);
        run.end(stage).await?;
    }
    Ok(run.finish())
}
