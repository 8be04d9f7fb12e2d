//! The ratchet: oversize things we live with, each with a number that only goes down.
//!
//! Whoever makes one smaller lowers its number (`cargo xtask tidy --bless`), so that it cannot
//! grow back unseen.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

use super::finding::Finding;
use super::repo::Repo;
use super::sizes::Oversize;

/// Where the numbers stand.
pub(crate) const PATH: &str = "xtask/tidy-ratchet.txt";

const BLESS: &str = "run cargo xtask tidy --bless";

/// The content of the ratchet file: comments, then `name lines` on each line.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Ratchet {
    comments: Vec<String>,
    entries: BTreeMap<String, Entry>,
}

#[derive(Debug, PartialEq, Eq)]
struct Entry {
    lines: usize,
    /// Where the entry stands in the ratchet file.
    at: usize,
}

impl Ratchet {
    /// The repository's ratchet; an empty one if it has none.
    pub(crate) fn of(repo: &Repo) -> Self {
        repo.file(PATH).map(|file| Self::parse(&file.text)).unwrap_or_default()
    }

    fn parse(text: &str) -> Self {
        let mut ratchet = Self::default();
        for (index, line) in text.lines().enumerate() {
            if line.starts_with('#') {
                ratchet.comments.push(line.to_owned());
            } else if let Some((name, lines)) = line.rsplit_once(' ') {
                // What is not a number allows nothing, and so is reported as out of date.
                let lines = lines.parse().unwrap_or(0);
                ratchet.entries.insert(name.to_owned(), Entry { lines, at: index + 1 });
            }
        }
        ratchet
    }

    /// What is larger than the ratchet allows, and where the ratchet allows more than needed.
    pub(crate) fn compare(&self, measured: &BTreeMap<String, Oversize>) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (name, found) in measured {
            findings.extend(self.too_large(name, found));
        }
        for (name, entry) in &self.entries {
            let wrong = match measured.get(name) {
                Some(found) if found.lines >= entry.lines => continue,
                Some(found) => format!("{name} has shrunk from {} to {}", entry.lines, found.lines),
                None => format!("{name} has vanished or is within its limit"),
            };
            findings.push(Finding::new(PATH, entry.at, wrong, BLESS));
        }
        findings
    }

    fn too_large(&self, name: &str, found: &Oversize) -> Option<Finding> {
        let Oversize { path, line, lines, limit } = found;
        let wrong = match self.entries.get(name) {
            Some(entry) if *lines <= entry.lines => return None,
            Some(entry) => format!("{name} has grown from {} to {lines} lines", entry.lines),
            None => format!("{name} has {lines} lines"),
        };
        Some(Finding::new(path, *line, wrong, format!("split it, {limit} is the limit")))
    }

    /// The ratchet brought up to date: numbers go down and entries go away; only with
    /// `allow_growth` do numbers go up and entries come in.
    pub(crate) fn bless(self, measured: &BTreeMap<String, Oversize>, allow_growth: bool) -> Self {
        let mut entries = BTreeMap::new();
        for (name, found) in measured {
            let lines = match self.entries.get(name) {
                _ if allow_growth => found.lines,
                Some(entry) => found.lines.min(entry.lines),
                None => continue,
            };
            let at = self.comments.len() + entries.len() + 1;
            entries.insert(name.clone(), Entry { lines, at });
        }
        Self { comments: self.comments, entries }
    }
}

impl Display for Ratchet {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for comment in &self.comments {
            writeln!(f, "{comment}")?;
        }
        for (name, entry) in &self.entries {
            writeln!(f, "{name} {}", entry.lines)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATCHET: &str = "# Down only.\na.rs 600\na.rs::Wheel::advance 80\n";

    fn measured(sizes: &[(&str, usize)]) -> BTreeMap<String, Oversize> {
        let oversize = |&(name, lines): &(&str, usize)| {
            let (path, line, limit) = match name.split_once("::") {
                Some((path, _)) => (path.to_owned(), 9, 70),
                None => (name.to_owned(), 1, 500),
            };
            (name.to_owned(), Oversize { path, line, lines, limit })
        };
        sizes.iter().map(oversize).collect()
    }

    fn compare(sizes: &[(&str, usize)]) -> Vec<String> {
        let findings = Ratchet::parse(RATCHET).compare(&measured(sizes));
        findings.iter().map(ToString::to_string).collect()
    }

    fn bless(sizes: &[(&str, usize)], allow_growth: bool) -> String {
        Ratchet::parse(RATCHET).bless(&measured(sizes), allow_growth).to_string()
    }

    #[test]
    fn what_the_ratchet_lists_passes() {
        assert_eq!(compare(&[("a.rs", 600), ("a.rs::Wheel::advance", 80)]), [""; 0]);
    }

    #[test]
    fn something_new_is_found() {
        assert_eq!(
            compare(&[("a.rs", 600), ("a.rs::Wheel::advance", 80), ("b.rs::run", 71)]),
            ["b.rs:9: b.rs::run has 71 lines; split it, 70 is the limit"]
        );
    }

    #[test]
    fn growth_is_found() {
        assert_eq!(
            compare(&[("a.rs", 601), ("a.rs::Wheel::advance", 80)]),
            ["a.rs:1: a.rs has grown from 600 to 601 lines; split it, 500 is the limit"]
        );
    }

    #[test]
    fn what_shrank_or_vanished_asks_for_a_lower_number() {
        assert_eq!(
            compare(&[("a.rs", 599)]),
            [
                "xtask/tidy-ratchet.txt:2: a.rs has shrunk from 600 to 599; \
                 run cargo xtask tidy --bless",
                "xtask/tidy-ratchet.txt:3: a.rs::Wheel::advance has vanished or is within its \
                 limit; run cargo xtask tidy --bless",
            ]
        );
    }

    #[test]
    fn an_entry_without_a_number_allows_nothing() {
        let ratchet = Ratchet::parse("a.rs many\n");
        let findings = ratchet.compare(&measured(&[("a.rs", 501)]));
        assert_eq!(
            findings.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["a.rs:1: a.rs has grown from 0 to 501 lines; split it, 500 is the limit"]
        );
        assert_eq!(ratchet.compare(&measured(&[])).len(), 1);
    }

    #[test]
    fn blessing_lowers_and_removes() {
        assert_eq!(bless(&[("a.rs", 550)], false), "# Down only.\na.rs 550\n");
        assert_eq!(bless(&[], false), "# Down only.\n");
    }

    #[test]
    fn blessing_never_raises_unless_told_to() {
        let grown = [("a.rs", 700), ("a.rs::Wheel::advance", 80), ("b.rs", 501)];
        assert_eq!(bless(&grown, false), RATCHET);
        assert_eq!(bless(&grown, true), "# Down only.\na.rs 700\na.rs::Wheel::advance 80\nb.rs 501\n");
    }
}
