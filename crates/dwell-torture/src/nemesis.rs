//! What is done to a server while its clients work.

mod calls;
mod clocks;
mod cold_kills;
mod corruptions;
mod damage;
mod dead_disk;
mod freezes;
mod full_disk;
mod kills;
mod power_cuts;

use clap::{Subcommand, ValueEnum};

use crate::Outcome;
use crate::fleet::Load;
use crate::run::{Expected, Options};

/// A kind of torture.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Nemesis {
    /// `kill -9`, over and over
    Kills(kills::Args),
    /// `kill -9` while jobs move to the cold tier, a directory a round
    ColdKills(cold_kills::Args),
    /// Power cuts of a file system under load
    PowerCuts(power_cuts::Args),
    /// System calls that fail, the first, the second, … of each kind
    Calls(calls::Args),
    /// A disk that dies under a running server
    DeadDisk(dead_disk::Args),
    /// A disk that is full for a while, over restarts too
    FullDisk(full_disk::Args),
    /// Processes that stand still for longer than leases last
    Freezes(freezes::Args),
    /// A wall clock that is set
    Clocks(clocks::Args),
    /// Bits that flip in stored files while no server runs
    Damage(damage::Args),
    /// Stored files torn, cut short, swapped, missing, their bits flipped: thousands of times, in this process
    Corruptions(corruptions::Args),
}

/// How much clients ask for.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Weight {
    /// Every verb, in small batches
    Mixed,
    /// As many puts as will go
    Full,
}

impl Weight {
    fn load(self) -> Load {
        match self {
            Self::Mixed => Load::MIXED,
            Self::Full => Load::FULL,
        }
    }
}

impl Nemesis {
    pub(crate) async fn run(&self, options: &Options) -> Outcome<bool> {
        match self {
            Self::Kills(args) => kills::run(args, options).await,
            Self::ColdKills(args) => cold_kills::run(args, options).await,
            Self::PowerCuts(args) => power_cuts::run(args, options).await,
            Self::Calls(args) => calls::run(args, options).await,
            Self::DeadDisk(args) => dead_disk::run(args, options).await,
            Self::FullDisk(args) => full_disk::run(args, options).await,
            Self::Freezes(args) => freezes::run(args, options).await,
            Self::Clocks(args) => clocks::run(args, options).await,
            Self::Damage(args) => damage::run(args, options).await,
            Self::Corruptions(args) => corruptions::run(args, options).await,
        }
    }
}

/// What runs with every change.
pub(crate) async fn all_in_short(options: &Options) -> Outcome<bool> {
    let no_sync = Options { durability: Some("none".to_owned()), expect: Some(Expected::Lost), ..options.clone() };
    let planted =
        |bug: &str, expect| Options { planted: Some(bug.to_owned()), expect: Some(expect), ..options.clone() };
    let kills = |count| Nemesis::Kills(kills::Args { count, ..kills::Args::default() });
    let cuts = |count| Nemesis::PowerCuts(power_cuts::Args { count, ..power_cuts::Args::default() });
    let steps = [
        (cuts(2), no_sync),
        (cuts(2), planted("SkippedSync", Expected::Lost)),
        (kills(4), planted("LeaseNotLogged", Expected::DoubleLease)),
        (kills(20), options.clone()),
        (kills(10), Options { memory: Some("1MiB".to_owned()), ..options.clone() }),
        (Nemesis::ColdKills(cold_kills::Args { count: 10 }), options.clone()),
        (cuts(10), options.clone()),
        (Nemesis::Calls(calls::Args::up_to(30)), options.clone()),
        (Nemesis::Freezes(freezes::Args { count: 2 }), options.clone()),
        (Nemesis::Damage(damage::Args { count: 10 }), options.clone()),
        (Nemesis::Corruptions(corruptions::Args::short()), options.clone()),
        (Nemesis::DeadDisk(dead_disk::Args::default()), options.clone()),
    ];
    let mut good = true;
    for (nemesis, options) in steps {
        good &= nemesis.run(&options).await?;
    }
    Ok(good)
}

/// Whether something is to be left out, and why; that is said.
fn skipped(what: &str, possible: &Result<(), String>) -> bool {
    if let Err(why) = possible {
        println!("{what}: skipped, {why}");
    }
    possible.is_err()
}
