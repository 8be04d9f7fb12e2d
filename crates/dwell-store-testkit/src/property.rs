//! Random verbs and clock moves against a store and the model, side by side.
//!
//! A case is a list of [`Step`]s over two topics and a handful of ids, so that they collide all the time. Each step is
//! done to both; the answers must be the same, and now and then everything that can be seen must be. A failing case is
//! shrunk to the shortest list that still fails, and printed one step a line.
//!
//! Times in steps are whole units. With a frozen clock a unit is a second and boundaries are hit exactly. Where the
//! clock runs by itself a unit is an hour, every due time is told apart by the step it comes from, and instants agree
//! if they are within [`TOLERANCE`].

mod compare;
mod pair;
mod step;

use std::fmt;

use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};

pub use step::Step;

use crate::MakeStore;

/// How far instants may be apart where the store's clock runs by itself, in milliseconds.
const TOLERANCE: u64 = 15_000;

/// A case that went wrong: the shortest one found, and what was wrong.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The steps.
    pub steps: Vec<Step>,
    /// What the last of them brought to light.
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.what)?;
        writeln!(f, "after")?;
        self.steps.iter().try_for_each(|step| writeln!(f, "  {step}"))
    }
}

/// Runs `cases` random cases of up to `length` steps and panics with the shortest failing one.
pub fn property(make: &MakeStore, cases: u32, length: usize) {
    if let Some(failure) = search(make, cases, length) {
        panic!("{failure}");
    }
}

/// Runs `cases` random cases of up to `length` steps; the shortest failing one, if any fails.
pub fn search(make: &MakeStore, cases: u32, length: usize) -> Option<Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime can be built");
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 4_000, ..Config::default() };
    let mut runner = TestRunner::new(config);
    let strategy = proptest::collection::vec(step::any(), 1..=length);
    let outcome = runner.run(&strategy, |steps| {
        let run = runtime.block_on(pair::run(MakeStore::clone(make), steps));
        run.map_err(TestCaseError::fail)
    });
    match outcome {
        Ok(()) => None,
        Err(TestError::Fail(what, steps)) => Some(Failure { steps, what: what.to_string() }),
        Err(TestError::Abort(why)) => Some(Failure { steps: Vec::new(), what: format!("the search gave up: {why}") }),
    }
}
