//! The values of counters, registers and entries for a read: live, or recorded.
//!
//! [`Live`] asks the target; [`Recorded`] has the answers from when its read began. A recording
//! has each value once, however often the requests name it. So its size is bounded by the
//! program's state, not by the client's requests.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::arrays::indices;
use super::matching::key_of;
use super::{Result, Store};
use crate::change::{Count, EntryKey, EntryRef};
use crate::p4info::Table;
use crate::problem::{Code, Problem};
use crate::proto::p4::v1 as p4;
use crate::proto::p4::v1::entity::Entity as Kind;
use crate::target::{EntryState, Side, Target};
use crate::value::Value;

/// Maximum values requested from the target at once: it handles no packet meanwhile.
const STRIDE: usize = 4_096;

/// Values that packets change.
pub(crate) trait Values {
    /// As [`Target::counts`].
    fn counts(&mut self, counter: u32, indices: Range<u64>) -> Result<Vec<Count>>;
    /// As [`Target::registers`].
    fn registers(&mut self, register: u32, indices: Range<u64>) -> Result<Vec<Vec<Value>>>;
    /// As [`Target::entries`].
    fn entries(&mut self, table: u32, entries: &[EntryRef]) -> Result<Vec<EntryState>>;
}

/// One of a target's states.
pub(crate) struct Live<'a> {
    pub(crate) target: &'a mut dyn Target,
    pub(crate) side: Side,
}

impl Values for Live<'_> {
    fn counts(&mut self, counter: u32, indices: Range<u64>) -> Result<Vec<Count>> {
        self.target.counts(self.side, counter, indices)
    }

    fn registers(&mut self, register: u32, indices: Range<u64>) -> Result<Vec<Vec<Value>>> {
        self.target.registers(self.side, register, indices)
    }

    fn entries(&mut self, table: u32, entries: &[EntryRef]) -> Result<Vec<EntryState>> {
        self.target.entries(self.side, table, entries)
    }
}

/// The values that a read's requests name, from when the read began.
#[derive(Default)]
pub(crate) struct Recorded {
    counts: BTreeMap<u32, BTreeMap<u64, Count>>,
    registers: BTreeMap<u32, BTreeMap<u64, Vec<Value>>>,
    /// By table and entry; `None` is the default entry.
    states: BTreeMap<u32, BTreeMap<Option<EntryKey>, EntryState>>,
    /// Arrays and tables that are recorded completely.
    whole: BTreeSet<u32>,
}

impl Recorded {
    /// Records the values that requests name; skips requests that name something unknown.
    ///
    /// # Errors
    /// Fails if the target does not answer.
    pub(super) fn new(
        store: &Store,
        live: &mut Live<'_>,
        requests: &[p4::Entity],
    ) -> Result<Recorded> {
        let mut recorded = Recorded::default();
        for request in requests
            .iter()
            .filter_map(|request| request.entity.as_ref())
        {
            match request {
                Kind::CounterEntry(filter) => recorded.counters(store, live, filter)?,
                Kind::RegisterEntry(filter) => recorded.registers_of(store, live, filter)?,
                Kind::TableEntry(filter) => {
                    let wants = |table: &Table| {
                        (filter.counter_data.is_some() && table.direct_counter.is_some())
                            || (filter.time_since_last_hit.is_some() && table.has_idle_timeout)
                    };
                    recorded.tables(store, live, filter, wants)?;
                }
                Kind::DirectCounterEntry(filter) => {
                    let all = p4::TableEntry::default();
                    let filter = filter.table_entry.as_ref().unwrap_or(&all);
                    let wants = |table: &Table| table.direct_counter.is_some();
                    recorded.tables(store, live, filter, wants)?;
                }
                _ => {}
            }
        }
        Ok(recorded)
    }

    /// Number of recorded counters.
    #[cfg(test)]
    pub(super) fn count_of_counters(&self) -> usize {
        self.counts.values().map(BTreeMap::len).sum()
    }

    /// The values of an array that are not recorded yet.
    fn missing(
        &mut self,
        id: u32,
        index: Option<&p4::Index>,
        size: u64,
    ) -> impl Iterator<Item = Range<u64>> + use<> {
        let mut range = indices(index, size).unwrap_or(0..0);
        if self.whole.contains(&id) {
            range = 0..0;
        } else if index.is_none() {
            self.whole.insert(id);
        }
        let end = range.end;
        range
            .step_by(STRIDE)
            .map(move |start| start..end.min(start + STRIDE as u64))
    }

    fn counters(
        &mut self,
        store: &Store,
        live: &mut Live<'_>,
        filter: &p4::CounterEntry,
    ) -> Result<()> {
        for counter in store.catalog().counters.values() {
            if filter.counter_id != 0 && filter.counter_id != counter.id {
                continue;
            }
            let index = filter.index.as_ref().filter(|_| filter.counter_id != 0);
            for range in self.missing(counter.id, index, counter.size) {
                let counts = live.counts(counter.id, range.clone())?;
                let recorded = self.counts.entry(counter.id).or_default();
                recorded.extend(range.zip(counts));
            }
        }
        Ok(())
    }

    fn registers_of(
        &mut self,
        store: &Store,
        live: &mut Live<'_>,
        filter: &p4::RegisterEntry,
    ) -> Result<()> {
        for register in store.catalog().registers.values() {
            let is_other = filter.register_id != 0 && filter.register_id != register.id;
            if is_other || register.shape.check().is_err() {
                continue;
            }
            let index = filter.index.as_ref().filter(|_| filter.register_id != 0);
            for range in self.missing(register.id, index, register.size) {
                let numbers = live.registers(register.id, range.clone())?;
                let recorded = self.registers.entry(register.id).or_default();
                recorded.extend(range.zip(numbers));
            }
        }
        Ok(())
    }

    fn tables(
        &mut self,
        store: &Store,
        live: &mut Live<'_>,
        filter: &p4::TableEntry,
        wants: impl Fn(&Table) -> bool,
    ) -> Result<()> {
        for table in store.catalog().tables.values() {
            let is_other = filter.table_id != 0 && filter.table_id != table.id;
            if is_other || !wants(table) {
                continue;
            }
            let rows = &store.rows.tables[&table.id].entries;
            if filter.is_default_action {
                self.states_of(live, table.id, &[EntryRef::Default])?;
            } else if !filter.r#match.is_empty() {
                let key = key_of(table, filter).ok();
                if let Some((key, _)) = key.and_then(|key| rows.get_key_value(&key)) {
                    self.states_of(live, table.id, &[EntryRef::Entry(key.clone())])?;
                }
            } else if self.whole.insert(table.id) {
                let mut keys = rows.keys().cloned().map(EntryRef::Entry);
                loop {
                    let some: Vec<EntryRef> = keys.by_ref().take(STRIDE).collect();
                    if some.is_empty() {
                        break;
                    }
                    self.states_of(live, table.id, &some)?;
                }
            }
        }
        Ok(())
    }

    fn states_of(&mut self, live: &mut Live<'_>, table: u32, entries: &[EntryRef]) -> Result<()> {
        let states = live.entries(table, entries)?;
        let recorded = self.states.entry(table).or_default();
        recorded.extend(entries.iter().map(name).zip(states));
        Ok(())
    }
}

impl Values for Recorded {
    fn counts(&mut self, counter: u32, indices: Range<u64>) -> Result<Vec<Count>> {
        let counts = self.counts.get(&counter);
        let count = |index| counts.and_then(|counts| counts.get(&index)).copied();
        indices
            .map(|index| count(index).ok_or_else(unrecorded))
            .collect()
    }

    fn registers(&mut self, register: u32, indices: Range<u64>) -> Result<Vec<Vec<Value>>> {
        let numbers = self.registers.get(&register);
        let number = |index| numbers.and_then(|numbers| numbers.get(&index)).cloned();
        indices
            .map(|index| number(index).ok_or_else(unrecorded))
            .collect()
    }

    fn entries(&mut self, table: u32, entries: &[EntryRef]) -> Result<Vec<EntryState>> {
        let states = self.states.get(&table);
        let state = |entry| states.and_then(|states| states.get(&name(entry))).copied();
        entries
            .iter()
            .map(|entry| state(entry).ok_or_else(unrecorded))
            .collect()
    }
}

fn name(entry: &EntryRef) -> Option<EntryKey> {
    match entry {
        EntryRef::Default => None,
        EntryRef::Entry(key) => Some(key.clone()),
    }
}

/// The error for a value that was not recorded.
///
/// It cannot happen: recording and reading use the same filters.
fn unrecorded() -> Problem {
    Problem::new(Code::Internal, "the read did not record it; report this")
}
