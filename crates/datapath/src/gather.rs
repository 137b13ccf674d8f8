//! Gathers the counts of entries, of some rules or of all.
//!
//! An entry counts for everything its walk met. To know a rule's counts, the entries that met
//! it are read; the dependency record lists them. Without a record, all entries are read.
//!
//! 1. An entry's counts are credited once, to everything it met at the same time.
//! 2. The first entry that shows a use settles whether a rule is in use.

use std::collections::HashMap;

use thalweg_packet::Instant;
use thalweg_pipeline::RuleId;

use crate::config::Mode;
use crate::core::Core;
use crate::entry::{Credit, Entries, EntryId};
use crate::ledger::Ledger;

impl<const W: usize> Core<W> {
    /// Moves an entry's counts to the ledger.
    fn gather_one(&mut self, id: EntryId) {
        let is_old = self.are_others_old || self.entries.is_refused(id);
        let counters = self.entries.take_counters(id);
        let entry = self.entries.get(id);
        let ledger = match is_old {
            true => &mut self.ledger_before,
            false => &mut self.ledger,
        };
        ledger.add(&entry.credits, counters, entry.used_at);
    }

    /// Gathers from `count` entries, starting at number `from`; returns where to continue.
    pub(crate) fn gather_slice(&mut self, from: u32, count: u32) -> Option<u32> {
        let numbers = self.entries.numbers();
        let end = from.saturating_add(count).min(numbers);
        for id in (from..end).map(EntryId) {
            if self.entries.is_there(id) {
                self.gather_one(id);
            }
        }
        (end < numbers).then_some(end)
    }

    /// Takes the gathered counts.
    pub(crate) fn take_ledger(&mut self) -> Ledger {
        let mut ledger = std::mem::take(&mut self.ledger_before);
        ledger.merge(std::mem::take(&mut self.ledger));
        ledger
    }

    /// Gathers from the entries that met one of these rules.
    pub(crate) fn gather_rules(&mut self, rules: &[RuleId]) {
        if self.config.mode == Mode::ComputationalFlows {
            // Entries have counted nothing in this mode.
            return self.tally.settle_rules(rules, &mut self.ledger);
        }
        let ids: Vec<EntryId> = match self.record.lock() {
            Some(known) => {
                let of_rules = rules.iter().flat_map(|rule| known.entries_of(*rule));
                of_rules.collect()
            }
            None => self.entries.ids().collect(),
        };
        for id in ids {
            if self.entries.is_there(id) {
                self.gather_one(id);
            }
        }
    }

    /// For each rule, a time of use after the given time, if there was one; not always the
    /// last use.
    pub(crate) fn uses_since(&mut self, rules: &[(RuleId, Instant)]) -> Vec<Option<Instant>> {
        let ledgers = [&self.ledger, &self.ledger_before];
        let in_ledgers = rules.iter().map(|(rule, since)| {
            let used = ledgers.iter().filter_map(|ledger| ledger.used_at(*rule));
            let used = used.chain(self.tally.used_at(*rule));
            used.max().filter(|used_at| used_at > since)
        });
        let mut uses: Vec<Option<Instant>> = in_ledgers.collect();
        if self.config.mode == Mode::ComputationalFlows {
            // Uses are recorded as packets pass; entries may name rules that are gone.
            return uses;
        }
        let entries = &self.entries;
        let Some(known) = self.record.lock() else {
            uses_by_sweep(entries, rules, &mut uses);
            return uses;
        };
        for (used, (rule, since)) in uses.iter_mut().zip(rules) {
            let ids = known.entries_of(*rule);
            let mut times = ids.map(|id| entries.get(id).used_at);
            // Invariant 2.
            *used = used.or_else(|| times.find(|used_at| used_at > since));
        }
        uses
    }
}

fn uses_by_sweep<const W: usize>(
    entries: &Entries<W>,
    rules: &[(RuleId, Instant)],
    uses: &mut [Option<Instant>],
) {
    let places = rules.iter().enumerate();
    let places: HashMap<RuleId, usize> = places.map(|(place, (rule, _))| (*rule, place)).collect();
    for entry in entries.ids().map(|id| entries.get(id)) {
        for rule in Credit::rules(&entry.credits) {
            if let Some(place) = places.get(&rule)
                && entry.used_at > rules[*place].1
            {
                uses[*place] = uses[*place].max(Some(entry.used_at));
            }
        }
    }
}
