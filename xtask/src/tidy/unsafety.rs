//! Allows `unsafe` only in the two places that need it, with an explanation for every block.

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::Finding;
use super::source::Source;

/// The allowed places: vector code, system calls and the allocator.
const ALLOWED: [&str; 3] = [
    "crates/classifier/src/simd",
    "crates/command/src/allocator.rs",
    "crates/io/src/sys",
];
/// The prefix of an explanation.
const EXPLANATION: &str = "// SAFETY:";

/// Finds every `unsafe` in the wrong place or without an explanation.
pub(super) fn check(source: &Source<'_>) -> Vec<Finding> {
    let is_allowed = ALLOWED.iter().any(|prefix| source.path.starts_with(prefix));
    let lines: Vec<&str> = source.text.lines().collect();
    let mut statements = Statements::default();
    statements.visit_file(&source.syntax);
    let mut findings = Vec::new();
    for (index, token) in source.tokens.iter().enumerate() {
        let next = source
            .tokens
            .get(index + 1)
            .map_or("", |token| token.text.as_str());
        // `#[unsafe(no_mangle)]` and `unsafe_code` are different.
        if token.text != "unsafe" || next == "(" {
            continue;
        }
        if !is_allowed {
            let remedy =
                "only classifier::simd, command::allocator and io::sys may; use a safe way";
            findings.push(Finding::error(
                source.path,
                token.line,
                "`unsafe` here",
                remedy,
            ));
        } else if (next == "{" || next == "impl")
            && !is_explained(&lines, token.line)
            && !is_explained(&lines, statements.first_line_around(token.line))
        {
            let remedy = "write `// SAFETY:` above it, with the invariant that makes it sound";
            let what = format!("`unsafe {next}` without its reason");
            findings.push(Finding::error(source.path, token.line, what, remedy));
        }
    }
    findings
}

/// The start of the innermost statement around each unsafe block.
#[derive(Default)]
struct Statements {
    /// The first lines of the statements being visited.
    open: Vec<usize>,
    /// The line of a block, and that of its statement.
    found: Vec<(usize, usize)>,
}

impl Statements {
    /// The first line of the statement with the block on `line`; `line` itself outside of any.
    fn first_line_around(&self, line: usize) -> usize {
        let found = self.found.iter().find(|(block, _)| *block == line);
        found.map_or(line, |(_, first)| *first)
    }
}

impl<'ast> Visit<'ast> for Statements {
    fn visit_stmt(&mut self, statement: &'ast syn::Stmt) {
        self.open.push(statement.span().start().line);
        visit::visit_stmt(self, statement);
        self.open.pop();
    }

    fn visit_expr_unsafe(&mut self, block: &'ast syn::ExprUnsafe) {
        if let Some(first) = self.open.last() {
            self.found
                .push((block.unsafe_token.span.start().line, *first));
        }
        visit::visit_expr_unsafe(self, block);
    }
}

/// Whether the comment right above `line`, or above the lines that it continues, is an
/// explanation.
fn is_explained(lines: &[&str], line: usize) -> bool {
    for above in lines[..line - 1].iter().rev() {
        let text = above.trim();
        if text.starts_with(EXPLANATION) {
            return true;
        }
        let is_other_statement = text.is_empty() || text.ends_with([';', '{', '}', ',']);
        if is_other_statement && !text.starts_with("//") {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, text: &str) -> usize {
        check(&Source::parse(path, text, false).unwrap()).len()
    }

    #[test]
    fn explained_blocks_pass_where_they_are_allowed() {
        let text = "fn f() {\n    // SAFETY: the lanes were checked\n    // by the constructor.\n    \
                    let x =\n        unsafe { g() };\n}\n";
        assert_eq!(count("crates/classifier/src/simd/lanes.rs", text), 0);
        assert_eq!(count("crates/io/src/sys.rs", text), 0);
        assert_eq!(count("crates/io/src/tap.rs", text), 1);
        assert_eq!(count("crates/packet/src/simd.rs", text), 1);
    }

    #[test]
    fn each_block_needs_its_own_reason() {
        let text = "fn f() {\n    // SAFETY: yes.\n    unsafe { g() };\n    unsafe { h() };\n}\n\
                    unsafe impl Send for A {}\nunsafe fn g() {}\n";
        assert_eq!(count("crates/io/src/sys/ring.rs", text), 2);
    }

    #[test]
    fn the_reason_may_stand_above_a_long_statement() {
        let text = "fn f() {\n    // SAFETY: zeros are a value.\n    let (a, b): (\n        A,\n        \
                    B,\n    ) = unsafe { (g(), h()) };\n}\n";
        assert_eq!(count("crates/io/src/sys.rs", text), 0);
        let without = text.replace("// SAFETY: zeros are a value.", "");
        assert_eq!(count("crates/io/src/sys.rs", &without), 1);
    }

    #[test]
    fn attributes_and_words_do_not_count() {
        let text = "#![deny(unsafe_code)]\n// unsafe {\nconst A: &str = \"unsafe {\";\n";
        assert_eq!(count("crates/packet/src/lib.rs", text), 0);
    }
}
