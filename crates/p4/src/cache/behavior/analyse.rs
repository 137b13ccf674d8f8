//! Finds the words a pipeline's behaviour depends on, and where it cannot be remembered.
//!
//! ```text
//!   walk the graph from its start, each node after all that lead to it
//!     sure   words written on every way here          may   words written on some way
//!     a node reads a word that is not in sure         -> the word is an input
//!     a register is read at an index that the inputs give, by copies, casts, slices, hashes,
//!       other registers (`known`)                     -> its value at the beginning is an input
//!   inputs that are 0 for every packet when the pipeline begins are none
//! ```
//!
//! Two packets that agree in all inputs take the same path, write the same words with the same
//! values, and count in the same cells. The proof is by induction along the path: each step
//! reads only inputs and what earlier steps wrote. A step that breaks this makes its path unfit
//! to remember ([`Unfit`]). Unfitness is found per path, so the program's other paths are still
//! remembered.
//!
//! Which registers a path writes, and with what values, is also a function of the inputs. So a
//! register that is read after it was written gives what the inputs decide.
//!
//! 1. A word that a remembered path reads before it is surely written is in the key.
//! 2. Time is in no key: a path that reads it is unfit.
//! 3. A register that a remembered path reads is in the key, with its value at the beginning.
//!
//! This is B-Cache's sound vector (section III.A, made sound) for one pipeline, over words
//! instead of the objects that [`crate::behavior::Analysis`] reports. The registers are the
//! paper's finite-state machines (section II.B): the state is part of the key, and a hit writes
//! the next state.

use std::collections::{BTreeMap, BTreeSet};

use crate::program::Program;
use crate::program::action::{Action, Step};
use crate::program::calculation::{Algorithm, Input};
use crate::program::control::{NodeKind, Pipeline, in_order};
use crate::program::expression::Expr;
use crate::program::ids::{ActionId, CalculationId, FieldId, NodeId, RegisterId};
use crate::program::parser::ParserStep;
use crate::program::table::Table;

use super::flow::{Flow, Role, Unfit};
use super::key::{KEY_WORDS_MAX, KeyShape};
use super::known::{Derived, Deriver, Known, Place};
use super::words::{StepWords, Uses, WordSet, block};

/// The writes on the paths to a place.
#[derive(Clone, Default)]
struct Before {
    sure: WordSet,
    may: WordSet,
    registers: BTreeSet<RegisterId>,
    known: Known,
}

struct Walker<'p> {
    uses: Uses<'p>,
    program: &'p Program,
    times: Vec<u32>,
    flow: Flow,
    deriver: Deriver<'p>,
    read: WordSet,
    /// The node that the walk is at.
    node: NodeId,
}

/// Analyses a pipeline: ingress or egress.
pub(crate) fn analyse(program: &Program, is_ingress: bool) -> Flow {
    let uses = Uses { program };
    let pipeline = match is_ingress {
        true => &program.control.ingress,
        false => &program.control.egress,
    };
    let mut walker = Walker::new(program);
    walker.walk(pipeline);
    let mut at_start = WordSet::default();
    at_start.extend(start_words(program, is_ingress));
    let mut inputs = std::mem::take(&mut walker.read);
    inputs.intersect(&at_start);
    let times = std::mem::take(&mut walker.times);
    let mut flow = std::mem::take(&mut walker.flow);
    for word in inputs.iter().filter(|word| !times.contains(word)) {
        flow.inputs.insert(word);
    }
    flow.live = live_words(program, uses, is_ingress);
    flow.derived = walker.deriver.derived;
    flow.roles = roles(program, &flow);
    let is_key = |number: usize| flow.roles[number] == Role::Key;
    let unkeyed = flow.reads.iter().filter(|(_, number)| !is_key(*number));
    flow.unkeyed.extend(unkeyed.map(|(place, _)| *place));
    flow
}

/// Puts registers into the key while it has room, with the values that locate them.
fn roles(program: &Program, flow: &Flow) -> Vec<Role> {
    let mut roles = vec![Role::Unused; flow.derived.len()];
    let mut words = KeyShape::packed_words(program, flow);
    for (number, derived) in flow.derived.iter().enumerate() {
        let is_read = flow.reads.iter().any(|(_, read)| *read == number);
        let more = derived.words(program) as usize;
        if is_read && words + more <= KEY_WORDS_MAX {
            words += more;
            roles[number] = Role::Key;
        }
    }
    note_operands(&flow.derived, &mut roles);
    roles
}

/// Marks the operands of used values as used.
pub(crate) fn note_operands(derived: &[Derived], roles: &mut [Role]) {
    for number in (0..roles.len()).rev() {
        if roles[number] == Role::Unused {
            continue;
        }
        for operand in derived[number].operands() {
            operand.visit(&mut |part| {
                if let Expr::Argument(made_of) = part
                    && roles[*made_of as usize] == Role::Unused
                {
                    roles[*made_of as usize] = Role::Operand;
                }
            });
        }
    }
}

impl<'p> Walker<'p> {
    fn new(program: &'p Program) -> Walker<'p> {
        let uses = Uses { program };
        let standard = &program.standard;
        let times = [
            standard.ingress_global_timestamp,
            standard.egress_global_timestamp,
            standard.enq_timestamp,
        ];
        Walker {
            uses,
            program,
            times: times.iter().flatten().map(|spot| spot.word).collect(),
            flow: Flow {
                steps: program
                    .actions
                    .iter()
                    .map(|action| vec![None; action.steps.len()])
                    .collect(),
                writes: program
                    .actions
                    .iter()
                    .map(|action| {
                        let steps = action.steps.iter();
                        steps.map(|step| uses.always_written(step)).collect()
                    })
                    .collect(),
                nodes: vec![None; program.control.nodes.len()],
                changed: vec![None; program.control.nodes.len()],
                ..Flow::default()
            },
            deriver: Deriver {
                uses,
                derived: Vec::new(),
            },
            read: WordSet::default(),
            node: NodeId(0),
        }
    }

    fn walk(&mut self, pipeline: &Pipeline) {
        let order = in_order(self.program, pipeline);
        let mut before: Vec<Option<Before>> = vec![None; self.program.control.nodes.len()];
        if let Some(start) = pipeline.start {
            before[start.index()] = Some(Before::default());
        }
        for id in order {
            // The order has only reachable nodes.
            let Some(here) = before[id.index()].take() else {
                continue;
            };
            self.flow.changed[id.index()] = Some(here.may.clone());
            for (next, after) in self.node(id, here) {
                let Some(next) = next else { continue };
                match &mut before[next.index()] {
                    Some(known) => known.join(&after),
                    empty => *empty = Some(after),
                }
            }
        }
    }

    /// Returns each successor of a node, with the writes before it.
    fn node(&mut self, id: NodeId, before: Before) -> Vec<(Option<NodeId>, Before)> {
        self.node = id;
        match &self.program.control.nodes[id.index()].kind {
            NodeKind::If(condition, yes, no) => {
                let mut reads = Vec::new();
                self.uses.expr(condition.expr(), &mut reads);
                self.note_node(id, &reads, &before);
                vec![(*yes, before.clone()), (*no, before)]
            }
            NodeKind::Do(action, next) => vec![(*next, self.action(*action, before))],
            NodeKind::Table(table) => {
                let table = self.program.table(*table);
                self.table(id, table, before)
            }
        }
    }

    fn table(
        &mut self,
        id: NodeId,
        table: &Table,
        mut before: Before,
    ) -> Vec<(Option<NodeId>, Before)> {
        let mut reads = Vec::new();
        for part in &table.key {
            reads.extend(self.uses.field(part.field));
            reads.extend(part.valid_word);
        }
        let profile = table.profile.map(|id| &self.program.profiles[id.index()]);
        if let Some(selector) = profile.and_then(|profile| profile.selector) {
            self.uses.calculation(selector, &mut reads);
            self.flow.nodes[id.index()] = unfit_hash(self.program, selector);
        }
        self.note_node(id, &reads, &before);
        if let Some(meter) = table.meter {
            // Only a hit executes the meter; a path with a hit here is unfit.
            let result = self.program.arrays.meters[meter.index()].result;
            if let Some(field) = result {
                before.may.extend(self.uses.field(field));
                before.known.remove(&field);
            }
        }
        let mut ways = Vec::new();
        for (index, &action) in table.actions.iter().enumerate() {
            let after = self.action(action, before.clone());
            for is_hit in [true, false] {
                ways.push((table.next(is_hit, Some(index)), after.clone()));
            }
        }
        for is_hit in [true, false] {
            ways.push((table.next(is_hit, None), before.clone()));
        }
        ways
    }

    /// Applies invariants 1 and 2 to a condition or a key.
    fn note_node(&mut self, id: NodeId, reads: &[u32], before: &Before) {
        if reads.iter().any(|word| self.times.contains(word)) {
            self.flow.nodes[id.index()] = Some(Unfit::Time);
        }
        self.note(reads, &before.sure);
    }

    fn note(&mut self, reads: &[u32], written: &WordSet) {
        let early = reads.iter().filter(|word| !written.contains(**word));
        self.read.extend(early.copied());
    }

    /// Returns the writes when an action ends.
    fn action(&mut self, id: ActionId, before: Before) -> Before {
        let action = self.program.action(id);
        match jumps_back(action) {
            true => self.looping_action(id, action, before),
            false => self.forward_action(id, action, before),
        }
    }

    /// Goes through the steps in order; at a jump's target, joins all paths that reach it.
    fn forward_action(&mut self, id: ActionId, action: &Action, before: Before) -> Before {
        let mut waiting = Waiting::default();
        let mut here = Some(before);
        for (index, step) in action.steps.iter().enumerate() {
            here = waiting.join(index, here);
            // A step that only a jump skips over is unreachable.
            let Some(mut before) = here else { continue };
            self.note_step((id, index), step, &before);
            here = match step {
                Step::Jump(to) => {
                    waiting.add(*to as usize, before);
                    None
                }
                Step::JumpIfZero(_, to) => {
                    waiting.add(*to as usize, before.clone());
                    Some(before)
                }
                _ => {
                    let words = self.uses.step(step);
                    let seen = Seen {
                        before: &before,
                        times: &self.times,
                    };
                    let defined = self.deriver.define(step, &seen);
                    before.note(step, &words, self.uses);
                    before.sure.extend(words.sure.iter().copied());
                    before.known.extend(defined);
                    Some(before)
                }
            };
        }
        let end = waiting.join(action.steps.len(), here);
        end.expect("jumps lead forward, so something leads to the end")
    }

    /// An earlier round may have written what a later one reads.
    fn looping_action(&mut self, id: ActionId, action: &Action, mut before: Before) -> Before {
        for step in &action.steps {
            before.note(step, &self.uses.step(step), self.uses);
        }
        let mut is_straight = true;
        for (index, step) in action.steps.iter().enumerate() {
            self.note_step((id, index), step, &before);
            is_straight &= !matches!(step, Step::Jump(_) | Step::JumpIfZero(..));
            if is_straight {
                before.sure.extend(self.uses.step(step).sure);
            }
        }
        before
    }

    /// Notes what a step reads, and why it may be unfit.
    fn note_step(&mut self, (id, index): (ActionId, usize), step: &Step, before: &Before) {
        let words = self.uses.step(step);
        self.note(&words.reads, &before.sure);
        if let Some(unfit) = self.unfit(step, &words) {
            self.flow.steps[id.index()][index] = Some(unfit);
        }
        // Invariant 3.
        if let Step::ReadRegister(_, array, cell) = step {
            let place = (self.node, id, index);
            let seen = Seen {
                before,
                times: &self.times,
            };
            match self.deriver.register(*array, cell, &seen) {
                Some(number) => self.flow.reads.push((place, number)),
                None => {
                    self.flow.unkeyed.insert(place);
                }
            }
        }
    }

    fn unfit(&self, step: &Step, words: &StepWords) -> Option<Unfit> {
        if words.reads.iter().any(|word| self.times.contains(word)) {
            return Some(Unfit::Time);
        }
        match step {
            Step::Random(..) => Some(Unfit::Chance),
            Step::Meter(..) => Some(Unfit::Meter),
            Step::Hash(_, _, calculation, _) => unfit_hash(self.program, *calculation),
            Step::Resubmit(None) | Step::Recirculate(None) => Some(Unfit::Wish),
            _ => None,
        }
    }
}

impl Before {
    fn join(&mut self, other: &Before) {
        self.sure.intersect(&other.sure);
        self.may.unite(&other.may);
        self.registers.extend(&other.registers);
        self.known
            .retain(|field, value| other.known.get(field) == Some(value));
    }

    /// Notes that a step may have run.
    fn note(&mut self, step: &Step, words: &StepWords, uses: Uses<'_>) {
        self.may.extend(words.may.iter().copied());
        let written = |field: &FieldId| {
            let mut may = words.may.iter();
            may.any(|word| uses.field(*field).contains(word))
        };
        self.known.retain(|field, _| !written(field));
        if let Step::WriteRegister(array, ..) = step {
            self.registers.insert(*array);
        }
    }
}

/// A place, as the search for known values sees it.
struct Seen<'a> {
    before: &'a Before,
    times: &'a [u32],
}

impl Place for Seen<'_> {
    fn may_differ(&self, word: u32) -> bool {
        self.before.may.contains(word) || self.times.contains(&word)
    }

    fn is_written(&self, array: RegisterId) -> bool {
        self.before.registers.contains(&array)
    }

    fn known(&self) -> &Known {
        &self.before.known
    }
}

/// The writes before the targets of an action's jumps.
#[derive(Default)]
struct Waiting(BTreeMap<usize, Before>);

impl Waiting {
    fn add(&mut self, step: usize, before: Before) {
        let before = self.join(step, Some(before));
        self.0.extend(before.map(|before| (step, before)));
    }

    /// Joins what holds after the previous step with what holds at jumps to `step`.
    fn join(&mut self, step: usize, here: Option<Before>) -> Option<Before> {
        match (self.0.remove(&step), here) {
            (Some(mut other), Some(here)) => {
                other.join(&here);
                Some(other)
            }
            (other, here) => other.or(here),
        }
    }
}

fn jumps_back(action: &Action) -> bool {
    let mut steps = action.steps.iter().enumerate();
    steps.any(|(index, step)| match step {
        Step::Jump(to) | Step::JumpIfZero(_, to) => *to as usize <= index,
        _ => false,
    })
}

fn unfit_hash(program: &Program, id: CalculationId) -> Option<Unfit> {
    let calculation = &program.calculations.calculations[id.index()];
    let counts = matches!(
        calculation.algorithm,
        Algorithm::RoundRobin | Algorithm::RoundRobinConsistent
    );
    let has_payload = calculation
        .input
        .iter()
        .any(|input| matches!(input, Input::Payload));
    match (counts, has_payload) {
        (true, _) => Some(Unfit::Chance),
        (false, true) => Some(Unfit::Payload),
        (false, false) => None,
    }
}

/// Words that may be nonzero when a pipeline begins.
fn start_words(program: &Program, is_ingress: bool) -> BTreeSet<u32> {
    let uses = Uses { program };
    let mut words = packet_words(program);
    for state in &program.parser.states {
        for step in &state.steps {
            match step {
                ParserStep::Do(step) => words.extend(uses.step(step).may),
                ParserStep::Lookahead(field, ..) => words.extend(uses.field(*field)),
                ParserStep::Extract(..) | ParserStep::Verify(..) | ParserStep::Advance(_) => {}
            }
        }
    }
    if !is_ingress {
        for action in &program.actions {
            for step in &action.steps {
                words.extend(uses.step(step).may);
            }
        }
        let results = program
            .arrays
            .meters
            .iter()
            .filter_map(|meter| meter.result);
        words.extend(results.flat_map(|field| uses.field(field)));
    }
    words
}

/// Words of headers and stacks, words the target sets, and words that copies keep.
fn packet_words(program: &Program) -> BTreeSet<u32> {
    let uses = Uses { program };
    let headers = &program.headers;
    let mut words = BTreeSet::new();
    for header in headers.headers.iter().filter(|header| !header.is_metadata) {
        words.extend(block(header));
    }
    words.extend(headers.stacks.iter().map(|stack| stack.next_word));
    words.extend(headers.union_stacks.iter().map(|stack| stack.next_word));
    words.extend(program.standard.all().map(|spot| spot.word));
    for list in &program.arrays.field_lists {
        words.extend(list.fields.iter().flat_map(|&field| uses.field(field)));
    }
    words
}

/// Words that are read after a pipeline has ended.
fn live_words(program: &Program, uses: Uses<'_>, is_ingress: bool) -> WordSet {
    let mut words = WordSet::default();
    words.extend(packet_words(program));
    let mut reads = Vec::new();
    for checksum in &program.checksums {
        uses.calculation(checksum.calculation, &mut reads);
        if let Some(condition) = &checksum.condition {
            uses.expr(condition.expr(), &mut reads);
        }
    }
    for step in &program.deparser_steps {
        reads.extend(uses.step(step).reads);
    }
    words.extend(reads);
    if is_ingress {
        for list in &program.arrays.learn_lists {
            words.extend(list.fields.iter().flat_map(|&field| uses.field(field)));
        }
        // Words that egress reads before it surely writes them.
        let mut egress = Walker::new(program);
        egress.walk(&program.control.egress);
        words.unite(&egress.read);
    }
    words
}
