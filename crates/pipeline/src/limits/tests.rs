use std::cmp::Reverse;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use thalweg_packet::standard as f;

use super::*;
use crate::pipeline::{Config, Counters};
use crate::text::parse_flow;
use crate::{Change, ChangeError, Flow, Operation, Selector};

const TABLE: TableId = TableId(0);

fn pipeline() -> Pipeline {
    Pipeline::new(Config::default())
}

fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

fn limit(rules: u32, evicts: bool, groups: &[Subfield]) -> Operation {
    let groups = groups.to_vec();
    let rules = Some(rules);
    let limit = TableLimit {
        rules,
        evicts,
        groups,
    };
    Operation::LimitTable(TABLE, Arc::new(limit))
}

fn add(pipeline: &mut Pipeline, rule: &str, seconds: u64) -> Result<usize, ChangeError> {
    let flow = parse_flow(rule).expect("a rule");
    let delta = pipeline.apply(&Change::adding([flow]), at(seconds))?;
    Ok(delta.evicted.len())
}

/// The rules, sorted, without actions.
fn rules(pipeline: &Pipeline) -> Vec<String> {
    let known = pipeline.rules(pipeline.version());
    let known = known.filter_map(|(id, _)| pipeline.flow_of(id));
    let mut known: Vec<String> = known.map(|flow| flow.to_string()).collect();
    known.sort();
    known
}

fn ports(pipeline: &Pipeline) -> Vec<u32> {
    let known = pipeline.rules(pipeline.version());
    let known = known.filter_map(|(id, _)| pipeline.match_of(id)?.term(f::IN_PORT));
    let mut known: Vec<u32> = known.map(|term| term.value as u32).collect();
    known.sort_unstable();
    known
}

#[test]
fn a_full_table_refuses_or_loses_the_rule_that_ends_first() {
    let mut pipeline = pipeline();
    let now = at(0);
    let change = Change::one(limit(4, true, &[]));
    pipeline.apply(&change, now).expect("it can be limited");
    for port in [4, 3, 2, 1] {
        let rule = format!("idle_timeout={port}0,in_port={port},actions=drop");
        assert_eq!(add(&mut pipeline, &rule, 0), Ok(0));
    }
    assert_eq!(add(&mut pipeline, "in_port=5,actions=drop", 0), Ok(1));
    assert_eq!(ports(&pipeline), [2, 3, 4, 5]);
    // A rule that takes another's place needs no room.
    assert_eq!(add(&mut pipeline, "in_port=4,actions=output:1", 0), Ok(0));
    assert_eq!(add(&mut pipeline, "in_port=6,actions=drop", 0), Ok(1));
    assert_eq!(add(&mut pipeline, "in_port=7,actions=drop", 0), Ok(1));
    // None is left that would end by itself.
    let refused = add(&mut pipeline, "in_port=8,actions=drop", 0);
    assert!(matches!(
        refused,
        Err(ChangeError::TableFull {
            table: 0,
            capacity: 4,
            ..
        })
    ));
    assert_eq!(ports(&pipeline), [4, 5, 6, 7]);
}

#[test]
fn the_least_important_goes_before_the_one_that_ends_first() {
    let mut pipeline = pipeline();
    let change = Change::one(limit(2, true, &[]));
    pipeline.apply(&change, at(0)).expect("it can be limited");
    for (port, importance, timeout) in [(1, 7, 10), (2, 3, 1_000)] {
        let flow = parse_flow(&format!(
            "hard_timeout={timeout},in_port={port},actions=drop"
        ));
        let mut flow = flow.expect("a rule");
        flow.labels.importance = importance;
        pipeline
            .apply(&Change::adding([flow]), at(0))
            .expect("there is room");
    }
    assert_eq!(add(&mut pipeline, "in_port=3,actions=drop", 0), Ok(1));
    assert_eq!(ports(&pipeline), [1, 3]);
}

#[test]
fn the_largest_group_loses_a_rule() {
    let mut pipeline = pipeline();
    let groups = [Subfield::whole(f::IN_PORT, 32)];
    let change = Change::one(limit(4, true, &groups));
    pipeline.apply(&change, at(0)).expect("it can be limited");
    for (timeout, port, source) in [(10, 2, 4), (20, 1, 1), (30, 1, 2), (40, 1, 3)] {
        let rule = format!(
            "idle_timeout={timeout},in_port={port},dl_src=00:00:00:00:00:0{source},actions=drop"
        );
        assert_eq!(add(&mut pipeline, &rule, 0), Ok(0));
    }
    assert_eq!(add(&mut pipeline, "in_port=9,actions=drop", 0), Ok(1));
    assert_eq!(ports(&pipeline), [1, 1, 2, 9]);
    // A lower limit ends the excess at once, now without groups.
    let delta = pipeline.apply(&Change::one(limit(3, true, &[])), at(0));
    assert_eq!(delta.expect("it can be limited").evicted.len(), 1);
    assert_eq!(ports(&pipeline), [1, 1, 9]);
    // A rule without a timeout stays, beyond the limit.
    let change = Change::one(limit(0, true, &[]));
    pipeline.apply(&change, at(0)).expect("it can be limited");
    assert_eq!(ports(&pipeline), [9]);
    assert!(add(&mut pipeline, "in_port=1,actions=drop", 0).is_err());
}

#[test]
fn a_use_and_a_modification_move_the_end() {
    let mut pipeline = pipeline();
    let change = Change::one(limit(3, true, &[]));
    pipeline.apply(&change, at(0)).expect("it can be limited");
    for (rule, seconds) in [
        ("idle_timeout=13,in_port=1,actions=drop", 0),
        ("hard_timeout=16,in_port=2,actions=drop", 0),
        ("idle_timeout=19,in_port=3,actions=drop", 0),
    ] {
        assert_eq!(add(&mut pipeline, rule, seconds), Ok(0));
    }
    let version = pipeline.version();
    let (used, _) = pipeline.rules(version).next().expect("there are three");
    let counted = Counters {
        packets: 1,
        bytes: 60,
    };
    pipeline.credit_rule(used, counted, at(12));
    let modified = parse_flow("in_port=2,actions=drop").expect("a rule");
    let selector = Selector {
        matching: modified.matching,
        ..Selector::default()
    };
    let change = Change::one(Operation::Modify(selector, modified.actions));
    pipeline.apply(&change, at(5)).expect("it is there");
    // They end at 25, 21 and 19.
    assert_eq!(add(&mut pipeline, "in_port=4,actions=drop", 13), Ok(1));
    assert_eq!(ports(&pipeline), [1, 2, 4]);
    assert_eq!(add(&mut pipeline, "in_port=5,actions=drop", 13), Ok(1));
    assert_eq!(ports(&pipeline), [1, 4, 5]);
}

#[test]
fn a_refused_change_brings_evicted_rules_back() {
    let mut pipeline = pipeline();
    let change = Change::one(limit(2, true, &[]));
    pipeline.apply(&change, at(0)).expect("it can be limited");
    for port in [1, 2] {
        let rule = format!("idle_timeout={port}0,in_port={port},actions=drop");
        assert_eq!(add(&mut pipeline, &rule, 0), Ok(0));
    }
    let before = rules(&pipeline);
    let flow = |port| parse_flow(&format!("in_port={port},tcp,tp_dst=80,actions=drop"));
    // The second goes, the limit falls, and the third finds no room. Its field is new, too.
    let change = Change {
        operations: vec![
            Operation::Add(flow(3).expect("a rule")),
            limit(1, true, &[]),
            Operation::Add(flow(4).expect("a rule")),
        ],
    };
    let refused = pipeline.apply(&change, at(0));
    assert!(matches!(
        refused,
        Err(ChangeError::TableFull {
            operation: 2,
            capacity: 1,
            ..
        })
    ));
    assert_eq!(rules(&pipeline), before);
    assert_eq!(pipeline.rules_of_table(TABLE), 2);
    assert_eq!(add(&mut pipeline, "in_port=5,actions=drop", 0), Ok(1));
    assert_eq!(ports(&pipeline), [2, 5]);
}

/// What must go for another rule, by looking at all.
fn by_hand(pipeline: &Pipeline) -> Option<RuleId> {
    let limit = pipeline.table_limit(TABLE)?;
    let living: Vec<(RuleId, &Rule)> = pipeline
        .rules(pipeline.version())
        .filter(|(_, rule)| rule.table == TABLE)
        .collect();
    let is_full = limit
        .rules
        .is_some_and(|most| living.len() >= most as usize);
    if !is_full || !limit.evicts {
        return None;
    }
    let value = |id: RuleId| -> Vec<u128> {
        let matching = pipeline.match_of(id).expect("it is there");
        let groups = limit.groups.iter();
        let field = |group: &Subfield| matching.term(group.slices[0].field);
        groups
            .map(|group| field(group).map_or(0, |term| term.value))
            .collect()
    };
    let candidates = living.iter().filter(|(_, rule)| urgency(rule).is_some());
    let candidates: Vec<_> = candidates.collect();
    let size = |id: RuleId| {
        let of_group = candidates
            .iter()
            .filter(|(other, _)| value(*other) == value(id));
        of_group.count()
    };
    let best = candidates
        .iter()
        .max_by_key(|(id, rule)| (size(*id), value(*id), Reverse(urgency(rule))));
    best.map(|(id, _)| *id)
}

fn random_flow(chance: &mut Pcg64Mcg) -> Flow {
    let timeout = [0, 10, 20, 30][chance.random_range(0..4)];
    let kind = ["idle", "hard"][chance.random_range(0..2)];
    let (table, port) = (chance.random_range(0..2), chance.random_range(1..5));
    let tail = ["", "ip,", "tcp,tp_dst=80,"][chance.random_range(0..3)];
    let priority = chance.random_range(1..4);
    let rule = format!(
        "table={table},priority={priority},{kind}_timeout={timeout},in_port={port},{tail}actions=drop"
    );
    let mut flow = parse_flow(&rule).expect("a rule");
    flow.labels.importance = chance.random_range(0..3);
    flow
}

fn random_operation(chance: &mut Pcg64Mcg, flow: Flow) -> Operation {
    let selector = Selector {
        matching: flow.matching.clone(),
        ..Selector::default()
    };
    match chance.random_range(0..20) {
        0 => Operation::Delete(selector),
        1 => Operation::Modify(selector, flow.actions),
        2 | 3 => {
            let groups = [Subfield::whole(f::IN_PORT, 32)];
            let count = chance.random_range(0..2);
            let most = chance.random_range(2..9);
            limit(most, chance.random_bool(0.8), &groups[..count])
        }
        _ => Operation::Add(flow),
    }
}

#[test]
fn what_goes_is_what_a_search_of_all_rules_finds() {
    let (mut evicted, mut refused) = (0, 0);
    for seed in 0..60 {
        let mut chance = Pcg64Mcg::seed_from_u64(seed);
        let mut pipeline = pipeline();
        for step in 0..150 {
            let now = at(step);
            let flow = random_flow(&mut chance);
            let operation = random_operation(&mut chance, flow);
            let is_there = |flow: &Flow| {
                let same = Selector {
                    table: Some(flow.table),
                    matching: flow.matching.clone(),
                    strict_priority: Some(flow.priority),
                    ..Selector::default()
                };
                !pipeline
                    .rules_selected(&same, &crate::Target::default())
                    .is_empty()
            };
            let expected = match &operation {
                Operation::Add(flow) if flow.table == TABLE && !is_there(flow) => {
                    Some(by_hand(&pipeline))
                }
                _ => None,
            };
            let mut operations = vec![operation];
            let is_undone = chance.random_bool(0.2);
            if is_undone {
                let bad = parse_flow("table=1,actions=group:9").expect("a rule");
                operations.push(Operation::Add(bad));
            }
            let before = rules(&pipeline);
            match pipeline.apply(&Change { operations }, now) {
                Ok(delta) => {
                    if let Some(expected) = expected {
                        assert_eq!(delta.evicted, expected.into_iter().collect());
                    }
                    evicted += delta.evicted.len();
                }
                Err(ChangeError::TableFull { .. }) => {
                    assert_eq!(expected, Some(None));
                    assert_eq!(rules(&pipeline), before);
                    refused += 1;
                }
                Err(_) => {
                    assert!(is_undone);
                    assert_eq!(rules(&pipeline), before);
                }
            }
            if chance.random_bool(0.3) {
                let ids: Vec<RuleId> = pipeline
                    .rules(pipeline.version())
                    .map(|(id, _)| id)
                    .collect();
                if !ids.is_empty() {
                    let used = ids[chance.random_range(0..ids.len())];
                    pipeline.credit_rule(used, Counters::default(), now);
                }
            }
            for table in [TableId(0), TableId(1)] {
                let count = pipeline.rules(pipeline.version());
                let count = count.filter(|(_, rule)| rule.table == table).count();
                assert_eq!(pipeline.rules_of_table(table), count);
            }
            pipeline.reclaim(pipeline.version());
        }
    }
    assert!(evicted > 500 && refused > 100, "{evicted} {refused}");
}
