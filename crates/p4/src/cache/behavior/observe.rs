//! Observes a walk for a record of its behaviour.

use crate::program::Program;
use crate::program::action::Step;
use crate::program::exact::Scope;
use crate::program::ids::{ActionId, NodeId, TableId};
use crate::program::table::Table;
use crate::run::Observer;

use super::flow::{EFFECTS_MAX, Unfit};
use super::record::{Effect, Lookup, Record};
use super::words::Uses;

impl Observer for &mut Record {
    const OBSERVES: bool = true;

    fn node(&mut self, id: NodeId) {
        self.node = id;
        self.end(self.flow.nodes[id.index()]);
    }

    fn lookup(&mut self, (id, table): (TableId, &Table), key: &[u64], found: Option<u32>) {
        self.behavior.keys.extend_from_slice(key);
        self.behavior.lookups.push(Lookup {
            table: id,
            is_hit: found.is_some(),
            row: 0,
        });
        if self.behavior.lookups.len() > EFFECTS_MAX {
            self.end(Some(Unfit::TooLong));
        }
        let Some(index) = found else { return };
        if table.meter.is_some() {
            self.end(Some(Unfit::Meter));
        }
        if table.has_counters || table.has_timeouts {
            self.effect(Effect::Entry(id, index));
        }
    }

    fn step(
        &mut self,
        program: &Program,
        (action, at): (ActionId, usize),
        step: &Step,
        scope: &Scope<'_>,
    ) {
        self.note_step(action, at);
        match &self.flow.writes[action.index()][at] {
            Some(always) => self.written.extend(always.iter().copied()),
            None => note_step(self, Uses { program }, step, scope),
        }
    }
}

/// Notes what a step is about to do.
fn note_step(record: &mut Record, uses: Uses<'_>, step: &Step, scope: &Scope<'_>) {
    match step {
        // An index past the end is a fault, so this path is not remembered.
        Step::Count(array, index) => {
            let size = uses.program.arrays.counters[array.index()].size;
            let index = index.index(scope);
            if index < size.into() {
                record.effect(Effect::Count(*array, index as u32));
            }
        }
        Step::WriteRegister(array, index, value) => {
            let shape = &uses.program.arrays.registers[array.index()];
            let words = shape.width_bits.div_ceil(64);
            let index = index.index(scope);
            if index < shape.size.into() {
                let mut cell = vec![0; words as usize];
                value.value(scope).put(&mut cell, shape.width_bits);
                let first = index as u32 * words;
                record.effect(Effect::Register(*array, first, cell.into()));
            }
        }
        _ => {
            let mut written = std::mem::take(&mut record.scratch);
            written.clear();
            uses.written(step, scope, &mut written);
            record.written.extend(written.iter().copied());
            record.scratch = written;
        }
    }
}
