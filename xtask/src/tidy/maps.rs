//! Rule: the page of the embedded store's `lib.rs`, and that of its `format.rs`, name every module they have; and its
//! constants have names of more than one word, outside of the formats, whose fields are named as they are.

use super::finding::Finding;
use super::repo::Repo;

const SOURCE: &str = "crates/dwell-store-embedded/src/";

/// Files whose page is the map of their modules.
const MAPS: [&str; 2] = ["lib.rs", "format.rs"];

/// Words that name a constant well enough by themselves: file names, bounds of a type, and the page of the disk.
const ALLOWED: [&str; 3] = ["ALL", "MAGIC", "PREFIX"];

pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    let maps = MAPS.iter().filter_map(|name| {
        let path = format!("{SOURCE}{name}");
        Some(unnamed_modules(&path, &repo.file(&path)?.text))
    });
    let mut findings: Vec<Finding> = maps.flatten().collect();
    for file in repo.files.iter().filter(|file| file.path.starts_with(SOURCE)) {
        let is_format = file.path.contains("/format") || file.path.ends_with("tests.rs");
        if !is_format {
            findings.extend(one_word_constants(&file.path, &file.text));
        }
    }
    findings
}

fn unnamed_modules(path: &str, text: &str) -> Vec<Finding> {
    let page: String = text.lines().take_while(|line| line.starts_with("//!")).collect();
    let module = |line: &str| {
        let name = line.trim_start_matches("pub ").trim_start_matches("pub(crate) ").strip_prefix("mod ")?;
        name.strip_suffix(';').map(str::to_owned)
    };
    let unnamed = text.lines().zip(1..).filter_map(|(line, number)| Some((module(line)?, number)));
    let unnamed = unnamed.filter(|(name, _)| name != "tests" && !page.contains(&format!("`{name}`")));
    unnamed
        .map(|(name, line)| Finding::new(path, line, format!("the page does not name `{name}`"), "say what it is for"))
        .collect()
}

fn one_word_constants(path: &str, text: &str) -> Vec<Finding> {
    let constant = |line: &str| {
        let words = line.trim().trim_start_matches("pub").trim_start_matches("(crate)").trim_start_matches("(super)");
        let name = words.trim().strip_prefix("const ")?.split(':').next()?.trim().to_owned();
        let is_word = name.len() > 1 && name.chars().all(|c| c.is_ascii_uppercase());
        // A value of a type is named by its type.
        let is_value = words.contains(": Self");
        (is_word && !is_value && !ALLOWED.contains(&name.as_str())).then_some(name)
    };
    let code = text.lines().take_while(|line| !line.contains("#[cfg(test)]"));
    let found = code.zip(1..).filter_map(|(line, number)| Some((constant(line)?, number)));
    found
        .map(|(name, line)| {
            Finding::new(path, line, format!("{name} does not say what it bounds"), "name the thing and its unit")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_that_the_page_does_not_name_is_found() {
        let text = "//! - `a`: one.\n\nmod a;\npub(crate) mod b;\nmod tests;\n";
        assert_eq!(unnamed_modules("lib.rs", text).len(), 1);
        assert!(unnamed_modules("lib.rs", &text.replace("`a`", "`a`, `b`")).is_empty());
    }

    #[test]
    fn a_constant_of_one_word_is_found() {
        let text = "const MOST: usize = 1;\n/// x\npub(crate) const MAX_WAITERS: usize = 1;\nconst MAGIC: u32 = 1;\n\
                    pub(super) const COLD: Self = Self(1);\n";
        assert_eq!(one_word_constants("a.rs", text).len(), 1);
        assert!(one_word_constants("a.rs", "#[cfg(test)]\nconst MOST: usize = 1;\n").is_empty());
    }
}
