//! Rule: no words of unfinished work: the macros of [`MACROS`] in code, the marks of [`MARKS`] in
//! comments.

use proc_macro2::{TokenStream, TokenTree};

use super::finding::Finding;
use super::repo::{File, Repo};

const MACROS: &[&str] = &["todo", "unimplemented", "dbg"];
const MARKS: &[&str] = &["TODO", "FIXME", "XXX"];

/// Files other than Rust in which a mark is looked for, in comments and elsewhere.
const OTHER_CODE: &[&str] = &["lua", "sql", "py", "sh", "js", "ts", "go", "css", "toml", "yml"];

pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    repo.files.iter().flat_map(check_file).collect()
}

fn check_file(file: &File) -> Vec<Finding> {
    match file.extension() {
        "rs" => check_rust(&file.path, &file.text),
        other if OTHER_CODE.contains(&other) => marks(&file.path, &file.text),
        _ => Vec::new(),
    }
}

fn check_rust(path: &str, text: &str) -> Vec<Finding> {
    // A file that is not Rust is reported by the rule on sizes.
    let Ok(tokens) = text.parse::<TokenStream>() else { return Vec::new() };
    let mut comments = text.as_bytes().to_vec();
    blank_code(tokens.clone(), text, &mut comments);
    let mut findings = marks(path, &String::from_utf8_lossy(&comments));
    macros(path, tokens, &mut findings);
    findings
}

/// Overwrites every token of `text` in `copy`, so that comments alone are left. Documentation
/// comments are tokens as well, but begin like comments and stay.
fn blank_code(tokens: TokenStream, text: &str, copy: &mut [u8]) {
    for token in tokens {
        if let TokenTree::Group(group) = &token {
            blank_code(group.stream(), text, copy);
            continue;
        }
        let range = token.span().byte_range();
        let is_comment = |code: &str| code.starts_with("//") || code.starts_with("/*");
        if text.get(range.clone()).is_some_and(|code| !is_comment(code)) {
            let code = copy[range].iter_mut();
            code.filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
        }
    }
}

fn marks(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
        if let Some(mark) = words.find(|word| MARKS.contains(word)) {
            let wrong = format!("{mark} marks unfinished work");
            findings.push(Finding::new(path, index + 1, wrong, "do it, or plan it elsewhere"));
        }
    }
    findings
}

fn macros(path: &str, tokens: TokenStream, findings: &mut Vec<Finding>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    for window in tokens.windows(3) {
        let [TokenTree::Ident(name), TokenTree::Punct(bang), TokenTree::Group(_)] = window else {
            continue;
        };
        if bang.as_char() == '!' && MACROS.iter().any(|banned| name == banned) {
            let line = name.span().start().line;
            let wrong = format!("{name}! does not belong in finished code");
            findings.push(Finding::new(path, line, wrong, "finish it, or answer with an error"));
        }
    }
    for token in tokens {
        if let TokenTree::Group(group) = token {
            macros(path, group.stream(), findings);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let repo = Repo::of_files(&[(path, text)]);
        check(&repo).iter().map(ToString::to_string).collect()
    }

    fn count(path: &str, text: &str) -> usize {
        found(path, text).len()
    }

    #[test]
    fn unfinished_macros_are_found_also_inside_macros() {
        assert_eq!(
            found("a.rs", "fn a() {\n    todo!()\n}"),
            ["a.rs:2: todo! does not belong in finished code; finish it, or answer with an error"]
        );
        assert_eq!(count("a.rs", "fn a() { vec![dbg!(1), unimplemented!{}] }"), 2);
    }

    #[test]
    fn names_and_strings_are_not_macros() {
        assert_eq!(count("a.rs", "fn todo(dbg: u8) -> bool { dbg != (1) && dbg > (1) }"), 0);
        assert_eq!(count("a.rs", "const A: &str = \"todo!()\"; // not todo!()"), 0);
    }

    #[test]
    fn marks_in_comments_are_found() {
        assert_eq!(
            found("a.rs", "fn a() {}\n// TODO: b\n"),
            ["a.rs:2: TODO marks unfinished work; do it, or plan it elsewhere"]
        );
        assert_eq!(count("a.rs", "/// FIXME(me) later\nfn a() {}"), 1);
        assert_eq!(count("a.rs", "//! XXX\n/* é TODO */ fn a() { /* FIXME */ }"), 2);
        assert_eq!(count("a.lua", "-- TODO"), 1);
        assert_eq!(
            found("a.rs", "const A: &str = \"\n\n\";\n// TODO"),
            ["a.rs:4: TODO marks unfinished work; do it, or plan it elsewhere"]
        );
    }

    #[test]
    fn marks_elsewhere_pass() {
        assert_eq!(count("a.rs", "const XXX: &str = r\"é // TODO\nFIXME\"; // TODOS, XXXX"), 0);
        assert_eq!(count("a.md", "TODO"), 0);
    }
}
