//! Reads the files of the workspace: their text, and the tokens and syntax of Rust files.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::spanned::Spanned;

use super::Finding;

/// A text file.
pub(super) struct TextFile {
    /// The path from the root, with `/` between its parts.
    pub(super) path: String,
    /// Its content.
    pub(super) text: String,
}

/// A Rust file.
pub(super) struct Source<'a> {
    /// The path from the root.
    pub(super) path: &'a str,
    /// Its content.
    pub(super) text: &'a str,
    /// Its syntax.
    pub(super) syntax: syn::File,
    /// Its tokens in order, with groups flattened.
    pub(super) tokens: Vec<Token>,
    /// Whether all of it is for tests or benches.
    pub(super) is_test: bool,
    test_lines: BTreeSet<usize>,
    literal_lines: BTreeSet<usize>,
}

/// One token: a word, a literal, or a single sign (two `:` for `::`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    /// As written.
    pub(super) text: String,
    /// Its line, from 1.
    pub(super) line: usize,
}

impl<'a> Source<'a> {
    /// Parses a file and marks the tests inside it; `is_test` marks the whole file.
    pub(super) fn parse(path: &'a str, text: &'a str, is_test: bool) -> syn::Result<Self> {
        let syntax = syn::parse_file(text)?;
        let mut tokens = Vec::new();
        flatten(text.parse::<TokenStream>()?, &mut tokens);
        let test_lines = test_items(&syntax).flat_map(lines_of).collect();
        let literal_lines = lines_of_strings(&tokens);
        Ok(Self {
            path,
            text,
            syntax,
            tokens,
            is_test,
            test_lines,
            literal_lines,
        })
    }

    /// Whether a string is written on a line, so that it cannot be broken everywhere.
    pub(super) fn is_literal_line(&self, line: usize) -> bool {
        self.literal_lines.contains(&line)
    }

    /// Whether a line belongs to a test.
    pub(super) fn is_test_line(&self, line: usize) -> bool {
        self.is_test || self.test_lines.contains(&line)
    }

    /// The number of lines that belong to tests inside the file.
    pub(super) fn test_line_count(&self) -> usize {
        self.test_lines.len()
    }

    /// The crate's folder under `crates/`, if it is there.
    pub(super) fn crate_folder(&self) -> Option<&'a str> {
        self.path.strip_prefix("crates/")?.split('/').next()
    }

    /// Every path that is written out (`a::b::c`) or imported (`use a::{b, c::d}`).
    pub(super) fn paths(&self) -> Vec<(Vec<String>, usize)> {
        let mut paths = written_paths(&self.tokens);
        for item in &self.syntax.items {
            if let syn::Item::Use(import) = item {
                expand_import(&import.tree, &mut Vec::new(), &mut paths);
            }
        }
        paths
    }
}

/// Reads the files that git tracks or would track, except binary ones.
pub(super) fn read_files(root: &Path) -> anyhow::Result<Vec<TextFile>> {
    let arguments = [
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ];
    let output = Command::new("git")
        .args(arguments)
        .current_dir(root)
        .output()
        .context("git does not run")?;
    ensure!(
        output.status.success(),
        "git ls-files failed: is this a checkout?"
    );
    let names = String::from_utf8(output.stdout).context("a file name is not UTF-8")?;
    let mut files = Vec::new();
    for path in names.split_terminator('\0') {
        // A file may be tracked but deleted, or binary; both are skipped.
        let Ok(text) = std::fs::read_to_string(root.join(path)) else {
            continue;
        };
        files.push(TextFile {
            path: path.to_owned(),
            text,
        });
    }
    Ok(files)
}

/// Parses the Rust files; one that does not parse is a finding.
pub(super) fn parse_sources<'a>(
    texts: &'a [TextFile],
    findings: &mut Vec<Finding>,
) -> Vec<Source<'a>> {
    let mut sources = Vec::new();
    for file in texts.iter().filter(|file| file.path.ends_with(".rs")) {
        match Source::parse(&file.path, &file.text, is_test_path(&file.path)) {
            Ok(source) => sources.push(source),
            Err(error) => {
                let line = error.span().start().line;
                let what = format!("not Rust: {error}");
                findings.push(Finding::error(&file.path, line, what, "correct the syntax"));
            }
        }
    }
    mark_test_modules(&mut sources);
    sources
}

/// Whether a path is a test by convention of cargo (`tests/`, `benches/`) or ours (`tests.rs`,
/// `*_tests.rs`).
fn is_test_path(path: &str) -> bool {
    let in_folder = path
        .split('/')
        .any(|part| part == "tests" || part == "benches");
    in_folder || path.ends_with("/tests.rs") || path.ends_with("_tests.rs")
}

/// Marks files declared as `#[cfg(test)] mod name;` elsewhere, and all files below them.
fn mark_test_modules(sources: &mut [Source<'_>]) {
    let mut prefixes = Vec::new();
    for source in sources.iter() {
        let folder = module_folder(source.path);
        for item in test_items(&source.syntax) {
            if let syn::Item::Mod(module) = item
                && module.content.is_none()
            {
                prefixes.push(format!("{folder}/{}.rs", module.ident));
                prefixes.push(format!("{folder}/{}/", module.ident));
            }
        }
    }
    for source in sources {
        source.is_test |= prefixes
            .iter()
            .any(|prefix| source.path.starts_with(prefix.as_str()));
    }
}

/// The folder of the modules that a file declares.
fn module_folder(path: &str) -> &str {
    let stem = path.strip_suffix(".rs").unwrap_or(path);
    let is_root = ["lib", "main", "mod"]
        .iter()
        .any(|name| stem.ends_with(&format!("/{name}")));
    match stem.rsplit_once('/') {
        Some((folder, _)) if is_root => folder,
        _ => stem,
    }
}

fn test_items(syntax: &syn::File) -> impl Iterator<Item = &syn::Item> {
    syntax
        .items
        .iter()
        .filter(|item| attributes_of(item).iter().any(is_test_attribute))
}

fn attributes_of(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::Const(item) => &item.attrs,
        _ => &[],
    }
}

/// `#[test]`, `#[cfg(test)]`, `#[cfg(all(test, ...))]`; not `#[cfg(not(test))]`.
fn is_test_attribute(attribute: &syn::Attribute) -> bool {
    if attribute.path().is_ident("test") {
        return true;
    }
    let syn::Meta::List(list) = &attribute.meta else {
        return false;
    };
    let mut tokens = Vec::new();
    flatten(list.tokens.clone(), &mut tokens);
    let has = |word: &str| tokens.iter().any(|token| token.text == word);
    attribute.path().is_ident("cfg") && has("test") && !has("not") && !has("any")
}

fn lines_of(item: &syn::Item) -> std::ops::RangeInclusive<usize> {
    item.span().start().line..=item.span().end().line
}

fn flatten(stream: TokenStream, tokens: &mut Vec<Token>) {
    for tree in stream {
        let line = tree.span().start().line;
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                tokens.push(Token {
                    text: open.to_owned(),
                    line,
                });
                flatten(group.stream(), tokens);
                let line = group.span_close().start().line;
                tokens.push(Token {
                    text: close.to_owned(),
                    line,
                });
            }
            other => tokens.push(Token {
                text: other.to_string(),
                line,
            }),
        }
    }
}

/// The lines of strings; a comment that documents is none, though it is a token of that kind.
fn lines_of_strings(tokens: &[Token]) -> BTreeSet<usize> {
    let mut lines = BTreeSet::new();
    for (index, token) in tokens.iter().enumerate() {
        let before = &tokens[index.saturating_sub(2)..index];
        let is_comment = matches!(before, [doc, sign] if doc.text == "doc" && sign.text == "=");
        let start = token.text.trim_start_matches(['b', 'c', 'r', '#']);
        if start.starts_with('"') && !is_comment {
            lines.extend(token.line..=token.line + token.text.matches('\n').count());
        }
    }
    lines
}

fn written_paths(tokens: &[Token]) -> Vec<(Vec<String>, usize)> {
    let is_word = |token: &Token| {
        token
            .text
            .starts_with(|c: char| c.is_alphabetic() || c == '_')
    };
    let mut paths = Vec::new();
    let mut index = 0;
    while index < tokens.len() {
        if !is_word(&tokens[index]) {
            index += 1;
            continue;
        }
        let line = tokens[index].line;
        let mut parts = vec![tokens[index].text.clone()];
        index += 1;
        while let [first, second, word, ..] = &tokens[index..]
            && first.text == ":"
            && second.text == ":"
            && is_word(word)
        {
            parts.push(word.text.clone());
            index += 3;
        }
        paths.push((parts, line));
    }
    paths
}

fn expand_import(
    tree: &syn::UseTree,
    prefix: &mut Vec<String>,
    paths: &mut Vec<(Vec<String>, usize)>,
) {
    let mut leaf = |name: &proc_macro2::Ident| {
        let mut parts = prefix.clone();
        parts.push(name.to_string());
        paths.push((parts, name.span().start().line));
    };
    match tree {
        syn::UseTree::Path(path) => {
            prefix.push(path.ident.to_string());
            expand_import(&path.tree, prefix, paths);
            prefix.pop();
        }
        syn::UseTree::Name(name) => leaf(&name.ident),
        syn::UseTree::Rename(rename) => leaf(&rename.ident),
        syn::UseTree::Glob(glob) => paths.push((prefix.clone(), glob.span().start().line)),
        syn::UseTree::Group(group) => {
            for item in &group.items {
                expand_import(item, prefix, paths);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_are_expanded_and_comments_are_not_seen() {
        let text = "//! std::thread\nuse std::{fmt, thread as t};\nfn f() { a::b(\"c::d\") }\n";
        let source = Source::parse("crates/x/src/lib.rs", text, false).unwrap();
        let paths: Vec<String> = source
            .paths()
            .iter()
            .map(|(path, _)| path.join("::"))
            .collect();
        assert!(paths.contains(&"std::thread".to_owned()));
        assert!(paths.contains(&"a::b".to_owned()));
        assert!(!paths.contains(&"c::d".to_owned()));
        assert_eq!(source.crate_folder(), Some("x"));
    }

    #[test]
    fn test_items_and_test_files_are_known() {
        let library = "fn f() {}\n#[cfg(test)]\nmod oracle;\n#[cfg(test)]\nmod tests {\n}\n";
        let file = |path: &str, text: &str| TextFile {
            path: path.into(),
            text: text.into(),
        };
        let files = [
            file("crates/x/src/lib.rs", library),
            file("crates/x/src/oracle.rs", "fn g() {}\n"),
            file("crates/x/src/other.rs", "fn h() {}\n"),
        ];
        let mut findings = Vec::new();
        let sources = parse_sources(&files, &mut findings);
        assert!(findings.is_empty());
        assert!(!sources[0].is_test_line(1) && sources[0].is_test_line(5));
        assert_eq!(sources[0].test_line_count(), 5);
        assert!(sources[1].is_test && !sources[2].is_test);
    }

    #[test]
    fn a_file_that_is_not_rust_is_a_finding() {
        let files = [TextFile {
            path: "a.rs".into(),
            text: "\nfn {".into(),
        }];
        let mut findings = Vec::new();
        assert!(parse_sources(&files, &mut findings).is_empty());
        assert_eq!((findings.len(), findings[0].line), (1, 2));
    }
}
