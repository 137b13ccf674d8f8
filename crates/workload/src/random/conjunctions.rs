//! Conjunctive matches of random rules: their clauses, and the rules for their ids.
//!
//! Clauses have few ids, few dimensions and two priorities, and wide matches, so that packets
//! complete some of their matches.

use rand::Rng;

use super::RandomConfig;
use super::actions::draw_actions;
use super::matches::draw_match;
use super::pool::IDS;
use crate::action::Action;
use crate::field::Field;
use crate::rule::{Match, Rule};
use crate::seed::{Random, pick};

/// A rule of priority 0 that has to do with conjunctive matches; mostly a clause.
pub(super) fn draw_rule(random: &mut Random, config: &RandomConfig, table: u8) -> Rule {
    let matches = draw_match(random, config);
    let matches = widened(random, matches);
    if random.random_ratio(3, 4) {
        return Rule::new(table, 0, matches, draw_clause(random));
    }
    let matches = matches.with(Field::ConjId, *pick(random, &IDS));
    let actions = draw_actions(random, config, table, &matches);
    Rule::new(table, 0, matches, actions)
}

/// The actions of a clause.
pub(super) fn draw_clause(random: &mut Random) -> Vec<Action> {
    let count = random.random_range(1..=3);
    let conjunctions = (0..count).map(|_| {
        let clauses = 2 + u8::from(random.random_ratio(1, 5));
        let clause = random.random_range(1..=clauses);
        Action::Conjunction(*pick(random, &IDS), clause, clauses)
    });
    conjunctions.collect()
}

/// A clause's priority among `range` of them.
pub(super) fn draw_priority(random: &mut Random, range: u16) -> u16 {
    *pick(random, &[range / 2, range - 1])
}

/// The match with few of its conditions, and what these need.
fn widened(random: &mut Random, matches: Match) -> Match {
    let is_of_message = |field| matches!(field, Field::NdTarget | Field::NdSll | Field::NdTll);
    let is_needed = |field| matches!(field, Field::EthType | Field::IpProtocol);
    let needs_nothing = |field| {
        matches!(
            field,
            Field::InPort | Field::VlanTci | Field::EthSrc | Field::EthDst | Field::Metadata
        )
    };
    let terms = matches.terms();
    let is_for_all = random.random_ratio(1, 2);
    if !is_for_all && terms.iter().any(|term| is_of_message(term.field)) {
        return matches;
    }
    let kept = terms.iter().filter(|term| match is_for_all {
        true => needs_nothing(term.field),
        false => is_needed(term.field) || random.random_ratio(1, 3),
    });
    kept.fold(Match::any(), |kept, term| {
        kept.with_masked(term.field, term.value, term.mask)
    })
}

#[cfg(test)]
mod tests {
    use super::super::RandomPipeline;
    use super::*;

    #[test]
    fn clauses_and_rules_for_their_ids_come_go_and_change_their_kind() {
        let (mut clauses, mut of_ids, mut switched) = (0, 0, 0);
        for seed in 0..40 {
            let pipeline = RandomPipeline::new(&RandomConfig::conjoining(), seed);
            let mut pipeline = pipeline.expect("a sound configuration");
            for _ in 0..50 {
                let before = pipeline.rules().to_vec();
                pipeline.next_change();
                let rules = pipeline.rules();
                clauses += rules.iter().filter(|rule| rule.is_clause()).count();
                let of_id = |rule: &&Rule| rule.matches.term(Field::ConjId).is_some();
                of_ids += rules.iter().filter(of_id).count();
                let has_switched = |rule: &&Rule| {
                    before.iter().any(|before| {
                        (before.table, before.priority) == (rule.table, rule.priority)
                            && before.matches == rule.matches
                            && before.is_clause() != rule.is_clause()
                    })
                };
                switched += rules.iter().filter(has_switched).count();
            }
        }
        assert!(clauses > 1_000 && of_ids > 1_000, "{clauses}, {of_ids}");
        assert!(switched > 20, "{switched} rules have changed their kind");
    }
}
