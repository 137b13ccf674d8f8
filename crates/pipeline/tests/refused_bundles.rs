//! A refused bundle of 200,000 operations leaves nothing behind.

mod by_program;

use thalweg_packet::{Instant, PortId, standard};
use thalweg_pipeline::text::{Parser, parse_flow};
use thalweg_pipeline::{
    Action, BridgeId, Change, ChangeError, Config, Flow, MacMove, Match, Operation, Pipeline,
    PortState, Revision, Selector, Station, TableId,
};

use by_program::picture;

/// Operations of a bundle, without the wrong one.
const OPERATIONS: usize = 200_000;

/// Rules that exist before.
const RULES: usize = 1_000;

/// Most groups.
const GROUPS: usize = 2_000;

fn read(text: &str) -> Operation {
    let operation = Parser::new().parse_operation(text);
    operation.unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Rules with the actions of a text, in network `net`.
fn routes(net: usize, actions: &str) -> impl Iterator<Item = Flow> {
    let text = format!("table=1,ip,nw_dst=10.{net}.0.0,actions={actions}");
    let template = parse_flow(&text).expect("a rule");
    let net = net as u128;
    (0..65_536_u128).map(move |host| {
        let terms = template.matching.terms().iter();
        let mut matching = Match::default();
        for term in terms {
            let address = (10 << 24) | (net << 16) | host;
            let value = match term.field == standard::IP_DST {
                true => address,
                false => term.value,
            };
            let added = matching.add(term.field, value, term.mask);
            added.expect("conditions on different fields");
        }
        Flow {
            matching,
            ..template.clone()
        }
    })
}

/// Creates a pipeline with ports, groups and rules, and room for `room` more rules.
fn pipeline(room: usize) -> Pipeline {
    let config = Config {
        rules: RULES + room,
        groups: GROUPS,
        ..Config::default()
    };
    let mut pipeline = Pipeline::new(config);
    let state = PortState {
        is_up: true,
        floods: true,
        forwards: true,
        peer: None,
    };
    let ports = (1..=3).map(|port| Operation::SetPort(PortId(port), state));
    let groups = [
        read("group_id=1,type=all,bucket=actions=output:2"),
        read("group_id=2,type=all,bucket=actions=group:1"),
        read("table=0,priority=9,tcp,in_port=1,actions=goto_table:1"),
        read("table=0,priority=0,actions=normal"),
    ];
    let rules = routes(0, "group:2").take(RULES - 2).map(Operation::Add);
    let operations = ports.chain(groups).chain(rules).collect();
    let applied = pipeline.apply(&Change { operations }, Instant::ZERO);
    applied.expect("the test's rules can be loaded");
    pipeline
}

/// A mixed bundle: it modifies and deletes existing rules, and mostly adds new ones.
fn bundle() -> Vec<Operation> {
    let mut operations = vec![
        read("modify table=1,ip,actions=output:3"),
        read("delete table=1,ip,nw_dst=10.0.0.0/25"),
        Operation::DeletePort(PortId(2)),
        read("delete group_id=1"),
        read("group_id=1,type=all,bucket=actions=output:1"),
    ];
    let numbers = 10..GROUPS - 5;
    let groups = numbers.map(|id| read(&format!("group_id={id},type=all,bucket=output:1")));
    operations.extend(groups);
    let stations = (0..100).map(|mac| MacMove {
        station: Station {
            bridge: BridgeId::default(),
            vlan: 0,
            mac,
        },
        port: Some(PortId(1)),
    });
    operations.push(Operation::MoveMacs(stations.collect()));
    let routes = (1..5).flat_map(|net| routes(net, "group:1"));
    let missing = OPERATIONS - operations.len();
    operations.extend(routes.take(missing).map(Operation::Add));
    operations
}

/// Puts a wrong operation at the start, in the middle and at the end of a bundle.
fn assert_leaves_nothing(wrong: &Operation, expected: &str) {
    let places = [0, OPERATIONS / 2, OPERATIONS];
    for place in places {
        let mut operations = bundle();
        operations.insert(place, wrong.clone());
        let error = assert_refused(OPERATIONS, operations);
        assert_eq!(error.operation(), Some(place));
        let text = error.to_string();
        assert!(text.contains(expected), "{text}");
    }
}

/// Checks that rules, groups, ports, stations, answers and bytes are as before.
fn assert_refused(room: usize, operations: Vec<Operation>) -> ChangeError {
    let mut pipeline = pipeline(room);
    let (before, bytes) = (picture(&pipeline), pipeline.memory_bytes());
    let refused = pipeline.apply(&Change { operations }, Instant::from_nanos(7));
    let error = refused.expect_err("one operation cannot be done");
    assert_eq!(picture(&pipeline), before, "{error}");
    // The bundle's rules took over a hundred times more memory; arrays may stay four times
    // larger.
    let bytes_after = pipeline.memory_bytes();
    assert!(
        bytes_after <= 4 * bytes,
        "{bytes} bytes, then {bytes_after}"
    );
    error
}

#[test]
fn a_pipeline_without_rules_takes_no_memory_for_a_refused_bundle() {
    let mut pipeline = Pipeline::new(Config::default());
    let bytes = pipeline.memory_bytes();
    let mut operations: Vec<_> = routes(1, "drop").map(Operation::Add).collect();
    operations.push(read("table=1,priority=3,actions=group:1999"));
    for _ in 0..2 {
        let change = Change {
            operations: operations.clone(),
        };
        assert!(pipeline.apply(&change, Instant::ZERO).is_err());
        assert_eq!(pipeline.memory_bytes(), bytes);
        assert_eq!(pipeline.layout().used().len(), 1);
    }
}

#[test]
fn the_bundle_itself_is_right() {
    let operations = bundle();
    assert_eq!(operations.len(), OPERATIONS);
    let change = Change { operations };
    let applied = pipeline(OPERATIONS).apply(&change, Instant::ZERO);
    assert!(applied.is_ok_and(|delta| delta.inserted.len() > OPERATIONS * 9 / 10));
}

#[test]
fn a_table_that_does_not_exist() {
    let mut flow = routes(9, "drop").next().expect("a rule");
    flow.table = TableId(255);
    assert_leaves_nothing(&Operation::Add(flow), "tables have numbers up to 254");
}

#[test]
fn a_goto_backwards() {
    let mut flow = routes(9, "goto_table:3").next().expect("a rule");
    flow.table = TableId(3);
    assert_leaves_nothing(&Operation::Add(flow), "goto_table:3 in table 3");
}

#[test]
fn a_group_that_does_not_exist() {
    let wrong = read("table=1,priority=3,actions=group:1999");
    assert_leaves_nothing(&wrong, "group 1999 does not exist");
}

#[test]
fn a_group_that_would_call_itself() {
    let wrong = read("group_id=1,type=all,bucket=actions=group:2");
    assert_leaves_nothing(&wrong, "group 1 would call itself");
}

#[test]
fn a_group_without_its_bucket() {
    let mut wrong = read("group_id=9,type=indirect,bucket=actions=output:1");
    if let Operation::SetGroup(group) = &mut wrong {
        group.buckets.clear();
    }
    assert_leaves_nothing(&wrong, "an indirect group has exactly one bucket");
}

#[test]
fn an_action_that_cannot_be_done() {
    let mut flow = routes(9, "drop").next().expect("a rule");
    flow.actions = [Action::PushVlan(1)].into();
    assert_leaves_nothing(&Operation::Add(flow), "push_vlan:0x0001");
}

#[test]
fn a_station_that_no_packet_can_have() {
    let station = Station {
        bridge: BridgeId::default(),
        vlan: 0,
        mac: 1 << 48,
    };
    let wrong = Operation::MoveMacs(vec![MacMove {
        station,
        port: None,
    }]);
    assert_leaves_nothing(&wrong, "48 bits");
}

#[test]
fn a_rule_that_overlaps_another() {
    let wrong = read("check_overlap,table=0,priority=0,ip,actions=drop");
    assert_leaves_nothing(&wrong, "`table=0, priority=0 actions=NORMAL`");
}

/// A modification that selects no rule adds one, under the same condition.
#[test]
fn a_modification_that_would_add_a_rule_that_overlaps_another() {
    let Operation::AddChecked(mut flow) = read("check_overlap,priority=0,ip,actions=drop") else {
        panic!("it asks for the check");
    };
    flow.labels.checks_overlap = true;
    let wrong = Operation::Revise(Box::new(Revision {
        selector: Selector {
            table: Some(flow.table),
            matching: flow.matching.clone(),
            strict_priority: Some(flow.priority),
            cookie: None,
            ..Selector::default()
        },
        actions: flow.actions.clone(),
        cookie: None,
        max_length: 0,
        resets_counts: false,
        otherwise: Some(flow),
    }));
    assert_leaves_nothing(&wrong, "`table=0, priority=0 actions=NORMAL`");
}

#[test]
fn a_rule_too_many() {
    let error = assert_refused(100, bundle());
    assert!(matches!(
        error,
        ChangeError::RulesFull {
            capacity: 1_100,
            ..
        }
    ));
    let rules = bundle();
    // The very last rule that it adds does not fit.
    let added = rules
        .iter()
        .filter(|operation| matches!(operation, Operation::Add(_)));
    let error = assert_refused(added.count() - 129, rules);
    assert_eq!(error.operation(), Some(OPERATIONS - 1));
}

#[test]
fn a_group_too_many() {
    let mut operations = bundle();
    let more = (2_001..2_020).map(|id| read(&format!("group_id={id},type=all,bucket=output:1")));
    operations.extend(more);
    let error = assert_refused(OPERATIONS, operations);
    assert!(matches!(error, ChangeError::GroupsFull { .. }), "{error}");
}

/// Rules that need one more field move all rules to a wider layout; undoing moves them back.
#[test]
fn a_bundle_that_had_made_the_layout_wider() {
    let mut operations = bundle();
    operations.push(read("table=2,reg5=1,dl_vlan=7,actions=drop"));
    operations.push(read("table=1,priority=3,actions=group:1999"));
    let error = assert_refused(OPERATIONS, operations);
    assert_eq!(error.operation(), Some(OPERATIONS + 1));
}
