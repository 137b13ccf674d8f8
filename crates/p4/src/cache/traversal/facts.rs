//! Finds the words of the frame that every primitive of a program may read and write.
//!
//! It is computed once per program, conservatively: a primitive on a stack element that the
//! packet selects may read and write that field of every element.
//!
//! 1. A primitive's effect on the words of a frame depends only on `reads` and on its action's
//!    data, unless it `is_impure`.
//! 2. It changes no word outside `writes`; if it `writes_all`, it always writes every one of
//!    them.
//! 3. Without `has_effect`, it changes nothing else: no counter, no wish, no count of faults.

use crate::program::Program;
use crate::program::action::{AnyStack, Step, Target};
use crate::program::calculation::{Algorithm, Input};
use crate::program::control::{GraphNode, NodeKind};
use crate::program::cost::has_payload;
use crate::program::exact;
use crate::program::expression::{Expr, HeaderExpr, UnionExpr};
use crate::program::headers::Headers;
use crate::program::ids::{ActionId, CalculationId, FieldId, HeaderId, UnionId};

/// The facts of one primitive.
#[derive(Clone, Debug, Default)]
pub(crate) struct StepFacts {
    pub(crate) reads: Box<[u32]>,
    pub(crate) writes: Box<[u32]>,
    /// Whether each of `writes` is written for every packet.
    pub(crate) writes_all: bool,
    /// Whether the written values depend on more than the frame: state, chance, the payload.
    pub(crate) is_impure: bool,
    /// Whether it does more than write words.
    pub(crate) has_effect: bool,
    /// Whether it may end the packet.
    pub(crate) may_end: bool,
}

/// The facts of one action.
#[derive(Clone, Debug, Default)]
pub(crate) struct ActionFacts {
    pub(crate) steps: Vec<StepFacts>,
    /// The union of all steps' reads; the next field has their writes.
    pub(crate) reads: Box<[u32]>,
    pub(crate) writes: Box<[u32]>,
    /// Whether it can be remembered as one operation, jumps included.
    ///
    /// Then the rest of the walk does not depend on which of its steps ran.
    pub(crate) is_whole: bool,
}

/// The facts of all actions of a program.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) actions: Vec<ActionFacts>,
}

impl Facts {
    pub(crate) fn new(program: &Program) -> Facts {
        let actions = program.actions.iter().map(|action| {
            let steps: Vec<StepFacts> = action
                .steps
                .iter()
                .map(|step| step_facts(program, step))
                .collect();
            let jumps_back = action.steps.iter().enumerate().any(|(at, step)| {
                matches!(step, Step::Jump(to) | Step::JumpIfZero(_, to) if *to as usize <= at)
            });
            let ends = action.steps.iter().any(|step| matches!(step, Step::Exit));
            let hashes_payload = action.steps.iter().any(|step| match step {
                Step::Hash(_, _, id, _) => {
                    has_payload(&program.calculations.calculations[id.index()])
                }
                _ => false,
            });
            ActionFacts {
                reads: sorted(steps.iter().flat_map(|step| step.reads.iter().copied())),
                writes: sorted(steps.iter().flat_map(|step| step.writes.iter().copied())),
                // A loop may be too long and end the packet. The packet decides how much work a
                // loop or a hash of the payload is.
                is_whole: !jumps_back
                    && !ends
                    && !hashes_payload
                    && steps.iter().all(|step| !step.may_end),
                steps,
            }
        });
        Facts {
            actions: actions.collect(),
        }
    }

    pub(crate) fn action(&self, id: ActionId) -> &ActionFacts {
        &self.actions[id.index()]
    }

    /// The words that a primitive outside of actions may write.
    pub(crate) fn writes_of(program: &Program, step: &Step) -> Box<[u32]> {
        step_facts(program, step).writes
    }

    /// The words that a primitive outside of actions may read.
    pub(crate) fn reads_of(program: &Program, step: &Step) -> Box<[u32]> {
        step_facts(program, step).reads
    }
}

fn sorted(words: impl Iterator<Item = u32>) -> Box<[u32]> {
    let mut words: Vec<u32> = words.collect();
    words.sort_unstable();
    words.dedup();
    words.into()
}

/// Collects words.
pub(crate) struct Reads<'a> {
    headers: &'a Headers,
    pub(crate) words: Vec<u32>,
}

impl<'a> Reads<'a> {
    pub(crate) fn new(headers: &'a Headers) -> Reads<'a> {
        Reads {
            headers,
            words: Vec::new(),
        }
    }

    fn field(&mut self, field: FieldId) {
        let range = exact::range(self.headers.field(field));
        self.words.extend(range.map(|word| word as u32));
    }

    fn block(&mut self, header: HeaderId) {
        let header = self.headers.header(header);
        self.words.extend(header.base..header.base + header.words);
    }

    fn base(&mut self, header: HeaderId) {
        self.words.push(self.headers.header(header).base);
    }

    /// Adds all words that an expression may read.
    pub(crate) fn expr(&mut self, expr: &Expr) {
        expr.visit(&mut |part| match part {
            Expr::Field(field) => self.field(*field),
            Expr::FieldOf(header, index) => {
                self.chooser(header);
                for candidate in headers_of(self.headers, header) {
                    if let Some(field) = self.headers.field_at(candidate, *index) {
                        self.field(field);
                    }
                }
            }
            Expr::Size(stack) | Expr::LastIndex(stack) => {
                self.words.push(self.headers.stack(*stack).next_word);
            }
            Expr::IsValid(header) => {
                self.chooser(header);
                for candidate in headers_of(self.headers, header) {
                    self.base(candidate);
                }
            }
            Expr::IsUnionValid(union) => self.union(union, false),
            Expr::SameHeader(one, other) => {
                for header in [one, other] {
                    self.chooser(header);
                    for candidate in headers_of(self.headers, header) {
                        self.block(candidate);
                    }
                }
            }
            Expr::SameUnion(one, other) => {
                self.union(one, true);
                self.union(other, true);
            }
            Expr::Constant(_)
            | Expr::Argument(_)
            | Expr::Unary(..)
            | Expr::Binary(..)
            | Expr::Select(..) => {}
        });
    }

    /// Adds the words that decide which header is selected; nested indices are visited
    /// separately.
    fn chooser(&mut self, header: &HeaderExpr) {
        match header {
            HeaderExpr::Last(stack) => self.words.push(self.headers.stack(*stack).next_word),
            HeaderExpr::Member(UnionExpr::Last(stack), _) => {
                self.words.push(self.headers.union_stack(*stack).next_word);
            }
            HeaderExpr::Header(_) | HeaderExpr::Element(..) | HeaderExpr::Member(..) => {}
        }
    }

    /// Adds the possible members of a union: all their words, or their validity.
    fn union(&mut self, union: &UnionExpr, is_whole: bool) {
        if let UnionExpr::Last(stack) = union {
            self.words.push(self.headers.union_stack(*stack).next_word);
        }
        for candidate in unions_of(self.headers, union) {
            for &member in &self.headers.union(candidate).headers {
                match is_whole {
                    true => self.block(member),
                    false => self.base(member),
                }
            }
        }
    }

    /// Adds the words that decide which header an expression gives, and its validity.
    fn header(&mut self, header: &HeaderExpr) {
        self.expr(&Expr::IsValid(Box::new(header.clone())));
    }

    /// Adds a calculation's input. Returns whether the result depends on the frame only.
    pub(crate) fn calculation(&mut self, program: &Program, id: CalculationId) -> bool {
        let calculation = &program.calculations.calculations[id.index()];
        let mut is_pure = !matches!(
            calculation.algorithm,
            Algorithm::RoundRobin | Algorithm::RoundRobinConsistent
        );
        for input in &calculation.input {
            match input {
                Input::Field(field) => {
                    self.field(*field);
                    let shape = self.headers.field(*field);
                    let header = self.headers.header(shape.header);
                    self.words.push(header.base);
                    if shape.is_varbit {
                        self.words.push(header.varbit_length_word());
                    }
                }
                Input::Header(header) => self.block(*header),
                Input::Constant(..) => {}
                Input::Payload => is_pure = false,
            }
        }
        is_pure
    }
}

/// The headers that an expression may give.
fn headers_of(headers: &Headers, header: &HeaderExpr) -> Vec<HeaderId> {
    match header {
        HeaderExpr::Header(header) => vec![*header],
        HeaderExpr::Element(stack, _) | HeaderExpr::Last(stack) => {
            headers.stack(*stack).headers.clone()
        }
        HeaderExpr::Member(union, index) => {
            let unions = unions_of(headers, union).into_iter();
            unions
                .map(|union| headers.union(union).headers[*index as usize])
                .collect()
        }
    }
}

fn unions_of(headers: &Headers, union: &UnionExpr) -> Vec<UnionId> {
    match union {
        UnionExpr::Union(union) => vec![*union],
        UnionExpr::Element(stack, _) | UnionExpr::Last(stack) => {
            headers.union_stack(*stack).unions.clone()
        }
    }
}

/// Collects the facts of a primitive.
struct Gatherer<'a> {
    program: &'a Program,
    reads: Reads<'a>,
    writes: Reads<'a>,
    facts: StepFacts,
}

impl Gatherer<'_> {
    fn target(&mut self, target: &Target) {
        match target {
            Target::Field(field) => {
                self.writes.field(*field);
                self.facts.writes_all = true;
            }
            Target::FieldOf(header, index) => {
                self.reads.header(header);
                for candidate in headers_of(&self.program.headers, header) {
                    if let Some(field) = self.program.headers.field_at(candidate, *index) {
                        self.writes.field(field);
                    }
                }
                // Past the end of a stack nothing is written, and a fault is counted.
                self.facts.has_effect = true;
            }
        }
    }

    /// A header may become valid or invalid: adds all its words, or its validity.
    fn validity(&mut self, header: &HeaderExpr, is_whole: bool) {
        self.reads.header(header);
        for candidate in headers_of(&self.program.headers, header) {
            self.writes_header(candidate, is_whole);
        }
        self.facts.has_effect |= !matches!(header, HeaderExpr::Header(_));
    }

    fn writes_header(&mut self, header: HeaderId, is_whole: bool) {
        match is_whole {
            true => self.writes.block(header),
            false => self.writes.base(header),
        }
        // When a member of a union becomes valid, the others become invalid.
        if let Some(union) = self.program.headers.header(header).union {
            for &member in &self.program.headers.union(union).headers {
                self.writes.base(member);
            }
        }
    }

    fn stack(&mut self, stack: AnyStack) {
        let headers = &self.program.headers;
        let (next, elements) = match stack {
            AnyStack::Headers(stack) => {
                let stack = headers.stack(stack);
                (stack.next_word, stack.headers.clone())
            }
            AnyStack::Unions(stack) => {
                let stack = headers.union_stack(stack);
                let unions = stack.unions.iter();
                let members = unions.flat_map(|&union| headers.union(union).headers.clone());
                (stack.next_word, members.collect())
            }
        };
        self.reads.words.push(next);
        self.writes.words.push(next);
        for header in elements {
            self.reads.block(header);
            self.writes_header(header, true);
        }
    }

    // One match, with an arm for each primitive.
    fn gather(&mut self, step: &Step) {
        match step {
            Step::Nothing | Step::Jump(_) => {}
            Step::SetWord(to, _) => {
                self.writes.words.push(*to);
                self.facts.writes_all = true;
            }
            Step::CopyWord(from, to, _) => self.copy(*from..from + 1, *to..to + 1),
            Step::CopyWords(from, to, words) => self.copy(*from..from + words, *to..to + words),
            Step::Assign(target, code) => {
                self.reads.expr(code.expr());
                self.target(target);
            }
            Step::AssignVarbit(from, to) => {
                let headers = &self.program.headers;
                let (from, to) = (headers.field(*from), headers.field(*to));
                let length = |header| headers.header(header).varbit_length_word();
                let (from_length, to_length) = (length(from.header), length(to.header));
                self.copy(from_length..from_length + 1, to_length..to_length + 1);
                self.copy(
                    from.word..from.word + from.words(),
                    to.word..to.word + from.words(),
                );
            }
            Step::AssignHeader(from, to) => {
                self.reads.header(from);
                for candidate in headers_of(&self.program.headers, from) {
                    self.reads.block(candidate);
                }
                self.validity(to, true);
                self.facts.has_effect |= !matches!(from, HeaderExpr::Header(_));
            }
            Step::AssignUnion(from, to) => {
                self.reads.union(from, true);
                self.reads.union(to, false);
                for union in [from, to] {
                    if let UnionExpr::Element(_, index) = union {
                        self.reads.expr(index);
                    }
                }
                for candidate in unions_of(&self.program.headers, to) {
                    for &member in &self.program.headers.union(candidate).headers {
                        self.writes_header(member, true);
                    }
                }
                self.facts.has_effect = true;
            }
            Step::AssignStack(from, to) => {
                self.stack(*from);
                self.writes.words.clear();
                self.stack(*to);
            }
            Step::AddHeader(header) => {
                self.validity(header, true);
                self.facts.has_effect = true;
            }
            Step::ValidateHeader(header) => self.validity(header, false),
            Step::RemoveHeader(header) => {
                self.validity(header, false);
                self.facts.has_effect = true;
                // The packet gets shorter by the varbit field's current length.
                for candidate in headers_of(&self.program.headers, header) {
                    let header = self.program.headers.header(candidate);
                    let length = header.varbit.map(|_| header.varbit_length_word());
                    self.reads.words.extend(length);
                }
            }
            Step::Push(stack, count) | Step::Pop(stack, count) => {
                self.reads.expr(count.expr());
                self.stack(*stack);
            }
            Step::JumpIfZero(code, _) => self.reads.expr(code.expr()),
            Step::Drop => {
                let standard = &self.program.standard;
                self.writes.words.push(standard.egress_spec.word);
                let group = standard.mcast_grp.iter();
                self.writes.words.extend(group.map(|spot| spot.word));
                self.facts.writes_all = true;
            }
            other => self.gather_effect(other),
        }
    }

    fn copy(&mut self, from: std::ops::Range<u32>, to: std::ops::Range<u32>) {
        self.reads.words.extend(from);
        self.writes.words.extend(to);
        self.facts.writes_all = true;
    }

    /// Collects the facts of primitives that touch more than the frame.
    fn gather_effect(&mut self, step: &Step) {
        self.facts.has_effect = true;
        match step {
            Step::Assert(code) => {
                self.reads.expr(code.expr());
                self.facts.may_end = true;
            }
            Step::Random(target, least, most) => {
                self.reads.expr(least.expr());
                self.reads.expr(most.expr());
                self.target(target);
                // An empty range writes nothing.
                self.facts.writes_all = false;
                self.facts.is_impure = true;
            }
            Step::Hash(target, base, calculation, count) => {
                self.reads.expr(base.expr());
                self.reads.expr(count.expr());
                let is_pure = self.reads.calculation(self.program, *calculation);
                self.facts.has_effect = !is_pure;
                self.facts.is_impure = !is_pure;
                self.target(target);
            }
            Step::Clone(session, _) => self.reads.expr(session.expr()),
            Step::Truncate(length) => self.reads.expr(length.expr()),
            Step::Count(_, index) => self.reads.expr(index.expr()),
            Step::Meter(_, index, target) | Step::ReadRegister(target, _, index) => {
                self.reads.expr(index.expr());
                self.target(target);
                // Nothing is written past the end of the array.
                self.facts.writes_all = false;
                self.facts.is_impure = true;
            }
            Step::WriteRegister(_, index, value) => {
                self.reads.expr(index.expr());
                self.reads.expr(value.expr());
            }
            // These wishes read no words; `exit` ends the walk.
            _ => {}
        }
    }
}

fn step_facts(program: &Program, step: &Step) -> StepFacts {
    let mut gatherer = Gatherer {
        program,
        reads: Reads::new(&program.headers),
        writes: Reads::new(&program.headers),
        facts: StepFacts::default(),
    };
    gatherer.gather(step);
    StepFacts {
        reads: sorted(gatherer.reads.words.into_iter()),
        writes: sorted(gatherer.writes.words.into_iter()),
        ..gatherer.facts
    }
}

/// The words that decide which entry or edge a node takes, except jumps within its actions.
/// Also returns whether nothing else decides.
pub(crate) fn deciding(program: &Program, node: &GraphNode) -> (Vec<u32>, bool) {
    let mut reads = Reads::new(&program.headers);
    let mut is_pure = true;
    match &node.kind {
        NodeKind::If(condition, ..) => reads.expr(condition.expr()),
        NodeKind::Do(..) => {}
        NodeKind::Table(table) => {
            let table = program.table(*table);
            for part in &table.key {
                reads.words.extend(part.valid_word);
                let words = part.from_word..part.from_word + part.words();
                reads.words.extend(words);
            }
            let profile = table.profile.map(|id| &program.profiles[id.index()]);
            if let Some(selector) = profile.and_then(|profile| profile.selector) {
                is_pure = reads.calculation(program, selector);
            }
        }
    }
    (reads.words, is_pure)
}

/// The words that may decide a node's successor: its keys, its conditions, and the jumps of its
/// actions. Appends its actions to `actions`.
pub(crate) fn steering(
    program: &Program,
    node: &GraphNode,
    actions: &mut Vec<ActionId>,
) -> Vec<u32> {
    let first = actions.len();
    match &node.kind {
        NodeKind::If(..) => {}
        NodeKind::Do(action, _) => actions.push(*action),
        NodeKind::Table(table) => {
            let table = program.table(*table);
            actions.extend(&table.actions);
            // A member may have an action of another table of its profile.
            let profile = table.profile.map(|id| &program.profiles[id.index()]);
            actions.extend(profile.into_iter().flat_map(|profile| &profile.actions));
        }
    }
    let mut reads = Reads::new(&program.headers);
    reads.words = deciding(program, node).0;
    for action in &actions[first..] {
        for step in &program.action(*action).steps {
            match step {
                Step::JumpIfZero(code, _) => reads.expr(code.expr()),
                Step::AddHeader(header)
                | Step::ValidateHeader(header)
                | Step::RemoveHeader(header)
                | Step::AssignHeader(header, _) => reads.header(header),
                _ => {}
            }
        }
    }
    reads.words
}
