//! os-ken's switch tests of OpenFlow 1.3 against a running switch.
//!
//! `cargo xtask switch-tests` installs os-ken and writes its cases with `os_ken_cases.py`:
//! messages and packets as os-ken makes bytes of them. Each case is run as os-ken's tester
//! runs it, without the second switch and the waits: packets enter port 1 and leave from
//! ports 2 and 3 of a switch in this process, and a client speaks over a socket.
//!
//! ```text
//!   delete all flows, groups and meters
//!   send each message of the case, and a barrier; read the entry back and compare it
//!   for each step: inject packets; compare what leaves, packet-ins, or counts of tables
//! ```
//!
//! A single packet is injected twice, so that the second meets what the first left in the
//! caches. The cases that fail are those that `docs/openflow-switch-tests.md` names, no more
//! and no less.

mod cases;
mod client;
mod run;
mod told;

use std::collections::{BTreeMap, BTreeSet};

use run::Bench;

/// The page that names the cases that fail.
const PAGE: &str = include_str!("../../../../docs/openflow-switch-tests.md");

/// How many cases of match and action must pass, at the least: as many as Open vSwitch 3.1
/// passes.
const AS_OPEN_VSWITCH: usize = 672;

#[test]
fn the_cases_that_fail_are_those_that_the_page_names() {
    let cases = cases::read();
    let mut bench = Bench::start();
    let mut passed: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut failed = BTreeMap::new();
    for case in &cases {
        let counts = passed.entry(case.folder()).or_default();
        counts.1 += 1;
        match bench.run(case) {
            Ok(()) => counts.0 += 1,
            Err(why) => drop(failed.insert(case.title(), why)),
        }
    }
    bench.stop();
    println!("{passed:?}");
    let named = named();
    for (title, why) in &failed {
        if !named.contains(title.as_str()) {
            println!("FAILS: - {title}\n    {why}");
        }
    }
    let failing: BTreeSet<&str> = failed.keys().map(String::as_str).collect();
    for title in named.difference(&failing) {
        println!("named on the page, and does not fail: - {title}");
    }
    assert!(
        failing == named,
        "other cases fail than the page names; see above"
    );
    let told = passed
        .iter()
        .map(|(folder, (passed, all))| format!("| {folder} | {all} | {passed} |"));
    for row in told {
        assert!(PAGE.contains(&row), "the page lacks the row {row}");
    }
    assert!(passed["match"].0 + passed["action"].0 >= AS_OPEN_VSWITCH);
}

/// The titles of the cases that the page names: each in a line of a list.
fn named() -> BTreeSet<&'static str> {
    let lines = PAGE.lines().filter_map(|line| line.strip_prefix("- `"));
    let titles: Vec<&str> = lines.filter_map(|line| line.strip_suffix('`')).collect();
    let named: BTreeSet<&str> = titles.iter().copied().collect();
    assert_eq!(named.len(), titles.len(), "the page names a case twice");
    named
}
