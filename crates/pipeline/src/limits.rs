//! Tables with a limit of rules, and which rule goes when such a table is full.
//!
//! ```text
//!   a new rule for a full table:
//!     the table does not evict, or nothing of it may go  -> the rule is refused
//!     else: the largest group; of it the least important rule; of these the one that ends
//!           first; of these the oldest                    -> it ends, with the same change
//! ```
//!
//! Only rules with a timeout may go (Open vSwitch's `choose_rule_to_evict` and
//! `rule_eviction_priority`). A group has the rules whose values of some fields are equal, so
//! that one sender's rules do not push out those of all others.
//!
//! 1. The rules of a table are counted at the version being prepared, so that undoing a change
//!    restores the count, and a bundle that would overflow a table is refused whole.
//! 2. In a table that evicts, each rule with a timeout that lives at that version is listed
//!    once. Its place was right when it was listed; later uses can only move its end back.
//! 3. The first of a group is taken only if its place is right now; else it is listed again.
//!    So the choice is exact, and following uses costs nothing until a rule is to go.
//!
//! Costs: a logarithm for each rule of a table that evicts, nothing for other tables. Turning
//! eviction on, or choosing other fields, lists the rules of the table.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use thalweg_classifier::RuleId;
use thalweg_packet::Instant;

use crate::action::{Subfield, TableId};
use crate::pipeline::{Pipeline, Rule};

/// How many rules a table may have, and what happens beyond that.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TableLimit {
    /// Most rules; `None` for no limit but the pipeline's.
    pub rules: Option<u32>,
    /// Whether a rule with a timeout goes to make room for another.
    pub evicts: bool,
    /// Rules that agree on these bits are a group; the largest group loses a rule. Empty if all
    /// are one group.
    pub groups: Vec<Subfield>,
}

/// The order in which rules of a group go: importance, end, age.
type Urgency = (u16, Instant, u64);

/// The values that the rules of a group have in common.
type Values = Arc<[u128]>;

/// The rules of a table that may go.
#[derive(Debug, Default)]
struct Evictable {
    groups: BTreeMap<Values, BTreeSet<(Urgency, RuleId)>>,
    /// How many rules each group has; the largest is last.
    sizes: BTreeSet<(usize, Values)>,
    places: HashMap<RuleId, (Values, Urgency)>,
}

impl Evictable {
    fn add(&mut self, id: RuleId, values: Values, urgency: Urgency) {
        let group = self.groups.entry(values.clone()).or_default();
        self.sizes.remove(&(group.len(), values.clone()));
        group.insert((urgency, id));
        self.sizes.insert((group.len(), values.clone()));
        self.places.insert(id, (values, urgency));
    }

    fn remove(&mut self, id: RuleId) -> Option<Values> {
        let (values, urgency) = self.places.remove(&id)?;
        let group = self.groups.get_mut(&values)?;
        self.sizes.remove(&(group.len(), values.clone()));
        group.remove(&(urgency, id));
        match group.len() {
            0 => drop(self.groups.remove(&values)),
            size => drop(self.sizes.insert((size, values.clone()))),
        }
        Some(values)
    }

    /// The rule that goes first, given how urgent each is now.
    fn first(&mut self, urgency: impl Fn(RuleId) -> Option<Urgency>) -> Option<RuleId> {
        loop {
            let (_, values) = self.sizes.last()?;
            let (known, id) = *self.groups.get(values)?.first()?;
            let Some(now) = urgency(id) else {
                self.remove(id);
                continue;
            };
            if now == known {
                return Some(id);
            }
            // Invariant 3.
            if let Some(values) = self.remove(id) {
                self.add(id, values, now);
            }
        }
    }
}

/// A table with a limit.
#[derive(Debug)]
struct Limited {
    limit: Arc<TableLimit>,
    /// `None` if the table does not evict.
    evictable: Option<Evictable>,
}

/// The limits of tables, and how full they are.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    tables: BTreeMap<TableId, Limited>,
    /// Rules by table, at the version being prepared.
    counts: Vec<usize>,
}

impl Limits {
    fn count_mut(&mut self, table: TableId) -> &mut usize {
        let place = table.index();
        if self.counts.len() <= place {
            self.counts.resize(place + 1, 0);
        }
        &mut self.counts[place]
    }
}

/// When a rule ends if nothing more happens; `None` if it has no timeout.
fn urgency(rule: &Rule) -> Option<Urgency> {
    let after = |timeout_s: u16, since: Instant| {
        (timeout_s > 0).then(|| since + Duration::from_secs(timeout_s.into()))
    };
    let hard = after(rule.hard_timeout_s, rule.modified_at);
    let idle = after(rule.idle_timeout_s, rule.used_at);
    let end = hard.into_iter().chain(idle).min()?;
    Some((rule.labels.importance, end, rule.precedence.age()))
}

impl Pipeline {
    /// The limit of a table, if it has one.
    pub fn table_limit(&self, table: TableId) -> Option<&Arc<TableLimit>> {
        self.limits.tables.get(&table).map(|known| &known.limit)
    }

    /// The tables that have a limit.
    pub(crate) fn limited_tables(&self) -> impl Iterator<Item = TableId> {
        self.limits.tables.keys().copied()
    }

    /// How many rules a table has at the newest version, published or not.
    pub fn rules_of_table(&self, table: TableId) -> usize {
        let count = self.limits.counts.get(table.index());
        count.copied().unwrap_or(0)
    }

    /// Sets or removes a table's limit; nothing goes by that alone.
    pub(crate) fn install_limit(&mut self, table: TableId, limit: Option<Arc<TableLimit>>) {
        let Some(limit) = limit else {
            self.limits.tables.remove(&table);
            return;
        };
        let former = self.limits.tables.remove(&table);
        let kept = former
            .filter(|former| former.limit.groups == limit.groups)
            .and_then(|former| former.evictable);
        let is_listed = kept.is_some();
        let evictable = limit.evicts.then(|| kept.unwrap_or_default());
        let evicts = limit.evicts;
        let limited = Limited { limit, evictable };
        self.limits.tables.insert(table, limited);
        if evicts && !is_listed {
            let living = self.rules.iter().enumerate().filter_map(|(id, rule)| {
                let rule = rule.as_ref()?;
                let is_such = rule.table == table && rule.end.is_none();
                is_such.then_some(RuleId(id as u32))
            });
            let living: Vec<RuleId> = living.collect();
            living.into_iter().for_each(|id| self.list_evictable(id));
        }
    }

    /// Counts a rule that lives from the version being prepared on.
    pub(crate) fn admit(&mut self, id: RuleId) {
        let rule = self.rules[id.0 as usize].as_ref();
        let table = rule.expect("it was just born").table;
        *self.limits.count_mut(table) += 1;
        self.list_evictable(id);
    }

    /// Counts a rule that does not live at the version being prepared.
    pub(crate) fn dismiss(&mut self, id: RuleId) {
        let rule = self.rules[id.0 as usize].as_ref();
        let table = rule.expect("it is still there").table;
        *self.limits.count_mut(table) -= 1;
        if let Some(limited) = self.limits.tables.get_mut(&table)
            && let Some(evictable) = &mut limited.evictable
        {
            evictable.remove(id);
        }
    }

    /// Lists a living rule, if it may go to make room.
    fn list_evictable(&mut self, id: RuleId) {
        let Some(Some(rule)) = self.rules.get(id.0 as usize) else {
            return;
        };
        let Some(limited) = self.limits.tables.get_mut(&rule.table) else {
            return;
        };
        let (Some(evictable), Some(urgency)) = (&mut limited.evictable, urgency(rule)) else {
            return;
        };
        let tables = &self.generation.tables;
        let values = match &limited.limit.groups[..] {
            [] => Vec::new(),
            groups => {
                let table = tables.get(rule.table.index());
                let table = table.and_then(Option::as_ref);
                let words = table.and_then(|table| table.pattern(id));
                // A rule born and ended in a change that is undone has left its table.
                let Some((value, _)) = words else { return };
                let layout = &self.generation.layout;
                let read = |bits: &Subfield| {
                    let slices = bits.slices.iter().rev();
                    slices.fold(0, |number: u128, slice| {
                        let ones = u128::MAX >> (128 - slice.width_bits);
                        let whole = layout.get(&value, slice.field).unwrap_or(0);
                        let number = number.checked_shl(slice.width_bits.into()).unwrap_or(0);
                        number | whole >> slice.offset & ones
                    })
                };
                groups.iter().map(read).collect()
            }
        };
        evictable.add(id, values.into(), urgency);
    }

    /// The limit of a table that has no room for `count` rules.
    pub(crate) fn limit_below(&self, table: TableId, count: usize) -> Option<u32> {
        let rules = self.table_limit(table)?.rules?;
        (count > rules as usize).then_some(rules)
    }

    /// The rule of a table that goes first, if the table evicts and has such a rule.
    pub(crate) fn first_to_evict(&mut self, table: TableId) -> Option<RuleId> {
        let rules = &self.rules;
        let evictable = self.limits.tables.get_mut(&table)?.evictable.as_mut()?;
        evictable.first(|id| urgency(rules.get(id.0 as usize)?.as_ref()?))
    }
}

#[cfg(test)]
mod tests;
