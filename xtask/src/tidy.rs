//! `cargo xtask tidy`: checks the house rules that a program can check.
//!
//! Each check is a function from sources (or cargo's metadata) to findings, so tests can give
//! it small texts. A finding says where, what, and how to fix it.
//!
//! | check | file |
//! | --- | --- |
//! | which crate may depend on which | `edges.rs` |
//! | no clock, socket, thread or unseeded chance in the pure crates | `purity.rs` |
//! | `unsafe` only where it is allowed, and explained there | `unsafety.rs` |
//! | length of functions and files | `length.rs` |
//! | unfinished code, ignored tests, forbidden names | `names.rs` |
//! | plain English, no timings in comments, 100 columns | `english.rs` |
//! | names of public types that several crates have | `types.rs` |
//! | paths of one machine, hosts of registries | `words.rs` |
//! | licences, duplicates and the table of dependencies | `dependencies.rs` |
//! | pages of results as their JSON says | `../results.rs` |
//!
//! `source.rs` reads the files and splits them into tokens for most checks, so that comments,
//! strings and layout cannot mislead them.

mod dependencies;
mod edges;
mod english;
mod length;
mod names;
mod purity;
mod source;
mod types;
mod unsafety;
mod words;

use std::fmt;

use self::source::{Source, TextFile};
use crate::results;
use crate::workspace::Workspace;

/// The path from the root of the manifest of `extras/dbsp`.
pub const DBSP_MANIFEST: &str = "extras/dbsp/Cargo.toml";

/// Whether a finding makes the command fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Severity {
    Warning,
    Error,
}

/// A violation of the rules.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    severity: Severity,
    path: String,
    line: usize,
    what: String,
    remedy: String,
}

impl Finding {
    fn error(path: &str, line: usize, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        let severity = Severity::Error;
        Self {
            severity,
            path: path.to_owned(),
            line,
            what: what.into(),
            remedy: remedy.into(),
        }
    }

    fn warning(
        path: &str,
        line: usize,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            severity: Severity::Warning,
            ..Self::error(path, line, what, remedy)
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = match self.severity {
            Severity::Warning => "warning: ",
            Severity::Error => "",
        };
        let Self {
            path,
            line,
            what,
            remedy,
            ..
        } = self;
        write!(formatter, "{path}:{line}: {mark}{what}; {remedy}")
    }
}

/// Runs every check and prints the findings; `false` if one is an error.
///
/// # Errors
/// If the files of the workspace cannot be read.
pub fn run(workspace: &Workspace) -> anyhow::Result<bool> {
    let texts = source::read_files(&workspace.root)?;
    let mut findings = Vec::new();
    let sources = source::parse_sources(&texts, &mut findings);
    findings.extend(check_texts(&texts));
    findings.extend(check_sources(&sources));
    findings.extend(edges::check(&edges::edges_of(workspace)));
    findings.extend(dependencies::check(workspace, &texts, &dependencies::MAIN));
    findings.extend(check_packages_of_dbsp(workspace, &texts));
    findings.extend(check_results(workspace)?);
    print(findings, texts.len())
}

/// Checks the licences of `extras/dbsp` alone; all its packages must be on this machine.
///
/// # Errors
/// If a package is missing, or the files of the workspace cannot be read.
pub fn run_on_dbsp(workspace: &Workspace) -> anyhow::Result<bool> {
    let texts = source::read_files(&workspace.root)?;
    let other = workspace.load_other(DBSP_MANIFEST)?;
    let findings = dependencies::check(&other, &texts, &dependencies::DBSP);
    print(findings, texts.len())
}

/// Checks the licences of `extras/dbsp` if its packages are present; fetches nothing.
fn check_packages_of_dbsp(workspace: &Workspace, texts: &[TextFile]) -> Vec<Finding> {
    match workspace.load_other(DBSP_MANIFEST) {
        Ok(other) => dependencies::check(&other, texts, &dependencies::DBSP),
        Err(_) => {
            let what = "the licences of its packages are not checked: they are not all here";
            let remedy = "`cargo xtask dbsp` fetches and checks them";
            vec![Finding::warning(DBSP_MANIFEST, 1, what, remedy)]
        }
    }
}

/// Finds pages of results that differ from their JSON.
fn check_results(workspace: &Workspace) -> anyhow::Result<Vec<Finding>> {
    let differences = results::differences(&workspace.root)?;
    let findings = differences.into_iter().map(|found| {
        let remedy = "change the JSON and run `cargo xtask results`";
        Finding::error(&found.path, found.line, found.what, remedy)
    });
    Ok(findings.collect())
}

/// Prints the findings; `false` if one is an error.
fn print(mut findings: Vec<Finding>, file_count: usize) -> anyhow::Result<bool> {
    findings.sort();
    findings.dedup();
    for finding in &findings {
        println!("{finding}");
    }
    let errors = findings
        .iter()
        .filter(|finding| finding.severity == Severity::Error)
        .count();
    let warnings = findings.len() - errors;
    println!("tidy: {file_count} files, {errors} errors, {warnings} warnings");
    Ok(errors == 0)
}

fn check_texts(texts: &[TextFile]) -> Vec<Finding> {
    let words = texts.iter().flat_map(words::check);
    words
        .chain(texts.iter().flat_map(english::check_text))
        .collect()
}

fn check_sources(sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in sources {
        findings.extend(purity::check(source));
        findings.extend(unsafety::check(source));
        findings.extend(length::check(source));
        findings.extend(names::check(source));
        findings.extend(english::check_source(source));
    }
    findings.extend(types::check(sources));
    findings
}
