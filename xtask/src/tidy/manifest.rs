//! Reads as much of a `Cargo.toml` as the rules need: which key stands where, on which line.
//!
//! Cargo has parsed the file before us, so it is valid TOML; `cargo metadata` tells what it means
//! but neither the line nor whether a version was inherited.

/// `key = value` and the table it stands in.
#[derive(Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) line: usize,
    pub(crate) table: &'a str,
    pub(crate) key: &'a str,
    pub(crate) value: &'a str,
}

/// An entry that says something about a dependency.
pub(crate) struct DependencyEntry<'a> {
    /// The dependency's name in this manifest.
    pub(crate) name: &'a str,
    /// `Some("features")` for `name.features = …` and in `[dependencies.name]`; none for
    /// `name = …`.
    pub(crate) field: Option<&'a str>,
    pub(crate) dev: bool,
}

/// Every `key = value` line of the manifest.
pub(crate) fn entries(text: &str) -> Vec<Entry<'_>> {
    let mut table = "";
    let mut entries = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split(" #").next().unwrap_or(line).trim();
        if line.starts_with('#') {
            continue;
        }
        if let Some(header) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            table = header.trim_matches(['[', ']']).trim();
        } else if let Some((key, value)) = line.split_once('=') {
            entries.push(Entry { line: index + 1, table, key: key.trim(), value: value.trim() });
        }
    }
    entries
}

/// The line on which `dependency` is named; the first line if its entry is not found.
pub(crate) fn line_of(text: &str, dependency: &str, dev: bool) -> usize {
    let renamed = format!("package = \"{dependency}\"");
    let names = |entry: &Entry<'_>| {
        let Some(found) = entry.dependency() else { return false };
        found.dev == dev && (found.name == dependency || entry.value.contains(&renamed))
    };
    entries(text).iter().find(|entry| names(entry)).map_or(1, |entry| entry.line)
}

impl<'a> Entry<'a> {
    /// Reads the three ways to write a dependency: `[dependencies]` with `name = …` or
    /// `name.field = …`, and `[dependencies.name]` with `field = …`.
    pub(crate) fn dependency(&self) -> Option<DependencyEntry<'a>> {
        if let Some(dev) = dependency_table(self.table) {
            let (name, field) = match self.key.split_once('.') {
                Some((name, field)) => (name, Some(field)),
                None => (self.key, None),
            };
            return Some(DependencyEntry { name, field, dev });
        }
        let (table, name) = self.table.rsplit_once('.')?;
        let dev = dependency_table(table)?;
        Some(DependencyEntry { name, field: Some(self.key), dev })
    }
}

/// Whether `table` lists dependencies, and then whether they are those of tests.
fn dependency_table(table: &str) -> Option<bool> {
    match table.rsplit('.').next()? {
        "dependencies" | "build-dependencies" => Some(false),
        "dev-dependencies" => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "\
[package]
name = \"dwell-core\"

[dependencies]
thiserror.workspace = true
# tokio = \"1\"
wheel = { workspace = true, package = \"timing-wheel\" }

[target.'cfg(unix)'.dev-dependencies]
proptest = { workspace = true } # = properties

[dependencies.serde]
version = \"1\"
";

    fn dependencies() -> Vec<(usize, &'static str, Option<&'static str>, bool)> {
        let entries = entries(MANIFEST);
        let found =
            |entry: &Entry<'static>| entry.dependency().map(|found| (entry.line, found.name, found.field, found.dev));
        entries.iter().filter_map(found).collect()
    }

    #[test]
    fn reads_dependencies_however_they_are_written() {
        assert_eq!(
            dependencies(),
            [
                (5, "thiserror", Some("workspace"), false),
                (7, "wheel", None, false),
                (10, "proptest", None, true),
                (13, "serde", Some("version"), false),
            ]
        );
    }

    #[test]
    fn finds_the_line_of_a_dependency_by_its_package_name() {
        assert_eq!(line_of(MANIFEST, "timing-wheel", false), 7);
        assert_eq!(line_of(MANIFEST, "proptest", true), 10);
        assert_eq!(line_of(MANIFEST, "proptest", false), 1);
    }
}
