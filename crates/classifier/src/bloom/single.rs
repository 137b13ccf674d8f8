//! Looks up one key through the first layer.
//!
//! Filter, index and rule are three memory waits in sequence. They are made up for by the next
//! lookup, which the processor starts during the wait if this one is short: it looks a few
//! hundred instructions ahead. So this code too is compiled for each set of instructions.

use crate::simd::{Simd, Work};
use crate::tuple_space::{Best, Rule, TupleSpace, improve, is_settled};
use crate::{RuleId, Version};

use super::Bloom;
use super::flows::Flows;
use super::groups::Groups;
use super::own::OwnBits;
use super::statistics::Tally;

/// The lookup of one key, compiled for each set of instructions.
pub(super) struct OfOne<'a> {
    pub(super) bloom: &'a Bloom,
    pub(super) key: &'a [u64],
    pub(super) version: Version,
    /// Whether the key may be added to the flows.
    pub(super) learns: bool,
    /// Receives the counts of the lookup.
    pub(super) tally: &'a mut Tally,
}

impl Work for OfOne<'_> {
    type Output = Option<RuleId>;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> Option<RuleId> {
        let mut one = One {
            simd,
            rules: &self.bloom.rules,
            key: self.key,
            version: self.version,
            best: None,
            tally: self.tally,
        };
        one.tally.lookups += 1;
        match &self.bloom.flows {
            Some(flows) => self.bloom.find_one_by_flows(&mut one, flows, self.learns),
            None => self.bloom.search_one(&mut one),
        }
        one.best.map(|(_, id)| id)
    }
}

/// The state of one lookup.
struct One<'a, S> {
    simd: S,
    rules: &'a TupleSpace,
    key: &'a [u64],
    version: Version,
    best: Best,
    tally: &'a mut Tally,
}

impl Bloom {
    /// Searches by the flows, then the rest, unless the hit counts, and adds the result.
    #[inline(always)]
    fn find_one_by_flows<S: Simd>(&self, one: &mut One<'_, S>, flows: &Flows, learns: bool) {
        let hash = flows.filter().hash(one.key);
        one.probe_flows(flows, hash, learns);
        if one.best.is_some() && flows.is_disjoint() {
            return;
        }
        let hinted = one.best;
        self.search_one(one);
        if one.best != hinted {
            one.tally.missed += 1;
            if learns {
                self.learn(flows, hash, one.best);
            }
        }
    }

    /// Searches every sub-table that no filter of rules excludes.
    #[inline(always)]
    fn search_one<S: Simd>(&self, one: &mut One<'_, S>) {
        if let Some(common) = &self.common {
            one.search_common(common);
        } else if let Some(own) = &self.own {
            one.search_own(own);
        } else {
            one.tally.searches += 1;
            let visited = self
                .rules
                .probe_all(one.simd, one.key, one.version, &mut one.best);
            one.tally.visited += visited as u32;
        }
    }
}

impl<'a, S: Simd> One<'a, S> {
    #[inline(always)]
    fn probe(&self, number: u32) -> Option<&'a Rule> {
        self.rules.probe(self.simd, number, self.key, self.version)
    }

    /// Searches a sub-table that a filter suggested; returns whether it had a rule.
    #[inline(always)]
    fn probe_candidate(&mut self, number: u32) -> bool {
        let found = self.probe(number);
        self.tally.candidates += 1;
        self.tally.falses += u32::from(found.is_none());
        improve(&mut self.best, found);
        found.is_some()
    }

    #[inline(always)]
    fn probe_flows(&mut self, flows: &Flows, hash: u64, learns: bool) {
        let filter = flows.filter();
        for vector in 0..filter.vectors() {
            self.tally.filters += 1;
            let sets = filter.find_one(self.simd, hash, vector);
            for number in flows.numbers(sets, vector, self.rules) {
                let has_found = self.probe_candidate(number);
                if !has_found && learns {
                    filter.note_false(hash, number as usize);
                }
                if has_found && flows.is_disjoint() {
                    return;
                }
            }
        }
    }

    #[inline(always)]
    fn search_common(&mut self, common: &Groups) {
        for group in &common.groups {
            if is_settled(self.best, group.highest) {
                continue;
            }
            self.tally.filters += 1;
            let hash = group.hash.of_key(self.key);
            let sets = group.filter.find_one(self.simd, hash, 0);
            for member in group.members_of(sets) {
                if !is_settled(self.best, member.highest) {
                    self.probe_candidate(member.number);
                }
            }
        }
        for member in &common.open {
            if !is_settled(self.best, member.highest) {
                let found = self.probe(member.number);
                improve(&mut self.best, found);
                self.tally.visited += 1;
            }
        }
    }

    #[inline(always)]
    fn search_own(&mut self, own: &OwnBits) {
        for (number, highest) in self.rules.ranking() {
            if is_settled(self.best, highest) {
                break;
            }
            self.tally.filters += 1;
            let hash = self.rules.subtable(number).staged.hash(self.key);
            if own.may_have(number, hash) {
                self.probe_candidate(number);
            }
        }
    }
}
