//! Rule: no file over 500 lines and no function over 70, but for what the ratchet lists.
//!
//! Functions of tests may be longer: a test tells one story from top to bottom. A function's
//! lines are those from `fn` to the closing brace; documentation and attributes are free.

use std::collections::BTreeMap;

use proc_macro2::Span;
use syn::visit::{self, Visit};
use syn::{ImplItemFn, ItemFn, ItemImpl, ItemMod, ItemTrait, Signature, TraitItemFn, Type};

use super::finding::Finding;
use super::ratchet::Ratchet;
use super::repo::{File, Repo};
use super::test_code::{self, TestFiles};

const MAX_FILE_LINES: usize = 500;
const MAX_FUNCTION_LINES: usize = 70;

/// What people write and read as code; documents and generated files are not counted.
const CODE: &[&str] = &["rs", "lua", "sql", "py", "sh", "js", "ts", "go", "html", "css"];

/// Something over its limit, known as `path` or `path::function`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Oversize {
    pub(crate) path: String,
    pub(crate) line: usize,
    pub(crate) lines: usize,
    pub(crate) limit: usize,
}

pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    let mut findings = Ratchet::of(repo).compare(&measure(repo));
    findings.extend(repo.rust_files().filter_map(unreadable));
    findings
}

/// Everything over its limit, by its name in the ratchet.
pub(crate) fn measure(repo: &Repo) -> BTreeMap<String, Oversize> {
    let tests = TestFiles::among(repo.rust_files());
    let mut oversize = BTreeMap::new();
    for file in repo.files.iter().filter(|file| CODE.contains(&file.extension())) {
        oversize.extend(measure_file(file));
        if file.extension() == "rs" && !tests.contains(&file.path) {
            oversize.extend(measure_functions(file));
        }
    }
    oversize
}

fn measure_file(file: &File) -> Option<(String, Oversize)> {
    let lines = file.text.lines().count();
    let path = file.path.clone();
    (lines > MAX_FILE_LINES).then(|| (path.clone(), Oversize { path, line: 1, lines, limit: MAX_FILE_LINES }))
}

fn measure_functions(file: &File) -> BTreeMap<String, Oversize> {
    let mut functions = Functions { path: &file.path, scope: vec![file.path.clone()], oversize: BTreeMap::new() };
    if let Ok(syntax) = syn::parse_file(&file.text) {
        functions.visit_file(&syntax);
    }
    functions.oversize
}

/// A file that cannot be parsed would otherwise pass every rule that reads syntax.
fn unreadable(file: &File) -> Option<Finding> {
    let error = syn::parse_file(&file.text).err()?;
    let line = error.span().start().line;
    Some(Finding::new(&file.path, line, format!("cannot be parsed: {error}"), "write valid Rust"))
}

/// Walks over the functions of a file, tests left out.
struct Functions<'a> {
    path: &'a str,
    /// The file, modules, types and traits around the current place.
    scope: Vec<String>,
    oversize: BTreeMap<String, Oversize>,
}

impl Functions<'_> {
    fn measure(&mut self, signature: &Signature, end: Span) {
        let line = signature.fn_token.span.start().line;
        let lines = end.end().line + 1 - line;
        if lines <= MAX_FUNCTION_LINES {
            return;
        }
        let path = self.path.to_owned();
        let name = format!("{}::{}", self.scope.join("::"), signature.ident);
        let found = Oversize { path, line, lines, limit: MAX_FUNCTION_LINES };
        // Two traits may give a type methods of the same name: the longest stands for them.
        let known = self.oversize.entry(name).or_insert_with(|| found.clone());
        if known.lines < lines {
            *known = found;
        }
    }

    fn within(&mut self, name: String, visit: impl FnOnce(&mut Self)) {
        self.scope.push(name);
        visit(self);
        self.scope.pop();
    }
}

impl<'ast> Visit<'ast> for Functions<'_> {
    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        if !test_code::is_marked(&module.attrs) {
            self.within(module.ident.to_string(), |this| visit::visit_item_mod(this, module));
        }
    }

    fn visit_item_impl(&mut self, block: &'ast ItemImpl) {
        if !test_code::is_marked(&block.attrs) {
            self.within(type_name(&block.self_ty), |this| visit::visit_item_impl(this, block));
        }
    }

    fn visit_item_trait(&mut self, item: &'ast ItemTrait) {
        self.within(item.ident.to_string(), |this| visit::visit_item_trait(this, item));
    }

    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        if !test_code::is_marked(&item.attrs) {
            self.measure(&item.sig, item.block.brace_token.span.close());
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        if !test_code::is_marked(&item.attrs) {
            self.measure(&item.sig, item.block.brace_token.span.close());
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        if let Some(block) = &item.default {
            self.measure(&item.sig, block.brace_token.span.close());
        }
        visit::visit_trait_item_fn(self, item);
    }
}

fn type_name(ty: &Type) -> String {
    match ty {
        Type::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
        Type::Reference(reference) => Some(type_name(&reference.elem)),
        _ => None,
    }
    .unwrap_or_else(|| "_".to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::ratchet;
    use super::*;

    /// A function `name` of `lines` lines.
    fn function(name: &str, lines: usize) -> String {
        format!("fn {name}() {{\n{}}}\n", "    work();\n".repeat(lines - 2))
    }

    fn measured(path: &str, text: &str) -> Vec<(String, usize, usize)> {
        let found = measure(&Repo::of_files(&[(path, text)]));
        found.into_iter().map(|(name, over)| (name, over.line, over.lines)).collect()
    }

    #[test]
    fn a_file_may_have_500_lines() {
        assert_eq!(measured("a.lua", &"x\n".repeat(500)), []);
        assert_eq!(measured("a.lua", &"x\n".repeat(501)), [("a.lua".to_owned(), 1, 501)]);
        assert_eq!(measured("a.md", &"x\n".repeat(501)), []);
    }

    #[test]
    fn a_function_may_have_70_lines() {
        assert_eq!(measured("a.rs", &function("good", 70)), []);
        let text = format!("\n/// Long.\n#[inline]\n{}", function("bad", 71));
        assert_eq!(measured("a.rs", &text), [("a.rs::bad".to_owned(), 4, 71)]);
    }

    #[test]
    fn methods_are_known_by_their_type() {
        let long = function("long", 71);
        let text = format!(
            "impl Wheel<T> {{ {long} }} impl Drop for &Heap {{ {long} }}
             trait Store {{ {long} }} mod near {{ {long} }}"
        );
        let names: Vec<_> = measured("a.rs", &text).into_iter().map(|(name, ..)| name).collect();
        assert_eq!(names, ["a.rs::Heap::long", "a.rs::Store::long", "a.rs::Wheel::long", "a.rs::near::long"]);
    }

    #[test]
    fn of_methods_with_one_name_the_longest_counts() {
        let (long, longer) = (function("fmt", 71), function("fmt", 80));
        for (first, second) in [(&long, &longer), (&longer, &long)] {
            let text = format!("impl Debug for A {{ {first} }} impl Display for A {{ {second} }}");
            let sizes: Vec<_> = measured("a.rs", &text).into_iter().map(|found| found.2).collect();
            assert_eq!(sizes, [80]);
        }
    }

    #[test]
    fn functions_of_tests_may_be_longer() {
        let long = function("long", 71);
        assert_eq!(measured("a.rs", &format!("#[cfg(test)] mod tests {{ {long} }}")), []);
        assert_eq!(measured("a.rs", &format!("#[test] {long}")), []);
        assert_eq!(measured("libs/a/tests/it/main.rs", &long), []);
    }

    #[test]
    fn files_of_tests_may_not() {
        let path = "libs/a/tests/it/main.rs";
        assert_eq!(measured(path, &"\n".repeat(501)), [(path.to_owned(), 1, 501)]);
    }

    #[test]
    fn what_is_measured_is_held_against_the_ratchet() {
        let text = "\n".repeat(501);
        let listed = "a.rs 501\n";
        assert_eq!(check(&Repo::of_files(&[("a.rs", &text)])).len(), 1);
        assert_eq!(check(&Repo::of_files(&[("a.rs", &text), (ratchet::PATH, listed)])), []);
    }

    #[test]
    fn a_file_that_cannot_be_parsed_is_found() {
        let findings = check(&Repo::of_files(&[("a.rs", "\nfn fn\n")]));
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert_eq!(findings[0].line, 2);
    }
}
