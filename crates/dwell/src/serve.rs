//! `dwell serve`, `dwell dev` and `dwell beanstalkd`: the server.
//!
//! `settings` says what a server can be told and reads it from flags, environment and file; `listen` binds; `store` opens
//! what it runs on; `banner` is what it says when it is up; `logs` is what it says afterwards; `reload` is what can be
//! replaced while it runs; `notify` tells a service manager how it is; `otlp` sends spans to a collector.

mod banner;
pub(crate) mod beanstalkd;
mod clock;
mod listen;
mod logs;
mod notify;
#[cfg_attr(not(feature = "otlp"), path = "serve/no_otlp.rs")]
mod otlp;
mod reload;
mod settings;
mod store;

use std::sync::Arc;

use clap::{ArgMatches, Command};
use dwell_core::Store;
use dwell_server::beanstalk::{self, Draining};
use dwell_server::{Access, Shutdown};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};

use self::notify::Manager;
use self::reload::{ReadAgain, Reload};
use self::settings::{BeanstalkAddress, Mode, Settings, StoreChoice};
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
    start(settings::read(matches)?, again(matches))
}

/// Runs `dwell dev`.
pub(crate) fn run_dev(matches: &ArgMatches) -> Result<(), Exit> {
    let directory = tempfile::Builder::new().prefix("dwell-dev-").tempdir();
    let directory = directory.map_err(|error| Exit::failure(format!("cannot make a temporary directory: {error}")))?;
    let mut settings = settings::read(matches)?;
    settings.delivery.guard.loopback = true;
    let store = StoreChoice::Directory(directory.path().to_owned());
    let beanstalk = settings.beanstalk.clone().or(Some(BeanstalkAddress::AnyOfThisMachine));
    let settings = Settings { store, beanstalk, mode: Mode::Dev, ..settings };
    let outcome = start(settings, again(matches));
    drop(directory);
    outcome
}

/// Reads what was given on the command line and in the environment, and the files that are named there, again.
fn again(matches: &ArgMatches) -> ReadAgain {
    let matches = matches.clone();
    Arc::new(move || settings::read(&matches))
}

fn start(settings: Settings, read_again: ReadAgain) -> Result<(), Exit> {
    logs::start(&settings)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Exit::failure(format!("cannot start threads: {error}")))?;
    runtime.block_on(serve(settings, read_again))
}

async fn serve(settings: Settings, read_again: ReadAgain) -> Result<(), Exit> {
    let manager = Manager::of_environment()?;
    listen::allow_many_connections(settings.max_connections);
    let listener = listen::bind(&settings).await?;
    let (beanstalk, place) = listen::bind_beanstalk(&settings).await?.unzip();
    let (store, clock) = store::open(&settings).await?;
    let (shutdown, draining) = (Shutdown::default(), Draining::default());
    tokio::spawn(stop_on_signal(shutdown.clone())?);
    if beanstalk.is_some() {
        tokio::spawn(drain_on_signal(draining.clone())?);
    }
    let hang_up = listen_for(SignalKind::hangup())?;
    banner::print(&settings, listener.as_ref(), place.as_ref(), &*store).await?;
    let metrics = Arc::default();
    let (tracer, exporter) = otlp::start(&settings, &metrics)?.unzip();
    let config = dwell_server::Config {
        access: Access::new(settings.tokens.clone()),
        tls: settings.tls.clone(),
        beanstalk_tls: settings.beanstalk_tls.clone(),
        max_body: settings.max_body,
        max_connections: settings.max_connections,
        delivery: settings.delivery.clone(),
        metrics,
        tracer,
        dev_clock: clock,
        ..dwell_server::Config::default()
    };
    let reload = Reload {
        read_again,
        access: config.access.clone(),
        tls: config.tls.clone(),
        beanstalk_tls: config.beanstalk_tls.clone(),
        is_open: listener.as_ref().is_some_and(listen::is_open),
    };
    tokio::spawn(reload.run(hang_up));
    let telling = manager.map(|manager| tokio::spawn(manager.run(Arc::clone(&store), shutdown.clone())));
    tokio::join!(
        serve_http(config.clone(), listener, Arc::clone(&store), shutdown.clone()),
        serve_beanstalk(config.clone(), beanstalk, Arc::clone(&store), draining, shutdown.clone()),
        dwell_server::push(config, Arc::clone(&store), shutdown),
    );
    drop(place);
    if let Some(telling) = telling {
        drop(telling.await);
    }
    let closed = store.close().await;
    if let Some(exporter) = exporter {
        exporter.finish().await;
    }
    tracing::info!("stopped");
    closed.map_err(|error| Exit::failure(format!("the store did not close well: {error}")))
}

async fn serve_http(
    config: dwell_server::Config,
    listener: Option<TcpListener>,
    store: Arc<dyn Store>,
    shutdown: Shutdown,
) {
    if let Some(listener) = listener {
        dwell_server::serve(config, vec![listener], store, shutdown).await;
    }
}

async fn serve_beanstalk(
    config: dwell_server::Config,
    listener: Option<beanstalk::Listener>,
    store: Arc<dyn Store>,
    draining: Draining,
    shutdown: Shutdown,
) {
    if let Some(listener) = listener {
        beanstalk::serve(config, vec![listener], store, draining, shutdown).await;
    }
}

/// Takes no more jobs over beanstalk from the first SIGUSR1 on, as beanstalkd does.
fn drain_on_signal(draining: Draining) -> Result<impl Future<Output = ()> + Send, Exit> {
    let mut drain = listen_for(SignalKind::user_defined1())?;
    Ok(async move {
        drain.recv().await;
        tracing::info!("draining: puts over beanstalk are answered DRAINING until the server is started again");
        draining.start();
    })
}

fn listen_for(kind: SignalKind) -> Result<Signal, Exit> {
    signal(kind).map_err(|error| Exit::failure(format!("cannot listen for signals: {error}")))
}

/// Starts the shutdown at the first SIGTERM or SIGINT; the second one ends the process.
fn stop_on_signal(shutdown: Shutdown) -> Result<impl Future<Output = ()> + Send, Exit> {
    let (mut terminate, mut interrupt) = (listen_for(SignalKind::terminate())?, listen_for(SignalKind::interrupt())?);
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
