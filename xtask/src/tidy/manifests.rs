//! Rule: members inherit versions and lints from the workspace manifest.

use super::finding::Finding;
use super::manifest::{self, Entry};
use super::repo::Repo;

pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    let check = |member: &super::repo::Crate| check_text(&member.manifest_path(), &member.manifest);
    repo.crates.iter().flat_map(check).collect()
}

fn check_text(path: &str, text: &str) -> Vec<Finding> {
    let entries = manifest::entries(text);
    let mut findings: Vec<_> = entries.iter().filter_map(|entry| own_version(path, entry)).collect();
    if !entries.iter().any(inherits_lints) {
        findings.push(Finding::new(path, 1, "lints are not inherited", "add [lints] with workspace = true"));
    }
    findings
}

fn inherits_lints(entry: &Entry<'_>) -> bool {
    let place = (entry.table, entry.key);
    (place == ("lints", "workspace") || place == ("", "lints.workspace")) && entry.value == "true"
}

/// Reports an entry that states a version, or where to get a dependency, by itself.
fn own_version(path: &str, entry: &Entry<'_>) -> Option<Finding> {
    if (entry.table, entry.key) == ("package", "version") {
        let wrong = "the package has a version of its own";
        return Some(Finding::new(path, entry.line, wrong, "say version.workspace = true"));
    }
    let dependency = entry.dependency()?;
    let is_own = match dependency.field {
        None => !inherits(entry.value),
        Some(field) => ["version", "path", "git"].contains(&field),
    };
    is_own.then(|| {
        let name = dependency.name;
        let wrong = format!("`{name}` does not come from [workspace.dependencies]");
        Finding::new(path, entry.line, wrong, format!("name it there, and here {name}.workspace = true"))
    })
}

/// Whether the inline table `value` says `workspace = true`.
fn inherits(value: &str) -> bool {
    let value: String = value.split_whitespace().collect();
    value.starts_with("{workspace=true") || value.contains(",workspace=true")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        check_text("Cargo.toml", text).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn inherited_versions_and_lints_pass() {
        let text = "\
[package]
name = \"dwell-core\"
version.workspace = true
[lints]
workspace = true # as everywhere
[dependencies]
thiserror.workspace = true
tokio = { workspace = true, features = [\"sync\"] }
clap = { features = [\"derive\"], workspace = true }
[dev-dependencies.proptest]
workspace = true
features = [\"std\"]
[package.metadata.xtask]
build-only-examples = []
";
        assert_eq!(lines(text), [0; 0]);
    }

    #[test]
    fn a_version_literal_is_found_however_it_is_written() {
        let text = "\
lints.workspace = true
[package]
version = \"1.0.0\"
[dependencies]
serde = \"1\"
tokio = { version = \"1\", features = [\"sync\"] }
clap.version = \"4\"
[dev-dependencies]
dwell-core = { path = \"../dwell-core\" }
[build-dependencies.cc]
version = \"1\"
[target.'cfg(unix)'.dependencies]
libc = \"0.2\"
";
        assert_eq!(lines(text), [3, 5, 6, 7, 9, 11, 13]);
    }

    #[test]
    fn says_how_to_inherit_a_version() {
        let text = "[lints]\nworkspace = true\n[dependencies]\nserde = \"1\"\n";
        assert_eq!(
            check_text("libs/a/Cargo.toml", text)[0].to_string(),
            "libs/a/Cargo.toml:4: `serde` does not come from [workspace.dependencies]; \
             name it there, and here serde.workspace = true"
        );
    }

    #[test]
    fn missing_lints_are_found() {
        let text = "[package]\nname = \"a\"\n[lints]\nworkspace = false\n";
        assert_eq!(
            check_text("libs/a/Cargo.toml", text)[0].to_string(),
            "libs/a/Cargo.toml:1: lints are not inherited; add [lints] with workspace = true"
        );
    }
}
