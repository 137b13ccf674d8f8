//! Runs actions on a packet.

use rand::Rng;

use crate::program::action::{Step, Target};
use crate::program::expression::{HeaderExpr, UnionExpr};
use crate::program::ids::{ActionId, FieldId, HeaderId, UnionId};

use super::engine::{Stop, Walk};
use super::frame::Frame;
use super::observer::Observer;
use super::outcome::{ACTION_STEPS_MAX, DropReason, Fault};
use crate::program::exact::{self, Scope};

impl<O: Observer> Walk<'_, O> {
    /// Runs an action with its data.
    pub(crate) fn act(
        &mut self,
        action: ActionId,
        data: &[u64],
        frame: &mut Frame,
    ) -> Result<(), Stop> {
        let cost = self.program.costs.action(action);
        self.spend(cost.begin)?;
        self.run_steps(action, data, &cost.steps, frame)
    }

    /// Runs an action whose beginning is already charged; `costs` has the costs of its steps,
    /// if they are charged one by one.
    pub(crate) fn run_steps(
        &mut self,
        action: ActionId,
        data: &[u64],
        costs: &[u64],
        frame: &mut Frame,
    ) -> Result<(), Stop> {
        let id = action;
        let action = self.program.action(id);
        let mut at = 0;
        let mut steps = 0;
        while let Some(step) = action.steps.get(at) {
            if !costs.is_empty() {
                self.pace(&mut steps, costs[at])?;
            }
            if O::OBSERVES {
                let scope = self.scope(data, &action.places, frame);
                self.observer.step(self.program, (id, at), step, &scope);
            }
            at += 1;
            match step {
                Step::SetWord(to, value) => frame.words[*to as usize] = *value,
                Step::CopyWord(from, to, mask) => {
                    frame.words[*to as usize] = frame.words[*from as usize] & mask;
                }
                Step::Jump(to) => at = *to as usize,
                Step::JumpIfZero(value, to) => {
                    if !value.is_true(&self.scope(data, &action.places, frame)) {
                        at = *to as usize;
                    }
                }
                other => self.step(other, data, &action.places, frame)?,
            }
        }
        Ok(())
    }

    /// Counts a step of an action that may loop.
    ///
    /// # Errors
    /// Fails if that is one step too many, or too much work.
    #[inline]
    pub(crate) fn pace(&mut self, steps: &mut u32, cost: u64) -> Result<(), Stop> {
        *steps += 1;
        match *steps > ACTION_STEPS_MAX {
            true => Err(Stop(DropReason::ActionTooLong)),
            false => self.spend(cost),
        }
    }

    pub(crate) fn scope<'s>(
        &self,
        data: &'s [u64],
        places: &'s [(u32, u32)],
        frame: &'s Frame,
    ) -> Scope<'s>
    where
        Self: 's,
    {
        Scope {
            headers: self.headers(),
            words: &frame.words,
            arguments: data,
            parameters: places,
        }
    }

    /// Runs one primitive that is not a jump.
    // One match, with an arm for each primitive.
    pub(crate) fn step(
        &mut self,
        step: &Step,
        data: &[u64],
        places: &[(u32, u32)],
        frame: &mut Frame,
    ) -> Result<(), Stop> {
        let program = self.program;
        let headers = &program.headers;
        match step {
            Step::Nothing => {}
            Step::SetWord(to, value) => frame.words[*to as usize] = *value,
            Step::CopyWord(from, to, mask) => {
                frame.words[*to as usize] = frame.words[*from as usize] & mask;
            }
            Step::CopyWords(from, to, words) => {
                let from = *from as usize;
                frame
                    .words
                    .copy_within(from..from + *words as usize, *to as usize);
            }
            Step::Assign(target, code) => {
                let value = code.value(&self.scope(data, places, frame));
                if let Some(field) = self.target(target, data, places, frame) {
                    let field = headers.field(field);
                    value.put(&mut frame.words[exact::range(field)], field.width_bits);
                }
            }
            Step::AssignVarbit(from, to) => self.assign_varbit(*from, *to, frame),
            Step::AssignHeader(from, to) => {
                let scope = self.scope(data, places, frame);
                if let Some((from, to)) = self.both(scope.header(from), scope.header(to)) {
                    frame.assign_header(headers, from, to);
                }
            }
            Step::AssignUnion(from, to) => {
                let from = self.union(from, data, places, frame);
                let to = self.union(to, data, places, frame);
                if let Some((from, to)) = self.both(from, to) {
                    frame.assign_union(headers, from, to);
                }
            }
            Step::AssignStack(from, to) => frame.assign_stack(headers, *from, *to),
            Step::Jump(_) | Step::JumpIfZero(..) => unreachable!("jumps are the caller's"),
            Step::Exit => frame.wishes.has_exited = true,
            Step::Assert(condition) => {
                if !condition.is_true(&self.scope(data, places, frame)) {
                    return Err(Stop(DropReason::Assert));
                }
            }
            Step::Drop => {
                let standard = &program.standard;
                standard
                    .egress_spec
                    .set(&mut frame.words, self.drop_port.into());
                if let Some(group) = standard.mcast_grp {
                    group.set(&mut frame.words, 0);
                }
            }
            Step::Digest(list) => frame.wishes.digest = Some(*list),
            Step::Clone(session, list) => {
                let session = session.low_bits(&self.scope(data, places, frame));
                frame.wishes.clone = Some((session as u16 & 0x7fff, *list));
            }
            Step::Resubmit(list) => frame.wishes.resubmit = *list,
            Step::Recirculate(list) => {
                frame.wishes.recirculate = *list;
                frame.wishes.withdraws_recirculation = list.is_none();
            }
            Step::Truncate(length) => {
                let length = length.index(&self.scope(data, places, frame));
                frame.wishes.truncate(length);
            }
            other => self.step_on_headers(other, data, places, frame),
        }
        Ok(())
    }

    /// Runs primitives on headers and stacks.
    fn step_on_headers(
        &mut self,
        step: &Step,
        data: &[u64],
        places: &[(u32, u32)],
        frame: &mut Frame,
    ) {
        let headers = self.headers();
        match step {
            Step::AddHeader(header) => {
                if let Some(header) = self.header(header, data, places, frame) {
                    frame.add_header(headers, header);
                }
            }
            Step::ValidateHeader(header) => {
                if let Some(header) = self.header(header, data, places, frame) {
                    frame.validate(headers, header);
                }
            }
            Step::RemoveHeader(header) => {
                if let Some(header) = self.header(header, data, places, frame) {
                    frame.remove_header(headers, header);
                }
            }
            Step::Push(stack, count) => {
                let count = count.index(&self.scope(data, places, frame));
                frame.push(headers, *stack, count);
            }
            Step::Pop(stack, count) => {
                let count = count.index(&self.scope(data, places, frame));
                frame.pop(headers, *stack, count);
            }
            other => self.step_on_cells(other, data, places, frame),
        }
    }

    /// Runs primitives on hashes, chance, counters, meters and registers.
    // One match, with an arm for each primitive.
    fn step_on_cells(
        &mut self,
        step: &Step,
        data: &[u64],
        places: &[(u32, u32)],
        frame: &mut Frame,
    ) {
        let program = self.program;
        let headers = &program.headers;
        match step {
            Step::Random(target, least, most) => {
                let scope = self.scope(data, places, frame);
                let (least, most) = (least.low_bits(&scope) as u64, most.low_bits(&scope) as u64);
                if least > most {
                    self.counts.fault(Fault::EmptyRange);
                    return;
                }
                let number = self.random.random_range(least..=most);
                self.put(target, number.into(), data, places, frame);
            }
            Step::Hash(target, base, calculation, count) => {
                let scope = self.scope(data, places, frame);
                let (base, count) = (base.low_bits(&scope) as u64, count.low_bits(&scope) as u64);
                let hash = self.calculate(*calculation, frame) % count.max(1);
                self.put(target, hash.wrapping_add(base).into(), data, places, frame);
            }
            Step::Count(array, index) => {
                let index = index.index(&self.scope(data, places, frame));
                let cells = &mut self.cells.counters[array.index()];
                match usize::try_from(index)
                    .ok()
                    .and_then(|index| cells.get_mut(index))
                {
                    Some(cell) => cell.count(frame.ingress_length_bytes),
                    None => self.counts.fault(Fault::IndexPastEnd),
                }
            }
            Step::Meter(array, index, target) => {
                let index = index.index(&self.scope(data, places, frame));
                let shape = &program.arrays.meters[array.index()];
                let cost = if shape.counts_bytes {
                    frame.ingress_length_bytes
                } else {
                    1
                };
                let cells = &mut self.cells.meters[array.index()];
                let Some(cell) = usize::try_from(index).ok().and_then(|at| cells.get_mut(at))
                else {
                    self.counts.fault(Fault::IndexPastEnd);
                    return;
                };
                let color = cell.color(cost, shape.rate_count == 2, self.now);
                self.put(target, color.into(), data, places, frame);
            }
            Step::ReadRegister(target, array, index) => {
                let index = index.index(&self.scope(data, places, frame));
                let shape = &program.arrays.registers[array.index()];
                if index >= shape.size.into() {
                    self.counts.fault(Fault::IndexPastEnd);
                    return;
                }
                let words = shape.width_bits.div_ceil(64) as usize;
                let first = index as usize * words;
                let Some(field) = self.target(target, data, places, frame) else {
                    return;
                };
                let field = headers.field(field);
                let cell = &self.cells.registers[array.index()][first..first + words];
                copy_low_bits(
                    cell,
                    field.width_bits,
                    &mut frame.words[exact::range(field)],
                );
            }
            Step::WriteRegister(array, index, value) => {
                let scope = self.scope(data, places, frame);
                let index = index.index(&scope);
                let value = value.value(&scope);
                let shape = &program.arrays.registers[array.index()];
                if index >= shape.size.into() {
                    self.counts.fault(Fault::IndexPastEnd);
                    return;
                }
                let words = shape.width_bits.div_ceil(64) as usize;
                let first = index as usize * words;
                let cell = &mut self.cells.registers[array.index()][first..first + words];
                value.put(cell, shape.width_bits);
            }
            _ => unreachable!("the callers have the others"),
        }
    }

    /// Returns both, or counts a fault.
    fn both<T>(&mut self, one: Option<T>, other: Option<T>) -> Option<(T, T)> {
        let both = one.zip(other);
        if both.is_none() {
            self.counts.fault(Fault::ElementPastEnd);
        }
        both
    }

    fn header(
        &mut self,
        header: &HeaderExpr,
        data: &[u64],
        places: &[(u32, u32)],
        frame: &Frame,
    ) -> Option<HeaderId> {
        if let HeaderExpr::Header(header) = header {
            return Some(*header);
        }
        let found = self.scope(data, places, frame).header(header);
        if found.is_none() {
            self.counts.fault(Fault::ElementPastEnd);
        }
        found
    }

    fn union(
        &self,
        union: &UnionExpr,
        data: &[u64],
        places: &[(u32, u32)],
        frame: &Frame,
    ) -> Option<UnionId> {
        self.scope(data, places, frame).union(union)
    }

    /// The field that a target names for this packet; `None` past the end of a stack.
    fn target(
        &mut self,
        target: &Target,
        data: &[u64],
        places: &[(u32, u32)],
        frame: &Frame,
    ) -> Option<FieldId> {
        match target {
            Target::Field(field) => Some(*field),
            Target::FieldOf(header, index) => {
                let header = self.header(header, data, places, frame)?;
                self.program.headers.field_at(header, *index)
            }
        }
    }

    fn put(
        &mut self,
        target: &Target,
        number: i128,
        data: &[u64],
        places: &[(u32, u32)],
        frame: &mut Frame,
    ) {
        if let Some(field) = self.target(target, data, places, frame) {
            let field = self.program.headers.field(field);
            let words = &mut frame.words[exact::range(field)];
            crate::program::code::put(number, words, field.width_bits);
        }
    }

    fn assign_varbit(&mut self, from: FieldId, to: FieldId, frame: &mut Frame) {
        let headers = &self.program.headers;
        let (source, target) = (headers.field(from), headers.field(to));
        let from = headers.header(source.header);
        let to = headers.header(target.header);
        let length = frame.words[from.varbit_length_word() as usize];
        frame.words[to.varbit_length_word() as usize] = length;
        let range = exact::range(source);
        frame.words.copy_within(range, target.word as usize);
    }
}

/// Copies the lowest bits of a number to another, the most significant word first.
fn copy_low_bits(from: &[u64], width_bits: u32, to: &mut [u64]) {
    to.fill(0);
    for (to, from) in to.iter_mut().rev().zip(from.iter().rev()) {
        *to = *from;
    }
    let unused = to.len() as u32 * 64 - width_bits;
    to[0] &= u64::MAX >> unused;
}
