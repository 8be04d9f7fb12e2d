//! Telling test code from the rest.

use std::collections::BTreeSet;
use std::path::Path;

use syn::punctuated::Punctuated;
use syn::{Attribute, Item, Meta, Token};

use super::repo::File;

/// Whether the attributes keep an item for tests: `#[test]`, `#[tokio::test]`, `#[cfg(test)]`,
/// `#[cfg(all(test, …))]`.
pub(crate) fn is_marked(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let name = attribute.path().segments.last().map(|segment| segment.ident.to_string());
        match name.as_deref() {
            Some("test") => true,
            Some("cfg") => attribute.parse_args::<Meta>().is_ok_and(|meta| requires_test(&meta)),
            _ => false,
        }
    })
}

fn requires_test(condition: &Meta) -> bool {
    match condition {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("all") => list
            .parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)
            .is_ok_and(|conditions| conditions.iter().any(requires_test)),
        _ => false,
    }
}

/// Files that hold test code only: those in a `tests/` folder, and the files of modules that are
/// declared with `#[cfg(test)] mod name;`.
pub(crate) struct TestFiles {
    /// `src/wheel/model` stands for `src/wheel/model.rs` and all of `src/wheel/model/`.
    modules: BTreeSet<String>,
}

impl TestFiles {
    pub(crate) fn among<'a>(files: impl Iterator<Item = &'a File>) -> Self {
        Self { modules: files.flat_map(test_modules).collect() }
    }

    pub(crate) fn contains(&self, path: &str) -> bool {
        let in_module = Path::new(path.trim_end_matches(".rs"))
            .ancestors()
            .any(|part| part.to_str().is_some_and(|part| self.modules.contains(part)));
        in_module || path.split('/').rev().skip(1).any(|folder| folder == "tests")
    }
}

/// The modules that a file declares for tests and that have files of their own.
fn test_modules(file: &File) -> Vec<String> {
    let items = syn::parse_file(&file.text).map_or_else(|_| Vec::new(), |syntax| syntax.items);
    let folder = module_folder(&file.path);
    let path = |item: &Item| match item {
        Item::Mod(module) if module.content.is_none() && is_marked(&module.attrs) => {
            Some(format!("{folder}/{}", module.ident))
        }
        _ => None,
    };
    items.iter().filter_map(path).collect()
}

/// The folder in which the file's own modules are looked for.
fn module_folder(path: &str) -> String {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    match name {
        "lib.rs" | "main.rs" | "mod.rs" => folder.to_owned(),
        _ => path.trim_end_matches(".rs").to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::repo::Repo;

    #[test]
    fn knows_the_attributes_of_tests() {
        let marked = |item: &str| is_marked(&syn::parse_str::<syn::ItemFn>(item).unwrap().attrs);
        assert!(marked("#[test] fn a() {}"));
        assert!(marked("#[tokio::test(start_paused = true)] async fn a() {}"));
        assert!(marked("#[cfg(test)] fn a() {}"));
        assert!(marked("#[cfg(all(unix, test))] fn a() {}"));
        assert!(!marked("fn a() {}"));
        assert!(!marked("#[cfg(not(test))] fn a() {}"));
        assert!(!marked("#[cfg(any(test, feature = \"model\"))] fn a() {}"));
        assert!(!marked("#[cfg(unix)] #[inline] fn a() {}"));
    }

    #[test]
    fn finds_the_files_of_test_modules() {
        let repo = Repo::of_files(&[
            ("libs/w/src/lib.rs", "mod wheel; #[cfg(test)] mod model;"),
            ("libs/w/src/wheel.rs", "#[cfg(test)] mod tests;"),
        ]);
        let tests = TestFiles::among(repo.files.iter());
        for path in ["libs/w/src/model.rs", "libs/w/src/model/a.rs", "libs/w/src/wheel/tests.rs"] {
            assert!(tests.contains(path), "{path}");
        }
        for path in ["libs/w/src/wheel.rs", "libs/w/src/models.rs", "libs/w/src/tests.rs"] {
            assert!(!tests.contains(path), "{path}");
        }
    }

    #[test]
    fn a_tests_folder_holds_tests() {
        let tests = TestFiles { modules: BTreeSet::new() };
        assert!(tests.contains("libs/w/tests/it/main.rs"));
        assert!(!tests.contains("libs/w/src/tests.rs"));
    }
}
