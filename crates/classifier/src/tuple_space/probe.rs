//! Access to single sub-tables, for a first layer that selects them ([`crate::bloom`]).
//!
//! A sub-table keeps its number until it has lost its last rule; then another mask may get it.

use crate::{Precedence, RuleId, Version};

use super::records::Rule;
use super::{Best, TupleSpace, improve, is_settled};
use crate::simd::Simd;

impl TupleSpace {
    /// The number of words in a key.
    #[inline]
    pub(crate) fn words(&self) -> usize {
        self.shape.words()
    }

    /// The number of rules, at any version.
    pub(crate) fn rule_count(&self) -> usize {
        self.places.len()
    }

    /// The numbers of all sub-tables with their best precedences, best first.
    pub(crate) fn ranking(&self) -> impl ExactSizeIterator<Item = (u32, Precedence)> + '_ {
        let ranked = self.order.iter();
        ranked.map(|ranked| (ranked.subtable, ranked.highest))
    }

    /// One past the highest number of a sub-table.
    pub(crate) fn numbers_end(&self) -> usize {
        self.subtables.len()
    }

    /// Whether a sub-table has this number.
    pub(crate) fn has_subtable(&self, number: u32) -> bool {
        let subtable = self.subtables.get(number as usize);
        subtable.is_some_and(Option::is_some)
    }

    /// The sub-table of a rule that has not been reclaimed.
    pub(crate) fn subtable_of(&self, id: RuleId) -> Option<u32> {
        Some(self.place_of(id)?.subtable)
    }

    /// Searches one sub-table.
    #[inline(always)]
    pub(crate) fn probe<S: Simd>(
        &self,
        simd: S,
        number: u32,
        key: &[u64],
        version: Version,
    ) -> Option<&Rule> {
        self.subtable(number).probe(simd, key, version)
    }

    /// Searches all sub-tables that may have a better rule; returns their number.
    #[inline(always)]
    pub(crate) fn probe_all<S: Simd>(
        &self,
        simd: S,
        key: &[u64],
        version: Version,
        best: &mut Best,
    ) -> usize {
        let mut visited = 0;
        for ranked in &self.order {
            if is_settled(*best, ranked.highest) {
                break;
            }
            improve(best, self.probe(simd, ranked.subtable, key, version));
            visited += 1;
        }
        visited
    }

    /// A key's hash in the sub-table with the best rule; zero if there is none.
    pub(crate) fn hash_in_best(&self, key: &[u64]) -> u64 {
        let best = self.order.first();
        best.map_or(0, |ranked| self.subtable(ranked.subtable).staged.hash(key))
    }

    /// The rules that reclaiming up to `oldest` will free.
    pub(crate) fn freed_by_reclaim(&self, oldest: Version) -> Vec<RuleId> {
        self.history.dead_by(oldest).collect()
    }

    /// The rules that aborting `version` will free.
    pub(crate) fn freed_by_abort(&self, version: Version) -> Vec<RuleId> {
        self.history.born_in(version).to_vec()
    }
}
