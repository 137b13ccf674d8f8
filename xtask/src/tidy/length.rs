//! Checks that functions fit a screen and files stay small.
//!
//! A function may have 70 lines, from `fn` to its closing brace. The one big `match` of a
//! state machine may have 120, if the comment above it contains the words "one match" and says
//! why. A file of more than 1,000 lines, not counting tests, is a warning.

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::Finding;
use super::source::Source;

const FUNCTION_LINES: usize = 70;
const EXCUSED_FUNCTION_LINES: usize = 120;
const FILE_LINES: usize = 1000;
/// The words that excuse a long function in its comment.
const EXCUSE: &str = "one match";

/// Finds everything too long in a source.
pub(super) fn check(source: &Source<'_>) -> Vec<Finding> {
    let mut functions = Functions { found: Vec::new() };
    functions.visit_file(&source.syntax);
    let lines: Vec<&str> = source.text.lines().collect();
    let mut findings = Vec::new();
    for function in functions.found {
        let limit = match is_excused(&lines, function.first_line) {
            true => EXCUSED_FUNCTION_LINES,
            false => FUNCTION_LINES,
        };
        let length = function.last_line - function.first_line + 1;
        if length > limit {
            let what = format!("`{}` has {length} lines of {limit}", function.name);
            let remedy = format!("split it, or say above why it is {EXCUSE} (120 at most)");
            findings.push(Finding::error(
                source.path,
                function.first_line,
                what,
                remedy,
            ));
        }
    }
    let counted = lines.len() - source.test_line_count().min(lines.len());
    if counted > FILE_LINES && !source.is_test {
        let what = format!("{counted} lines without tests");
        findings.push(Finding::warning(
            source.path,
            1,
            what,
            "split the file by subject",
        ));
    }
    findings
}

/// Whether the comments and attributes right above contain the excuse.
fn is_excused(lines: &[&str], first_line: usize) -> bool {
    lines[..first_line - 1]
        .iter()
        .rev()
        .map(|line| line.trim())
        .take_while(|line| line.starts_with("//") || line.starts_with("#["))
        .any(|line| line.to_lowercase().contains(EXCUSE))
}

struct Function {
    name: String,
    first_line: usize,
    last_line: usize,
}

/// Collects every function with a body, including nested ones.
struct Functions {
    found: Vec<Function>,
}

impl Functions {
    fn add(&mut self, signature: &syn::Signature, body: Span) {
        // From `pub`, `const` or `fn` on; documentation and attributes do not count.
        let first_line = signature.span().start().line;
        let last_line = body.end().line;
        self.found.push(Function {
            name: signature.ident.to_string(),
            first_line,
            last_line,
        });
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.add(&function.sig, function.block.span());
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.add(&function.sig, function.block.span());
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        if let Some(body) = &function.default {
            self.add(&function.sig, body.span());
        }
        visit::visit_trait_item_fn(self, function);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> Vec<Finding> {
        check(&Source::parse("crates/x/src/a.rs", text, false).unwrap())
    }

    fn function(lines: usize) -> String {
        format!("fn f() {{\n{}}}\n", "    g();\n".repeat(lines - 2))
    }

    #[test]
    fn a_screen_is_the_limit() {
        assert!(findings(&function(70)).is_empty());
        let found = findings(&format!("struct A;\n{}", function(71)));
        assert_eq!((found.len(), found[0].line), (1, 2));
        let methods = format!("impl A {{\n{}}}\n", function(71));
        assert_eq!(findings(&methods).len(), 1);
    }

    #[test]
    fn a_state_machine_may_be_longer_if_it_says_so() {
        let excuse = "/// Does it.\n// One match, as the states share the cursor.\n#[inline]\n";
        assert!(findings(&format!("{excuse}pub {}", function(120))).is_empty());
        assert_eq!(findings(&format!("{excuse}{}", function(121))).len(), 1);
    }

    #[test]
    fn long_files_are_warned_of_and_their_tests_do_not_count() {
        let long = "const A: u8 = 0;\n".repeat(1001);
        let found = findings(&long);
        assert_eq!(
            (found.len(), found[0].severity),
            (1, super::super::Severity::Warning)
        );
        let tests = format!("#[cfg(test)]\nmod tests {{\n{long}}}\n");
        assert!(findings(&tests).is_empty());
    }
}
