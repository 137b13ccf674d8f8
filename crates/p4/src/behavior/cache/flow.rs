//! What a pipeline's behaviour depends on, word by word, and where it cannot be remembered.
//!
//! ```text
//!   walk the graph from its start, each node after all that lead to it
//!     sure   words written on every way here          may   words written on some way
//!     a node reads a word that is not in sure         -> the word is an input
//!     a register is read at an index that nobody has changed, and nobody has written the
//!       register on a way here                        -> its value is an input
//!   inputs that are 0 for every packet when the pipeline begins are none
//! ```
//!
//! Two packets that agree in all inputs go the same way, write the same words with the same values,
//! and count in the same cells: by induction along the way, as each step reads inputs, and what the
//! steps before have written. What is not like that makes a way unfit to be remembered ([`Unfit`]);
//! it is found on the way, so the other ways of the program still are.
//!
//! 1. A word that a remembered way reads before it is surely written is in the key.
//! 2. Time is in no key: a way that reads it is unfit.
//!
//! This is B-Cache's sound vector (section III.A, made sound) for one pipeline, of words in place
//! of the objects that [`crate::behavior::Analysis`] tells people about. The registers are its
//! finite-state machines (section II.B): the state is part of the key, and the next state is what a
//! hit writes.

use std::collections::BTreeSet;

use crate::program::Program;
use crate::program::action::{Action, Step, Target};
use crate::program::calculation::{Algorithm, Input};
use crate::program::code::Code;
use crate::program::control::{NodeKind, Pipeline, in_order};
use crate::program::expression::Expr;
use crate::program::ids::{ActionId, CalculationId, NodeId, RegisterId};
use crate::program::parser::ParserStep;
use crate::program::table::Table;

use super::words::{StepWords, Uses, WordSet, block};

/// Why a way through a pipeline cannot be remembered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Unfit {
    /// It reads the time.
    Time,
    /// It draws a random number, or counts in a hash.
    Chance,
    /// It asks a meter.
    Meter,
    /// It reads a register whose value was not known when it began.
    Register,
    /// It hashes the payload.
    Payload,
    /// It takes a wish back.
    Wish,
    /// Something on it had no effect, which is counted, or the packet ended.
    Fault,
    /// It does more than [`EFFECTS_MAX`] things.
    TooLong,
}

/// Effects, lookups and words that a remembered way has at most, each.
pub const EFFECTS_MAX: usize = 1 << 10;

impl Unfit {
    /// All there are.
    pub const ALL: [Unfit; 8] = [
        Unfit::Time,
        Unfit::Chance,
        Unfit::Meter,
        Unfit::Register,
        Unfit::Payload,
        Unfit::Wish,
        Unfit::Fault,
        Unfit::TooLong,
    ];

    /// The name of its counter.
    pub fn name(self) -> &'static str {
        match self {
            Unfit::Time => "time",
            Unfit::Chance => "chance",
            Unfit::Meter => "meter",
            Unfit::Register => "register",
            Unfit::Payload => "payload",
            Unfit::Wish => "wish",
            Unfit::Fault => "fault",
            Unfit::TooLong => "too_long",
        }
    }
}

/// A register whose value is part of the key.
#[derive(Clone, Debug)]
pub(crate) struct KeyedRegister {
    pub(crate) array: RegisterId,
    /// Read of the frame as it is when the pipeline begins.
    pub(crate) index: Code,
}

/// What is known of a pipeline.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flow {
    /// Words that the key has.
    pub(crate) inputs: WordSet,
    pub(crate) registers: Vec<KeyedRegister>,
    /// Steps, of an action that is run at a node, that read a register whose value is in no key.
    pub(crate) unkeyed: BTreeSet<(NodeId, ActionId, usize)>,
    /// By action and step: why a way ends there.
    pub(crate) steps: Vec<Vec<Option<Unfit>>>,
    /// By node: the same, of conditions and keys.
    pub(crate) nodes: Vec<Option<Unfit>>,
    /// By action and step: the words that the step writes, if these are the same for all packets.
    pub(crate) writes: Vec<Vec<Option<Box<[u32]>>>>,
    /// Words that anything behind the pipeline looks at.
    pub(crate) live: WordSet,
    /// By node: words that may have been written before it; none of a node that nothing leads to.
    pub(crate) changed: Vec<Option<WordSet>>,
}

/// What was written on the ways to a place.
#[derive(Clone, Default)]
struct Before {
    sure: WordSet,
    may: WordSet,
    registers: BTreeSet<RegisterId>,
}

struct Walker<'p> {
    uses: Uses<'p>,
    program: &'p Program,
    times: Vec<u32>,
    flow: Flow,
    read: WordSet,
    /// Of the walk over the graph.
    node: NodeId,
}

/// Looks at a pipeline: ingress, or egress.
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
    let mut flow = walker.flow;
    for word in inputs.iter().filter(|word| !times.contains(word)) {
        flow.inputs.insert(word);
    }
    flow.live = live_words(program, uses, is_ingress);
    flow
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
            // Only nodes that something leads to are in the order.
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

    /// What a node leads to, and what has been written then.
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
            // Only for a hit, so a way through here is unfit when there was one.
            let result = self.program.arrays.meters[meter.index()].result;
            let field = result.into_iter().flat_map(|field| self.uses.field(field));
            before.may.extend(field);
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

    /// Invariants 1 and 2, for a condition or a key.
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

    fn action(&mut self, id: ActionId, mut before: Before) -> Before {
        let action = self.program.action(id);
        if jumps_back(action) {
            // What a later round reads, an earlier one may have written.
            for step in &action.steps {
                before.note(step, &self.uses.step(step));
            }
        }
        let mut is_straight = true;
        for (index, step) in action.steps.iter().enumerate() {
            let words = self.uses.step(step);
            self.note(&words.reads, &before.sure);
            let unfit = self.unfit(step, &words);
            if unfit.is_some() {
                self.flow.steps[id.index()][index] = unfit;
            }
            if let Step::ReadRegister(target, array, cell) = step {
                self.register((id, index), (target, *array, cell), &before);
            }
            is_straight &= !matches!(step, Step::Jump(_) | Step::JumpIfZero(..));
            if is_straight {
                before.sure.extend(words.sure.iter().copied());
            }
            before.note(step, &words);
        }
        before
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

    /// Whether a register can be read before the pipeline begins, as if it were read here.
    fn register(
        &mut self,
        place: (ActionId, usize),
        (target, array, index): (&Target, RegisterId, &Code),
        before: &Before,
    ) {
        let mut reads = Vec::new();
        self.uses.expr(index.expr(), &mut reads);
        let mut has_arguments = false;
        index
            .expr()
            .visit(&mut |part| has_arguments |= matches!(part, Expr::Argument(_)));
        let is_early = reads.iter().all(|&word| !before.may.contains(word))
            && !reads.iter().any(|word| self.times.contains(word))
            && !before.registers.contains(&array)
            && !has_arguments
            && matches!(target, Target::Field(_));
        if !is_early {
            let (action, step) = place;
            self.flow.unkeyed.insert((self.node, action, step));
            return;
        }
        let registers = &mut self.flow.registers;
        let is_known = registers
            .iter()
            .any(|known| known.array == array && known.index.expr() == index.expr());
        if !is_known {
            registers.push(KeyedRegister {
                array,
                index: index.clone(),
            });
        }
    }
}

impl Before {
    fn join(&mut self, other: &Before) {
        self.sure.intersect(&other.sure);
        self.may.unite(&other.may);
        self.registers.extend(&other.registers);
    }

    fn note(&mut self, step: &Step, words: &StepWords) {
        self.may.extend(words.may.iter().copied());
        if let Step::WriteRegister(array, ..) = step {
            self.registers.insert(*array);
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

/// Words that may be other than 0 when a pipeline begins.
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

/// Headers, stacks, what the target sets, and what copies keep.
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

/// Words that something looks at when a pipeline has ended.
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
        // What egress reads before it has surely written it.
        let mut egress = Walker::new(program);
        egress.walk(&program.control.egress);
        words.unite(&egress.read);
    }
    words
}
