//! Changes of single rules, drawn as in `thalweg bench update`.

use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use thalweg_pipeline::{Action, Actions, Change, Flow, Operation, Selector};

/// The most rules removed at a time.
const AWAY_MAX: usize = 16;

/// A seeded source of changes.
pub(super) struct Changes {
    random: Pcg64Mcg,
    /// The rules that packets have met, and those currently removed.
    used: Vec<Flow>,
    away: Vec<Flow>,
}

impl Changes {
    /// Creates a source of changes to these rules.
    pub(super) fn new(used: Vec<Flow>, seed: u64) -> Changes {
        Changes {
            random: Pcg64Mcg::seed_from_u64(seed),
            used,
            away: Vec::new(),
        }
    }

    /// Removes a rule, restores one, or gives one another's actions.
    pub(super) fn next_change(&mut self) -> Change {
        let comes_back = !self.away.is_empty() && self.random.random_ratio(1, 3);
        if self.away.len() >= AWAY_MAX || comes_back {
            let flow = self.away.remove(0);
            self.used.push(flow.clone());
            return Change::one(Operation::Add(flow));
        }
        let index = self.random.random_range(0..self.used.len());
        if self.random.random_ratio(1, 2)
            && let Some(actions) = self.other_actions(index)
        {
            let selector = strict(&self.used[index]);
            self.used[index].actions = actions.clone();
            return Change::one(Operation::Modify(selector, actions));
        }
        let flow = self.used.swap_remove(index);
        self.away.push(flow.clone());
        Change::one(Operation::Delete(strict(&flow)))
    }

    /// The actions of another rule of the same table with the same next table.
    fn other_actions(&mut self, index: usize) -> Option<Actions> {
        let flow = &self.used[index];
        for _ in 0..16 {
            let other = self.used.choose(&mut self.random)?;
            let is_alike = other.table == flow.table && goto(other) == goto(flow);
            if is_alike && other.actions != flow.actions {
                return Some(other.actions.clone());
            }
        }
        None
    }
}

fn goto(flow: &Flow) -> Option<&Action> {
    let mut actions = flow.actions.iter();
    actions.find(|action| matches!(action, Action::Goto(_)))
}

fn strict(flow: &Flow) -> Selector {
    Selector {
        table: Some(flow.table),
        matching: flow.matching.clone(),
        strict_priority: Some(flow.priority),
        ..Selector::default()
    }
}
