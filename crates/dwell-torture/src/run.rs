//! A run of many rounds: each begins with clients and a server, and ends when everything is consumed and judged.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use dwell_store_embedded::check_directory;
use rustix::process::Signal;
use tempfile::TempDir;
use tokio::time::sleep;

use crate::Outcome;
use crate::checker::{self, Report, Wrong};
use crate::clock::Clock;
use crate::fleet::{Fleet, Load};
use crate::history::{History, Means};
use crate::job::scramble;
use crate::server::{NotStarted, Recipe, Server};

/// What every run can be told.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// The server to torture [default: `dwell` beside this program]
    #[arg(long, global = true)]
    pub(crate) dwell: Option<PathBuf>,
    /// Where files and disks are made, and removed afterwards [default: the system's temporary directory]
    #[arg(long, global = true)]
    pub(crate) place: Option<PathBuf>,
    /// How durable an answer is, as `dwell serve` takes it
    #[arg(long, global = true)]
    pub(crate) durability: Option<String>,
    /// Memory for jobs, as `dwell serve` takes it; with little of it they go to the cold tier [default: 4GiB]
    #[arg(long, global = true)]
    pub(crate) memory: Option<String>,
    /// A bug to plant; only a server built with the workspace's tests has any
    #[arg(long, global = true)]
    pub(crate) planted: Option<String>,
    /// What must go wrong, or the run fails: to see that it would be found
    #[arg(long, global = true)]
    pub(crate) expect: Option<Expected>,
}

/// What can be expected to go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Expected {
    Lost,
    Resurrected,
    Early,
    DoubleLease,
    Changed,
    AfterFailure,
}

impl Options {
    pub(crate) fn place(&self) -> PathBuf {
        self.place.clone().unwrap_or_else(std::env::temp_dir)
    }

    /// A server with its files in this place, and so much memory for jobs if nothing else is said.
    pub(crate) fn recipe(&self, place: &Path, memory: &str) -> Outcome<Recipe> {
        let memory = self.memory.as_deref().unwrap_or(memory);
        let mut flags = vec!["--memory".to_owned(), memory.to_owned()];
        flags.extend(self.durability.iter().flat_map(|mode| ["--durability".to_owned(), mode.clone()]));
        let planted = self.planted.iter().map(|bug| ("DWELL_PLANTED_BUG".to_owned(), bug.clone()));
        Ok(Recipe {
            program: self.dwell()?,
            data: place.join("data"),
            log: place.join("log"),
            flags,
            wrapper: Vec::new(),
            environment: planted.collect(),
        })
    }

    pub(crate) fn dwell(&self) -> Outcome<PathBuf> {
        let beside = || Ok(std::env::current_exe()?.parent().ok_or("a program is in a directory")?.join("dwell"));
        let program: PathBuf = self.dwell.clone().map_or_else(beside, Outcome::Ok)?;
        if program.exists() {
            Ok(program)
        } else {
            Err(format!("there is no {}; --dwell names one", program.display()).into())
        }
    }
}

/// A run.
pub(crate) struct Run {
    name: String,
    load: Load,
    clock: Clock,
    place: TempDir,
    round: u32,
    recipe: Recipe,
    expect: Option<Expected>,
    /// Whether reads are made to fail.
    reads_fail: bool,
    stored: u64,
    loaded: Duration,
    report: Report,
}

/// One round of it.
pub(crate) struct Stage {
    clock: Clock,
    pub(crate) recipe: Recipe,
    pub(crate) server: Option<Server>,
    pub(crate) fleet: Fleet,
    loaded: Duration,
    /// What was found in the files of a server that had ended.
    disorder: Vec<String>,
}

impl Run {
    pub(crate) fn new(name: &str, load: Load, options: &Options) -> Outcome<Self> {
        let place = tempfile::Builder::new().prefix("dwell-torture-").tempdir_in(options.place())?;
        let recipe = options.recipe(place.path(), "4GiB")?;
        println!("{name}");
        Ok(Self {
            name: name.to_owned(),
            load,
            clock: Clock::start(),
            place,
            round: 0,
            recipe,
            expect: options.expect,
            reads_fail: false,
            stored: 0,
            loaded: Duration::ZERO,
            report: Report::default(),
        })
    }

    /// Where this run has its files.
    pub(crate) fn place(&self) -> &Path {
        self.place.path()
    }

    /// Jobs are kept here, from the next round on.
    pub(crate) fn keep_in(&mut self, data: &Path) {
        data.clone_into(&mut self.recipe.data);
    }

    /// Something else went wrong.
    pub(crate) fn wrong(&mut self, wrong: Wrong, what: String) {
        self.report.wrong(wrong, || what);
    }

    /// From now on reads are made to fail, or what is read is damaged.
    pub(crate) fn fail_reads(&mut self) {
        self.reads_fail = true;
    }

    /// The disk was full, which must have shown and must have broken nothing.
    pub(crate) fn was_full(&mut self) {
        self.report.was_full();
    }

    /// A number below `sides` that differs from call to call.
    pub(crate) fn chance(&self, sides: u64) -> u64 {
        scramble(self.clock.micros()) % sides
    }

    /// A round begins: clients, and no server yet.
    pub(crate) fn begin(&mut self) -> Outcome<Stage> {
        self.round += 1;
        let history = History::create(&self.place.path().join("history"), self.round, self.clock)?;
        let fleet = Fleet::new(self.round, self.load, history, self.clock);
        Ok(Stage {
            clock: self.clock,
            recipe: self.recipe.clone(),
            server: None,
            fleet,
            loaded: Duration::ZERO,
            disorder: Vec::new(),
        })
    }

    /// A round ends: everything is consumed and judged. A server must be there.
    pub(crate) async fn end(&mut self, stage: Stage) -> Outcome<()> {
        self.stored += stage.fleet.stored();
        self.loaded += stage.loaded;
        let mut server = stage.server.ok_or("a round ends with a server")?;
        let history = stage.fleet.drain(|| server.process.runs()).await;
        let path = history.map_err(|error| format!("{error}; it said: {}", last_words(&self.recipe.log)))?.finish()?;
        let mut report = checker::check(&path)?;
        if !self.reads_fail {
            report.was_readable();
        }
        for found in stage.disorder {
            report.wrong(Wrong::Disorder, || found);
        }
        // One history is enough to look into; where something is to go wrong, none is needed.
        if !report.is_clean() && self.report.is_clean() && self.expect.is_none() {
            let kept =
                std::env::temp_dir().join(format!("dwell-torture-{}-{}.history", std::process::id(), self.round));
            std::fs::copy(&path, &kept)?;
            println!("  round {} went wrong; its history is {}", self.round, kept.display());
            println!("{report}");
        }
        self.report.add(report);
        server.process.kill()
    }

    /// Everything that was seen; true if it was right, or as wrong as it should be.
    pub(crate) fn finish(self) -> bool {
        if self.expect.is_none() {
            println!("{}", self.report);
        }
        let rate = u128::from(self.stored) * 1_000 / self.loaded.as_millis().max(1);
        let time = self.clock.elapsed().as_secs();
        println!("  load        {} rounds, {rate} puts/s while a server was up, {time} s in all", self.round);
        let Some(expected) = self.expect else {
            println!("  {}: {}", self.name, if self.report.is_clean() { "ok" } else { "FAILED" });
            return self.report.is_clean();
        };
        let wrong = match expected {
            Expected::Lost => Wrong::Lost,
            Expected::Resurrected => Wrong::Resurrected,
            Expected::Early => Wrong::Early,
            Expected::DoubleLease => Wrong::DoubleLease,
            Expected::Changed => Wrong::Changed,
            Expected::AfterFailure => Wrong::AfterFailure,
        };
        let found = self.report.times(wrong);
        let verdict = if found > 0 { "as there should be" } else { "FAILED: it cannot see this" };
        println!("  {}: {found} {wrong}, {verdict}", self.name);
        found > 0
    }
}

impl Stage {
    /// Starts a server, which must start.
    pub(crate) fn start(&mut self) -> Outcome<()> {
        let started = self.try_start()?;
        started.map_err(|refused| format!("the server does not start ({}): {}", refused.status, refused.said).into())
    }

    /// Starts a server, if it will.
    pub(crate) fn try_start(&mut self) -> Outcome<Result<(), NotStarted>> {
        Ok(self.recipe.start()?.map(|server| {
            self.fleet.server_is(&server.client);
            self.server = Some(server);
        }))
    }

    /// Lets the clients go on for a while.
    pub(crate) async fn load(&mut self, time: Duration) {
        let before = self.clock.elapsed();
        sleep(time).await;
        self.loaded += self.clock.elapsed().saturating_sub(before);
    }

    /// Writes down what is about to be done.
    pub(crate) fn fault(&self, what: &str, means: Means) {
        self.fleet.history().fault(what, means);
    }

    pub(crate) fn signal(&self, signal: Signal) -> Outcome<()> {
        self.server.as_ref().ok_or("there is no server")?.process.signal(signal)
    }

    /// What the server says, if its store has failed.
    pub(crate) async fn failure(&self) -> Option<String> {
        let asked = self.server.as_ref()?.client.info().await;
        asked.err().filter(|error| error.code().is_some_and(|code| code.status() == 503)).map(|error| error.to_string())
    }

    /// Ends the server as a crash would.
    pub(crate) fn kill(&mut self) -> Outcome<()> {
        let mut server = self.server.take().ok_or("there is no server")?;
        self.fleet.server_is_gone();
        server.process.kill()?;
        self.check_files();
        Ok(())
    }

    /// Looks whether every job in the files is in exactly one order, and counts are what is there. What cannot be read is
    /// found by the next start.
    fn check_files(&mut self) {
        if let Ok(checked) = check_directory(&self.recipe.data)
            && !checked.is_good()
        {
            self.disorder.push(format!("{checked:?}"));
        }
    }

    /// Asks the server to end, and waits until it has.
    pub(crate) fn stop(&mut self) -> Outcome<()> {
        self.fleet.server_is_gone();
        let mut server = self.server.take().ok_or("there is no server")?;
        server.process.signal(Signal::TERM)?;
        let status = server.process.0.wait()?;
        self.check_files();
        if status.success() { Ok(()) } else { Err(format!("asked to stop, the server ended with {status}").into()) }
    }
}

fn last_words(log: &Path) -> String {
    let said = std::fs::read_to_string(log).unwrap_or_default();
    said.lines().rev().take(3).collect::<Vec<_>>().join(" | ")
}
