//! `kill -9`, over and over.

use std::time::Duration;

use super::Weight;
use crate::Outcome;
use crate::history::Means;
use crate::run::{Options, Run};

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// How many
    #[arg(long, default_value_t = 20)]
    pub(crate) count: u32,
    /// How many of them before everything is consumed and judged
    #[arg(long, default_value_t = 10)]
    pub(crate) per_round: u32,
    /// What clients do
    #[arg(long, default_value = "mixed")]
    pub(crate) load: Weight,
}

impl Default for Args {
    fn default() -> Self {
        Self { count: 20, per_round: 10, load: Weight::Mixed }
    }
}

pub(crate) async fn run(args: &Args, options: &Options) -> Outcome<bool> {
    let mut run = Run::new(&format!("{} kills", args.count), args.load.load(), options)?;
    let mut left = args.count;
    while left > 0 {
        let mut stage = run.begin()?;
        stage.start()?;
        for _ in 0..left.min(args.per_round) {
            stage.load(Duration::from_millis(20 + run.chance(600))).await;
            stage.fault("kills", Means::Nothing);
            stage.kill()?;
            stage.start()?;
        }
        left -= left.min(args.per_round);
        run.end(stage).await?;
    }
    Ok(run.finish())
}
