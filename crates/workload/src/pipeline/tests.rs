//! Tests the invariants of [`super`]'s essay for every kind of pipeline.

use std::collections::HashMap;

use super::walk::visited_tables;
use super::*;
use crate::flows::{FlowConfig, draw_flows};
use crate::seed::stream;

const KINDS: [PipelineKind; 4] = [
    PipelineKind::Ofd,
    PipelineKind::Psc,
    PipelineKind::Synthetic {
        tables: 22,
        traversals: 20,
    },
    PipelineKind::Synthetic {
        tables: 7,
        traversals: 3,
    },
];

/// All kinds, of which the last draws its flows from more than rules.
fn all_kinds() -> impl Iterator<Item = PipelineKind> {
    KINDS.into_iter().chain([PipelineKind::Ant])
}

#[test]
fn the_rule_count_is_the_one_asked_for() {
    for kind in all_kinds() {
        for rules in [1_000, 3_771, 20_000] {
            let pipeline = kind.generate(rules, 1).unwrap();
            assert_eq!(pipeline.rules.len(), rules, "{kind:?}");
            assert_eq!(pipeline.rules_text().lines().count(), rules);
        }
        assert!(
            kind.generate(10, 1)
                .unwrap_err()
                .to_string()
                .contains("is 10, but must lie")
        );
    }
    assert_eq!(
        PipelineKind::Ofd.generate(500_000, 1).unwrap().rules.len(),
        500_000
    );
}

#[test]
fn the_seed_decides() {
    for kind in all_kinds() {
        let pipeline = kind.generate(1_000, 1).unwrap();
        assert_eq!(pipeline, kind.generate(1_000, 1).unwrap());
        assert_ne!(pipeline, kind.generate(1_000, 2).unwrap());
    }
}

/// Rules grouped by the bits that they match.
type Shapes<'a> = HashMap<Vec<(Field, u128)>, Vec<&'a Rule>>;

/// Compares rules of one table and priority pair by pair; equal masks are checked with a set.
fn assert_unambiguous(rules: &[Rule]) {
    let mut levels: HashMap<(u8, u16), Shapes<'_>> = HashMap::new();
    for rule in rules {
        let masks = rule
            .matches
            .terms()
            .iter()
            .map(|term| (term.field, term.mask))
            .collect();
        let shapes = levels.entry((rule.table, rule.priority)).or_default();
        shapes.entry(masks).or_default().push(rule);
    }
    for shapes in levels.values() {
        let shapes: Vec<_> = shapes.values().collect();
        for (index, shape) in shapes.iter().enumerate() {
            let matches: std::collections::HashSet<_> =
                shape.iter().map(|rule| &rule.matches).collect();
            assert_eq!(
                matches.len(),
                shape.len(),
                "equal rules such as {}",
                shape[0]
            );
            for other in &shapes[index + 1..] {
                for (a, b) in shape.iter().flat_map(|a| other.iter().map(move |b| (a, b))) {
                    assert!(!a.is_ambiguous_with(b), "{a}\n{b}");
                }
            }
        }
    }
}

#[test]
fn no_rules_overlap_at_equal_priority() {
    for kind in all_kinds() {
        for rules in [1_000, 20_000] {
            assert_unambiguous(&kind.generate(rules, 3).unwrap().rules);
        }
    }
}

#[test]
fn gotos_are_in_the_description() {
    for kind in KINDS {
        let pipeline = kind.generate(1_000, 4).unwrap();
        for rule in &pipeline.rules {
            let table = pipeline.table(rule.table).expect("a described table");
            for term in rule.matches.terms() {
                assert!(table.fields.contains(&term.field), "{rule}");
            }
            if let Some(next) = rule.next_table() {
                assert!(next > rule.table && table.next.contains(&next), "{rule}");
            }
        }
        for template in &pipeline.templates {
            for step in template.tables.windows(2) {
                assert!(pipeline.table(step[0]).unwrap().next.contains(&step[1]));
            }
        }
    }
}

#[test]
fn flows_take_their_template_with_its_weight() {
    for kind in KINDS {
        let pipeline = kind.generate(2_000, 5).unwrap();
        let flows = draw_flows(&pipeline, &FlowConfig::new(2_000, 6))
            .unwrap_or_else(|error| panic!("{kind:?}: {error}"));
        let mut counts = vec![0_u64; pipeline.templates.len()];
        let mut dropped = 0;
        for (flow, template) in &flows {
            counts[*template] += 1;
            let expected = &pipeline.templates[*template].tables;
            let visited = visited_tables(&pipeline, flow);
            if visited == *expected {
                continue;
            }
            assert!(
                expected.starts_with(&visited),
                "{expected:?} {visited:?} {flow:?}"
            );
            let last = pipeline.table(visited[visited.len() - 1]).unwrap();
            assert_eq!(last.role, TableRole::Acl, "{visited:?} {flow:?}");
            dropped += 1;
        }
        assert!((1..1_400).contains(&dropped), "{kind:?}: {dropped}");
        let total: u64 = pipeline
            .templates
            .iter()
            .map(|one| u64::from(one.weight))
            .sum();
        for (count, template) in counts.iter().zip(&pipeline.templates) {
            let share = 2_000 * u64::from(template.weight) / total;
            assert!(
                count.abs_diff(share) <= 1,
                "{} {count} {share}",
                template.name
            );
        }
    }
}

#[test]
fn flows_differ_and_follow_the_seed() {
    let pipeline = PipelineKind::Ofd.generate(1_000, 1).unwrap();
    let draw = |seed| draw_flows(&pipeline, &FlowConfig::new(5_000, seed)).unwrap();
    let flows = draw(1);
    let distinct: std::collections::HashSet<_> = flows.iter().map(|(flow, _)| flow).collect();
    assert_eq!(distinct.len(), 5_000);
    assert_eq!(flows, draw(1));
    assert_ne!(flows, draw(2));
}

#[test]
fn groups_replace_lists_of_receivers() {
    let mut config = OfdConfig::with_rules(1_000, 1).unwrap();
    config.groups = true;
    let pipeline = config.generate().unwrap();
    assert_eq!(pipeline.rules.len(), 1_000);
    let used = pipeline.rules_text().matches("actions=group:").count();
    assert_eq!(used, pipeline.groups_text().lines().count());
    assert!(pipeline.groups[0].starts_with("group_id=2,type=all,bucket=actions="));
}

#[test]
fn a_first_look_at_each() {
    let mut text = String::new();
    for kind in all_kinds() {
        let pipeline = kind.generate(1_000, 7).unwrap();
        let mut random = stream(7, "look");
        for _ in 0..5 {
            text += &format!("{}\n", crate::seed::pick(&mut random, &pipeline.rules));
        }
    }
    expect_test::expect_file!["golden/pipelines.txt"].assert_eq(&text);
}
