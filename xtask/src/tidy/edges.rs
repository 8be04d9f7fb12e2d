//! Rule: our crates depend on each other only as [`TABLE`] says.

use super::finding::Finding;
use super::manifest;
use super::repo::{Crate, Repo};

use self::Ours::{Anything, Only};

/// Which of our crates each crate may use. Crates that are planned but not there yet have a row
/// too; a crate without a row is a finding.
pub(crate) const TABLE: &[Row] = &[
    row("timing-wheel", Only(&[])),
    row("delay-queue", Only(&["timing-wheel"])),
    row("beanstalk-protocol", Only(&[])),
    row("dwell-core", Only(&[])),
    row("dwell-store-testkit", Only(&["dwell-core"])),
    row("dwell-store-embedded", Only(&["dwell-core", "timing-wheel"])).in_tests(TESTKIT),
    row("dwell-store-redis", Only(&["dwell-core"])).in_tests(TESTKIT),
    row("dwell-store-postgres", Only(&["dwell-core"])).in_tests(TESTKIT),
    row("dwell-wire", Only(&[])),
    row("dwell-server", Only(&["dwell-core", "dwell-wire", "beanstalk-protocol"])).in_tests(TESTKIT),
    row("dwell-client", Only(&["dwell-wire"])),
    row("dwell-testing", Only(&["dwell-core", "dwell-wire", "dwell-server", "dwell-store-embedded", "dwell-client"])),
    row("dwell", Only(ALL_OF_THE_ABOVE)),
    row("dwell-sim", Only(&["dwell-core", "dwell-store-embedded", "dwell-store-testkit"])),
    row("dwell-torture", Only(&["dwell-client", "dwell-core", "dwell-store-embedded"])),
    row("dwell-bench", Anything),
    row("xtask", Only(&[])),
];

const TESTKIT: &[&str] = &["dwell-store-testkit"];

const ALL_OF_THE_ABOVE: &[&str] = &[
    "timing-wheel",
    "delay-queue",
    "beanstalk-protocol",
    "dwell-core",
    "dwell-store-testkit",
    "dwell-store-embedded",
    "dwell-store-redis",
    "dwell-store-postgres",
    "dwell-wire",
    "dwell-server",
    "dwell-client",
];

/// What one crate may use.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    uses: Ours,
    /// Beyond `uses`, in tests, examples and benchmarks.
    uses_in_tests: &'static [&'static str],
}

enum Ours {
    Only(&'static [&'static str]),
    Anything,
}

const fn row(name: &'static str, uses: Ours) -> Row {
    Row { name, uses, uses_in_tests: &[] }
}

impl Row {
    const fn in_tests(self, uses_in_tests: &'static [&'static str]) -> Self {
        Self { uses_in_tests, ..self }
    }

    fn allows(&self, other: &str, dev: bool) -> bool {
        match self.uses {
            Anything => true,
            Only(names) => names.contains(&other) || (dev && self.uses_in_tests.contains(&other)),
        }
    }

    fn allowed(&self) -> String {
        match self.uses {
            Anything => "anything".to_owned(),
            Only([]) => "none of our crates".to_owned(),
            Only(names) => names.join(", "),
        }
    }
}

pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    repo.crates.iter().flat_map(|from| check_crate(from, &repo.crates)).collect()
}

fn check_crate(from: &Crate, ours: &[Crate]) -> Vec<Finding> {
    let path = from.manifest_path();
    let Some(row) = TABLE.iter().find(|row| row.name == from.name) else {
        let wrong = format!("crate `{}` is unknown", from.name);
        return vec![Finding::new(&path, 1, wrong, "give it a row in xtask/src/tidy/edges.rs")];
    };
    let is_ours = |name: &str| name != from.name && ours.iter().any(|other| other.name == name);
    let edges = from.dependencies.iter().filter(|to| is_ours(&to.name));
    edges
        .filter(|to| !row.allows(&to.name, to.dev))
        .map(|to| {
            let line = manifest::line_of(&from.manifest, &to.name, to.dev);
            let wrong = format!("`{}` may not use `{}`", from.name, to.name);
            Finding::new(&path, line, wrong, format!("it may use {}", row.allowed()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(crates: Vec<Crate>) -> Vec<String> {
        let repo = Repo { crates, ..Repo::default() };
        check(&repo).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn edges_of_the_table_pass() {
        let crates = vec![
            Crate::fixture("timing-wheel", &[], &["proptest"]),
            Crate::fixture("dwell-core", &["thiserror"], &[]),
            Crate::fixture("dwell-store-testkit", &["dwell-core"], &[]),
            Crate::fixture("dwell-store-embedded", &["dwell-core", "timing-wheel"], &["dwell-store-testkit"]),
            Crate::fixture("dwell-bench", &["timing-wheel", "dwell-store-embedded"], &[]),
        ];
        assert_eq!(wrong(crates), [""; 0]);
    }

    #[test]
    fn an_edge_against_the_table_is_found_on_its_line() {
        let mut core = Crate::fixture("dwell-core", &["timing-wheel"], &[]);
        core.manifest = "[dependencies]\ntiming-wheel.workspace = true\n".to_owned();
        assert_eq!(
            wrong(vec![core, Crate::fixture("timing-wheel", &[], &[])]),
            ["crates/dwell-core/Cargo.toml:2: `dwell-core` may not use `timing-wheel`; \
              it may use none of our crates"]
        );
    }

    #[test]
    fn what_tests_may_use_the_crate_itself_may_not() {
        let crates = vec![
            Crate::fixture("dwell-store-redis", &["dwell-store-testkit"], &[]),
            Crate::fixture("dwell-store-testkit", &[], &[]),
        ];
        assert_eq!(
            wrong(crates),
            ["crates/dwell-store-redis/Cargo.toml:1: `dwell-store-redis` may not use \
              `dwell-store-testkit`; it may use dwell-core"]
        );
    }

    #[test]
    fn tests_too_are_bound_by_the_table() {
        let crates = vec![
            Crate::fixture("dwell-core", &[], &["dwell-store-testkit"]),
            Crate::fixture("dwell-store-testkit", &[], &[]),
        ];
        assert_eq!(wrong(crates).len(), 1);
    }

    #[test]
    fn a_crate_without_a_row_is_found() {
        assert_eq!(
            wrong(vec![Crate::fixture("dwell-common", &[], &[])]),
            ["crates/dwell-common/Cargo.toml:1: crate `dwell-common` is unknown; \
              give it a row in xtask/src/tidy/edges.rs"]
        );
    }

    #[test]
    fn the_table_names_only_crates_that_have_a_row() {
        for row in TABLE {
            let Only(uses) = row.uses else { continue };
            for name in uses.iter().chain(row.uses_in_tests) {
                assert!(TABLE.iter().any(|other| other.name == *name), "{name} of {}", row.name);
            }
        }
    }
}
