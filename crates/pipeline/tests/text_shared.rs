//! The dumps of the shared data folder: every line is a rule, and is printed as it was.
//!
//! Built only with the feature `shared-data`; the folder is `$THALWEG_SHARED`, else
//! `../shared` beside the workspace, and a missing one fails the test.

use std::path::PathBuf;

use thalweg_pipeline::text::{parse_flow, parse_groups, parse_rules};

fn read(name: &str) -> String {
    let folder = match std::env::var_os("THALWEG_SHARED") {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
    };
    let path = folder.join("data/flows").join(name);
    std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; set THALWEG_SHARED", path.display()))
}

/// Every line of a dump is a rule, and is printed as it was; returns how many there are. Lines
/// about the options of Geneve are left out: there are no tunnels.
fn load(name: &str) -> usize {
    let lines: Vec<String> = read(name).lines().map(str::to_owned).collect();
    let lines = lines
        .into_iter()
        .filter(|line| !line.contains("TUN_METADATA"));
    let text: String = lines.map(|line| line + "\n").collect();
    let rules = parse_rules(name, &text);
    let rules = rules.unwrap_or_else(|errors| panic!("{name}: {errors:?}"));
    let lines = text.lines().filter(|line| line.contains("actions="));
    let lines: Vec<&str> = lines.collect();
    assert_eq!(rules.flows.len(), lines.len(), "{name}");
    for (flow, line) in rules.flows.iter().zip(&lines) {
        let printed = flow.to_string();
        assert_eq!(parse_flow(&printed).as_ref(), Ok(flow), "{line}");
        let behind = |text: &str| {
            text.split_once(" priority=")
                .map(|(_, rest)| rest.to_string())
        };
        // Bits of a wide register are printed by the narrower one that has them all, and a mask of
        // all bits is not printed.
        let others = ["xreg", "xxreg", "PKT_REG", "XXREG", "/0x3f->ip_dscp"];
        if !others.iter().any(|name| line.contains(name)) {
            assert_eq!(behind(&printed), behind(line));
        }
    }
    lines.len()
}

#[test]
fn a_faucet_switch_loads_whole() {
    assert!(load("faucet.dump") > 40);
}

#[test]
fn switches_of_ovn_load_whole() {
    assert_eq!(load("ovn.dump"), 624);
    assert!(load("ovn-rich.dump") > 600);
    for (name, count) in [("ovn-groups.dump", 1), ("ovn-rich-groups.dump", 6)] {
        let groups = parse_groups(name, &read(name));
        let groups = groups.unwrap_or_else(|errors| panic!("{name}: {errors:?}"));
        assert_eq!(groups.len(), count, "{name}");
    }
}
