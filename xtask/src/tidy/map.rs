//! Rule: `ARCHITECTURE.md` names every crate, its table names no other, and folders are named
//! after their crate. (Cargo itself refuses a folder of `crates/` or `libs/` that is no crate.)

use std::collections::BTreeSet;

use super::edges;
use super::finding::Finding;
use super::repo::{Crate, Repo};

const MAP: &str = "ARCHITECTURE.md";

pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    let planned: Vec<&str> = edges::TABLE.iter().map(|row| row.name).collect();
    let names: Vec<&str> = repo.crates.iter().map(|member| member.name.as_str()).collect();
    let mut findings = match repo.file(MAP) {
        Some(map) => check_map(&map.text, &names, &planned),
        None => vec![Finding::new(MAP, 1, "there is no map", "write one that names every crate")],
    };
    findings.extend(repo.crates.iter().filter_map(misnamed_folder));
    findings
}

fn check_map(text: &str, crates: &[&str], planned: &[&str]) -> Vec<Finding> {
    let mentioned: BTreeSet<&str> = text.lines().flat_map(quoted).map(without_folder).collect();
    let missing = crates
        .iter()
        .filter(|name| !mentioned.contains(**name))
        .map(|name| Finding::new(MAP, 1, format!("crate `{name}` is not on the map"), "say what it is for"));
    let unknown = table_names(text)
        .into_iter()
        .filter(|(_, name)| !crates.contains(name) && !planned.contains(name))
        .map(|(line, name)| {
            let right = "remove it, or plan it in xtask/src/tidy/edges.rs";
            Finding::new(MAP, line, format!("there is no crate `{name}`"), right)
        });
    missing.chain(unknown).collect()
}

/// The names in the first column of every table whose first column is headed "crate".
fn table_names(text: &str) -> Vec<(usize, &str)> {
    let mut names = Vec::new();
    let mut heading: Option<&str> = None;
    for (index, line) in text.lines().enumerate() {
        let cell = line.trim().strip_prefix('|').and_then(|row| row.split('|').next());
        // The first row of a table is its heading; any other line ends the table.
        heading = cell.map(|cell| heading.unwrap_or(cell.trim()));
        if let (Some(cell), Some("crate" | "Crate" | "crates" | "Crates")) = (cell, heading) {
            names.extend(quoted(cell).map(|name| (index + 1, without_folder(name))));
        }
    }
    names
}

/// What stands between backticks on one line.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

fn without_folder(name: &str) -> &str {
    let name = name.trim_end_matches('/');
    name.strip_prefix("crates/").or_else(|| name.strip_prefix("libs/")).unwrap_or(name)
}

fn misnamed_folder(member: &Crate) -> Option<Finding> {
    let (parent, folder) = member.folder.split_once('/')?;
    let is_wrong = ["crates", "libs"].contains(&parent) && folder != member.name;
    is_wrong.then(|| {
        let wrong = format!("crate `{}` lives in `{folder}`", member.name);
        let right = format!("name its folder {parent}/{}", member.name);
        Finding::new(&member.manifest_path(), 1, wrong, right)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# Architecture

Time is an argument: see `Timestamp`.

| crate | one line |
|---|---|
| `libs/timing-wheel` | the wheel |
| `crates/dwell-core` · `dwell-wire` | uses `nothing` |

| word | meaning |
|---|---|
| `horizon` | how far ahead |

`xtask` does the chores.
";

    fn messages(findings: &[Finding]) -> Vec<String> {
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_map_of_all_crates_passes() {
        let crates = ["timing-wheel", "dwell-core", "xtask"];
        assert_eq!(check_map(TEXT, &crates, &["dwell-wire"]), []);
    }

    #[test]
    fn a_crate_that_is_not_on_the_map_is_found() {
        let crates = ["timing-wheel", "dwell-core", "dwell-wire", "dwell"];
        assert_eq!(
            messages(&check_map(TEXT, &crates, &[])),
            ["ARCHITECTURE.md:1: crate `dwell` is not on the map; say what it is for"]
        );
    }

    #[test]
    fn a_crate_that_is_only_on_the_map_is_found() {
        assert_eq!(
            messages(&check_map(TEXT, &["timing-wheel", "dwell-core"], &[])),
            ["ARCHITECTURE.md:8: there is no crate `dwell-wire`; \
              remove it, or plan it in xtask/src/tidy/edges.rs"]
        );
    }

    #[test]
    fn no_map_is_found() {
        assert_eq!(
            messages(&check(&Repo::default())),
            ["ARCHITECTURE.md:1: there is no map; write one that names every crate"]
        );
    }

    #[test]
    fn a_folder_is_named_after_its_crate() {
        let mut member = Crate::fixture("dwell-core", &[], &[]);
        assert_eq!(misnamed_folder(&member), None);
        member.folder = "crates/core".to_owned();
        assert_eq!(
            misnamed_folder(&member).unwrap().to_string(),
            "crates/core/Cargo.toml:1: crate `dwell-core` lives in `core`; \
             name its folder crates/dwell-core"
        );
        for elsewhere in ["bench", "tools/core"] {
            member.folder = elsewhere.to_owned();
            assert_eq!(misnamed_folder(&member), None);
        }
    }
}
