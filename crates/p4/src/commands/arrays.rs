//! Commands about counters, meters and registers: of an array, or of a table's entries, which are
//! known by their handles.

use num_bigint::BigUint;

use crate::program::arrays::MeterArray;
use crate::program::ids::{CounterId, MeterId, RegisterId, TableId};
use crate::state::{Counter, MeterRates, Rate, Update};
use crate::stf::resolve;

use super::{Asked, Reader, Said, number, value, word};

/// The one of a kind that is meant.
fn position<T>(
    all: &[T],
    name: impl Fn(&T) -> &str,
    kind: &str,
    written: &str,
) -> Result<usize, String> {
    let mut all = all.iter();
    let found = all.position(|one| resolve::is_meant(name(one), written));
    found.ok_or_else(|| format!("there is no {kind} {written:?}"))
}

impl Reader<'_> {
    /// The table whose entries have the cells of an array.
    fn direct(&self, table: Option<&str>) -> Result<Option<TableId>, String> {
        let table = table.map(|name| resolve::table(self.program, name));
        table.transpose()
    }

    fn counter(&self, written: &str) -> Result<(CounterId, u32, Option<TableId>), String> {
        let all = &self.program.arrays.counters;
        let found = position(all, |one| &one.name, "counter", written)?;
        let table = self.direct(all[found].direct_table.as_deref())?;
        Ok((CounterId(found as u32), all[found].size, table))
    }

    pub(super) fn write_counter(&self, words: &[&str]) -> Said {
        let [name, cell, packets, bytes] = words else {
            return Err("it is counter_write COUNTER INDEX PACKETS BYTES".to_owned());
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

    pub(super) fn reset_counter(&self, words: &[&str]) -> Said {
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

    fn meter(&self, written: &str) -> Result<(MeterId, &MeterArray), String> {
        let all = &self.program.arrays.meters;
        let found = position(all, |one| &one.name, "meter", written)?;
        Ok((MeterId(found as u32), &all[found]))
    }

    pub(super) fn set_rates(&self, words: &[&str]) -> Said {
        let [name, cell, rates @ ..] = words else {
            return Err("it is meter_set_rates METER INDEX RATE:BURST ...".to_owned());
        };
        let (id, shape) = self.meter(name)?;
        let rates = Some(rates_of(shape, rates)?);
        let update = match self.direct(shape.direct_table.as_deref())? {
            None => Update::SetMeter(id, number(cell)?, rates),
            Some(table) => {
                let entry = &self.entry(table, cell)?.1.entry;
                Update::SetEntryMeter(table, entry.matches.clone(), entry.priority, rates)
            }
        };
        Ok(update.into())
    }

    pub(super) fn set_all_rates(&self, words: &[&str]) -> Said {
        let [name, rates @ ..] = words else {
            return Err("it is meter_array_set_rates METER RATE:BURST ...".to_owned());
        };
        let (id, shape) = self.meter(name)?;
        let rates = Some(rates_of(shape, rates)?);
        match shape.direct_table {
            None => Ok(Asked::all(
                (0..shape.size).map(|cell| Update::SetMeter(id, cell, rates)),
            )),
            Some(_) => Err(format!(
                "the cells of {} are entries': name each with meter_set_rates",
                shape.name
            )),
        }
    }

    fn register(&self, written: &str) -> Result<(RegisterId, u32), String> {
        let all = &self.program.arrays.registers;
        let found = position(all, |one| &one.name, "register", written)?;
        Ok((RegisterId(found as u32), all[found].size))
    }

    pub(super) fn write_register(&self, words: &[&str]) -> Said {
        let [name, cell, written] = words else {
            return Err("it is register_write REGISTER INDEX VALUE".to_owned());
        };
        let (id, _) = self.register(name)?;
        Ok(Update::SetRegister(id, number(cell)?, value::parse(written)?).into())
    }

    pub(super) fn reset_register(&self, words: &[&str]) -> Said {
        let (id, size) = self.register(word(words, 0)?)?;
        let cells = 0..size;
        Ok(Asked::all(
            cells.map(|cell| Update::SetRegister(id, cell, BigUint::ZERO)),
        ))
    }
}

fn rates_of(shape: &MeterArray, words: &[&str]) -> Result<MeterRates, String> {
    let rates = words.iter().map(|rate| value::rate(rate));
    let rates: Vec<Rate> = rates.collect::<Result<_, _>>()?;
    let wrong = || format!("{} takes {} rates", shape.name, shape.rate_count);
    let (Some(&committed), Some(&peak)) = (rates.first(), rates.last()) else {
        return Err(wrong());
    };
    match rates.len() == shape.rate_count as usize {
        true => Ok(MeterRates { committed, peak }),
        false => Err(wrong()),
    }
}
