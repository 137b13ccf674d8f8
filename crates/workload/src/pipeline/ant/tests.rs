//! Tests what ANT's essay says; its flows are tested where there is a tracker, in
//! `crates/switch/tests/ant.rs`.

use std::collections::{BTreeSet, HashSet};

use super::super::PipelineKind;
use super::*;
use crate::flows::{FlowConfig, draw_flows};

#[test]
fn rules_stand_in_described_tables_and_lead_to_named_ones() {
    let pipeline = PipelineKind::Ant.generate(3_000, 4).unwrap();
    let mut tables = BTreeSet::new();
    for rule in &pipeline.rules {
        tables.insert(rule.table);
        let table = pipeline.table(rule.table).expect("a described table");
        for term in rule.matches.terms() {
            assert!(table.fields.contains(&term.field), "{rule}");
        }
        for action in &rule.actions {
            let next = match action {
                Action::Goto(next) | Action::Resubmit(next) => Some(*next),
                Action::Track(track) => track.table,
                _ => None,
            };
            assert!(next.is_none_or(|next| table.next.contains(&next)), "{rule}");
        }
    }
    assert_eq!(
        tables.into_iter().collect::<Vec<u8>>(),
        (0..31).collect::<Vec<u8>>()
    );
    assert_eq!(pipeline.templates.len(), tables::Scenario::ALL.len());
}

#[test]
fn what_antrea_uses_is_there() {
    let pipeline = PipelineKind::Ant.generate(3_000, 4).unwrap();
    let text = pipeline.rules_text();
    for part in [
        "conjunction(",
        "conj_id=",
        "learn(",
        "group:",
        "resubmit(,9),resubmit(,10),resubmit(,11)",
        "nat(dst=",
        "nat(src=",
        "->tun_dst",
        "->pkt_mark",
        "ct_label",
        "move:arp_sha[]->arp_tha[]",
    ] {
        assert!(text.contains(part), "{part}");
    }
    let used: HashSet<u32> = (pipeline.rules.iter())
        .flat_map(|rule| &rule.actions)
        .filter_map(|action| match action {
            Action::Group(group) => Some(*group),
            _ => None,
        })
        .collect();
    assert_eq!(used.len(), pipeline.groups.len());
}

#[test]
fn each_conjunctive_match_has_its_dimensions_and_a_rule_for_its_id() {
    let pipeline = PipelineKind::Ant.generate(20_000, 2).unwrap();
    let mut clauses: HashSet<(u8, u32, u8)> = HashSet::new();
    let mut needed: HashSet<(u8, u32, u8)> = HashSet::new();
    let mut ids: HashSet<(u8, u32)> = HashSet::new();
    for rule in &pipeline.rules {
        for action in &rule.actions {
            if let Action::Conjunction(id, clause, of) = *action {
                clauses.insert((rule.table, id, clause));
                needed.extend((1..=of).map(|clause| (rule.table, id, clause)));
            }
        }
        if let Some(id) = rule.matches.exact(Field::ConjId) {
            ids.insert((rule.table, id as u32));
        }
    }
    assert_eq!(clauses, needed);
    let conjoined: HashSet<(u8, u32)> =
        clauses.iter().map(|(table, id, _)| (*table, *id)).collect();
    assert_eq!(conjoined, ids);
    assert!(ids.len() > 300, "{}", ids.len());
}

#[test]
fn many_different_flows_are_drawn() {
    let pipeline = PipelineKind::Ant.generate(3_000, 5).unwrap();
    let flows = draw_flows(&pipeline, &FlowConfig::new(20_000, 6)).unwrap();
    let requests = flows.iter().filter(|(flow, _)| flow.is_arp).count();
    assert_eq!(requests, 20_000 * 3 / 100);
    let packet = flows
        .iter()
        .find(|(flow, _)| flow.is_arp)
        .unwrap()
        .0
        .packet(60);
    assert_eq!((packet.len(), &packet[12..14]), (60, &[0x08, 0x06][..]));
}

#[test]
fn too_few_rules_are_refused() {
    let mut config = AntConfig::with_rules(2_000, 1).unwrap();
    config.services = 1_000;
    let error = config.generate().unwrap_err().to_string();
    assert!(
        error.contains("the number of ANT rules is 2000, but must lie"),
        "{error}"
    );
}
