//! A process that stands still for longer than leases last, while its clients wait.

use std::time::Duration;

use rustix::process::Signal;
use tokio::time::sleep;

use crate::Outcome;
use crate::fleet::Load;
use crate::history::Means;
use crate::run::{Options, Run};

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// How many
    #[arg(long, default_value_t = 10)]
    pub(crate) count: u32,
}

pub(crate) async fn run(args: &Args, options: &Options) -> Outcome<bool> {
    let mut run = Run::new(&format!("{} freezes", args.count), Load::MIXED, options)?;
    let longer_than_leases = Duration::from_millis(Load::MIXED.ttr + 700);
    for _ in 0..args.count {
        let mut stage = run.begin()?;
        stage.start()?;
        stage.load(Duration::from_millis(300 + run.chance(500))).await;
        stage.fault("freezes", Means::Nothing);
        stage.signal(Signal::STOP)?;
        sleep(longer_than_leases).await;
        stage.signal(Signal::CONT)?;
        stage.load(Duration::from_millis(300)).await;
        run.end(stage).await?;
    }
    Ok(run.finish())
}
