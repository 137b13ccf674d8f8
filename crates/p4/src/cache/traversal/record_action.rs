//! Records actions, primitive by primitive.

use crate::program::action::{Action, Step};
use crate::program::cost::has_payload;
use crate::program::expression::HeaderExpr;
use crate::program::headers::Headers;
use crate::program::ids::{ActionId, CalculationId, HeaderId};
use crate::run::engine::{Stop, Walk};
use crate::run::frame::Frame;

use super::facts::StepFacts;
use super::origin::Origin;
use super::record::{Mark, Recorder, Surroundings};
use super::segment::{Credit, Operation};

/// A primitive being recorded: its place and its action's data.
struct Primitive<'a> {
    action: &'a Action,
    step: &'a Step,
    facts: &'a StepFacts,
    data: &'a [u64],
    operation: Operation,
}

impl Walk<'_> {
    /// Runs an action with its data, and records its primitives.
    pub(super) fn record_action(
        &mut self,
        around: Surroundings<'_>,
        recorder: &mut Recorder,
        id: ActionId,
        data: &[u64],
        frame: &mut Frame,
    ) -> Result<(), Stop> {
        let action = self.program.action(id);
        let facts = around.facts.action(id);
        let mark = recorder.mark();
        recorder.data.extend_from_slice(data);
        let mut is_recorded = true;
        let cost = self.program.costs.action(id);
        self.spend(cost.begin)?;
        let (mut at, mut steps) = (0, 0);
        while let Some(step) = action.steps.get(at) {
            if let Some(&cost) = cost.steps.get(at) {
                self.pace(&mut steps, cost)?;
            }
            let index = at;
            at += 1;
            match step {
                Step::Jump(to) => at = *to as usize,
                Step::JumpIfZero(value, to) => {
                    let holds = if is_recorded {
                        let before = recorder.origins.obstacle.take();
                        let holds =
                            self.steer_by(around, recorder, value, data, &action.places, frame);
                        let obstacle = recorder.origins.obstacle.take();
                        is_recorded = before.is_none() && obstacle.is_none();
                        recorder.origins.obstacle = before.or(obstacle);
                        if before.is_none() && obstacle.is_some() && facts.is_whole {
                            recorder.origins.obstacle = None;
                            self.record_whole(recorder, mark, id, data, frame, &facts.writes);
                        }
                        holds
                    } else {
                        value.is_true(&self.scope(data, &action.places, frame))
                    };
                    if !holds {
                        at = *to as usize;
                    }
                }
                _ if !is_recorded => self.step(step, data, &action.places, frame)?,
                step => {
                    let operation = Operation::Step(id, index as u32, mark.data as u32);
                    let primitive = Primitive {
                        action,
                        step,
                        facts: &facts.steps[index],
                        data,
                        operation,
                    };
                    self.record_step(around, recorder, &primitive, frame)?;
                }
            }
        }
        Ok(())
    }

    /// Records the whole action as one operation, for any path through it.
    fn record_whole(
        &mut self,
        recorder: &mut Recorder,
        mark: Mark,
        id: ActionId,
        data: &[u64],
        frame: &Frame,
        writes: &[u32],
    ) {
        self.roll_back(recorder, mark, frame);
        recorder.data.extend_from_slice(data);
        recorder.push(Operation::Action(id, mark.data as u32));
        let impure = Origin::Impure(recorder.origins.node);
        for &word in writes {
            recorder.origins.put(word, impure);
        }
    }

    // One match, with an arm for each primitive whose facts alone would be too coarse.
    fn record_step(
        &mut self,
        around: Surroundings<'_>,
        recorder: &mut Recorder,
        primitive: &Primitive<'_>,
        frame: &mut Frame,
    ) -> Result<(), Stop> {
        match primitive.step {
            Step::Nothing => Ok(()),
            Step::Hash(_, _, calculation, _) if self.hashes_payload(*calculation) => {
                // Its work differs from packet to packet.
                recorder.origins.obstacle.get_or_insert_default().is_own = true;
                self.record_by_facts(recorder, primitive, frame)
            }
            Step::Exit => self.run(primitive, frame),
            Step::CopyWord(from, to, mask) => {
                self.run(primitive, frame)?;
                recorder.origins.copy(*from, *to, *mask);
                match recorder.origins.of(*to) {
                    Origin::Constant => recorder.set(*to, frame),
                    _ => recorder.push(Operation::Copy(*from, *to, *mask)),
                }
                Ok(())
            }
            Step::CopyWords(from, to, words) => {
                self.run(primitive, frame)?;
                recorder.origins.copy_block(*from, *to, *words);
                recorder.push(primitive.operation);
                Ok(())
            }
            Step::Count(array, index) if !recorder.may_end => {
                let reads = primitive.facts.reads.iter().copied();
                let is_fixed = recorder.origins.computed(reads) == Origin::Constant;
                let scope = self.scope(primitive.data, &primitive.action.places, frame);
                let cell = index.index(&scope);
                let is_there = cell < self.cells.counters[array.index()].len() as u64;
                if is_fixed && is_there {
                    recorder.credits.push(Credit::Cell(*array, cell as u32));
                    return Ok(());
                }
                self.record_by_facts(recorder, primitive, frame)
            }
            Step::AddHeader(HeaderExpr::Header(header))
            | Step::ValidateHeader(HeaderExpr::Header(header))
            | Step::RemoveHeader(HeaderExpr::Header(header))
                if self.steer_by_validity(around, recorder, *header) =>
            {
                self.record_validity(recorder, *header, primitive, frame)
            }
            Step::AssignHeader(HeaderExpr::Header(from), HeaderExpr::Header(to))
                if self.steer_by_validity(around, recorder, *from) =>
            {
                self.record_assignment(recorder, *from, *to, primitive, frame)
            }
            _ => self.record_by_facts(recorder, primitive, frame),
        }
    }

    fn hashes_payload(&self, id: CalculationId) -> bool {
        has_payload(&self.program.calculations.calculations[id.index()])
    }

    fn run(&mut self, primitive: &Primitive<'_>, frame: &mut Frame) -> Result<(), Stop> {
        let places = &primitive.action.places;
        self.step(primitive.step, primitive.data, places, frame)
    }

    /// Records a primitive by its facts alone.
    fn record_by_facts(
        &mut self,
        recorder: &mut Recorder,
        primitive: &Primitive<'_>,
        frame: &mut Frame,
    ) -> Result<(), Stop> {
        let facts = primitive.facts;
        recorder.may_end |= facts.may_end;
        let origins = &mut recorder.origins;
        let reads = || facts.reads.iter().copied();
        let whole = match facts.is_impure {
            true => Origin::Impure(origins.node),
            false => origins.computed(reads()),
        };
        if whole == Origin::Constant && facts.writes_all && !facts.has_effect {
            return self.record_constants(recorder, primitive, frame);
        }
        self.run(primitive, frame)?;
        for &word in &facts.writes {
            let origin = match facts.writes_all || facts.is_impure {
                true => whole,
                // The word may keep its old value.
                false => origins.computed(reads().chain([word])),
            };
            origins.put(word, origin);
        }
        recorder.push(primitive.operation);
        Ok(())
    }

    /// Records a primitive that sets its words to the same values for all packets.
    fn record_constants(
        &mut self,
        recorder: &mut Recorder,
        primitive: &Primitive<'_>,
        frame: &mut Frame,
    ) -> Result<(), Stop> {
        let writes = &primitive.facts.writes;
        recorder.before.clear();
        let before = writes.iter().map(|&word| frame.words[word as usize]);
        recorder.before.extend(before);
        self.run(primitive, frame)?;
        for (index, &word) in writes.iter().enumerate() {
            let value = frame.words[word as usize];
            let was = recorder.origins.of(word);
            if was != Origin::Constant || recorder.before[index] != value {
                recorder.set(word, frame);
            }
        }
        Ok(())
    }

    /// Steers by a header's validity. Returns false, without steering, if that is impure.
    fn steer_by_validity(
        &self,
        around: Surroundings<'_>,
        recorder: &mut Recorder,
        header: HeaderId,
    ) -> bool {
        let base = self.program.headers.header(header).base;
        let is_known = !recorder.origins.is_impure(base);
        if is_known {
            recorder.origins.steer(base, 1, around.layout);
        }
        is_known
    }

    /// Records that a header becomes valid or invalid, when its old validity is known.
    fn record_validity(
        &mut self,
        recorder: &mut Recorder,
        header: HeaderId,
        primitive: &Primitive<'_>,
        frame: &mut Frame,
    ) -> Result<(), Stop> {
        let headers = &self.program.headers;
        let shape = headers.header(header);
        let was_valid = frame.words[shape.base as usize] != 0;
        self.run(primitive, frame)?;
        match primitive.step {
            Step::AddHeader(_) if !was_valid => {
                for word in shape.base..shape.base + shape.words {
                    recorder.origins.put(word, Origin::Constant);
                }
                for word in validity_words(headers, header) {
                    recorder.origins.put(word, Origin::Constant);
                }
                recorder.push(primitive.operation);
            }
            Step::ValidateHeader(_) => {
                for word in validity_words(headers, header) {
                    recorder.set(word, frame);
                }
            }
            Step::RemoveHeader(_) if was_valid => {
                recorder.origins.put(shape.base, Origin::Constant);
                recorder.push(primitive.operation);
            }
            // Its validity does not change.
            _ => {}
        }
        Ok(())
    }

    /// Records the assignment of a header whose validity is known.
    fn record_assignment(
        &mut self,
        recorder: &mut Recorder,
        from: HeaderId,
        to: HeaderId,
        primitive: &Primitive<'_>,
        frame: &mut Frame,
    ) -> Result<(), Stop> {
        let headers = &self.program.headers;
        let (source, target) = (headers.header(from), headers.header(to));
        let is_valid = frame.words[source.base as usize] != 0;
        self.run(primitive, frame)?;
        if !is_valid {
            recorder.set(target.base, frame);
            return Ok(());
        }
        recorder
            .origins
            .copy_block(source.base, target.base, source.words);
        for word in validity_words(headers, to) {
            recorder.origins.put(word, Origin::Constant);
        }
        recorder.push(primitive.operation);
        Ok(())
    }
}

/// The validity words that change when a header becomes valid.
fn validity_words(headers: &Headers, header: HeaderId) -> impl Iterator<Item = u32> {
    let union = headers.header(header).union;
    let members = union.map(|union| headers.union(union).headers.as_slice());
    let members = members.unwrap_or_default().iter().copied();
    members
        .chain([header])
        .map(|header| headers.header(header).base)
}
