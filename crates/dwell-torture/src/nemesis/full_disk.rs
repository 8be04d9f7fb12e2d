//! A disk that is filled under a running server, stays full over restarts, and is freed again.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use super::skipped;
use crate::Outcome;
use crate::checker::Wrong;
use crate::disk::{self, Disk, Kind};
use crate::fleet::Load;
use crate::history::Means;
use crate::run::{Options, Run, Stage};

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// How often
    #[arg(long, default_value_t = 3)]
    count: u32,
    /// The kind of file system
    #[arg(long, default_value = "ext4")]
    fs: Kind,
    /// How long it stays full, in seconds
    #[arg(long, default_value_t = 4)]
    seconds: u64,
}

/// MiB of the disk.
const SIZE: u64 = 400;

/// How long puts may take to be accepted again, in tenths of a second.
const RESUMES: u32 = 100;

pub(crate) async fn run(args: &Args, options: &Options) -> Outcome<bool> {
    let name = format!("{} full disks ({:?})", args.count, args.fs).to_lowercase();
    if skipped(&name, &disk::possible(args.fs)) {
        return Ok(true);
    }
    let disk = Disk::new(args.fs, SIZE, &options.place())?;
    // Many and large enough that a journal that cannot grow is soon at its end.
    let load = Load { batch: 200, rest: Duration::from_millis(2), ..Load::MIXED };
    let mut run = Run::new(&name, load, options)?;
    run.keep_in(&disk.root().join("data"));
    for _ in 0..args.count {
        let mut stage = run.begin()?;
        stage.start()?;
        stage.load(Duration::from_millis(700)).await;
        stage.fault("full disks", Means::Nothing);
        let filler = disk.root().join("filler");
        fill(&filler).await?;
        stage.load(Duration::from_secs(args.seconds)).await;
        stage.fault("kills on a full disk", Means::Nothing);
        stage.kill()?;
        stage.start()?;
        fill(&filler).await?;
        stage.load(Duration::from_secs(args.seconds)).await;
        std::fs::remove_file(&filler)?;
        if !resumes(&mut stage).await {
            run.wrong(Wrong::Stuck, "no put was accepted within 10 s after the disk was freed".to_owned());
        }
        run.end(stage).await?;
    }
    run.was_full();
    Ok(run.finish())
}

async fn resumes(stage: &mut Stage) -> bool {
    let before = stage.fleet.stored();
    for _ in 0..RESUMES {
        stage.load(Duration::from_millis(100)).await;
        if stage.fleet.stored() > before {
            return true;
        }
    }
    false
}

/// Writes until nothing more will go: first large pieces, then blocks. Off the thread that hears signals.
async fn fill(path: &Path) -> Outcome<()> {
    let mut file = File::options().create(true).append(true).open(path)?;
    let filled = tokio::task::spawn_blocking(move || {
        for piece in [1 << 20, 4_096] {
            let piece = vec![0x5a_u8; piece];
            while file.write_all(&piece).is_ok() {}
            // Whether all of it is on disk makes no difference.
            drop(file.sync_data());
        }
    });
    Ok(filled.await?)
}
