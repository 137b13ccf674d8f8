//! Walks a pipeline and records it, for [`crate::cache::behavior`].
//!
//! It does exactly what [`Walk::walk`] does; a test compares the two.

use crate::cache::behavior::{Effect, Lookup, Record, Unfit, Uses};
use crate::program::action::Step;
use crate::program::control::{NodeKind, Pipeline};
use crate::program::ids::{ActionId, TableId};

use super::engine::{Stop, Walk};
use super::frame::Frame;
use crate::program::exact::Scope;

impl Walk<'_> {
    /// Walks a pipeline to its end, or until `exit`, with a record.
    pub(crate) fn walk_recorded(
        &mut self,
        pipeline: &Pipeline,
        frame: &mut Frame,
    ) -> Result<(), Stop> {
        let program = self.program;
        let mut next = pipeline.start;
        while let Some(id) = next {
            self.spend(program.costs.node(id))?;
            self.with_record(|record| {
                record.node = id;
                record.end(record.flow.nodes[id.index()]);
            });
            next = match &program.control.nodes[id.index()].kind {
                NodeKind::If(condition, yes, no) => {
                    let scope = Scope {
                        headers: &program.headers,
                        words: &frame.words,
                        arguments: &[],
                        parameters: &[],
                    };
                    if condition.is_true(&scope) { *yes } else { *no }
                }
                NodeKind::Do(action, after) => {
                    self.act(*action, &[], frame)?;
                    *after
                }
                NodeKind::Table(table) => self.apply(*table, frame)?,
            };
            if frame.wishes.has_exited {
                break;
            }
        }
        frame.wishes.has_exited = false;
        Ok(())
    }

    fn with_record(&mut self, work: impl FnOnce(&mut Record)) {
        if let Some(record) = &mut self.record {
            work(record);
        }
    }

    /// Records a table lookup.
    #[cold]
    pub(super) fn record_lookup(&mut self, id: TableId, key: &[u64], found: Option<u32>) {
        let table = self.program.table(id);
        self.with_record(|record| {
            record.behavior.keys.extend_from_slice(key);
            record.behavior.lookups.push(Lookup {
                table: id,
                is_hit: found.is_some(),
                row: 0,
            });
            if record.behavior.lookups.len() > crate::cache::behavior::EFFECTS_MAX {
                record.end(Some(Unfit::TooLong));
            }
            let Some(index) = found else { return };
            if table.meter.is_some() {
                record.end(Some(Unfit::Meter));
            }
            if table.has_counters || table.has_timeouts {
                record.effect(Effect::Entry(id, index));
            }
        });
    }

    /// Runs an action as [`Walk::act`], with a record.
    #[cold]
    pub(super) fn act_recorded(
        &mut self,
        id: ActionId,
        data: &[u64],
        frame: &mut Frame,
    ) -> Result<(), Stop> {
        let program = self.program;
        let action = program.action(id);
        let cost = program.costs.action(id);
        self.spend(cost.begin)?;
        let (mut at, mut steps) = (0, 0);
        while let Some(step) = action.steps.get(at) {
            if let Some(&cost) = cost.steps.get(at) {
                self.pace(&mut steps, cost)?;
            }
            let scope = Scope {
                headers: &program.headers,
                words: &frame.words,
                arguments: data,
                parameters: &action.places,
            };
            if let Some(record) = &mut self.record {
                record.note_step(id, at);
                match &record.flow.writes[id.index()][at] {
                    Some(always) => record.written.extend(always.iter().copied()),
                    None => note_step(record, Uses { program }, step, &scope),
                }
            }
            at += 1;
            match step {
                Step::Jump(to) => at = *to as usize,
                Step::JumpIfZero(value, to) => {
                    if !value.is_true(&scope) {
                        at = *to as usize;
                    }
                }
                other => self.step(other, data, &action.places, frame)?,
            }
        }
        Ok(())
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
