//! `cargo xtask tidy`: checks the rules of [`RULES`], all of them, and prints every finding.
//!
//! To add a rule: write `tidy/<rule>.rs` with `check(&Repo) -> Vec<Finding>` and tests on fixture
//! strings, and give it a row in [`RULES`]. Rules read a [`Repo`] and nothing else: no files, no
//! commands.

mod assertions;
mod edges;
mod externals;
mod finding;
mod links;
mod manifest;
mod manifests;
mod map;
mod maps;
mod ratchet;
mod repo;
mod sizes;
mod test_code;
mod words;

use std::fs;

use anyhow::Context;

use self::finding::Finding;
use self::ratchet::Ratchet;
use self::repo::Repo;
use crate::workspace::Workspace;

/// One thing that holds all over the repository.
struct Rule {
    name: &'static str,
    check: fn(&Repo) -> Vec<Finding>,
}

/// Every rule.
const RULES: &[Rule] = &[
    Rule { name: "edges", check: edges::check },
    Rule { name: "externals", check: externals::check },
    Rule { name: "manifests", check: manifests::check },
    Rule { name: "sizes", check: sizes::check },
    Rule { name: "assertions", check: assertions::check },
    Rule { name: "map", check: map::check },
    Rule { name: "maps", check: maps::check },
    Rule { name: "words", check: words::check },
    Rule { name: "links", check: links::check },
];

/// Arguments of `cargo xtask tidy`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// First lower the numbers of xtask/tidy-ratchet.txt to what is measured
    #[arg(long)]
    bless: bool,
    /// With --bless: also let numbers rise, and let new entries in
    #[arg(long, requires = "bless")]
    allow_growth: bool,
}

/// Checks every rule; true if there is nothing to report.
pub(crate) fn run(args: &Args, workspace: &Workspace) -> anyhow::Result<bool> {
    let mut repo = Repo::load(workspace)?;
    if args.bless {
        bless(args, workspace, &repo)?;
        repo = Repo::load(workspace)?;
    }
    let mut clean = true;
    for rule in RULES {
        let mut findings = (rule.check)(&repo);
        findings.sort();
        for finding in &findings {
            println!("{finding} [{}]", rule.name);
        }
        clean &= findings.is_empty();
    }
    if clean {
        println!("tidy: {} rules, {} files, no findings", RULES.len(), repo.files.len());
    }
    Ok(clean)
}

fn bless(args: &Args, workspace: &Workspace, repo: &Repo) -> anyhow::Result<()> {
    let measured = sizes::measure(repo);
    let blessed = Ratchet::of(repo).bless(&measured, args.allow_growth);
    let path = workspace.root().join(ratchet::PATH);
    fs::write(&path, blessed.to_string()).with_context(|| format!("cannot write {}", path.display()))
}
