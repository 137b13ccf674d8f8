//! A change in steps equals the whole change: however it is cut, undone or reclaimed, and
//! whatever is read in between.
//!
//! The twin of a pipeline that works in steps does the same at once. In between, the twin has
//! not begun the change: readers must not be able to tell the two apart.

mod by_program;

use std::collections::BTreeSet;

use proptest::prelude::*;
use thalweg_packet::{Headers, Instant, PortId, Receipt};
use thalweg_pipeline::text::{Parser, parse_flow};
use thalweg_pipeline::{
    Change, ChangeError, Counters, Delta, Flow, GroupId, Operation, Pipeline, PortState, Progress,
    RuleId, Selector, TableId, translate,
};

use by_program::{frames, operation, picture};

/// Parts per step.
const STEPS: [usize; 4] = [1, 7, 64, usize::MAX];

/// Most rules.
const RULES: usize = 400;

fn now() -> Instant {
    Instant::from_nanos(7)
}

/// Creates a pipeline with some hundred rules, so that an operation on many has several
/// slices. It also has free places of rules that are gone.
fn pipeline() -> Pipeline {
    let mut pipeline = by_program::pipeline(RULES);
    let rules = Change::adding(hosts(0, 20).chain(hosts(1, 150)));
    let applied = pipeline.apply(&rules, Instant::ZERO);
    applied.expect("the test's rules can be loaded");
    let gone = hosts(0, 20).map(|flow| {
        Operation::Delete(Selector {
            table: Some(flow.table),
            matching: flow.matching,
            ..Selector::default()
        })
    });
    let operations = gone.collect();
    let applied = pipeline.apply(&Change { operations }, Instant::ZERO);
    pipeline.reclaim(applied.expect("rules can be deleted").version);
    pipeline
}

/// Rules of table 1 for `count` addresses.
fn hosts(net: u8, count: usize) -> impl Iterator<Item = Flow> {
    (0..count).map(move |host| {
        let (high, low) = (host / 250, host % 250);
        let text = format!("table=1,priority=3,ip,nw_dst=10.{net}.{high}.{low},actions=output:2");
        parse_flow(&text).expect("a rule")
    })
}

/// Prints what a reader of the published version sees, except masks, whose tightness may
/// differ.
fn seen(pipeline: &Pipeline) -> String {
    let version = pipeline.version();
    let mut text = format!("{version} {}\n", pipeline.rule_count(version));
    for (id, rule) in pipeline.rules(version) {
        let flow = pipeline.flow_of(id).expect("it exists");
        let (counters, used_at) = (rule.counters, rule.used_at);
        let heirs = (pipeline.successor_of(id), pipeline.heir_of(id, version));
        text += &format!("{id:?} {flow:?} {counters:?} {used_at:?} {heirs:?}\n");
    }
    for group in pipeline.groups(version) {
        let counters = pipeline.group_counters(group.id).expect("it is there");
        let buckets = &counters.buckets[..group.buckets.len()];
        text += &format!("{group:?} {:?} {buckets:?}\n", counters.group);
    }
    text += &format!("{:?}\n", pipeline.ports(version).collect::<Vec<_>>());
    let mut stations: Vec<_> = pipeline.macs().stations(version).collect();
    stations.sort_unstable();
    text += &format!("{stations:?}\n");
    for frame in frames() {
        let headers = Headers::parse(&frame).expect("a frame");
        let mut key = vec![0; pipeline.layout().ingress_words()];
        let receipt = Receipt::from_port(1);
        pipeline
            .layout()
            .extract(&frame, &headers, &receipt, &mut key);
        text += &format!("{:?}\n", translate(pipeline, &key, version).effects);
    }
    text
}

/// Performs a change step by step; calls `between` after each step, unless all rules have
/// moved.
fn perform(
    pipeline: &mut Pipeline,
    change: &Change,
    parts: usize,
    mut between: impl FnMut(&mut Pipeline),
) -> Result<(), ChangeError> {
    let mut plan = pipeline.plan(change)?;
    pipeline.begin(&mut plan, now());
    loop {
        let progress = pipeline.perform(&mut plan, parts)?;
        if !plan.needs_new_layout() {
            between(pipeline);
        }
        if progress == Progress::Finished {
            return Ok(());
        }
        // A reader does every other search.
        if pipeline.rule_count(pipeline.version()).is_multiple_of(2) {
            pipeline.search(&mut plan);
        }
    }
}

fn undo(pipeline: &mut Pipeline, parts: usize, mut between: impl FnMut(&mut Pipeline)) {
    while pipeline.undo(parts) == Progress::Unfinished {
        between(pipeline);
    }
}

/// Checks that both are the same, now and later: the next rules get the same ids and ages, and
/// equal amounts are left to reclaim. If they are full, both refuse the next rules, and accept
/// them once a table is empty.
fn assert_same(one: &mut Pipeline, other: &mut Pipeline) {
    assert_eq!(picture(one), picture(other));
    let delete = |table| {
        Operation::Delete(Selector {
            table: Some(TableId(table)),
            ..Selector::default()
        })
    };
    let adds = hosts(9, 3).map(Operation::Add);
    let mut operations: Vec<_> = adds.chain([delete(0)]).collect();
    if one.rule_count(one.version()) + 3 > RULES {
        let next = Change {
            operations: operations.clone(),
        };
        let refused = [&mut *one, &mut *other].map(|pipeline| pipeline.apply(&next, now()));
        assert!(matches!(refused[0], Err(ChangeError::RulesFull { .. })));
        assert_eq!(refused[0], refused[1]);
        assert_eq!(picture(one), picture(other));
        // Table 1 holds nearly all of the rules.
        operations.insert(0, delete(1));
    }
    let next = Change { operations };
    let [delta, others_delta] = [&mut *one, &mut *other].map(|pipeline| {
        let delta = pipeline.apply(&next, now());
        delta.expect("there is room for a few")
    });
    assert_eq!(delta, others_delta);
    assert_eq!(picture(one), picture(other));
    let [steps, others_steps] = [one, other].map(|pipeline| {
        let mut steps = 1;
        while pipeline.reclaim_some(delta.version, 1) == Progress::Unfinished {
            steps += 1;
        }
        steps
    });
    assert_eq!(steps, others_steps);
}

/// Checks that the inserted and removed rules are the difference between two versions. Also
/// checks that no rule's successor is dead.
fn assert_is_difference(delta: &Delta, before: &Pipeline, after: &Pipeline) {
    let ids = |pipeline: &Pipeline| -> BTreeSet<RuleId> {
        let rules = pipeline.rules(pipeline.version());
        rules.map(|(id, _)| id).collect()
    };
    let (before, living) = (ids(before), ids(after));
    let [inserted, removed] = [&delta.inserted, &delta.removed].map(|list| {
        let set: BTreeSet<RuleId> = list.iter().copied().collect();
        assert_eq!(set.len(), list.len(), "each once");
        set
    });
    assert_eq!(inserted, &living - &before);
    assert_eq!(removed, &before - &living);
    for id in removed {
        let successor = after.successor_of(id);
        assert!(successor.is_none_or(|successor| living.contains(&successor)));
    }
}

fn check_done(change: &Change, parts: usize) -> Result<Delta, ChangeError> {
    assert_same(&mut pipeline(), &mut undone(change, parts));
    let (mut stepped, mut twin, still) = (pipeline(), pipeline(), pipeline());
    let before = seen(&still);
    let done = perform(&mut stepped, change, parts, |pipeline| {
        assert_eq!(seen(pipeline), before);
    });
    let applied = twin.apply(change, now());
    if let Err(error) = &done {
        let is_begun = stepped.plan(change).is_ok();
        if is_begun {
            let is_grown = stepped.layout().used() != still.layout().used();
            undo(&mut stepped, parts, |pipeline| {
                assert!(is_grown || seen(pipeline) == before);
            });
        }
        assert_eq!(applied.as_ref(), Err(error));
        assert_eq!(stepped.memory_bytes(), twin.memory_bytes());
        assert_same(&mut stepped, &mut twin);
        return applied;
    }
    let delta = stepped.publish();
    assert_eq!(applied.as_ref(), Ok(&delta));
    assert_is_difference(&delta, &still, &stepped);
    let ends = |pipeline: &Pipeline| {
        format!(
            "{:?}",
            delta
                .removed
                .iter()
                .map(|id| pipeline.rule(*id))
                .collect::<Vec<_>>()
        )
    };
    assert_eq!(ends(&stepped), ends(&twin));
    while stepped.reclaim_some(delta.version, parts) == Progress::Unfinished {
        assert_eq!(seen(&stepped), seen(&twin));
    }
    twin.reclaim(delta.version);
    assert_eq!(stepped.memory_bytes(), twin.memory_bytes());
    assert_same(&mut stepped, &mut twin);
    applied
}

/// A pipeline that has undone a change, whether it was refused or abandoned.
fn undone(change: &Change, parts: usize) -> Pipeline {
    let mut pipeline = pipeline();
    if let Ok(mut plan) = pipeline.plan(change) {
        pipeline.begin(&mut plan, now());
        let _ = pipeline.perform(&mut plan, parts.saturating_mul(3));
        undo(&mut pipeline, parts, |_| {});
    }
    pipeline
}

/// An operation that passes planning but cannot be done.
fn impossible() -> impl Strategy<Value = Operation> {
    let impossible = prop::sample::select(vec![
        "table=1,priority=3,actions=group:77",
        "check_overlap,table=0,priority=0,udp,actions=drop",
        "group_id=3,type=all,bucket=actions=group:3",
        "table=2,reg9=5,actions=group:77",
    ]);
    impossible.prop_map(|text| Parser::new().parse_operation(text).expect(text))
}

/// Operations that can be done one after the other, including large ones.
fn acceptable(operations: Vec<Operation>, sizes: [usize; 3]) -> Vec<Operation> {
    let mut scratch = pipeline();
    let all = Selector {
        table: Some(TableId(1)),
        ..Selector::default()
    };
    let drop_all = Operation::Modify(all.clone(), [].into());
    let mut large = vec![
        hosts(2, sizes[0]).map(Operation::Add).collect(),
        vec![drop_all],
        hosts(1, sizes[1]).map(Operation::Add).collect(),
        vec![Operation::Delete(all)],
        hosts(3, sizes[2]).map(Operation::Add).collect(),
    ];
    let mut accepted = Vec::new();
    for (index, operation) in operations.into_iter().enumerate() {
        let mut next = vec![operation];
        if index % 3 == 2 && !large.is_empty() {
            next.append(&mut large.remove(0));
        }
        for operation in next {
            let change = Change::one(operation);
            if scratch.apply(&change, now()).is_ok() {
                accepted.extend(change.operations);
            }
        }
    }
    accepted
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(32)
    })]

    #[test]
    fn a_change_in_steps_is_the_change(
        operations in prop::collection::vec(operation(), 3..20),
        sizes in any::<[u8; 3]>(),
        refused in prop::option::of((
            prop_oneof![impossible(), operation()],
            any::<prop::sample::Index>(),
        )),
    ) {
        let mut operations = acceptable(operations, sizes.map(usize::from));
        if let Some((operation, index)) = refused {
            operations.insert(index.index(operations.len() + 1), operation);
        }
        let change = Change { operations };
        let results = STEPS.map(|parts| check_done(&change, parts));
        prop_assert!(results.iter().all(|result| *result == results[0]));
    }
}

#[test]
fn a_change_may_fill_the_pipeline_to_the_last_place() {
    let pipeline = pipeline();
    let room = RULES - pipeline.rule_count(pipeline.version());
    let fill = |count| Change::adding(hosts(2, count));
    for parts in STEPS {
        assert!(check_done(&fill(room), parts).is_ok());
        let refused = check_done(&fill(room + 1), parts);
        assert!(matches!(refused, Err(ChangeError::RulesFull { .. })));
    }
}

/// Counts credited during a change are neither lost nor counted twice.
#[test]
fn counts_that_come_between_steps_are_conserved() {
    let again = |resets_counts| {
        move |flow: Flow| {
            Operation::Add(Flow {
                resets_counts,
                ..flow
            })
        }
    };
    let all = Selector {
        table: Some(TableId(1)),
        ..Selector::default()
    };
    let modify = Operation::Modify(all, [].into());
    let operations = (hosts(1, 80).map(again(false)))
        .chain([modify])
        .chain(hosts(1, 20).map(again(true)));
    let change = Change {
        operations: operations.collect(),
    };
    let one = Counters {
        packets: 1,
        bytes: 60,
    };
    for parts in STEPS {
        let (mut stepped, mut twin) = (pipeline(), pipeline());
        let ids: Vec<RuleId> = twin.rules(twin.version()).map(|(id, _)| id).collect();
        let credit = |pipeline: &mut Pipeline| {
            for id in &ids {
                pipeline.credit_rule(*id, one, Instant::ZERO);
            }
        };
        let mut times = 0;
        let done = perform(&mut stepped, &change, parts, |pipeline| {
            times += 1;
            credit(pipeline);
            let counts = pipeline.rules(pipeline.version());
            assert!(
                counts
                    .into_iter()
                    .all(|(_, rule)| rule.counters.packets == times)
            );
        });
        done.expect("it can be done");
        assert!(times >= 1);
        (0..times).for_each(|_| credit(&mut twin));
        let mut aborted = pipeline();
        perform(&mut aborted, &change, parts, |pipeline| credit(pipeline)).expect("as before");
        undo(&mut aborted, parts, |_| {});
        let counts = aborted.rules(aborted.version());
        assert!(
            counts
                .into_iter()
                .all(|(_, rule)| rule.counters.packets == times)
        );
        stepped.publish();
        twin.apply(&change, now()).expect("as before");
        credit(&mut stepped);
        credit(&mut twin);
        assert_eq!(picture(&stepped), picture(&twin));
    }
}

/// A change that only adds leaves something behind too: the table's undo records.
#[test]
fn births_are_forgotten_once_they_are_settled() {
    let change = Change::adding(hosts(5, 200));
    let bytes = STEPS.map(|parts| {
        let mut pipeline = pipeline();
        let version = pipeline
            .apply(&change, now())
            .expect("there is room")
            .version;
        let before = pipeline.memory_bytes();
        while pipeline.reclaim_some(version, parts) == Progress::Unfinished {}
        assert!(pipeline.memory_bytes() < before);
        pipeline.memory_bytes()
    });
    assert!(bytes.iter().all(|size| *size == bytes[0]));
}

/// Undo removes a group's extra bucket counters, and all counters of a new group.
#[test]
fn counters_of_groups_are_undone() {
    let mut pipeline = pipeline();
    let before = picture(&pipeline);
    let groups = [
        "group_id=1,type=all,bucket=output:1,bucket=output:2,bucket=output:3",
        "group_id=3,type=all,bucket=output:1,bucket=output:2",
        "group_id=3,type=all,bucket=output:1,bucket=output:2,bucket=output:3",
    ];
    let set = |text: &&str| Operation::SetGroup(Parser::new().parse_group(text).expect("a group"));
    let change = Change {
        operations: groups.iter().map(set).collect(),
    };
    perform(&mut pipeline, &change, 1, |_| {}).expect("groups can be set");
    undo(&mut pipeline, 1, |_| {});
    assert_eq!(picture(&pipeline), before);
    assert!(pipeline.group_counters(GroupId(3)).is_none());
}

/// An older change can be reclaimed while the next is performed or undone.
#[test]
fn reclaiming_and_changing_take_turns() {
    let first = Change {
        operations: vec![Operation::Delete(Selector {
            table: Some(TableId(1)),
            ..Selector::default()
        })],
    };
    let second = Change::adding(hosts(4, 200));
    for parts in STEPS {
        for gives_up in [false, true] {
            let (mut stepped, mut twin) = (pipeline(), pipeline());
            let deleted = stepped.apply(&first, now()).expect("rules can be deleted");
            twin.apply(&first, now()).expect("rules can be deleted");
            let done = perform(&mut stepped, &second, parts, |pipeline| {
                let _ = pipeline.reclaim_some(deleted.version, parts);
            });
            done.expect("there is room");
            if gives_up {
                undo(&mut stepped, parts, |pipeline| {
                    let _ = pipeline.reclaim_some(deleted.version, parts);
                });
            } else {
                stepped.publish();
                twin.apply(&second, now()).expect("there is room");
            }
            let version = twin.version();
            twin.reclaim(version);
            stepped.reclaim(version);
            let flows = |pipeline: &Pipeline| {
                let rules = pipeline.rules(version).map(|(id, _)| pipeline.flow_of(id));
                let mut flows: Vec<String> = rules.map(|flow| format!("{flow:?}")).collect();
                flows.sort_unstable();
                flows
            };
            assert_eq!(flows(&stepped), flows(&twin));
            assert_eq!(stepped.rule_count(version), twin.rule_count(version));
        }
    }
}

/// A step does no more than it was told: one rule at a time.
#[test]
fn an_operation_on_many_rules_has_a_part_for_each() {
    let mut pipeline = pipeline();
    let rules = pipeline.rule_count(pipeline.version());
    let change = Change::one(Operation::DeleteAll);
    let mut plan = pipeline.plan(&change).expect("it can be done");
    assert!(plan.needs_search());
    pipeline.begin(&mut plan, now());
    pipeline.search(&mut plan);
    assert!(!plan.needs_search());
    let mut steps = 1;
    while pipeline.perform(&mut plan, 1) == Ok(Progress::Unfinished) {
        steps += 1;
    }
    assert_eq!(steps, rules);
    let removed = pipeline.publish().removed;
    assert_eq!(removed.len(), rules);
    let version = pipeline.version();
    let mut steps = 1;
    while pipeline.reclaim_some(version, 1) == Progress::Unfinished {
        steps += 1;
    }
    assert!(steps >= rules / 65, "{rules} rules in {steps} steps");
    assert_eq!(pipeline.rules(version).count(), 0);
}

#[test]
fn versions_do_not_depend_on_the_steps() {
    let change = Change::adding(hosts(5, 200));
    let versions = STEPS.map(|parts| {
        let mut pipeline = pipeline();
        perform(&mut pipeline, &change, parts, |_| {}).expect("there is room");
        pipeline.publish().version
    });
    assert!(versions.iter().all(|version| *version == versions[0]));
    let mut pipeline = pipeline();
    let before = pipeline.version();
    let port = Operation::SetPort(
        PortId(9),
        PortState {
            is_up: true,
            floods: true,
            forwards: true,
            peer: None,
        },
    );
    let small = pipeline.apply(&Change::one(port), now()).expect("a port");
    assert_eq!(
        small.version,
        before.next(),
        "a small change makes the next"
    );
}

#[test]
#[should_panic(expected = "published when all of it is done")]
fn half_a_change_is_not_published() {
    let mut pipeline = pipeline();
    let change = Change::adding(hosts(5, 2));
    let mut plan = pipeline.plan(&change).expect("it can be done");
    pipeline.begin(&mut plan, now());
    assert_eq!(pipeline.perform(&mut plan, 1), Ok(Progress::Unfinished));
    pipeline.publish();
}

#[test]
#[should_panic(expected = "the plan is of another version")]
fn a_plan_is_for_the_pipeline_as_it_was() {
    let mut pipeline = pipeline();
    let change = Change::adding(hosts(5, 2));
    let mut plan = pipeline.plan(&change).expect("it can be done");
    pipeline.apply(&change, now()).expect("it can be done");
    pipeline.begin(&mut plan, now());
}

#[test]
#[should_panic(expected = "undo it")]
fn a_refused_change_does_not_go_on() {
    let mut pipeline = pipeline();
    let change = Change::adding(hosts(5, 2 * RULES));
    let mut plan = pipeline.plan(&change).expect("its form is right");
    pipeline.begin(&mut plan, now());
    let refused = pipeline.perform(&mut plan, usize::MAX);
    assert!(matches!(refused, Err(ChangeError::RulesFull { .. })));
    let _ = pipeline.perform(&mut plan, 1);
}
