//! The dumps of the shared data folder: every line is a rule, or an error names what is
//! missing.
//!
//! Built only with the feature `shared-data`; the folder is `$THALWEG_SHARED`, else
//! `../shared` beside the workspace, and a missing one fails the test.

use std::collections::BTreeMap;
use std::path::PathBuf;

use thalweg_pipeline::text::{Parser, TextError, parse_flow, parse_groups, parse_rules};

fn read(name: &str) -> String {
    let folder = match std::env::var_os("THALWEG_SHARED") {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
    };
    let path = folder.join("data/flows").join(name);
    std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; set THALWEG_SHARED", path.display()))
}

#[test]
fn a_faucet_switch_loads_whole() {
    let text = read("faucet.dump");
    let rules = parse_rules("faucet.dump", &text).expect("all of it is supported");
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("actions="))
        .collect();
    assert_eq!(rules.flows.len(), lines.len());
    for (flow, line) in rules.flows.iter().zip(lines) {
        let behind = |text: &str| {
            text.split_once(" priority=")
                .map(|(_, rest)| rest.to_string())
        };
        assert_eq!(behind(&flow.to_string()), behind(line));
    }
}

#[test]
fn every_line_of_an_ovn_switch_is_a_rule_or_names_what_is_missing() {
    let text = read("ovn.dump");
    let mut parser = Parser::new();
    let mut missing: BTreeMap<String, usize> = BTreeMap::new();
    let mut flows = 0;
    for line in text.lines() {
        match parser.parse_rules("ovn.dump", line) {
            Ok(rules) => {
                for flow in rules.flows {
                    assert_eq!(parse_flow(&flow.to_string()), Ok(flow));
                    flows += 1;
                }
            }
            Err(errors) => match &errors[..] {
                [TextError::Unsupported { name, .. }] => {
                    *missing.entry(name.to_string()).or_default() += 1;
                }
                other => panic!("{other:?}\n{line}"),
            },
        }
    }
    let expected = [("learn", 2)];
    let missing: Vec<(&str, usize)> = missing
        .iter()
        .map(|(name, count)| (name.as_str(), *count))
        .collect();
    assert_eq!((flows, &missing[..]), (622, &expected[..]));
    let groups = parse_groups("ovn-groups.dump", &read("ovn-groups.dump"));
    assert_eq!(groups.expect("they are read").len(), 1);
}
