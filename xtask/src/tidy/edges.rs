//! Checks that dependencies between the crates point one way.
//!
//! The table lists each crate's direct dependencies; a crate may also name their dependencies.
//! Apart from the program and the fuzz targets, only dev-dependencies may use `workload`
//! (generators for tests and benchmarks). `FOR_TESTS` lists the other edges that only tests
//! have.

use std::collections::BTreeSet;

use cargo_metadata::{DependencyKind, Package};

use super::Finding;
use crate::workspace::Workspace;

const PREFIX: &str = "thalweg-";
const TABLE: [(&str, &[&str]); 31] = [
    ("packet", &[]),
    ("openflow", &[]),
    ("ovsdb", &[]),
    ("snapshot", &[]),
    ("classifier", &["packet"]),
    ("io", &["tunnel"]),
    ("v2p", &["packet"]),
    ("conntrack", &["packet"]),
    ("tunnel", &["packet"]),
    ("workload", &["packet"]),
    ("pipeline", &["classifier", "conntrack"]),
    ("p4", &["classifier"]),
    ("datapath", &["pipeline"]),
    ("control", &["openflow", "packet"]),
    ("binding", &["control", "p4"]),
    ("controller", &["binding"]),
    (
        "switch",
        &[
            "datapath",
            "binding",
            "io",
            "openflow",
            "v2p",
            "conntrack",
            "snapshot",
        ],
    ),
    ("http", &[]),
    ("dashboard", &["http"]),
    ("metrics", &["http", "switch"]),
    ("unixctl", &["ovsdb"]),
    ("top", &["unixctl"]),
    (
        "vswitchd",
        &["dashboard", "metrics", "ovsdb", "switch", "unixctl"],
    ),
    ("fabric", &["v2p", "packet"]),
    ("config", &["switch", "fabric"]),
    ("command", &["switch", "workload"]),
    ("bench", &["command"]),
    ("simulate", &["config", "command"]),
    (
        "thalweg",
        &[
            "bench",
            "controller",
            "metrics",
            "simulate",
            "top",
            "vswitchd",
        ],
    ),
    ("fuzz", &["simulate", "tunnel", "vswitchd"]),
    ("xtask", &["thalweg"]),
];

/// Edges of dev-dependencies only, beside those to `workload`.
const FOR_TESTS: [(&str, &str); 2] = [
    // A controller is tested on a switch that runs programs.
    ("controller", "switch"),
    // Texts and frames are compared with those of Open vSwitch, which `xtask` runs.
    ("xtask", "vswitchd"),
];

/// One line of a manifest that names another crate of the workspace.
#[derive(Clone, Debug)]
pub(super) struct Edge {
    from: String,
    to: String,
    is_for_tests: bool,
    path: String,
    line: usize,
}

/// All edges between crates of the workspace.
pub(super) fn edges_of(workspace: &Workspace) -> Vec<Edge> {
    let packages = workspace.packages();
    let names: BTreeSet<&str> = packages
        .iter()
        .map(|package| package.name.as_str())
        .collect();
    let mut edges = Vec::new();
    for package in packages {
        let path = manifest_path(workspace, package);
        let text = std::fs::read_to_string(&package.manifest_path).unwrap_or_default();
        for dependency in &package.dependencies {
            if names.contains(dependency.name.as_str()) {
                edges.push(Edge {
                    from: short(&package.name),
                    to: short(&dependency.name),
                    is_for_tests: dependency.kind == DependencyKind::Development,
                    path: path.clone(),
                    line: line_of(&text, &dependency.name),
                });
            }
        }
    }
    edges
}

/// The path of a package's manifest from the root.
pub(super) fn manifest_path(workspace: &Workspace, package: &Package) -> String {
    let path = package.manifest_path.as_std_path();
    path.strip_prefix(&workspace.root)
        .unwrap_or(path)
        .display()
        .to_string()
}

/// The line where a manifest or lock file first names `name`; 1 if absent.
pub(super) fn line_of(text: &str, name: &str) -> usize {
    let begins = |line: &str| {
        let rest = line.trim_start().strip_prefix(name);
        rest.is_some_and(|rest| rest.starts_with([' ', '.', '=']))
    };
    let is_there = |line: &str| begins(line) || line == format!("name = \"{name}\"");
    text.lines().position(is_there).map_or(1, |index| index + 1)
}

fn short(name: &str) -> String {
    name.strip_prefix(PREFIX).unwrap_or(name).to_owned()
}

/// Finds every edge that the table does not allow.
pub(super) fn check(edges: &[Edge]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for edge in edges {
        let Some(allowed) = reachable(&edge.from) else {
            let what = format!(
                "the crate `{}` is not in the table of dependencies",
                edge.from
            );
            let remedy = "give it its place in xtask/src/tidy/edges.rs";
            findings.push(Finding::error(&edge.path, 1, what, remedy));
            continue;
        };
        let is_between = |pair: &(&str, &str)| *pair == (&edge.from[..], &edge.to[..]);
        let has_test_edge = edge.to == "workload" || FOR_TESTS.iter().any(is_between);
        let is_allowed = allowed.contains(edge.to.as_str()) || edge.is_for_tests && has_test_edge;
        if !is_allowed {
            let what = format!("`{}` depends on `{}`", edge.from, edge.to);
            let list = allowed.into_iter().collect::<Vec<_>>().join(", ");
            let remedy = match list.is_empty() {
                true => format!("`{}` stands on no other crate", edge.from),
                false => format!("`{}` may depend on {list}", edge.from),
            };
            findings.push(Finding::error(&edge.path, edge.line, what, remedy));
        }
    }
    findings
}

/// The crates that a crate may name: all its transitive dependencies; `None` if it is unknown.
fn reachable(name: &str) -> Option<BTreeSet<&'static str>> {
    let direct = |name: &str| {
        TABLE
            .iter()
            .find(|(from, _)| *from == name)
            .map(|(_, to)| *to)
    };
    let mut found = BTreeSet::new();
    let mut open: Vec<&'static str> = direct(name)?.to_vec();
    while let Some(next) = open.pop() {
        if found.insert(next) {
            open.extend(direct(next).unwrap_or_default());
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_allowed(from: &str, to: &str, is_for_tests: bool) -> bool {
        let (from, to) = (from.to_owned(), to.to_owned());
        check(&[Edge {
            from,
            to,
            is_for_tests,
            path: "Cargo.toml".into(),
            line: 1,
        }])
        .is_empty()
    }

    #[test]
    fn edges_point_one_way_and_reach_through() {
        assert!(is_allowed("pipeline", "classifier", false));
        assert!(is_allowed("datapath", "packet", false));
        assert!(is_allowed("thalweg", "workload", false));
        assert!(is_allowed("xtask", "workload", false));
        assert!(!is_allowed("packet", "classifier", false));
        assert!(!is_allowed("classifier", "pipeline", true));
        assert!(!is_allowed("v2p", "datapath", false));
        assert!(!is_allowed("datapath", "io", false));
        assert!(is_allowed("p4", "packet", false));
        assert!(!is_allowed("p4", "pipeline", false));
    }

    #[test]
    fn generators_are_for_tests_and_the_program() {
        assert!(is_allowed("datapath", "workload", true));
        assert!(!is_allowed("datapath", "workload", false));
    }

    #[test]
    fn controllers_know_switches_in_tests_only() {
        assert!(is_allowed("controller", "switch", true));
        assert!(!is_allowed("controller", "switch", false));
        assert!(!is_allowed("switch", "controller", true));
        assert!(!is_allowed("control", "p4", false));
    }

    #[test]
    fn a_new_crate_must_be_given_a_place() {
        assert!(!is_allowed("newcomer", "packet", false));
        assert!(!is_allowed("packet", "newcomer", false));
    }

    #[test]
    fn the_line_of_a_dependency_is_found() {
        let text = "[dependencies]\nthalweg-packet-more = \"1\"\nthalweg-packet.workspace = true\n";
        assert_eq!(line_of(text, "thalweg-packet"), 3);
        assert_eq!(line_of("[[package]]\nname = \"syn\"\n", "syn"), 2);
    }
}
