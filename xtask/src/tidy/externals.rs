//! Rule: what other people's crates ours do without, as [`TABLE`] says.

use super::finding::Finding;
use super::manifest;
use super::repo::{Crate, Dependency, Repo};

/// Who may not use what.
const TABLE: &[Ban] = &[
    Ban {
        applies: |from| from.name == "timing-wheel",
        families: EVERYTHING,
        in_tests: false,
        right: "the wheel has no dependency",
    },
    Ban {
        applies: |from| from.name == "beanstalk-protocol",
        families: &["tokio", "serde"],
        in_tests: false,
        right: "bytes in, values out: leave input and output to the caller",
    },
    Ban {
        applies: |from| from.folder.starts_with("libs/"),
        families: &["serde", "tracing"],
        in_tests: false,
        right: "libs/ bring nothing that their users did not ask for",
    },
    Ban {
        applies: |from| from.name == "dwell-core",
        families: &["serde", "tokio"],
        in_tests: false,
        right: "the core awaits nothing and encodes nothing: wire and stores do",
    },
    Ban {
        applies: |from| !["dwell", "dwell-bench", "xtask"].contains(&from.name.as_str()),
        families: &["anyhow"],
        in_tests: true,
        right: "use one small error enum per operation, with thiserror",
    },
];

const EVERYTHING: &[&str] = &[];

/// One row of the table.
struct Ban {
    applies: fn(&Crate) -> bool,
    /// `serde` stands for `serde` and all `serde_*` and `serde-*`. None named means all banned.
    families: &'static [&'static str],
    in_tests: bool,
    /// What to do instead, or why.
    right: &'static str,
}

impl Ban {
    fn hits(&self, to: &Dependency) -> bool {
        let named = self.families.iter().any(|family| is_of_family(&to.name, family));
        (self.families.is_empty() || named) && (self.in_tests || !to.dev)
    }
}

fn is_of_family(name: &str, family: &str) -> bool {
    name.strip_prefix(family).is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '_']))
}

pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    let mut findings = Vec::new();
    for from in &repo.crates {
        let is_ours = |name: &str| repo.crates.iter().any(|other| other.name == name);
        for to in from.dependencies.iter().filter(|to| !is_ours(&to.name)) {
            findings.extend(banned(from, to));
        }
    }
    findings
}

fn banned(from: &Crate, to: &Dependency) -> Option<Finding> {
    let ban = TABLE.iter().find(|ban| (ban.applies)(from) && ban.hits(to))?;
    let line = manifest::line_of(&from.manifest, &to.name, to.dev);
    let wrong = format!("`{}` may not use `{}`", from.name, to.name);
    Some(Finding::new(&from.manifest_path(), line, wrong, ban.right))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn banned_in(name: &str, normal: &[&str], dev: &[&str]) -> Vec<String> {
        let crates = vec![Crate::fixture(name, normal, dev)];
        let findings = check(&Repo { crates, ..Repo::default() });
        let uses = |finding: &Finding| finding.message.split('`').nth(3).map(str::to_owned);
        findings.iter().filter_map(uses).collect()
    }

    #[test]
    fn the_core_has_neither_serde_nor_tokio() {
        let found = banned_in("dwell-core", &["thiserror", "serde", "tokio"], &["proptest"]);
        assert_eq!(found, ["serde", "tokio"]);
    }

    #[test]
    fn a_ban_covers_the_family_and_not_its_namesakes() {
        let found = banned_in("dwell-core", &["serde_json", "tokio-util", "serdexter"], &[]);
        assert_eq!(found, ["serde_json", "tokio-util"]);
    }

    #[test]
    fn the_wheel_has_no_dependency_but_its_tests_may() {
        assert_eq!(banned_in("timing-wheel", &["slab"], &["proptest"]), ["slab"]);
    }

    #[test]
    fn anyhow_is_for_binaries() {
        assert_eq!(banned_in("dwell-server", &["anyhow"], &[]), ["anyhow"]);
        assert_eq!(banned_in("dwell-server", &[], &["anyhow"]), ["anyhow"]);
        for binary in ["dwell", "dwell-bench", "xtask"] {
            assert_eq!(banned_in(binary, &["anyhow"], &[]), [""; 0]);
        }
    }

    #[test]
    fn libs_are_known_by_their_folder() {
        let mut queue = Crate::fixture("delay-queue", &["tokio", "tracing"], &[]);
        queue.folder = "libs/delay-queue".to_owned();
        let findings = check(&Repo { crates: vec![queue], ..Repo::default() });
        assert_eq!(
            findings.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["libs/delay-queue/Cargo.toml:1: `delay-queue` may not use `tracing`; \
              libs/ bring nothing that their users did not ask for"]
        );
    }
}
