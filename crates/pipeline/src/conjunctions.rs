//! Conjunctive matches: rules that match together what none of them matches alone.
//!
//! A rule with `conjunction` actions is a *clause*. Each of its actions says that the rule is
//! one possibility in dimension `clause` of the `clauses` dimensions of match `id`
//! (`ovs-fields(7)`, "CONJUNCTIVE MATCH FIELDS"). A packet that matches a clause of each
//! dimension is looked up again with the field `conj_id` set to the id. So a match on one of
//! 100 addresses and one of 100 ports takes 200 clauses and a rule for the id, not 10,000 rules.
//!
//! ```text
//!   best:  the best rule that is no clause
//!   for each priority above that of `best`, from the highest down:
//!       clauses:  the clauses of that priority that the packet matches
//!       for each id of which they have all dimensions, the lowest first:
//!           again:  the best rule that is no clause, for the packet with conj_id = id
//!           if there is one: it is the answer
//!   otherwise `best` is the answer
//! ```
//!
//! This is `classifier_lookup__` of Open vSwitch (`lib/classifier.c`). As there:
//!
//! 1. A clause wins no lookup and counts no packets. The rule found with the id need not match
//!    on `conj_id`, and its own priority does not matter.
//! 2. Clauses of several priorities are several matches, even with the same id.
//! 3. A match with n dimensions needs n clauses of its priority, so a clause that stands for
//!    two dimensions is not enough for both.
//! 4. Outside of that lookup `conj_id` is zero. Without a rule that matches on it, clauses
//!    change nothing: the second lookup would find what the first has found.
//!
//! Where Open vSwitch's answer depends on the order in which it keeps masks, one is defined
//! here: of several matches of one priority the lowest id wins, and clauses with the same id
//! and another number of dimensions belong to another match. Two of its faults are not
//! followed. There, the second lookup does not see a rule with the same match as a clause of
//! higher priority; and of a match with 64 dimensions, 64 clauses are enough, whatever they
//! are.
//!
//! Costs: memory is linear in the clauses. A lookup searches the masks of clauses with
//! priorities above the rule found, and sorts the clauses found. It examines what shows which
//! clauses of those priorities match, and what the lookups of rules examine.

use smallvec::SmallVec;
use thalweg_classifier::{RuleId, TupleSpace, Version};
use thalweg_packet::{Layout, MAX_WORDS, standard as f};

use crate::action::{Action, TableId};
use crate::pipeline::{Pipeline, Rule};
use crate::table::Table;

/// A dimension of a match: the match's id and number of dimensions, and the dimension's number.
type Dimension = (u32, u8, u8);

/// Whether a rule with these actions is a clause.
pub(crate) fn is_clause(actions: &[Action]) -> bool {
    let is_conjunction = |action: &Action| matches!(action, Action::Conjunction { .. });
    actions.iter().any(is_conjunction)
}

/// Whether a list has no action beside `conjunction` that cannot be there.
pub(crate) fn stand_alone(actions: &[Action]) -> bool {
    let goes_along =
        |action: &Action| matches!(action, Action::Conjunction { .. } | Action::Note(_));
    !is_clause(actions) || actions.iter().all(goes_along)
}

/// The dimensions that the actions of a clause name.
fn dimensions(actions: &[Action]) -> impl Iterator<Item = Dimension> {
    actions.iter().filter_map(|action| match action {
        Action::Conjunction {
            id,
            clause,
            clauses,
        } => Some((*id, *clauses, *clause)),
        _ => None,
    })
}

/// The matches of which a list of dimensions has all, the lowest id first.
///
/// `clauses` is how many clauses name the dimensions (invariant 3).
fn complete(dimensions: &mut [Dimension], clauses: usize) -> impl Iterator<Item = u32> {
    dimensions.sort_unstable();
    let of_match = |one: &Dimension, other: &Dimension| (one.0, one.1) == (other.0, other.1);
    let matches = dimensions.chunk_by(of_match);
    let complete = matches.filter(move |dimensions| {
        let different = dimensions.chunk_by(|one, other| one == other).count();
        let wanted = usize::from(dimensions[0].1);
        different == wanted && clauses >= wanted
    });
    complete.map(|dimensions| dimensions[0].0)
}

/// The bits of `conj_id` in words of a layout; `None` if the layout lacks it.
fn id_bits(layout: &Layout) -> Option<[u64; MAX_WORDS]> {
    layout.slot(f::CONJ_ID)?;
    let mut bits = [0; MAX_WORDS];
    layout.set(&mut bits[..layout.words()], f::CONJ_ID, u32::MAX.into());
    Some(bits)
}

impl Pipeline {
    /// Whether a table has clauses of conjunctive matches, at any version in use.
    pub fn has_clauses(&self, table: TableId) -> bool {
        self.table(table)
            .is_some_and(|table| table.clauses().is_some())
    }

    /// Whether a rule that has not been reclaimed matches on `conj_id`.
    pub fn matches_id(&self, id: RuleId) -> bool {
        let (Some(bits), Some((_, mask))) = (id_bits(self.layout()), self.words_of(id)) else {
            return false;
        };
        mask.iter().zip(&bits).any(|(mask, bits)| mask & bits != 0)
    }

    /// A rule's value and mask, in the words of the layout, without its condition on `conj_id`
    /// if the table has clauses: which packets it may be the answer to.
    pub fn region_of(&self, id: RuleId) -> Option<(Vec<u64>, Vec<u64>)> {
        let (mut value, mut mask) = self.words_of(id)?;
        if let Some(bits) = id_bits(self.layout())
            && self.has_clauses(self.rule(id)?.table)
        {
            for words in [&mut value, &mut mask] {
                let words = words.iter_mut().zip(&bits);
                words.for_each(|(word, bits)| *word &= !bits);
            }
        }
        Some((value, mask))
    }

    /// Whether a rule that has not been reclaimed is a clause of a conjunctive match.
    pub fn is_clause(&self, id: RuleId) -> bool {
        let rule = self.rule(id);
        rule.is_some_and(|rule| self.has_clauses(rule.table) && is_clause(&rule.actions))
    }

    /// The answer of a table whose best rule, clauses aside, is `best`. Adds the bits that
    /// decide about the clauses to `examined`, if it is given.
    #[inline]
    pub(crate) fn with_clauses(
        &self,
        table: &Table,
        best: Option<RuleId>,
        key: &[u64],
        version: Version,
        examined: Option<&mut [u64]>,
    ) -> Option<RuleId> {
        match table.clauses() {
            None => best,
            Some(clauses) => self.conjunctive((table, clauses), best, key, version, examined),
        }
    }

    fn conjunctive(
        &self,
        (table, clauses): (&Table, &TupleSpace),
        best: Option<RuleId>,
        key: &[u64],
        version: Version,
        examined: Option<&mut [u64]>,
    ) -> Option<RuleId> {
        // Invariant 4.
        let Some(id_bits) = id_bits(self.layout()) else {
            return best;
        };
        let mut unwanted = [0; MAX_WORDS];
        let examined = examined.unwrap_or(&mut unwanted[..key.len()]);
        let above = best.map(|best| self.known(best).precedence.priority());
        let mut matches = clauses.matches(key, version, above);
        let mut matching = Vec::new();
        let mut named: SmallVec<[Dimension; 32]> = SmallVec::new();
        while matches.next_priority(&mut matching, examined).is_some() {
            named.clear();
            for clause in &matching {
                named.extend(dimensions(&self.known(*clause).actions));
            }
            for id in complete(&mut named, matching.len()) {
                let again = self.again(table, (key, id), version, &id_bits, examined);
                if again.is_some() {
                    return again;
                }
            }
        }
        best
    }

    /// The best rule, clauses aside, for the key with this `conj_id`.
    ///
    /// What it examines of `conj_id` is not examined of the key: there the id follows from the
    /// clauses.
    fn again(
        &self,
        table: &Table,
        (key, id): (&[u64], u32),
        version: Version,
        id_bits: &[u64; MAX_WORDS],
        examined: &mut [u64],
    ) -> Option<RuleId> {
        let mut words = [0; MAX_WORDS];
        let words = &mut words[..key.len()];
        words.copy_from_slice(key);
        self.layout().set(words, f::CONJ_ID, id.into());
        let mut own = [0; MAX_WORDS];
        let own = &mut own[..key.len()];
        own.copy_from_slice(examined);
        let found = table.classifier.lookup_examined(words, version, examined);
        for ((examined, own), bits) in examined.iter_mut().zip(own).zip(id_bits) {
            *examined = *examined & !bits | *own & bits;
        }
        found
    }

    /// A rule that a table names.
    fn known(&self, id: RuleId) -> &Rule {
        self.rule(id).expect("tables name known rules")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_match_is_complete_with_a_clause_of_each_dimension() {
        let cases: [(&[Dimension], usize, &[u32]); 7] = [
            (&[(1, 2, 1), (1, 2, 2)], 2, &[1]),
            (&[(1, 2, 1), (1, 2, 1)], 2, &[]),
            (&[(1, 3, 3), (1, 3, 1), (1, 3, 2)], 3, &[1]),
            // A clause of two dimensions.
            (&[(1, 2, 1), (1, 2, 2)], 1, &[]),
            // Another clause of that priority makes up for it.
            (&[(1, 2, 1), (1, 2, 2), (4, 2, 1)], 2, &[1]),
            (&[(9, 2, 2), (3, 2, 1), (9, 2, 1), (3, 2, 2)], 2, &[3, 9]),
            (&[(1, 2, 1), (1, 3, 2)], 2, &[]),
        ];
        for (dimensions, clauses, expected) in cases {
            let found: Vec<u32> = complete(&mut dimensions.to_vec(), clauses).collect();
            assert_eq!(found, expected, "{dimensions:?}");
        }
    }

    #[test]
    fn all_64_dimensions_of_a_match_count() {
        let mut all: Vec<Dimension> = (1..=64).map(|clause| (7, 64, clause)).collect();
        assert_eq!(complete(&mut all, 64).collect::<Vec<_>>(), [7]);
        all[63].2 = 63;
        assert_eq!(complete(&mut all, 64).count(), 0);
    }
}
