//! `cargo xtask test`: runs the steps of [`STEPS`] one after the other and sums them up.
//!
//! To add a step: write `test/<step>.rs` with a `run` function, and give it a row in [`STEPS`].
//! A step that runs tests through cargo calls [`cargo_test::stream`], which counts them.

mod artifacts;
mod beanstalk_clients;
mod cargo_test;
mod examples;
mod far;
mod http_on_redis;
mod ops;
mod otlp;
mod packages;
mod python;
mod receivers;
mod schemathesis;
mod sdks;
mod server;
mod simulation;
mod stream;
mod summary;
mod tally;
mod torture;
mod workspace_tests;

use std::time::{Duration, Instant};

use clap::builder::PossibleValuesParser;

use self::summary::{Report, Summary};
use self::tally::Tally;
use crate::workspace::Workspace;

/// One part of the whole run.
struct Step {
    /// What `--only` calls it.
    name: &'static str,
    /// One line for `--list`.
    about: &'static str,
    /// Does it. Counts tests into the tally; an error fails the step, whatever was counted.
    run: fn(&Workspace, &mut Tally) -> anyhow::Result<()>,
}

/// Every step, in the order in which they run.
const STEPS: &[Step] = &[
    Step {
        name: "tests",
        about: "unit, integration and documentation tests of every crate",
        run: workspace_tests::run,
    },
    Step { name: "examples", about: "build every example, run the fast ones", run: examples::run },
    Step {
        name: "redis",
        about: "the tests of every edge once more, on Redis (needs redis-server)",
        run: http_on_redis::run,
    },
    Step {
        name: "otlp",
        about: "lints and tests of the build with traces: a collector reads a server's spans",
        run: otlp::run,
    },
    Step {
        name: "schemathesis",
        about: "a server against its own OpenAPI document (needs Python)",
        run: schemathesis::run,
    },
    Step {
        name: "beanstalk",
        about: "clients of beanstalkd in Python, Node, Go and Java drive a server",
        run: beanstalk_clients::run,
    },
    Step {
        name: "receivers",
        about: "the guide's receivers of webhooks, as printed (installs Node, Go and Java)",
        run: receivers::run,
    },
    Step {
        name: "ops",
        about: "the alert rules, tried by Prometheus' own tool; the chart, rendered (installs both tools)",
        run: ops::run,
    },
    Step {
        name: "sdks",
        about: "the clients in Python and TypeScript: types, tests against a server, packages (installs Node)",
        run: sdks::run,
    },
    Step {
        name: "far",
        about: "a million jobs in the cold tier: put, killed, opened, looked up, moved, cancelled",
        run: far::run,
    },
    Step {
        name: "simulation",
        about: "live seeds of the embedded store for 3 minutes, find every planted bug",
        run: simulation::run,
    },
    Step {
        name: "torture",
        about: "kills, power cuts and failing calls under a real server (root and loop devices for all of it)",
        run: torture::run,
    },
];

/// Arguments of `cargo xtask test`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Show the steps and run none
    #[arg(long)]
    list: bool,
    /// Run this step alone
    #[arg(long, value_name = "NAME", value_parser = step_names())]
    only: Option<String>,
}

fn step_names() -> PossibleValuesParser {
    PossibleValuesParser::new(STEPS.iter().map(|step| step.name))
}

/// Runs the chosen steps; true if all of them passed.
pub(crate) fn run(args: &Args, workspace: &Workspace) -> bool {
    if args.list {
        for step in STEPS {
            println!("{:<12} {}", step.name, step.about);
        }
        return true;
    }
    let chosen = STEPS.iter().filter(|step| args.only.as_ref().is_none_or(|o| o == step.name));
    let summary = Summary { reports: chosen.map(|step| run_step(step, workspace)).collect() };
    println!("\n{summary}");
    summary.passed()
}

fn run_step(step: &Step, workspace: &Workspace) -> Report {
    println!("\n=== {}: {}", step.name, step.about);
    let mut tally = Tally::default();
    let (outcome, time) = timed(|| (step.run)(workspace, &mut tally));
    let error = outcome.err().map(|error| format!("{error:#}"));
    Report { name: step.name, tally, error, time }
}

#[expect(clippy::disallowed_methods, reason = "how long a step took is for people to read")]
fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let result = work();
    (result, start.elapsed())
}
