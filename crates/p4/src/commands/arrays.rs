//! Commands for counters, meters and registers, in arrays or in a table's entries.
//!
//! The entries are named by their handles.

use num_bigint::BigUint;

use crate::program::arrays::MeterArray;
use crate::program::ids::{CounterId, MeterId, RegisterId, TableId};
use crate::state::{Counter, MeterRates, Rate, Update};
use crate::stf::resolve;

use super::{Asked, Note, Reader, Said, Word, Wrong, number, value, value_of, word};

/// The position of the item with this name.
fn position<T>(
    all: &[T],
    name: impl Fn(&T) -> &str,
    kind: &str,
    written: &Word<'_>,
) -> Result<usize, Wrong> {
    let mut all = all.iter();
    let found = all.position(|one| resolve::is_meant(name(one), written));
    found.ok_or_else(|| written.wrong(format!("there is no {kind} {:?}", &**written)))
}

impl Reader<'_> {
    /// The table whose entries hold the cells of an array.
    fn direct(&self, table: Option<&str>) -> Result<Option<TableId>, Wrong> {
        let table = table.map(|name| resolve::table(self.program, name));
        Ok(table.transpose()?)
    }

    fn counter(&self, written: &Word<'_>) -> Result<(CounterId, u32, Option<TableId>), Wrong> {
        let all = &self.program.arrays.counters;
        let found = position(all, |one| &one.name, "counter", written)?;
        let table = self.direct(all[found].direct_table.as_deref())?;
        Ok((CounterId(found as u32), all[found].size, table))
    }

    pub(super) fn write_counter(&self, words: &[Word<'_>]) -> Said {
        let [name, cell, packets, bytes] = words else {
            return Err("it is counter_write COUNTER INDEX PACKETS BYTES".into());
        };
        let counter = Counter {
            packets: number(packets)?,
            bytes: number(bytes)?,
        };
        let update = match self.counter(name)? {
            (id, _, None) => Update::SetCounter(id, number(cell)?, counter),
            (_, _, Some(table)) => {
                let entry = &self.entry(table, cell)?.1.entry;
                Update::SetEntryCounter(table, entry.matches.clone(), entry.priority, counter)
            }
        };
        Ok(update.into())
    }

    pub(super) fn reset_counter(&self, words: &[Word<'_>]) -> Said {
        let zero = Counter::default();
        Ok(match self.counter(word(words, 0)?)? {
            (id, size, None) => {
                Asked::all((0..size).map(|cell| Update::SetCounter(id, cell, zero)))
            }
            (_, _, Some(table)) => Asked::all(self.entries[table.index()].iter().map(|known| {
                let matches = known.entry.matches.clone();
                Update::SetEntryCounter(table, matches, known.entry.priority, zero)
            })),
        })
    }

    fn meter(&self, written: &Word<'_>) -> Result<(MeterId, &MeterArray), Wrong> {
        let all = &self.program.arrays.meters;
        let found = position(all, |one| &one.name, "meter", written)?;
        Ok((MeterId(found as u32), &all[found]))
    }

    pub(super) fn set_rates(&self, words: &[Word<'_>]) -> Said {
        let [name, cell, rates @ ..] = words else {
            return Err("it is meter_set_rates METER INDEX RATE:BURST ...".into());
        };
        let (id, shape) = self.meter(name)?;
        let rates = Some(rates_of(shape, name, rates)?);
        let update = match self.direct(shape.direct_table.as_deref())? {
            None => Update::SetMeter(id, number(cell)?, rates),
            Some(table) => {
                let entry = &self.entry(table, cell)?.1.entry;
                Update::SetEntryMeter(table, entry.matches.clone(), entry.priority, rates)
            }
        };
        Ok(update.into())
    }

    pub(super) fn set_all_rates(&self, words: &[Word<'_>]) -> Said {
        let [name, rates @ ..] = words else {
            return Err("it is meter_array_set_rates METER RATE:BURST ...".into());
        };
        let (id, shape) = self.meter(name)?;
        let rates = rates_of(shape, name, rates)?;
        match self.direct(shape.direct_table.as_deref())? {
            None => Ok(Asked::all(
                (0..shape.size).map(|cell| Update::SetMeter(id, cell, Some(rates))),
            )),
            Some(table) => Ok(self.set_all_entry_rates(table, rates)),
        }
    }

    /// Sets the meters of all entries of a table. On simple_switch these are cells of an array
    /// as long as the table, so an entry that is added later finds its cell set.
    fn set_all_entry_rates(&self, table: TableId, rates: MeterRates) -> Asked {
        let entries = self.entries[table.index()].iter();
        let updates = entries.map(|known| {
            let matches = known.entry.matches.clone();
            Update::SetEntryMeter(table, matches, known.entry.priority, Some(rates))
        });
        Asked {
            updates: updates.collect(),
            note: Some(Note::Rates(table, rates)),
        }
    }

    fn register(&self, written: &Word<'_>) -> Result<(RegisterId, u32), Wrong> {
        let all = &self.program.arrays.registers;
        let found = position(all, |one| &one.name, "register", written)?;
        Ok((RegisterId(found as u32), all[found].size))
    }

    pub(super) fn write_register(&self, words: &[Word<'_>]) -> Said {
        let [name, cell, written] = words else {
            return Err("it is register_write REGISTER INDEX VALUE".into());
        };
        let (id, _) = self.register(name)?;
        Ok(Update::SetRegister(id, number(cell)?, value_of(written)?).into())
    }

    pub(super) fn reset_register(&self, words: &[Word<'_>]) -> Said {
        let (id, size) = self.register(word(words, 0)?)?;
        let cells = 0..size;
        Ok(Asked::all(
            cells.map(|cell| Update::SetRegister(id, cell, BigUint::ZERO)),
        ))
    }
}

fn rates_of(shape: &MeterArray, name: &Word<'_>, words: &[Word<'_>]) -> Result<MeterRates, Wrong> {
    let rates = words.iter().map(|rate| rate.blame(value::rate(rate)));
    let rates: Vec<Rate> = rates.collect::<Result<_, _>>()?;
    let wrong = || name.wrong(format!("{} takes {} rates", shape.name, shape.rate_count));
    let (Some(&committed), Some(&peak)) = (rates.first(), rates.last()) else {
        return Err(wrong());
    };
    match rates.len() == shape.rate_count as usize {
        true => Ok(MeterRates { committed, peak }),
        false => Err(wrong()),
    }
}
