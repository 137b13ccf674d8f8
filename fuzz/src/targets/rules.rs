//! Rules, groups, changes and conditions as text.
//!
//! 1. No text makes a parser panic.
//! 2. A parsed value, printed in either style, reads back as the same value.
//! 3. A stream reads like its text.
//! 4. A pipeline takes all that was read and returns it unchanged, or refuses it and stays
//!    empty.

use thalweg_packet::Instant;
use thalweg_pipeline::text::{self, MAX_LINE_BYTES, Parser, ReadError};
use thalweg_pipeline::{Action, Change, Config, Flow, Group, Operation, Pipeline};

/// Runs one input.
pub fn run(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    reads_alike(&text);
    if let Ok(rules) = text::parse_rules("fuzz", &text) {
        rules.flows.iter().for_each(flow_reads_back);
        rules.groups.iter().for_each(group_reads_back);
        load(&rules.into_change());
    }
    if let Ok(groups) = text::parse_groups("fuzz", &text) {
        groups.iter().for_each(group_reads_back);
    }
    if let Ok(changes) = text::parse_changes("fuzz", &text) {
        for placed in &changes {
            placed
                .change
                .operations
                .iter()
                .for_each(operation_reads_back);
        }
        let changes = changes.into_iter().map(|placed| placed.change);
        load_one_by_one(changes.collect());
    }
    let _ = text::parse_megaflow(&text);
    let _ = text::parse_datapath_flow(&text);
    if let Ok(matching) = text::parse_match(&text) {
        let printed = matching.to_string();
        let again = text::parse_match(&printed);
        assert_eq!(again.as_ref(), Ok(&matching), "{printed}");
    }
    // One error refuses a whole text, so lines are also tried alone.
    for line in text.lines() {
        if let Ok(operation) = Parser::new().parse_operation(line) {
            operation_reads_back(&operation);
            load_one_by_one(vec![Change::one(operation)]);
        }
    }
}

/// Checks invariant 3, except for a line that is too long: it ends a stream.
fn reads_alike(text: &str) {
    if text.lines().any(|line| line.len() > MAX_LINE_BYTES) {
        return;
    }
    let streamed = Parser::new().read_rules("fuzz", text.as_bytes(), usize::MAX);
    match (text::parse_rules("fuzz", text), streamed) {
        (Ok(rules), Ok(read)) => assert_eq!(read, rules),
        (Err(errors), Err(ReadError::Text(read))) => assert_eq!(read, errors),
        (rules, read) => panic!("{rules:?} but {read:?}"),
    }
}

fn operation_reads_back(operation: &Operation) {
    match operation {
        Operation::Add(flow) => flow_reads_back(flow),
        Operation::SetGroup(group) => group_reads_back(group),
        _ => {}
    }
}

fn flow_reads_back(flow: &Flow) {
    for printed in [flow.to_string(), format!("{flow:#}")] {
        let again = text::parse_flow(&printed);
        assert_eq!(again.as_ref(), Ok(flow), "{printed}");
    }
}

fn group_reads_back(group: &Group) {
    let printed = group.to_string();
    let again = Parser::new().parse_group(&printed);
    assert_eq!(again.as_ref(), Ok(group), "{printed}");
}

fn small_pipeline() -> Pipeline {
    let config = Config {
        rules: 64,
        groups: 8,
        ..Config::default()
    };
    Pipeline::new(config)
}

/// Checks invariant 4: all rules are there afterwards, or none.
fn load(change: &Change) {
    let mut pipeline = small_pipeline();
    let result = pipeline.apply(change, Instant::ZERO);
    let version = pipeline.version();
    let rules: Vec<_> = pipeline.rules(version).map(|(id, _)| id).collect();
    if result.is_err() {
        assert!(rules.is_empty(), "a refused change left rules behind");
        assert_eq!(pipeline.groups(version).count(), 0);
        return;
    }
    for id in rules {
        let flow = pipeline.flow_of(id).expect("a rule that lives has a flow");
        let is_asked_for = change.operations.iter().any(|operation| match operation {
            // `resets_counts` is about an equal older rule, so it is not part of the rule.
            Operation::Add(asked) | Operation::AddChecked(asked) => {
                let resets_counts = false;
                let asked = Flow {
                    resets_counts,
                    ..asked.clone()
                };
                asked == flow
            }
            _ => false,
        });
        assert!(is_asked_for, "{flow} is not among what was loaded");
    }
}

/// Applies changes one by one; each is done or refused, whatever its operations are.
fn load_one_by_one(changes: Vec<Change>) {
    let mut pipeline = small_pipeline();
    for change in changes {
        let before = pipeline.version();
        match pipeline.apply(&change, Instant::ZERO) {
            Ok(delta) => {
                assert_eq!(delta.version, before.next());
                pipeline.reclaim(delta.version);
            }
            Err(_) => assert_eq!(pipeline.version(), before),
        }
        let actions = pipeline.rules(pipeline.version());
        let actions: Vec<Action> = actions
            .flat_map(|(_, rule)| rule.actions.to_vec())
            .collect();
        // Printing the contents of a pipeline never fails either.
        actions.iter().for_each(|action| drop(action.to_string()));
    }
}
