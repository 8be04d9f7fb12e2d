//! The suite that defines a store: named checks, each on a fresh store of its own.
//!
//! A check is an async function that panics when the store is wrong. Where a store's clock is not frozen, checks keep
//! half a minute's distance from every boundary; where it is, they stand on both sides of it.

mod bench;
mod checks;

use std::time::Duration;

use tokio::task::JoinSet;

pub use bench::Bench;

use crate::{MakeStore, Setup, Subject, make_store};

/// How long a check may take before the store counts as stuck.
const PATIENCE: Duration = Duration::from_secs(45);

/// How many checks run at once.
const AT_ONCE: usize = 8;

type Run = fn(Bench) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

/// One thing that a store must do.
#[derive(Clone, Copy)]
pub struct Check {
    /// `area::what_it_says`.
    pub name: &'static str,
    run: Run,
}

/// What the suite found.
#[derive(Debug, Default)]
pub struct Report {
    /// Checks that passed.
    pub passed: Vec<&'static str>,
    /// Checks that failed, with what they said.
    pub failed: Vec<(&'static str, String)>,
}

impl Report {
    /// Whether the check of that name failed.
    pub fn caught(&self, name: &str) -> bool {
        self.failed.iter().any(|(failed, _)| *failed == name)
    }
}

/// Runs every check against stores made by `make` and panics with the list of those that failed.
pub async fn exercise<F, R>(make: F)
where
    F: Fn(Setup) -> R + Send + Sync + 'static,
    R: Future<Output = Subject> + Send + 'static,
{
    let report = run(&make_store(make), checks::ALL).await;
    let list: Vec<String> = report.failed.iter().map(|(name, said)| format!("  {name}: {said}")).collect();
    let (failed, all) = (report.failed.len(), checks::ALL.len());
    assert!(list.is_empty(), "{failed} of {all} checks failed:\n{}", list.join("\n"));
}

/// All checks there are.
pub fn all() -> &'static [Check] {
    checks::ALL
}

/// Runs these checks and says what came of each.
pub async fn run(make: &MakeStore, checks: &[Check]) -> Report {
    let mut report = Report::default();
    let mut running = JoinSet::new();
    let mut left = checks.iter();
    loop {
        while running.len() < AT_ONCE
            && let Some(check) = left.next()
        {
            running.spawn(run_one(MakeStore::clone(make), *check));
        }
        let Some(finished) = running.join_next().await else { break };
        match finished.expect("a check's panic is caught inside") {
            (name, None) => report.passed.push(name),
            (name, Some(said)) => report.failed.push((name, said)),
        }
    }
    report
}

async fn run_one(make: MakeStore, check: Check) -> (&'static str, Option<String>) {
    let body = async move { (check.run)(Bench::new(make).await).await };
    let mut task = tokio::spawn(body);
    let said = match tokio::time::timeout(PATIENCE, &mut task).await {
        Ok(Ok(())) => None,
        Ok(Err(panic)) => Some(words(panic)),
        Err(_) => {
            task.abort();
            Some(format!("stuck: no end after {PATIENCE:?}"))
        }
    };
    (check.name, said)
}

fn words(panic: tokio::task::JoinError) -> String {
    let payload = panic.into_panic();
    let text = payload.downcast_ref::<String>().cloned();
    text.or_else(|| payload.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_else(|| "panicked".to_owned())
}
