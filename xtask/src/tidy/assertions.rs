//! Rule: no statement that looks like an assertion and asserts nothing, no test that is ignored
//! without a reason.
//!
//! A bare `matches!(…);` computes a bool and drops it: the test around it passes whatever happens.

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{Attribute, Expr, Lit, Local, Macro, Meta, Pat, Stmt, Token};

use super::finding::Finding;
use super::repo::Repo;

pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    repo.rust_files().flat_map(|file| check_text(&file.path, &file.text)).collect()
}

fn check_text(path: &str, text: &str) -> Vec<Finding> {
    let mut walk = Walk { path, findings: Vec::new() };
    if let Ok(syntax) = syn::parse_file(text) {
        walk.visit_file(&syntax);
    }
    walk.findings
}

struct Walk<'a> {
    path: &'a str,
    findings: Vec<Finding>,
}

impl Walk<'_> {
    fn dropped(&mut self, at: Span) {
        let right = "write assert!(matches!(…));";
        self.report(at, "this matches! asserts nothing", right);
    }

    fn ignored(&mut self, at: Span) {
        let right = "write #[ignore = \"the reason\"]";
        self.report(at, "a test is ignored without a reason", right);
    }

    fn report(&mut self, at: Span, wrong: &str, right: &str) {
        self.findings.push(Finding::new(self.path, at.start().line, wrong, right));
    }
}

impl<'ast> Visit<'ast> for Walk<'_> {
    fn visit_stmt(&mut self, statement: &'ast Stmt) {
        if let Some(at) = dropped_matches(statement) {
            self.dropped(at);
        }
        visit::visit_stmt(self, statement);
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        if ignores_without_reason(&attribute.meta) {
            self.ignored(attribute.pound_token.span);
        }
        visit::visit_attribute(self, attribute);
    }

    /// The arguments of a macro are tokens to us, but `proptest!` and its like hold whole tests.
    fn visit_macro(&mut self, call: &'ast Macro) {
        self.scan(call.tokens.clone());
    }
}

impl Walk<'_> {
    fn scan(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        for (index, token) in tokens.iter().enumerate() {
            if is_dropped_matches(&tokens[..index], &tokens[index..]) {
                self.dropped(token.span());
            }
            let TokenTree::Group(group) = token else { continue };
            let follows_pound = index > 0 && is_punct(&tokens[index - 1], '#');
            let meta = syn::parse2::<Meta>(group.stream());
            if follows_pound && meta.is_ok_and(|meta| ignores_without_reason(&meta)) {
                self.ignored(token.span());
            }
            self.scan(group.stream());
        }
    }
}

/// Finds `matches!(…);`, `let _ = matches!(…);` and `_ = matches!(…);`.
fn dropped_matches(statement: &Stmt) -> Option<Span> {
    let call = match statement {
        Stmt::Macro(statement) if statement.semi_token.is_some() => &statement.mac,
        Stmt::Local(Local { pat: Pat::Wild(_), init: Some(init), .. }) => as_macro(&init.expr)?,
        Stmt::Expr(Expr::Assign(assign), _) if matches!(*assign.left, Expr::Infer(_)) => as_macro(&assign.right)?,
        Stmt::Expr(expression, Some(_)) => as_macro(expression)?,
        _ => return None,
    };
    let name = call.path.segments.last()?;
    (name.ident == "matches").then(|| name.ident.span())
}

fn as_macro(expression: &Expr) -> Option<&Macro> {
    match expression {
        Expr::Macro(expression) => Some(&expression.mac),
        Expr::Paren(expression) => as_macro(&expression.expr),
        _ => None,
    }
}

fn ignores_without_reason(meta: &Meta) -> bool {
    match meta {
        Meta::Path(path) => path.is_ident("ignore"),
        Meta::NameValue(pair) => pair.path.is_ident("ignore") && is_empty(&pair.value),
        Meta::List(list) if list.path.is_ident("cfg_attr") => list
            .parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)
            .is_ok_and(|parts| parts.iter().skip(1).any(ignores_without_reason)),
        Meta::List(_) => false,
    }
}

fn is_empty(value: &Expr) -> bool {
    let Expr::Lit(literal) = value else { return false };
    matches!(&literal.lit, Lit::Str(text) if text.value().trim().is_empty())
}

/// Whether a dropped `matches!(…);` begins where `after` begins.
fn is_dropped_matches(before: &[TokenTree], after: &[TokenTree]) -> bool {
    let [name, bang, TokenTree::Group(_), semicolon, ..] = after else { return false };
    is_ident(name, "matches")
        && is_punct(bang, '!')
        && is_punct(semicolon, ';')
        && (starts_statement(before) || is_thrown_away(before))
}

fn starts_statement(before: &[TokenTree]) -> bool {
    match before.last() {
        None => true,
        Some(TokenTree::Group(group)) => group.delimiter() == Delimiter::Brace,
        Some(token) => is_punct(token, ';'),
    }
}

fn is_thrown_away(before: &[TokenTree]) -> bool {
    let [.., name, equals] = before else { return false };
    is_ident(name, "_") && is_punct(equals, '=')
}

fn is_ident(token: &TokenTree, name: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident == name)
}

fn is_punct(token: &TokenTree, sign: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == sign)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        check_text("a.rs", text).iter().map(ToString::to_string).collect()
    }

    fn lines(text: &str) -> Vec<usize> {
        check_text("a.rs", text).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_bare_matches_is_found() {
        assert_eq!(
            found("fn a() {\n    matches!(b(), Some(_));\n}"),
            ["a.rs:2: this matches! asserts nothing; write assert!(matches!(…));"]
        );
    }

    #[test]
    fn every_way_to_drop_a_matches_is_found() {
        assert_eq!(lines("fn a() { std::matches!(b(), C); }"), [1]);
        assert_eq!(lines("fn a() { let _ = matches!(b(), C); }"), [1]);
        assert_eq!(lines("fn a() { _ = matches!(b(), C); }"), [1]);
        assert_eq!(lines("fn a() { (matches!(b(), C)); }"), [1]);
        assert_eq!(lines("mod m { impl X { fn a() { if y { matches!{b(), C}; } } } }"), [1]);
    }

    #[test]
    fn a_matches_that_is_used_passes() {
        let text = "
            fn a() -> bool {
                assert!(matches!(b(), C));
                let c = matches!(b(), C);
                if matches!(b(), C) { return matches!(b(), C); }
                d(matches!(b(), C));
                matches!(b(), C)
            }";
        assert_eq!(lines(text), [0; 0]);
        assert_eq!(lines("fn a() -> bool { matches! { b(), C } }"), [0; 0]);
    }

    #[test]
    fn tests_inside_macros_are_read_too() {
        let bad = "proptest! {
            #[test] #[ignore]
            fn a(x in 0..9) {
                matches!(x, 1);
                let _ = matches!(x, 1);
                if x { } matches!(x, 1);
            }
        }";
        assert_eq!(lines(bad), [2, 4, 5, 6]);
        let good = "proptest! {
            #[test] #[ignore = \"slow\"]
            fn a(x in 0..9) { prop_assert!(matches!(x, 1)); let y = matches!(x, 1); }
        }";
        assert_eq!(lines(good), [0; 0]);
    }

    #[test]
    fn ignoring_a_test_needs_a_reason() {
        assert_eq!(
            found("#[test]\n#[ignore]\nfn a() {}"),
            ["a.rs:2: a test is ignored without a reason; write #[ignore = \"the reason\"]"]
        );
        assert_eq!(lines("#[ignore = \" \"] fn a() {}"), [1]);
        assert_eq!(lines("#[cfg_attr(miri, ignore)] fn a() {}"), [1]);
        assert_eq!(lines("#[ignore = \"needs a disk\"] fn a() {}"), [0; 0]);
        assert_eq!(lines("#[cfg_attr(miri, ignore = \"slow\")] fn a() {}"), [0; 0]);
    }
}
