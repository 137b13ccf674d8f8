//! Writes of indexed counters, meters and registers.

use std::ops::Range;

use super::rows::{MeterRows, Undo};
use super::{Modify, Result, Store, unknown};
use crate::change::{Change, Count, Operation, Rates};
use crate::p4info::{Counter, Marker, Meter};
use crate::problem::{Code, Problem};
use crate::proto::p4::v1 as p4;

impl Store {
    pub(super) fn counter(
        &mut self,
        _: Modify,
        message: &p4::CounterEntry,
        change: &mut Change,
    ) -> Result<()> {
        let counter = self.catalog().counters.get(&message.counter_id);
        let counter = counter.ok_or_else(|| unknown("counter", message.counter_id))?;
        let at = |problem: Problem| problem.at(format!("counter `{}`", counter.name));
        let indices = indices(message.index.as_ref(), counter.size).map_err(at)?;
        if let Some(data) = &message.data {
            let count = count_of(counter, data).map_err(at)?;
            change.push(Operation::SetCounters {
                counter: counter.id,
                indices,
                count,
            });
        }
        Ok(())
    }

    pub(super) fn meter(
        &mut self,
        _: Modify,
        message: &p4::MeterEntry,
        change: &mut Change,
    ) -> Result<()> {
        let meter = self.catalog().meters.get(&message.meter_id);
        let meter = meter.ok_or_else(|| unknown("meter", message.meter_id))?;
        let at = |problem: Problem| problem.at(format!("meter `{}`", meter.name));
        no_colour_counts(message.counter_data.is_some()).map_err(at)?;
        let indices = indices(message.index.as_ref(), meter.size).map_err(at)?;
        let config = message.config;
        let rates = config.map(|config| rates_of(meter, &config));
        let rates = rates.transpose().map_err(at)?;
        let id = meter.id;
        let state = match message.index {
            Some(_) => Undo::Meter(id, indices.start, Some(config)),
            None => Undo::Meters(
                id,
                MeterRows {
                    all: config,
                    ..MeterRows::default()
                },
            ),
        };
        change.push(Operation::SetMeters {
            meter: id,
            indices,
            rates,
        });
        self.put(state);
        Ok(())
    }

    pub(super) fn register(
        &mut self,
        _: Modify,
        message: &p4::RegisterEntry,
        change: &mut Change,
    ) -> Result<()> {
        let register = self.catalog().registers.get(&message.register_id);
        let register = register.ok_or_else(|| unknown("register", message.register_id))?;
        let at = |problem: Problem| problem.at(format!("register `{}`", register.name));
        let indices = indices(message.index.as_ref(), register.size).map_err(at)?;
        let numbers = register.shape.numbers(message.data.as_ref()).map_err(at)?;
        change.push(Operation::SetRegisters {
            register: register.id,
            indices,
            numbers,
        });
        Ok(())
    }
}

/// The cells that a message names; without an index, the whole array.
pub(super) fn indices(index: Option<&p4::Index>, size: u64) -> Result<Range<u64>> {
    let Some(index) = index else {
        return Ok(0..size);
    };
    match u64::try_from(index.index) {
        Err(_) => Err(Problem::invalid(format!("an index of {}", index.index))),
        Ok(index) if index >= size => Err(Problem::new(
            Code::OutOfRange,
            format!("an index of {index}; the array has {size}"),
        )),
        Ok(index) => Ok(index..index + 1),
    }
}

/// Reads a counter's new value; a unit that it does not count must be zero.
pub(super) fn count_of(counter: &Counter, data: &p4::CounterData) -> Result<Count> {
    let number = |number: i64, name: &str, is_counted: bool| match u64::try_from(number) {
        Err(_) => Err(Problem::invalid(format!("a {name} of {number}"))),
        Ok(number) if number > 0 && !is_counted => Err(Problem::invalid(format!(
            "a {name}, which it does not count; leave it out"
        ))),
        Ok(number) => Ok(number),
    };
    Ok(Count {
        bytes: number(data.byte_count, "byte_count", counter.has_bytes)?,
        packets: number(data.packet_count, "packet_count", counter.has_packets)?,
    })
}

/// The rates to set a meter to, in the form of a meter with two rates.
///
/// A meter with one rate and two colours is one with two equal rates (P4Runtime 1.5.0,
/// "MeterEntry & DirectMeterEntry"). One with its own excess burst is a different meter (RFC
/// 2697), which the data plane does not have.
pub(super) fn rates_of(meter: &Meter, config: &p4::MeterConfig) -> Result<Rates> {
    let fields = [
        config.cir,
        config.cburst,
        config.pir,
        config.pburst,
        config.eburst,
    ];
    if fields.iter().any(|number| *number < 0) {
        return Err(Problem::invalid("rates and bursts are not below 0"));
    }
    let has_one_rate = config.pir == config.cir && config.pburst == config.cburst;
    match meter.marker {
        Marker::TwoRates | Marker::TwoColours if config.eburst != 0 => {
            return Err(Problem::invalid(
                "an excess burst; this type of meter has none, leave eburst out",
            ));
        }
        Marker::OneRate | Marker::TwoColours if !has_one_rate => {
            return Err(Problem::invalid(
                "two rates; this type of meter has one, so pir and pburst must be cir and cburst",
            ));
        }
        Marker::OneRate if config.eburst != 0 => {
            return Err(Problem::unsupported(
                "an excess burst is not supported; leave eburst out",
            ));
        }
        Marker::TwoRates if config.pir < config.cir => {
            return Err(Problem::invalid(
                "the peak rate is below the committed rate; give pir at least cir",
            ));
        }
        _ => {}
    }
    Ok(Rates {
        committed: config.cir as u64,
        committed_burst: config.cburst as u64,
        peak: config.pir as u64,
        peak_burst: config.pburst as u64,
    })
}

/// Refuses counts per colour, which meters do not have.
pub(super) fn no_colour_counts(is_set: bool) -> Result<()> {
    if !is_set {
        return Ok(());
    }
    Err(Problem::unsupported(
        "meters do not count packets by colour; leave the counter data out",
    ))
}
