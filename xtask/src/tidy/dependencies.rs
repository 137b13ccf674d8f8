//! Checks external crates: licences, number of versions, and a stated purpose for each.
//!
//! A licence outside the list is an error. Two versions of one crate are a warning, because a
//! third crate is often the cause. `docs/dependencies.md` must have a row for each crate that a
//! manifest of the workspace names.
//!
//! The workspaces in `extras/` have their own lock files and are part of no program of ours.
//! The same list applies there; a licence that only such a package has is listed separately,
//! and is a warning.

use std::collections::{BTreeMap, BTreeSet};

use spdx::{Expression, ParseMode};

use super::Finding;
use super::edges::{line_of, manifest_path};
use super::source::TextFile;
use crate::workspace::Workspace;

const PAGE: &str = "docs/dependencies.md";
const LICENCES: [&str; 14] = [
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "MPL-2.0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// A lock file and its rules.
pub(super) struct Scope {
    lock_file: &'static str,
    /// Licences allowed in addition to the list.
    beside: &'static [&'static str],
    /// Whether several versions of a crate are reported.
    warns_of_versions: bool,
}

/// The workspace.
pub(super) const MAIN: Scope = Scope {
    lock_file: "Cargo.lock",
    beside: &[],
    warns_of_versions: true,
};

/// The workspace in `extras/dbsp`; its engine chooses its many packages.
pub(super) const DBSP: Scope = Scope {
    lock_file: "extras/dbsp/Cargo.lock",
    beside: &["bzip2-1.0.6"],
    warns_of_versions: false,
};

/// Runs all three checks.
pub(super) fn check(workspace: &Workspace, texts: &[TextFile], scope: &Scope) -> Vec<Finding> {
    let text_of = |path: &str| {
        texts
            .iter()
            .find(|file| file.path == path)
            .map_or("", |file| file.text.as_str())
    };
    let lock = text_of(scope.lock_file);
    let mut findings = Vec::new();
    let mut versions: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for package in workspace
        .metadata
        .packages
        .iter()
        .filter(|package| package.source.is_some())
    {
        versions
            .entry(&package.name)
            .or_default()
            .insert(package.version.to_string());
        let licence = package.license.as_deref();
        if let Some(trouble) = licence_trouble(licence, &[]) {
            let what = format!("`{}` {}: {trouble}", package.name, package.version);
            let remedy = "use another crate, or add the licence to the list once it is cleared";
            let finding = match licence_trouble(licence, scope.beside) {
                None => Finding::warning,
                Some(_) => Finding::error,
            };
            let line = line_of(lock, &package.name);
            findings.push(finding(scope.lock_file, line, what, remedy));
        }
    }
    if scope.warns_of_versions {
        findings.extend(duplicates(&versions, lock, scope));
    }
    let described = described_crates(text_of(PAGE));
    findings.extend(undescribed(workspace, &described));
    findings
}

/// The fault of a licence expression, if any; licences in `beside` are also allowed.
fn licence_trouble(licence: Option<&str>, beside: &[&str]) -> Option<String> {
    let Some(text) = licence else {
        return Some("no licence is declared".to_owned());
    };
    let expression = match Expression::parse_mode(text, ParseMode::LAX) {
        Ok(expression) => expression,
        Err(error) => {
            return Some(format!(
                "the licence `{text}` cannot be read: {}",
                error.reason
            ));
        }
    };
    let is_allowed = expression.evaluate(|requirement| {
        requirement
            .license
            .id()
            .is_some_and(|id| LICENCES.contains(&id.name) || beside.contains(&id.name))
    });
    (!is_allowed).then(|| format!("the licence `{text}` is not in the list"))
}

fn duplicates(
    versions: &BTreeMap<&str, BTreeSet<String>>,
    lock: &str,
    scope: &Scope,
) -> Vec<Finding> {
    let several = versions.iter().filter(|(_, versions)| versions.len() > 1);
    several
        .map(|(name, versions)| {
            let list = versions.iter().cloned().collect::<Vec<_>>().join(", ");
            let what = format!("`{name}` is there in the versions {list}");
            let remedy = "`cargo tree --duplicates` says who asks for which";
            Finding::warning(scope.lock_file, line_of(lock, name), what, remedy)
        })
        .collect()
}

/// The names in backquotes in the first column of the page's table.
fn described_crates(page: &str) -> BTreeSet<String> {
    let rows = page.lines().filter(|line| line.starts_with('|'));
    let first_column = rows.filter_map(|line| line.split('|').nth(1));
    first_column
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .map(str::to_owned)
        .collect()
}

fn undescribed(workspace: &Workspace, described: &BTreeSet<String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in workspace.packages() {
        let text = std::fs::read_to_string(&package.manifest_path).unwrap_or_default();
        for dependency in package
            .dependencies
            .iter()
            .filter(|found| found.path.is_none())
        {
            if !described.contains(&dependency.name) {
                let path = manifest_path(workspace, package);
                let line = line_of(&text, &dependency.name);
                let what = format!("`{}` has no row in {PAGE}", dependency.name);
                let remedy = "say there what it is for";
                findings.push(Finding::error(&path, line, what, remedy));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn licences_are_read_as_expressions() {
        for good in [
            "MIT",
            "MIT/Apache-2.0",
            "(MIT OR GPL-3.0-only) AND Unicode-3.0",
        ] {
            assert_eq!(licence_trouble(Some(good), &[]), None, "{good}");
        }
        assert_eq!(
            licence_trouble(Some("Apache-2.0 WITH LLVM-exception"), &[]),
            None
        );
        for bad in [
            Some("GPL-3.0-only"),
            Some("MIT AND AGPL-3.0-only"),
            Some("nonsense"),
            None,
        ] {
            assert!(licence_trouble(bad, &[]).is_some(), "{bad:?}");
        }
        let beside = Some("bzip2-1.0.6");
        assert!(licence_trouble(beside, &[]).is_some());
        assert_eq!(licence_trouble(beside, DBSP.beside), None);
    }

    #[test]
    fn two_versions_are_a_warning_at_their_place() {
        let set = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
        let versions =
            BTreeMap::from([("one", set(&["1.0.0"])), ("two", set(&["1.0.0", "2.0.0"]))]);
        let found = duplicates(&versions, "[[package]]\nname = \"two\"\n", &MAIN);
        assert_eq!((found.len(), found[0].line), (1, 2));
        assert!(found[0].what.contains("1.0.0, 2.0.0"));
    }

    #[test]
    fn only_the_first_column_of_the_table_counts() {
        let text = "# `Dependencies`\n| crate | for |\n| --- | --- |\n\
                    | `serde`, `serde_json` | `json` |\n\nMore of `this`.\n";
        let names: Vec<String> = described_crates(text).into_iter().collect();
        assert_eq!(names, ["serde", "serde_json"]);
    }
}
