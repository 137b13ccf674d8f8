//! A public type has a name of its own in the workspace.
//!
//! Two crates may share a name where a reader never meets both, or where they are the same idea at
//! two layers. Those are listed, with the reason; the list only shrinks.

use std::collections::{BTreeMap, BTreeSet};

use syn::{Item, Visibility};

use super::Finding;
use super::source::Source;

/// Names that several crates share, and why.
const SHARED: &str = include_str!("shared_names.txt");

/// Every name of public types in several crates that is not listed, and every listed one that is
/// not shared any more.
pub(super) fn check(sources: &[Source<'_>]) -> Vec<Finding> {
    let mut places: BTreeMap<String, BTreeMap<&str, (&str, usize)>> = BTreeMap::new();
    for source in sources {
        let (Some(folder), false) = (source.crate_folder(), source.is_test) else {
            continue;
        };
        for (name, line) in types_of(&source.syntax.items) {
            let crates = places.entry(name).or_default();
            crates.entry(folder).or_insert((source.path, line));
        }
    }
    compare(&places, &listed(SHARED))
}

fn compare(
    places: &BTreeMap<String, BTreeMap<&str, (&str, usize)>>,
    listed: &BTreeSet<&str>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    let shared = |name: &&str| places.get(*name).is_some_and(|crates| crates.len() > 1);
    for (name, crates) in places {
        if crates.len() > 1 && !listed.contains(name.as_str()) {
            let others: Vec<&str> = crates.keys().copied().collect();
            let (path, line) = crates.values().next_back().copied().expect("several");
            let what = format!("`{name}` is a public type of {}", others.join(", "));
            let remedy = "give one another name, or list it in shared_names.txt with the reason";
            findings.push(Finding::error(path, line, what, remedy));
        }
    }
    for name in listed.iter().filter(|name| !shared(name)) {
        let path = "xtask/src/tidy/shared_names.txt";
        let what = format!("`{name}` is not shared any more");
        findings.push(Finding::error(path, 1, what, "remove its line"));
    }
    findings
}

/// The names of a list: the first word of each line that is no comment.
fn listed(text: &str) -> BTreeSet<&str> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.split_whitespace().next())
        .collect()
}

/// Public types, also those in modules written in the same file.
fn types_of(items: &[Item]) -> Vec<(String, usize)> {
    let mut types = Vec::new();
    for item in items {
        let (visibility, name) = match item {
            Item::Struct(item) => (&item.vis, &item.ident),
            Item::Enum(item) => (&item.vis, &item.ident),
            Item::Union(item) => (&item.vis, &item.ident),
            Item::Trait(item) => (&item.vis, &item.ident),
            Item::Type(item) => (&item.vis, &item.ident),
            Item::Mod(item) => {
                let within = item.content.as_ref().map(|(_, items)| types_of(items));
                types.extend(within.into_iter().flatten());
                continue;
            }
            _ => continue,
        };
        if matches!(visibility, Visibility::Public(_)) {
            types.push((name.to_string(), name.span().start().line));
        }
    }
    types
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_two_crates_is_found_unless_it_is_listed() {
        let one = "pub struct A;\nstruct B;\npub mod c { pub enum D {} }\n";
        let other = "pub enum A {}\npub trait D {}\npub(crate) struct B;\n";
        let sources = [
            Source::parse("crates/one/src/lib.rs", one, false).expect("it is Rust"),
            Source::parse("crates/other/src/lib.rs", other, false).expect("it is Rust"),
        ];
        let found: Vec<String> = check(&sources)
            .into_iter()
            .filter(|finding| finding.path.starts_with("crates/"))
            .map(|finding| finding.what)
            .collect();
        let expected = ["A", "D"].map(|name| format!("`{name}` is a public type of one, other"));
        assert_eq!(found, expected);
    }

    #[test]
    fn a_listed_name_must_be_shared() {
        let listed = listed("# Comment.\nA  the same idea\n");
        let crates = BTreeMap::from([("one", ("p", 1))]);
        let places = BTreeMap::from([("A".to_owned(), crates)]);
        let findings = compare(&places, &listed);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].what, "`A` is not shared any more");
    }
}
