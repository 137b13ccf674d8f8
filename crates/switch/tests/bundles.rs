//! Operations that interact in a bundle, and bundles that interact: one test for each.
//!
//! A bundle is done in order, and seen whole or not at all (OpenFlow 1.5.1, section 6.8). What
//! it does and undoes again is never seen, so it touches no cache entry.

mod lab;

use lab::{Lab, READS_FIVE_TUPLE, datagram};
use thalweg_datapath::{MaintainerKind, Work};
use thalweg_pipeline::text::Parser;
use thalweg_pipeline::{Change, ChangeError, Operation};
use thalweg_switch::{Config, Update};

const RULES: &str = "\
    group_id=1,type=all,bucket=actions=output:4\n\
    priority=7,ip,nw_dst=10.0.0.1,actions=output:2\n\
    priority=7,ip,nw_dst=10.0.0.2,actions=group:1\n\
    priority=2,ip,actions=output:3\n";

const HOSTS: u32 = 3;

fn warm_lab_with(config: Config) -> Lab {
    let mut lab = Lab::new(config, &format!("{RULES}{READS_FIVE_TUPLE}"));
    assert_eq!(answers(&mut lab), [[2], [4], [3]]);
    lab
}

fn warm_lab() -> Lab {
    warm_lab_with(Config::default())
}

/// The ports that packets to each host leave by; caches and interpreter must agree.
fn answers(lab: &mut Lab) -> Vec<Vec<u32>> {
    let hosts = 1..=HOSTS;
    hosts.map(|host| lab.send(&datagram(9, host, 7))).collect()
}

fn bundle(lines: &[&str]) -> Change {
    let read = |line: &&str| {
        let operation = Parser::new().parse_operation(line);
        operation.unwrap_or_else(|error| panic!("{line}: {error}"))
    };
    Change {
        operations: lines.iter().map(read).collect(),
    }
}

fn commit(lab: &mut Lab, lines: &[&str]) -> Update {
    lab.apply(&bundle(lines))
}

/// How many rules were inserted and removed.
fn counts(update: &Update) -> (usize, usize) {
    (update.delta.inserted.len(), update.delta.removed.len())
}

/// The rule for a host, and its packet count.
fn rule_of(lab: &mut Lab, host: u32) -> Option<(String, u64)> {
    let condition = format!("nw_dst=10.0.0.{host} ");
    let rules = lab.rules();
    rules
        .into_iter()
        .find(|(rule, _)| rule.contains(&condition))
}

#[test]
fn of_two_open_bundles_the_second_sees_what_the_first_did() {
    let mut lab = warm_lab();
    let first = bundle(&[
        "priority=7,ip,nw_dst=10.0.0.3,actions=output:5",
        "delete_strict priority=7,ip,nw_dst=10.0.0.1",
    ]);
    let second = bundle(&[
        "priority=7,ip,nw_dst=10.0.0.3,actions=output:6",
        "delete_strict priority=7,ip,nw_dst=10.0.0.1",
        "modify ip,nw_dst=10.0.0.2,actions=output:7",
    ]);
    let (done, again) = (lab.apply(&first), lab.apply(&second));
    assert_eq!(counts(&done), (1, 1));
    // The rule for 3 has replaced the first bundle's; that for 1 was gone.
    assert_eq!(counts(&again), (2, 2));
    assert!(again.delta.removed.contains(&done.delta.inserted[0]));
    assert_eq!(answers(&mut lab), [[3], [7], [6]]);
}

#[test]
fn a_bundle_committed_twice_is_done_twice() {
    let mut lab = warm_lab();
    let lines = ["priority=7,ip,nw_dst=10.0.0.3,actions=output:5"];
    commit(&mut lab, &lines);
    assert_eq!(answers(&mut lab)[2], [5]);
    let rules = lab.rules();
    let update = commit(&mut lab, &lines);
    assert_eq!(counts(&update), (1, 1), "an equal add takes the place");
    assert_eq!(lab.rules(), rules, "and goes on counting");
    assert_eq!(answers(&mut lab)[2], [5]);
}

#[test]
fn what_a_bundle_adds_and_deletes_was_never_there() {
    let mut lab = warm_lab();
    let rules = lab.rules();
    for lines in [
        ["priority=9,ip,actions=drop", "delete_strict priority=9,ip"],
        ["table=4,ip,actions=drop", "delete table=4"],
        [
            "group_id=3,type=all,bucket=actions=output:5",
            "delete group_id=3",
        ],
    ] {
        let update = commit(&mut lab, &lines);
        assert_eq!(counts(&update), (0, 0), "{lines:?}");
        assert_eq!(update.work, Work::default(), "{lines:?}");
        assert_eq!(lab.rules(), rules);
    }
    assert_eq!(
        lab.engine.pipeline().groups(lab.engine.version()).count(),
        1
    );
    assert_eq!(answers(&mut lab), [[2], [4], [3]]);
}

#[test]
fn a_rule_deleted_and_added_again_counts_from_zero() {
    let mut lab = warm_lab();
    assert_eq!(rule_of(&mut lab, 1).expect("it is there").1, 1);
    let update = commit(
        &mut lab,
        &[
            "delete_strict priority=7,ip,nw_dst=10.0.0.1",
            "priority=7,ip,nw_dst=10.0.0.1,actions=output:2",
        ],
    );
    assert_eq!(counts(&update), (1, 1));
    assert_eq!(rule_of(&mut lab, 1).expect("it is there").1, 0);
    assert_eq!(answers(&mut lab)[0], [2]);
    assert_eq!(rule_of(&mut lab, 1).expect("it is there").1, 1);
}

#[test]
fn a_bundle_may_modify_what_it_adds() {
    let mut lab = warm_lab();
    let update = commit(
        &mut lab,
        &[
            "priority=7,ip,nw_dst=10.0.0.3,actions=output:5",
            "modify ip,nw_dst=10.0.0.3,actions=output:6",
            "modify_strict priority=7,ip,nw_dst=10.0.0.3,actions=output:7",
        ],
    );
    assert_eq!(counts(&update), (1, 0), "one rule, as it was last");
    assert_eq!(answers(&mut lab), [[2], [4], [7]]);
}

#[test]
fn the_last_of_equal_adds_in_a_bundle_stays() {
    let mut lab = warm_lab();
    let update = commit(
        &mut lab,
        &[
            "cookie=1,priority=7,ip,nw_dst=10.0.0.3,actions=output:5",
            "cookie=2,priority=7,ip,nw_dst=10.0.0.3,actions=output:6",
            "cookie=3,priority=7,ip,nw_dst=10.0.0.1,actions=output:5",
            "cookie=4,priority=7,ip,nw_dst=10.0.0.1,actions=output:6",
        ],
    );
    assert_eq!(counts(&update), (2, 1));
    assert_eq!(answers(&mut lab), [[6], [4], [6]]);
    let (rule, packets) = rule_of(&mut lab, 1).expect("it is there");
    assert!(rule.starts_with("cookie=0x4"), "{rule}");
    assert_eq!(packets, 2, "it goes on with what the former has counted");
    assert!(rule_of(&mut lab, 3).is_some_and(|(rule, _)| rule.starts_with("cookie=0x2")));
}

/// The same for a rule that is modified and then deleted: its last counts are reported once.
#[test]
fn a_rule_replaced_and_deleted_in_a_bundle_has_ended_once() {
    let mut lab = warm_lab();
    commit(
        &mut lab,
        &["priority=7,ip,send_flow_rem,nw_dst=10.0.0.3,actions=output:5"],
    );
    assert_eq!(answers(&mut lab)[2], [5]);
    let update = commit(
        &mut lab,
        &[
            "modify ip,nw_dst=10.0.0.3,actions=output:6",
            "priority=7,ip,send_flow_rem,nw_dst=10.0.0.3,actions=output:7",
            "delete_strict priority=7,ip,nw_dst=10.0.0.3",
        ],
    );
    assert_eq!(counts(&update), (0, 1));
    let removals = lab.engine.take_removals();
    let packets: Vec<u64> = removals
        .iter()
        .map(|ended| ended.counters.packets)
        .collect();
    assert_eq!(packets, [1]);
    assert_eq!(answers(&mut lab)[2], [3]);
}

#[test]
fn a_group_comes_before_the_rules_that_name_it() {
    let mut lab = warm_lab();
    let group = "group_id=5,type=all,bucket=actions=output:6";
    let rule = "priority=8,ip,nw_dst=10.0.0.3,actions=group:5";
    let refused = lab.engine.apply(&bundle(&[rule, group]), lab.now);
    assert!(matches!(
        refused,
        Err(ChangeError::UnknownGroup {
            operation: 0,
            group: 5
        })
    ));
    assert_eq!(answers(&mut lab)[2], [3]);
    commit(&mut lab, &[group, rule]);
    assert_eq!(answers(&mut lab)[2], [6]);
}

#[test]
fn a_group_deleted_and_added_again_has_lost_its_rules() {
    let mut lab = warm_lab();
    let update = commit(
        &mut lab,
        &[
            "delete group_id=1",
            "group_id=1,type=all,bucket=actions=output:4",
        ],
    );
    assert_eq!(counts(&update), (0, 1));
    assert_eq!(answers(&mut lab), [[2], [3], [3]]);
}

/// Wherever the wrong line is, the cache entries are as before.
#[test]
fn a_refused_bundle_touches_no_entry() {
    let right = [
        "delete table=0",
        "priority=9,actions=drop",
        "delete group_id=1",
        "priority=7,ip,nw_dst=10.0.0.1,actions=output:7",
        "table=3,dl_vlan=5,reg4=1,actions=drop",
    ];
    for kind in MaintainerKind::STRICT {
        let mut config = Config::default();
        config.datapath.maintainer = kind;
        let mut lab = warm_lab_with(config);
        let entries = |lab: &Lab| {
            let entries = lab.engine.datapath().entries().into_iter();
            let mut entries: Vec<_> = entries.map(|entry| (entry.id, entry.mask)).collect();
            entries.sort_unstable();
            entries
        };
        let (before, rules) = (entries(&lab), lab.rules());
        assert_eq!(before.len(), HOSTS as usize);
        for place in 0..=right.len() {
            let mut lines = right.to_vec();
            lines.insert(place, "priority=1,actions=group:77");
            let refused = lab.engine.apply(&bundle(&lines), lab.now);
            assert_eq!(
                refused.err().and_then(|error| error.operation()),
                Some(place)
            );
            assert_eq!(entries(&lab), before);
            assert_eq!(lab.rules(), rules);
        }
        assert_eq!(answers(&mut lab), [[2], [4], [3]]);
    }
}

/// A bundle of some thousand operations, which the pipeline does in many slices, is seen
/// whole.
#[test]
fn a_large_bundle_is_its_operations_one_by_one() {
    let lines: Vec<String> = (0..3_000_u32)
        .map(|step| {
            let host = step.wrapping_mul(2_654_435_761) >> 23;
            let (a, b) = (host >> 8 & 1, host & 0xff);
            match step % 7 {
                0 => format!("delete_strict priority=5,ip,nw_dst=10.0.{a}.{b}"),
                1 => format!(
                    "modify ip,nw_dst=10.0.{a}.{b},actions=output:{}",
                    step % 5 + 2
                ),
                _ => format!(
                    "priority=5,ip,nw_dst=10.0.{a}.{b},actions=output:{}",
                    step % 6 + 2
                ),
            }
        })
        .collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let hosts: Vec<u32> = (0..512).collect();
    let send = |lab: &mut Lab| -> Vec<Vec<u32>> {
        let packets = hosts.iter().map(|host| datagram(9, *host, 7));
        packets.map(|packet| lab.send(&packet)).collect()
    };
    let flows = |lab: &mut Lab| -> Vec<String> {
        let rules = lab.rules().into_iter();
        rules.map(|(rule, _)| rule).collect()
    };
    let mut one_by_one = warm_lab();
    for line in &lines {
        one_by_one.change(line);
    }
    let (expected, rules) = (send(&mut one_by_one), flows(&mut one_by_one));
    for kind in MaintainerKind::STRICT {
        let mut config = Config::default();
        config.datapath.maintainer = kind;
        let mut lab = warm_lab_with(config);
        send(&mut lab);
        commit(&mut lab, &lines);
        assert_eq!(send(&mut lab), expected, "{}", kind.name());
        assert_eq!(flows(&mut lab), rules);
        let version = lab.engine.version();
        lab.apply(&Change::one(Operation::DeleteAll));
        assert!(lab.engine.version() > version);
        assert_eq!(flows(&mut lab), [""; 0]);
        assert!(send(&mut lab).iter().all(Vec::is_empty));
    }
}
