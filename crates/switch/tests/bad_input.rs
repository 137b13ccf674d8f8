//! OpenFlow requests that have no effect, or cannot be done: one test for each.
//!
//! A request without effect is no error, and touches no cache entry. A request that cannot be
//! done is refused, and touches none either. Sections are those of OpenFlow 1.5.1.

mod lab;

use lab::{Lab, READS_FIVE_TUPLE, datagram};
use thalweg_datapath::Work;
use thalweg_packet::PortId;
use thalweg_pipeline::text::{Parser, TextError, parse_flow};
use thalweg_pipeline::{Change, ChangeError, Operation, PortState, TableId};
use thalweg_switch::Config;

const RULES: &str = "\
    group_id=1,type=all,bucket=actions=output:4\n\
    group_id=2,type=all,bucket=actions=group:1\n\
    cookie=0x10,priority=7,ip,nw_dst=10.0.0.1,actions=output:2\n\
    cookie=0x11,priority=7,ip,nw_dst=10.0.0.2,actions=group:1\n\
    cookie=0x20,priority=7,ip,nw_dst=10.0.0.3,actions=goto_table:1\n\
    cookie=0x21,table=1,priority=7,udp,actions=write_actions(output:3)\n\
    cookie=0x22,priority=7,ip,nw_dst=10.0.0.4,actions=clone(output:3),output:2\n\
    cookie=0x30,priority=2,ip,actions=CONTROLLER:64\n";

const HOSTS: u32 = 5;

/// A switch with these rules, and a cache entry for each of five hosts.
fn warm_lab() -> Lab {
    let mut lab = Lab::new(Config::default(), &format!("{RULES}{READS_FIVE_TUPLE}"));
    answers(&mut lab);
    assert_eq!(lab.engine.datapath().megaflow_count(), HOSTS as usize);
    lab
}

/// The ports that packets to each host leave by; caches and interpreter must agree.
fn answers(lab: &mut Lab) -> Vec<Vec<u32>> {
    let hosts = 1..=HOSTS;
    hosts.map(|host| lab.send(&datagram(9, host, 7))).collect()
}

/// The cache entries, without their counters.
fn entries(lab: &Lab) -> Vec<String> {
    let entries = lab.engine.datapath().entries();
    let mut texts: Vec<String> = entries
        .into_iter()
        .map(|entry| {
            let (key, mask) = (entry.key, entry.mask);
            format!(
                "{:?} {key:x?} {mask:x?} {:?} {:?}",
                entry.id, entry.effects, entry.rules
            )
        })
        .collect();
    texts.sort_unstable();
    texts
}

fn read(text: &str) -> Operation {
    let operation = Parser::new().parse_operation(text);
    operation.unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Checks that an operation changes nothing: no rule, no group, no cache entry.
fn assert_nothing_happens(lab: &mut Lab, operation: Operation) {
    let (rules, cached) = (lab.rules(), entries(lab));
    let update = lab.apply(&Change::one(operation.clone()));
    let delta = update.delta;
    assert!(delta.inserted.is_empty() && delta.removed.is_empty());
    assert!(delta.groups.is_empty() && delta.ports.is_empty() && delta.stations.is_empty());
    assert!(!delta.has_new_layout, "{operation:?}");
    assert_eq!(update.work, Work::default(), "{operation:?}");
    assert_eq!(entries(lab), cached, "{operation:?}");
    assert_eq!(lab.rules(), rules, "{operation:?}");
}

/// Checks that an impossible operation is refused, together with a possible one before it.
fn assert_refused(lab: &mut Lab, operation: Operation) -> ChangeError {
    let (rules, cached) = (lab.rules(), entries(lab));
    let version = lab.engine.version();
    let operations = vec![
        read("delete table=1"),
        read("table=5,actions=drop"),
        operation,
    ];
    let refused = lab.engine.apply(&Change { operations }, lab.now);
    let error = refused.expect_err("it cannot be done");
    assert_eq!(error.operation(), Some(2));
    assert_eq!(lab.engine.version(), version);
    assert_eq!(entries(lab), cached);
    assert_eq!(lab.rules(), rules);
    error
}

/// The last address bytes of the hosts that still have their own rule.
fn hosts_with_rules(lab: &mut Lab) -> Vec<usize> {
    let rules = lab.rules();
    let has_rule = |host: &usize| {
        let condition = format!("nw_dst=10.0.0.{host} ");
        rules.iter().any(|(rule, _)| rule.contains(&condition))
    };
    (1..=4).filter(has_rule).collect()
}

/// Section 6.4: "if no flow entry matches, no error is recorded, and no flow table
/// modification occurs".
#[test]
fn deleting_a_rule_that_is_not_there_does_nothing() {
    let mut lab = warm_lab();
    for text in [
        "delete ip,nw_dst=10.0.0.99",
        "delete_strict priority=7,ip",
        "delete_strict priority=6,ip,nw_dst=10.0.0.1",
        "delete_strict table=1,priority=7,ip,nw_dst=10.0.0.1",
        "delete table=9",
        "delete cookie=0x77/-1",
        "delete cookie=0x10/-1,ip,nw_dst=10.0.0.2",
        "delete reg7=1",
        "delete out_port=77",
        "delete out_group=2",
    ] {
        assert_nothing_happens(&mut lab, read(text));
    }
    assert_nothing_happens(&mut lab, Operation::DeletePort(PortId(99)));
}

/// Section 6.5: deleting a group that does not exist is no error.
#[test]
fn deleting_a_group_that_is_not_there_does_nothing() {
    let mut lab = warm_lab();
    assert_nothing_happens(&mut lab, read("delete group_id=77"));
    lab.change("delete group_id=2");
    assert_nothing_happens(&mut lab, read("delete group_id=2"));
}

/// Section 6.4, since OpenFlow 1.1: a modification that finds no rule adds none.
#[test]
fn modifying_a_rule_that_is_not_there_adds_none() {
    let mut lab = warm_lab();
    for text in [
        "modify ip,nw_dst=10.0.0.99,actions=output:4",
        "modify_strict priority=6,ip,nw_dst=10.0.0.1,actions=output:4",
        "modify_strict priority=7,ip,actions=output:4",
        "modify table=9,actions=output:4",
        "modify cookie=0x77/-1,actions=output:4",
        "modify reg7=1,actions=output:4",
        "modify reg7=1,actions=output:NXM_NX_REG3[]",
    ] {
        assert_nothing_happens(&mut lab, read(text));
    }
}

#[test]
fn modifying_a_rule_to_what_it_is_touches_nothing() {
    let mut lab = warm_lab();
    let same = "modify_strict priority=7,ip,nw_dst=10.0.0.1,actions=output:2";
    assert_nothing_happens(&mut lab, read(same));
}

#[test]
fn an_empty_change_touches_nothing() {
    let mut lab = warm_lab();
    let (version, cached) = (lab.engine.version(), entries(&lab));
    let update = lab.apply(&Change::default());
    assert_eq!(update.delta.version, version.next());
    assert_eq!(update.work, Work::default());
    assert_eq!(entries(&lab), cached);
    assert_nothing_happens(&mut lab, Operation::MoveMacs(Vec::new()));
}

/// Section 6.4: a cookie narrows the selection, strict or not.
#[test]
fn a_cookie_narrows_what_is_deleted() {
    let left = |text: &str| {
        let mut lab = warm_lab();
        lab.change(text);
        answers(&mut lab);
        hosts_with_rules(&mut lab)
    };
    assert_eq!(left("delete cookie=0x10/0xf0,table=0"), [3, 4]);
    assert_eq!(left("delete cookie=0x1/0x1"), [1, 3, 4]);
    assert_eq!(left("delete cookie=0x10/-1,ip"), [2, 3, 4]);
    let strict = "delete_strict priority=7,ip,nw_dst=10.0.0.1";
    assert_eq!(left(&format!("{strict},cookie=0x10/-1")), [2, 3, 4]);
    assert_eq!(left(&format!("{strict},cookie=0x11/-1")), [1, 2, 3, 4]);
    assert_eq!(left("delete cookie=0x0/0x0,table=0,ip"), [0; 0]);
}

/// Section 7.3.4.2: `out_port` and `out_group` narrow deletions.
#[test]
fn where_rules_lead_narrows_what_is_deleted() {
    let left = |text: &str| {
        let mut lab = warm_lab();
        let before = lab.rules().len();
        lab.change(text);
        answers(&mut lab);
        (hosts_with_rules(&mut lab), before - lab.rules().len())
    };
    assert_eq!(left("delete out_port=2"), (vec![2, 3], 2));
    assert_eq!(
        left("delete out_port=3"),
        (vec![1, 2, 3], 2),
        "nested ones too"
    );
    assert_eq!(left("delete out_port=3,out_group=1"), (vec![1, 2, 3, 4], 0));
    assert_eq!(left("delete out_group=1"), (vec![1, 3, 4], 1));
    assert_eq!(left("delete out_port=CONTROLLER"), (vec![1, 2, 3, 4], 1));
    assert_eq!(
        left("delete ip,nw_dst=10.0.0.4,out_port=2"),
        (vec![1, 2, 3], 1)
    );
    let strict = "delete_strict priority=7,ip,nw_dst=10.0.0.1";
    assert_eq!(left(&format!("{strict},out_port=3")), (vec![1, 2, 3, 4], 0));
    assert_eq!(left(&format!("{strict},out_port=2")), (vec![2, 3, 4], 1));
}

/// Section 6.4: a loose request selects all rules at least as narrow, a strict one only that
/// rule.
#[test]
fn loose_requests_mean_narrower_rules_too() {
    let mut lab = warm_lab();
    lab.change("modify ip,nw_dst=10.0.0.0/30,actions=output:5");
    assert_eq!(
        answers(&mut lab),
        [vec![5], vec![5], vec![5], vec![3, 2], vec![]]
    );
    lab.change("modify_strict priority=2,ip,actions=output:6");
    assert_eq!(answers(&mut lab)[4], [6]);
    lab.change("delete_strict priority=2,ip");
    assert_eq!(
        answers(&mut lab)[..4],
        [vec![5], vec![5], vec![5], vec![3, 2]]
    );
    lab.change("delete ip");
    assert_eq!(answers(&mut lab), vec![Vec::<u32>::new(); 5]);
}

/// Section 6.4: an add with equal match and priority replaces the existing rule.
#[test]
fn an_equal_add_takes_the_place() {
    let mut lab = warm_lab();
    let before = lab.rules().len();
    let equal = "priority=7,ip,nw_dst=10.0.0.1";
    lab.change(&format!(
        "cookie=0x99,idle_timeout=7,{equal},actions=output:6"
    ));
    assert_eq!(lab.rules().len(), before);
    assert_eq!(answers(&mut lab)[0], [6]);
    let counted = |lab: &mut Lab| {
        let rules = lab.rules();
        let rule = rules
            .iter()
            .find(|(rule, _)| rule.contains("nw_dst=10.0.0.1 "));
        rule.expect("it is there").clone()
    };
    let (rule, packets) = counted(&mut lab);
    assert!(
        rule.starts_with("cookie=0x99, table=0, idle_timeout=7"),
        "{rule}"
    );
    assert_eq!(packets, 2, "it goes on with what the other has counted");
    lab.change(&format!("reset_counts,{equal},actions=output:6"));
    assert_eq!(counted(&mut lab).1, 0);
    // With another priority or table it is another rule.
    lab.change("priority=6,ip,nw_dst=10.0.0.1,actions=output:7");
    lab.change("table=1,priority=7,ip,nw_dst=10.0.0.1,actions=output:7");
    assert_eq!(lab.rules().len(), before + 2);
    assert_eq!(answers(&mut lab)[0], [6]);
}

/// Section 6.4, `OFPFMFC_OVERLAP`.
#[test]
fn a_rule_that_overlaps_is_refused_if_asked_to_be() {
    let mut lab = warm_lab();
    for text in [
        "check_overlap,priority=7,udp,actions=drop",
        "check_overlap,priority=7,actions=drop",
        "check_overlap,priority=7,ip,nw_dst=10.0.0.1,actions=output:2",
        "check_overlap,table=5,ip,actions=drop",
    ] {
        let error = assert_refused(&mut lab, read(text));
        assert!(matches!(error, ChangeError::Overlap { .. }), "{error}");
    }
    for text in [
        "check_overlap,priority=6,udp,actions=output:4",
        "check_overlap,priority=7,arp,actions=drop",
        "check_overlap,priority=7,ip,nw_dst=10.0.0.9,actions=drop",
        "check_overlap,table=1,priority=7,tcp,actions=drop",
        "priority=7,ip,actions=drop",
    ] {
        assert_eq!(lab.change(text).delta.inserted.len(), 1);
        answers(&mut lab);
    }
}

/// Overlap is checked against the rules that exist when the operation's turn comes.
#[test]
fn overlap_is_checked_against_the_bundle_so_far() {
    let mut lab = warm_lab();
    let operations = vec![
        read("delete table=0,ip,nw_dst=10.0.0.1"),
        read("check_overlap,priority=7,ip,nw_dst=10.0.0.1,actions=output:6"),
    ];
    lab.apply(&Change { operations });
    assert_eq!(answers(&mut lab)[0], [6]);
    let operations = vec![
        read("priority=9,udp,actions=drop"),
        read("check_overlap,priority=9,ip,actions=drop"),
    ];
    let refused = lab.engine.apply(&Change { operations }, lab.now);
    assert!(matches!(
        refused,
        Err(ChangeError::Overlap { operation: 1, .. })
    ));
    assert_eq!(answers(&mut lab)[0], [6]);
}

/// `OFPBAC_BAD_OUT_GROUP`.
#[test]
fn a_rule_with_a_group_that_is_not_there_is_refused() {
    let mut lab = warm_lab();
    for text in [
        "priority=9,actions=group:77",
        "priority=9,actions=clone(group:77)",
        "priority=9,actions=write_actions(group:77)",
        "modify table=1,actions=group:77",
    ] {
        let error = assert_refused(&mut lab, read(text));
        assert!(matches!(error, ChangeError::UnknownGroup { group: 77, .. }));
    }
}

/// Groups come in any order: a group may name a later one.
#[test]
fn a_bucket_can_name_a_group_that_comes_later() {
    let mut lab = warm_lab();
    let operations = vec![
        read("group_id=5,type=all,bucket=actions=group:77"),
        read("group_id=77,type=ff,bucket=watch_group:78,actions=output:6"),
        read("priority=9,ip,nw_dst=10.0.0.1,actions=group:5"),
    ];
    lab.apply(&Change { operations });
    assert_eq!(answers(&mut lab)[0], [0; 0], "what is watched is not there");
    lab.change("group_id=78,type=all,bucket=actions=drop");
    assert_eq!(answers(&mut lab)[0], [6]);
    lab.change("delete group_id=77");
    assert_eq!(answers(&mut lab)[0], [0; 0], "what is named is not there");
    lab.change("group_id=77,type=all,bucket=actions=output:7");
    assert_eq!(answers(&mut lab)[0], [7]);
    // A circle is found whichever group closes it.
    let error = assert_refused(
        &mut lab,
        read("group_id=77,type=all,bucket=actions=group:5"),
    );
    assert!(matches!(error, ChangeError::GroupLoop { group: 77, .. }));
}

/// Section 6.7: rules that use a group are removed with it; their packets go elsewhere at
/// once.
#[test]
fn deleting_a_group_deletes_the_rules_that_use_it() {
    let mut lab = warm_lab();
    assert_eq!(answers(&mut lab)[1], [4]);
    let update = lab.change("delete group_id=1");
    assert_eq!(update.delta.removed.len(), 1);
    assert_eq!(hosts_with_rules(&mut lab), [1, 3, 4]);
    assert_eq!(
        answers(&mut lab)[1],
        [0; 0],
        "the controller's rule is next"
    );
    // A group whose bucket names it stays, and sends nowhere.
    lab.change("priority=9,ip,nw_dst=10.0.0.1,actions=group:2");
    assert_eq!(answers(&mut lab)[0], [0; 0]);
    lab.change("group_id=1,type=all,bucket=actions=output:7");
    assert_eq!(answers(&mut lab)[0], [7], "and to whom a new one says");
}

/// `OFPGMFC_LOOP`.
#[test]
fn a_group_that_would_call_itself_is_refused() {
    let mut lab = warm_lab();
    for text in [
        "group_id=1,type=all,bucket=actions=group:1",
        "group_id=1,type=all,bucket=actions=group:2",
        "group_id=1,type=ff,bucket=watch_group:2,actions=output:2",
        "group_id=1,type=all,bucket=actions=clone(clone(group:2))",
    ] {
        let error = assert_refused(&mut lab, read(text));
        assert!(
            matches!(error, ChangeError::GroupLoop { group: 1, .. }),
            "{error}"
        );
    }
}

#[test]
fn a_port_that_is_gone_is_sent_nothing_until_it_is_back() {
    let mut lab = warm_lab();
    assert_eq!(answers(&mut lab)[0], [2]);
    lab.apply(&Change::one(Operation::DeletePort(PortId(2))));
    assert_eq!(answers(&mut lab)[0], [0; 0]);
    assert_nothing_happens(&mut lab, Operation::DeletePort(PortId(2)));
    assert_eq!(hosts_with_rules(&mut lab), [1, 2, 3, 4], "rules stay");
    let state = PortState {
        is_up: true,
        floods: true,
        forwards: true,
        peer: None,
    };
    lab.apply(&Change::one(Operation::SetPort(PortId(2), state)));
    assert_eq!(answers(&mut lab)[0], [2]);
    assert_nothing_happens(&mut lab, Operation::SetPort(PortId(2), state));
}

#[test]
fn a_rule_for_a_table_that_cannot_be_had_is_refused() {
    let mut lab = warm_lab();
    let mut flow = parse_flow("actions=drop").expect("a rule");
    flow.table = TableId(255);
    let error = assert_refused(&mut lab, Operation::Add(flow));
    assert!(matches!(error, ChangeError::BadRule { .. }), "{error}");
    let mut flow = parse_flow("actions=goto_table:3").expect("a rule");
    for table in [3, 4, 254] {
        flow.table = TableId(table);
        let error = assert_refused(&mut lab, Operation::Add(flow.clone()));
        assert!(
            matches!(error, ChangeError::GotoBackwards { .. }),
            "{error}"
        );
    }
}

/// The parser refuses a number that does not fit its field, with line and column.
#[test]
fn numbers_out_of_range_are_refused() {
    for text in [
        "priority=65536,actions=drop",
        "priority=-1,actions=drop",
        "table=255,actions=drop",
        "table=256,actions=drop",
        "idle_timeout=65536,actions=drop",
        "hard_timeout=70000,actions=drop",
        "cookie=0x10000000000000000,actions=drop",
        "actions=group:4294967295",
        "actions=goto_table:255",
        "group_id=4294967295,type=all",
        "delete table=256",
        "delete_strict priority=65536,ip",
        "delete out_port=65400",
        "delete out_group=4294967295",
    ] {
        let refused = Parser::new().parse_operation(text);
        let error: TextError = refused.expect_err(text);
        assert!(error.to_string().starts_with("operation:1:"), "{error}");
    }
    let mut lab = warm_lab();
    for priority in [0, u16::MAX] {
        lab.change(&format!("priority={priority},dl_type=0x1234,actions=drop"));
        answers(&mut lab);
    }
}
