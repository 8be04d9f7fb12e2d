//! The verbs of the command line that talk to a server, or see to its files: one file a verb.
//!
//! Each is a struct of its flags, whose documentation is its help, with a `run` that makes its calls and says what came
//! of them. `server` is what they share; `parse` reads what is typed.

mod body;
mod clock;
mod interrupt;
mod parse;
mod server;
mod settle;

mod ack;
mod backup;
mod bench;
mod cancel;
mod completions;
mod doctor;
mod export;
mod get;
mod import;
mod jobs;
mod lease;
mod man;
mod r#move;
mod nack;
mod pause;
mod put;
mod redrive;
mod repair;
mod resume;
mod tail;
mod timeline;
mod topics;
mod r#try;

use clap::{Command, Subcommand};

use crate::exit::Exit;

/// What a server can be asked from the command line.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Put(put::Put),
    Get(get::Get),
    Move(r#move::Move),
    Cancel(cancel::Cancel),
    Lease(lease::Lease),
    Ack(ack::Ack),
    Nack(nack::Nack),
    Tail(tail::Tail),
    Topics(topics::Topics),
    Jobs(jobs::Jobs),
    Timeline(timeline::Timeline),
    Redrive(redrive::Redrive),
    Pause(pause::Pause),
    Resume(resume::Resume),
    Try(r#try::Try),
    Bench(bench::Bench),
    Export(export::Export),
    Import(import::Import),
    Doctor(doctor::Doctor),
    Backup(backup::Backup),
    Repair(repair::Repair),
    Completions(completions::Completions),
    Man(man::Man),
}

impl Verb {
    /// Does it.
    pub(crate) fn run(self, command: Command) -> Result<(), Exit> {
        let mut runtime = match &self {
            Self::Completions(completions) => return completions.run(command),
            Self::Man(man) => return man.run(command),
            // What measures must not wait for itself.
            Self::Bench(_) => tokio::runtime::Builder::new_multi_thread(),
            _ => tokio::runtime::Builder::new_current_thread(),
        };
        let runtime = runtime.enable_all().build();
        let runtime = runtime.map_err(|error| Exit::failure(format!("cannot start: {error}")))?;
        runtime.block_on(self.ask())
    }

    async fn ask(self) -> Result<(), Exit> {
        match self {
            Self::Put(put) => put.run().await,
            Self::Get(get) => get.run().await,
            Self::Move(r#move) => r#move.run().await,
            Self::Cancel(cancel) => cancel.run().await,
            Self::Lease(lease) => lease.run().await,
            Self::Ack(ack) => ack.run().await,
            Self::Nack(nack) => nack.run().await,
            Self::Tail(tail) => tail.run().await,
            Self::Topics(topics) => topics.run().await,
            Self::Jobs(jobs) => jobs.run().await,
            Self::Timeline(timeline) => timeline.run().await,
            Self::Redrive(redrive) => redrive.run().await,
            Self::Pause(pause) => pause.run().await,
            Self::Resume(resume) => resume.run().await,
            Self::Try(r#try) => r#try.run().await,
            Self::Bench(bench) => bench.run().await,
            Self::Export(export) => export.run().await,
            Self::Import(import) => import.run().await,
            Self::Doctor(doctor) => doctor.run().await,
            Self::Backup(backup) => backup.run(),
            Self::Repair(repair) => repair.run(),
            Self::Completions(_) | Self::Man(_) => Ok(()),
        }
    }
}
