//! Runs one pass of a packet through a pipeline: tables, conditions, actions.

use std::collections::HashSet;

use rand_pcg::Pcg64Mcg;
use thalweg_classifier::Version;
use thalweg_packet::{Instant, MAX_WORDS};

use crate::program::Program;
use crate::program::control::{NodeKind, Pipeline};
use crate::program::cost::has_payload;
use crate::program::headers::Headers;
use crate::program::ids::{CalculationId, NodeId, TableId};
use crate::program::table::{KeyPart, Table};
use crate::state::{Bound, Cells, ProfileState, TableState, What};

use super::frame::Frame;
use super::observer::{Observer, Unobserved};
use super::outcome::{Counts, DropReason, Fault};
use crate::program::exact::Scope;

/// The packet ends here for this reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stop(pub(crate) DropReason);

/// The context of a pass: the program, the state in parts, and scratch lists.
///
/// It is compiled once per observer, so a walk without an observer pays nothing.
pub(crate) struct Walk<'a, O = Unobserved> {
    pub(crate) program: &'a Program,
    pub(crate) version: Version,
    pub(crate) tables: &'a mut [TableState],
    pub(crate) profiles: &'a [ProfileState],
    pub(crate) value_rows: &'a [HashSet<Box<[u64]>>],
    pub(crate) cells: &'a mut Cells,
    pub(crate) counts: &'a mut Counts,
    /// Work that the packet may still do.
    pub(crate) work_left: &'a mut u64,
    pub(crate) random: &'a mut Pcg64Mcg,
    pub(crate) now: Instant,
    pub(crate) drop_port: u32,
    /// Scratch space for the words of a wide field.
    pub(crate) wide: &'a mut Vec<u64>,
    /// Scratch space for a hash's input.
    pub(crate) input: &'a mut Vec<u8>,
    /// The trace of the pass, if one was requested.
    pub(crate) steps: Option<&'a mut Vec<TraceStep>>,
    /// Sees each node, lookup and step of the walk.
    pub(crate) observer: O,
}

/// Charges work to the packet before it is done.
///
/// # Errors
/// Fails if the packet may not do that much; then no work is left.
#[inline]
pub(crate) fn spend(work_left: &mut u64, cost: u64) -> Result<(), Stop> {
    match work_left.checked_sub(cost) {
        Some(left) => {
            *work_left = left;
            Ok(())
        }
        None => {
            *work_left = 0;
            Err(Stop(DropReason::TooMuchWork))
        }
    }
}

/// One step of a packet's trace, for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TraceStep {
    /// A pass begins: of ingress, or of egress by this port.
    Pass(Option<u32>),
    /// The parser ended, with this error.
    Parsed(u64),
    /// A table was looked up: the entry that matched, the action that ran.
    Table(TableId, Option<u32>, Option<crate::program::ids::ActionId>),
    /// A condition was evaluated: its node, and whether it held.
    If(NodeId, bool),
    /// A bare action ran: its node.
    Do(NodeId),
    /// The packet, or this copy of it, ended.
    Dropped(DropReason),
    /// It left: the port, and how many bytes.
    Sent(u32, usize),
}

impl<'a> Walk<'a> {
    /// The same walk, with an observer.
    pub(crate) fn observed<O: Observer>(self, observer: O) -> Walk<'a, O> {
        Walk {
            program: self.program,
            version: self.version,
            tables: self.tables,
            profiles: self.profiles,
            value_rows: self.value_rows,
            cells: self.cells,
            counts: self.counts,
            work_left: self.work_left,
            random: self.random,
            now: self.now,
            drop_port: self.drop_port,
            wide: self.wide,
            input: self.input,
            steps: self.steps,
            observer,
        }
    }
}

impl<'a, O: Observer> Walk<'a, O> {
    pub(crate) fn headers(&self) -> &'a Headers {
        &self.program.headers
    }

    #[inline]
    pub(crate) fn note(&mut self, step: impl FnOnce() -> TraceStep) {
        if let Some(steps) = &mut self.steps {
            steps.push(step());
        }
    }

    /// Charges work, as [`spend`].
    #[inline]
    pub(crate) fn spend(&mut self, cost: u64) -> Result<(), Stop> {
        spend(self.work_left, cost)
    }

    /// Walks a pipeline to its end, or until `exit`.
    pub(crate) fn walk(&mut self, pipeline: &Pipeline, frame: &mut Frame) -> Result<(), Stop> {
        self.walk_from(pipeline.start, frame)
    }

    /// Walks from a node to the end of the pipeline, or until `exit`.
    #[inline]
    pub(crate) fn walk_from(
        &mut self,
        mut next: Option<NodeId>,
        frame: &mut Frame,
    ) -> Result<(), Stop> {
        while let Some(id) = next {
            next = self.visit(id, frame)?;
            if frame.wishes.has_exited {
                break;
            }
        }
        // The next pipeline begins without it.
        frame.wishes.has_exited = false;
        Ok(())
    }

    /// Runs a node. Returns the next node.
    pub(crate) fn visit(&mut self, id: NodeId, frame: &mut Frame) -> Result<Option<NodeId>, Stop> {
        let program = self.program;
        self.spend(program.costs.node(id))?;
        self.observer.node(id);
        Ok(match &program.control.nodes[id.index()].kind {
            NodeKind::If(condition, yes, no) => {
                let holds = condition.is_true(&Scope {
                    headers: &program.headers,
                    words: &frame.words,
                    arguments: &[],
                    parameters: &[],
                });
                self.note(|| TraceStep::If(id, holds));
                if holds { *yes } else { *no }
            }
            NodeKind::Do(action, after) => {
                self.note(|| TraceStep::Do(id));
                self.act(*action, &[], frame)?;
                *after
            }
            NodeKind::Table(table) => self.apply(*table, frame)?,
        })
    }

    /// Looks up a table and runs the result. Returns the next node.
    pub(crate) fn apply(&mut self, id: TableId, frame: &mut Frame) -> Result<Option<NodeId>, Stop> {
        let program = self.program;
        let table = program.table(id);
        let mut found = None;
        if !table.key.is_empty() {
            let words = table.key_words as usize;
            let mut short = [0; KEY_INLINE];
            let mut long;
            let key = match words <= KEY_INLINE {
                true => &mut short[..words],
                false => {
                    long = [0; MAX_WORDS];
                    &mut long[..words]
                }
            };
            build_key(&table.key, &frame.words, key);
            found = self.tables[id.index()].lookup(key, self.version);
            self.observer.lookup((id, table), key, found);
        } else {
            self.observer.lookup((id, table), &[], None);
        }
        let state = &mut self.tables[id.index()];
        if let Some(index) = found
            && (table.has_counters || table.has_timeouts || table.meter.is_some())
        {
            let entry = state.entry_mut(index);
            entry.counter.count(frame.ingress_length_bytes);
            entry.last_hit = self.now;
            self.run_meter(id, index, frame);
        }
        self.run_found(id, table, found, frame)
    }

    /// Runs the meter of an entry, if its table has meters.
    pub(crate) fn run_meter(&mut self, id: TableId, index: u32, frame: &mut Frame) {
        let program = self.program;
        let Some(meter) = program.table(id).meter else {
            return;
        };
        let shape = &program.arrays.meters[meter.index()];
        let cost = if shape.counts_bytes {
            frame.ingress_length_bytes
        } else {
            1
        };
        let entry = self.tables[id.index()].entry_mut(index);
        let color = entry.meter.color(cost, shape.rate_count == 2, self.now);
        let result = shape.result.expect("the loader checked it");
        let field = program.headers.field(result);
        let words = &mut frame.words[crate::program::exact::range(field)];
        crate::program::code::put(color.into(), words, field.width_bits);
    }

    /// Runs the action of an entry, or the default.
    fn run_found(
        &mut self,
        id: TableId,
        table: &Table,
        found: Option<u32>,
        frame: &mut Frame,
    ) -> Result<Option<NodeId>, Stop> {
        let Some(bound) = self.bound(id, table, found, frame) else {
            self.note(|| TraceStep::Table(id, found, None));
            return Ok(table.next(found.is_some(), None));
        };
        // Copies the data, since the action may write anywhere in the state.
        let action = bound.action;
        let words = bound.data.len();
        let mut short = [0; DATA_INLINE];
        let long: Vec<u64>;
        let data = match words <= DATA_INLINE {
            true => {
                short[..words].copy_from_slice(&bound.data);
                &short[..words]
            }
            false => {
                long = bound.data.to_vec();
                &long
            }
        };
        self.note(|| TraceStep::Table(id, found, Some(action)));
        self.act(action, data, frame)?;
        Ok(table.next(found.is_some(), table.action_index(action)))
    }

    /// The action that an entry, or a miss, leads to.
    pub(crate) fn bound(
        &mut self,
        id: TableId,
        table: &Table,
        found: Option<u32>,
        frame: &Frame,
    ) -> Option<&Bound> {
        let Some(index) = found else {
            return self.tables[id.index()].default.as_ref();
        };
        let hash = match (&self.tables[id.index()].entry(index).what, table.profile) {
            (What::Group(_) | What::OneShot(..), Some(profile)) => {
                let selector = self.program.profiles[profile.index()].selector;
                // A selector's hash has 32 bits for every algorithm.
                self.calculate(selector.expect("groups need a selector"), frame) & 0xffff_ffff
            }
            _ => 0,
        };
        let profile = table.profile.map(|profile| &self.profiles[profile.index()]);
        let member = |id: u32| Some(&profile?.members.get(&id)?.bound);
        let chosen = |choices: &[u32]| {
            let index = hash.checked_rem(choices.len() as u64)?;
            Some(choices[index as usize])
        };
        let bound = match &self.tables[id.index()].entry(index).what {
            What::Action(bound) => return Some(bound),
            What::Member(id) => member(*id),
            What::Group(id) => profile
                .and_then(|profile| profile.groups.get(id))
                .and_then(|group| chosen(&group.choices))
                .and_then(member),
            What::OneShot(actions, choices) => {
                chosen(choices).map(|index| &actions[index as usize].0)
            }
        };
        if bound.is_none() {
            self.counts.fault(Fault::NoMember);
        }
        bound
    }

    /// The result of a calculation for the packet's current state.
    pub(crate) fn calculate(&mut self, id: CalculationId, frame: &Frame) -> u64 {
        let result = calculate(self.program, self.cells, self.input, id, frame);
        if has_payload(&self.program.calculations.calculations[id.index()]) {
            // Callers with such calculations check the remaining work after each.
            *self.work_left = self.work_left.saturating_sub(self.input.len() as u64);
        }
        result
    }
}

/// The result of a calculation for a packet; `input` is scratch space for its input.
pub(crate) fn calculate(
    program: &Program,
    cells: &mut Cells,
    input: &mut Vec<u8>,
    id: CalculationId,
    frame: &Frame,
) -> u64 {
    let calculation = &program.calculations.calculations[id.index()];
    if let Some(checksum) = super::pack::checksum_of(calculation, frame) {
        return checksum;
    }
    input.clear();
    super::pack::pack(&program.headers, calculation, frame, input);
    cells.calculators[id.index()].compute(input)
}

/// A key of up to this many words uses a short buffer, which is cheap to zero.
const KEY_INLINE: usize = 8;

/// Words of an action's data that are copied without allocating.
const DATA_INLINE: usize = 32;

/// Packs the key of a table.
#[inline]
pub(crate) fn build_key(parts: &[KeyPart], words: &[u64], key: &mut [u64]) {
    for part in parts {
        if let Some(valid) = part.valid_word
            && words[valid as usize] == 0
        {
            continue;
        }
        if part.width_bits <= 64 {
            let mut value = words[part.from_word as usize];
            if let Some(mask) = &part.mask {
                value &= mask[0];
            }
            key[part.word as usize] |= value << part.shift;
            continue;
        }
        let count = part.words() as usize;
        let from = &words[part.from_word as usize..part.from_word as usize + count];
        let into = &mut key[part.word as usize..part.word as usize + count];
        into.copy_from_slice(from);
        if let Some(mask) = &part.mask {
            for (word, mask) in into.iter_mut().zip(mask) {
                *word &= mask;
            }
        }
    }
}
