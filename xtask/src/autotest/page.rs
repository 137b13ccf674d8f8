//! The page of tests that do not pass, with reasons.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::suite::{Group, Outcome};

/// What a test needs that the daemon does not have, by what its text says; the first that
/// occurs is the reason.
const REASONS: [(&str, &str); 37] = [
    ("bashcomp", "the completion scripts are in no package"),
    ("bfd", "BFD: later work"),
    ("cfm", "CFM: later work"),
    ("lacp", "bonds and LACP: later work"),
    ("bond", "bonds: later work"),
    ("rstp", "spanning trees: later work"),
    ("stp_enable", "spanning trees: later work"),
    ("mcast_snooping", "multicast snooping: later work"),
    ("auto_attach", "auto-attach: later work"),
    ("lldp", "LLDP: later work"),
    ("sflow", "sFlow: later work"),
    ("netflow", "NetFlow: later work"),
    ("ipfix", "IPFIX: later work"),
    ("type=vxlan", "tunnels, in part"),
    ("type=gre", "tunnels, in part"),
    ("type=geneve", "tunnels, in part"),
    ("type=erspan", "tunnels, in part"),
    ("type=gtpu", "tunnels, in part"),
    ("type=ip6", "tunnels, in part"),
    ("type=lisp", "tunnels, in part"),
    ("type=srv6", "tunnels, in part"),
    ("type=bareudp", "tunnels, in part"),
    ("hw-offload", "there is no hardware offload"),
    ("vlan-limit", "two VLAN tags are always parsed"),
    ("encap(", "packet types, in part"),
    ("nsh", "network service headers, in part"),
    (
        "set-dp-features",
        "only two features of the datapath can be turned off",
    ),
    ("tun_metadata", "tunnels, in part"),
    ("packet_type=(1", "packet types, in part"),
    ("vconn:dbg", "messages are not logged as text"),
    (
        "type=select",
        "a select group chooses in the same pass, without `dp_hash`",
    ),
    ("dpctl/add-dp", "datapaths are not made by hand"),
    ("dpctl/add-flow", "entries are not made by hand"),
    ("megaflow", "entries compare fewer bits (docs/daemon.md)"),
    ("pmd", "threads of Open vSwitch's DPDK datapath"),
    (
        "ovstest",
        "the test program of Open vSwitch's build is in no package",
    ),
    (
        "test-json",
        "the test program of Open vSwitch's build is in no package",
    ),
];

/// Writes the page.
pub(super) fn render(groups: &[&Group], outcomes: &BTreeMap<u32, Outcome>) -> String {
    let mut files: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut open = Vec::new();
    for group in groups {
        let counts = files.entry(&group.file).or_default();
        counts.0 += 1;
        match outcomes.get(&group.number) {
            Some(Outcome::Passed) => counts.1 += 1,
            other => open.push((group, reason(group, other))),
        }
    }
    let passed: usize = files.values().map(|(_, passed)| passed).sum();
    let mut text = format!(
        "# Open vSwitch's own tests\n\n\
         Open vSwitch 3.1's tests start `ovs-vswitchd`, drive it with `ovs-vsctl`, `ovs-ofctl` and \
         `ovs-appctl`, and compare what these print. `cargo xtask autotest` runs them unchanged, \
         from Debian's package `openvswitch-source`, with Thalweg's daemon in the place of \
         `ovs-vswitchd`. Nothing of Open vSwitch is built, so tests that need a program of its \
         build fail for any daemon.\n\n\
         {passed} of the {} tests that start the daemon pass. The list of those that pass is \
         `xtask/src/autotest/passing.txt`; `cargo xtask test` fails if one of them does not. This \
         page is written by `cargo xtask autotest --update`.\n\n\
         | file | tests | pass |\n| --- | ---: | ---: |\n",
        groups.len()
    );
    for (file, (all, passed)) in &files {
        let _ = writeln!(text, "| {file} | {all} | {passed} |");
    }
    text.push_str("\n## Those that do not pass\n");
    let mut last = "";
    for (group, reason) in open {
        if group.file != last {
            let _ = write!(text, "\n### {}\n\n", group.file);
            last = &group.file;
        }
        let _ = writeln!(text, "- {} {}: {reason}", group.number, group.title);
    }
    text
}

/// Why a test does not pass, in a few words.
fn reason(group: &Group, outcome: Option<&Outcome>) -> String {
    if outcome == Some(&Outcome::Skipped) {
        return "left out by the suite itself".to_owned();
    }
    let title = group.title.to_lowercase();
    let mut known = REASONS.iter();
    let found = known.find(|(sign, _)| title.contains(sign) || group.body.contains(sign));
    match (found, outcome) {
        (Some((_, reason)), _) => (*reason).to_owned(),
        (None, Some(Outcome::Failed(place))) => format!("answers differ at {place}"),
        (None, _) => "it did not end".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_counts_and_gives_reasons() {
        let group = |number, title: &str, body: &str| Group {
            number,
            file: "a.at".to_owned(),
            title: title.to_owned(),
            starts_daemon: true,
            body: body.to_owned(),
        };
        let groups = [
            group(1, "one", ""),
            group(2, "two", "actions=encap(ethernet)"),
            group(3, "three", ""),
        ];
        let groups: Vec<&Group> = groups.iter().collect();
        let failed = || Outcome::Failed("a.at:9".to_owned());
        let outcomes = BTreeMap::from([(1, Outcome::Passed), (2, failed()), (3, failed())]);
        let page = render(&groups, &outcomes);
        assert!(page.contains("1 of the 3 tests"), "{page}");
        assert!(page.contains("| a.at | 3 | 1 |"), "{page}");
        assert!(page.contains("- 2 two: packet types, in part\n"), "{page}");
        assert!(
            page.contains("- 3 three: answers differ at a.at:9\n"),
            "{page}"
        );
    }
}
