//! `dwell serve` and `dwell dev`: the server.
//!
//! `settings` says what a server can be told and reads it from flags, environment and file; `listen` binds; `store` opens
//! what it runs on; `banner` is what it says when it is up; `logs` is what it says afterwards.

mod banner;
mod clock;
mod listen;
mod logs;
mod settings;
mod store;

use std::sync::Arc;

use clap::{ArgMatches, Command};
use dwell_server::Shutdown;
use tokio::signal::unix::{Signal, SignalKind, signal};

use self::settings::{Settings, StoreChoice};
use crate::exit::Exit;

/// `dwell serve`.
pub(crate) fn command() -> Command {
    let about = "Start a server; jobs are kept in ./dwell-data unless you say otherwise";
    settings::arguments(Command::new("serve").about(about), |_| true).after_help(
        "Every flag is also an environment variable (DWELL_LISTEN) and a key of the file that --config names\n\
         (listen = \"127.0.0.1:3935\"); a flag beats the environment, which beats the file.",
    )
}

/// `dwell dev`.
pub(crate) fn dev_command() -> Command {
    let about = "Start a server to try things on: temporary data, a clock you can move, this machine only";
    settings::arguments(Command::new("dev").about(about), |key| key.in_dev)
}

/// Runs `dwell serve`.
pub(crate) fn run(matches: &ArgMatches) -> Result<(), Exit> {
    start(settings::read(matches)?)
}

/// Runs `dwell dev`.
pub(crate) fn run_dev(matches: &ArgMatches) -> Result<(), Exit> {
    let directory = tempfile::Builder::new().prefix("dwell-dev-").tempdir();
    let directory = directory.map_err(|error| Exit::failure(format!("cannot make a temporary directory: {error}")))?;
    let settings = settings::read(matches)?;
    let store = StoreChoice::Directory(directory.path().to_owned());
    let outcome = start(Settings { store, dev_clock: true, is_dev: true, ..settings });
    drop(directory);
    outcome
}

fn start(settings: Settings) -> Result<(), Exit> {
    logs::start(&settings)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Exit::failure(format!("cannot start threads: {error}")))?;
    runtime.block_on(serve(settings))
}

async fn serve(settings: Settings) -> Result<(), Exit> {
    listen::allow_many_connections(settings.max_connections);
    let listener = listen::bind(&settings).await?;
    let (store, clock) = store::open(&settings)?;
    let shutdown = Shutdown::default();
    tokio::spawn(stop_on_signal(shutdown.clone())?);
    banner::print(&settings, &listener, &*store).await?;
    let config = dwell_server::Config {
        tokens: settings.tokens.clone(),
        max_body: settings.max_body,
        max_connections: settings.max_connections,
        dev_clock: clock,
        ..dwell_server::Config::default()
    };
    dwell_server::serve(config, vec![listener], Arc::clone(&store), shutdown).await;
    let closed = store.close().await;
    tracing::info!("stopped");
    closed.map_err(|error| Exit::failure(format!("the store did not close well: {error}")))
}

/// Starts the shutdown at the first SIGTERM or SIGINT; the second one ends the process.
fn stop_on_signal(shutdown: Shutdown) -> Result<impl Future<Output = ()> + Send, Exit> {
    let listen = |kind| signal(kind).map_err(|error| Exit::failure(format!("cannot listen for signals: {error}")));
    let (mut terminate, mut interrupt) = (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
    Ok(async move {
        either(&mut terminate, &mut interrupt).await;
        tracing::info!("stopping: parked consumers are answered, requests under way may finish");
        shutdown.start();
        either(&mut terminate, &mut interrupt).await;
        std::process::exit(130);
    })
}

async fn either(one: &mut Signal, other: &mut Signal) {
    tokio::select! {
        _ = one.recv() => {}
        _ = other.recv() => {}
    }
}
