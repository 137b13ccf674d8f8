//! The names of metrics: each is described once, and dashboards name only those that exist.

use std::collections::BTreeSet;

use thalweg_metrics::{Snapshot, exposition};

/// The samples' names that the text describes: a counter's end in `_total`.
fn described(text: &str) -> BTreeSet<String> {
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let names = types.map(|rest| {
        let (name, kind) = rest.split_once(' ').expect("a name and a type");
        match kind {
            "counter" => format!("{name}_total"),
            _ => name.to_owned(),
        }
    });
    names.collect()
}

#[test]
fn each_metric_is_described_once() {
    let text = exposition(Snapshot::default().into());
    let types = text.lines().filter(|line| line.starts_with("# TYPE "));
    assert_eq!(types.count(), described(&text).len());
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().expect("a name");
        assert!(described(&text).contains(name), "{line}");
    }
}

#[test]
fn the_dashboard_names_metrics_that_exist() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../extras/grafana/thalweg.json"
    );
    let dashboard = std::fs::read_to_string(path).expect("it is in the repository");
    let described = described(&exposition(Snapshot::default().into()));
    let mut used = BTreeSet::new();
    for (place, _) in dashboard.match_indices("thalweg_") {
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let rest = &dashboard[place..];
        let end = rest.find(|letter| !is_part(letter)).unwrap_or(rest.len());
        used.insert(rest[..end].to_owned());
    }
    assert!(used.len() >= 15, "{used:?}");
    let unknown: Vec<&String> = used.difference(&described).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn the_page_lists_all_metrics_and_no_other() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
    let page = std::fs::read_to_string(path).expect("it is in the repository");
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    let cells = rows.filter_map(|row| row.split('|').nth(1));
    let listed = cells.flat_map(|cell| cell.split(','));
    let listed = listed.map(|name| name.trim().trim_matches('`').to_owned());
    let listed: BTreeSet<String> = listed.collect();
    assert_eq!(listed, described(&exposition(Snapshot::default().into())));
}
