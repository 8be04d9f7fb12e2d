//! Rule: relative links in Markdown files lead to a file or folder of the repository.

use std::collections::BTreeSet;
use std::path::Path;

use super::finding::Finding;
use super::repo::Repo;

pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    let places = places(repo.files.iter().map(|file| file.path.as_str()));
    let documents = repo.files.iter().filter(|file| file.extension() == "md");
    documents.flat_map(|file| check_text(&file.path, &file.text, &places)).collect()
}

/// Every file and every folder around it; the root is the empty path.
fn places<'a>(paths: impl Iterator<Item = &'a str>) -> BTreeSet<&'a str> {
    paths.flat_map(|path| Path::new(path).ancestors().filter_map(Path::to_str)).collect()
}

fn check_text(path: &str, text: &str, places: &BTreeSet<&str>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, target) in targets(text) {
        let Some(file) = relative_part(target) else { continue };
        if !resolve(path, file).is_some_and(|place| places.contains(place.as_str())) {
            let wrong = format!("the link to `{target}` leads nowhere");
            findings.push(Finding::new(path, line, wrong, "name a file of the repository"));
        }
    }
    findings
}

/// The targets of `[text](target)` and `[label]: target`, with their lines; code left out.
fn targets(text: &str) -> Vec<(usize, &str)> {
    let mut targets = Vec::new();
    let mut in_fence = false;
    for (index, line) in text.lines().enumerate() {
        let start = line.trim_start();
        if start.starts_with("```") || start.starts_with("~~~") {
            in_fence = !in_fence;
        } else if !in_fence {
            let found = inline_targets(line).into_iter().chain(definition_target(start));
            targets.extend(found.map(|target| (index + 1, target)));
        }
    }
    targets
}

fn inline_targets(line: &str) -> Vec<&str> {
    line.match_indices("](")
        .filter(|(at, _)| !is_inside_code(&line[..*at]))
        .filter_map(|(at, _)| until_closed(&line[at + 2..]))
        .map(without_title)
        .collect()
}

fn is_inside_code(before: &str) -> bool {
    before.matches('`').count() % 2 == 1
}

/// The text up to the parenthesis that closes the link.
fn until_closed(rest: &str) -> Option<&str> {
    let mut depth = 0;
    let end = rest.find(|c| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        depth < 0
    })?;
    Some(&rest[..end])
}

fn definition_target(line: &str) -> Option<&str> {
    let (label, target) = line.strip_prefix('[')?.split_once("]: ")?;
    (!label.starts_with('^')).then(|| without_title(target))
}

/// `a.md` of `a.md "Title"`, `a b.md` of `<a b.md>`.
fn without_title(target: &str) -> &str {
    let target = target.trim();
    match target.strip_prefix('<').and_then(|rest| rest.split_once('>')) {
        Some((target, _title)) => target,
        None => target.split_whitespace().next().unwrap_or(""),
    }
}

/// The path that the target names in the repository; none if it leads elsewhere.
fn relative_part(target: &str) -> Option<&str> {
    let path = target.split(['#', '?']).next()?;
    let has_scheme = path.split('/').next()?.contains(':');
    (!path.is_empty() && !has_scheme).then_some(path)
}

/// Where `target` leads from the file `from`; none if out of the repository.
fn resolve(from: &str, target: &str) -> Option<String> {
    let folder = from.rsplit_once('/').map_or("", |(folder, _name)| folder);
    let start = if target.starts_with('/') { "" } else { folder };
    let mut place: Vec<&str> = Vec::new();
    for part in start.split('/').chain(target.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(place.pop()?),
            name => place.push(name),
        }
    }
    Some(place.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: [&str; 3] = ["README.md", "docs/a b.md", "docs/decisions/001-wheel.md"];

    fn lines(path: &str, text: &str) -> Vec<usize> {
        let findings = check_text(path, text, &places(FILES.into_iter()));
        findings.iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn links_to_files_and_folders_pass() {
        let text = "
            [a](README.md), ![b](./docs/decisions/001-wheel.md#why \"Why\") and [`c`](docs/)
            [d](<docs/a b.md>) [e](/README.md) [f](#here) [g](https://example.org/x.md)
            [h](mailto:a@example.org)
            [i]: docs/decisions
            [^1]: note";
        assert_eq!(lines("README.md", text), [0; 0]);
        assert_eq!(
            lines("docs/decisions/001-wheel.md", "[up](../../README.md) [root](../..) [top](/README.md)"),
            [0; 0]
        );
    }

    #[test]
    fn a_link_to_nothing_is_found() {
        let findings = check_text("docs/x.md", "\n[a](README.md)", &places(FILES.into_iter()));
        assert_eq!(
            findings[0].to_string(),
            "docs/x.md:2: the link to `README.md` leads nowhere; name a file of the repository"
        );
    }

    #[test]
    fn a_target_may_hold_parentheses() {
        assert_eq!(targets("[a](b(1).md) (c)"), [(1, "b(1).md")]);
    }

    #[test]
    fn every_kind_of_broken_link_is_found() {
        assert_eq!(lines("README.md", "[a](b.md) and [c](docs/d(1).md#e)"), [1, 1]);
        assert_eq!(lines("README.md", "[a]: b.md"), [1]);
        assert_eq!(lines("README.md", "[out](../README.md)"), [1]);
        assert_eq!(lines("README.md", "[half](doc)"), [1]);
    }

    #[test]
    fn code_is_not_searched_for_links() {
        let text = "```rust\nv[0](b.md)\n```\n`v[0](b.md)`\n[a](b.md)";
        assert_eq!(lines("README.md", text), [5]);
    }
}
