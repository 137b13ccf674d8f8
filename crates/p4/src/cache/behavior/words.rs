//! Which words of a frame a primitive reads and writes.
//!
//! A header that depends on the packet (an element of a stack, the valid member of a union)
//! counts as every header it may be. The words a primitive *reads* may be overestimated, never
//! underestimated. The words it *surely* writes may be underestimated, never overestimated. The
//! words it *may* write may be overestimated, never underestimated. [`Uses::written`] gives
//! exactly what it writes for one packet.

use crate::cache::traversal::words::ones;
use crate::program::Program;
use crate::program::action::{AnyStack, Step, Target};
use crate::program::calculation::Input;
use crate::program::exact::Scope;
use crate::program::expression::{Expr, HeaderExpr, UnionExpr};
use crate::program::headers::{Header, Headers};
use crate::program::ids::{CalculationId, FieldId, HeaderId, UnionId};

/// A set of words of a frame.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct WordSet(Vec<u64>);

impl WordSet {
    pub(crate) fn insert(&mut self, word: u32) {
        let place = word as usize / 64;
        if place >= self.0.len() {
            self.0.resize(place + 1, 0);
        }
        self.0[place] |= 1 << (word % 64);
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn contains(&self, word: u32) -> bool {
        let bits = self.0.get(word as usize / 64);
        bits.is_some_and(|bits| bits >> (word % 64) & 1 == 1)
    }

    pub(crate) fn extend(&mut self, words: impl IntoIterator<Item = u32>) {
        for word in words {
            self.insert(word);
        }
    }

    /// Adds the words of `other`.
    pub(crate) fn unite(&mut self, other: &WordSet) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (bits, more) in self.0.iter_mut().zip(&other.0) {
            *bits |= more;
        }
    }

    /// Keeps only the words that are also in `other`.
    pub(crate) fn intersect(&mut self, other: &WordSet) {
        self.0.truncate(other.0.len());
        for (bits, others) in self.0.iter_mut().zip(&other.0) {
            *bits &= others;
        }
    }

    /// The words in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let places = self.0.iter().enumerate();
        places.flat_map(|(place, &bits)| ones(bits).map(move |bit| place as u32 * 64 + bit))
    }
}

/// What a primitive does to words.
#[derive(Clone, Debug, Default)]
pub(crate) struct StepWords {
    pub(crate) reads: Vec<u32>,
    /// Words written for every packet.
    pub(crate) sure: Vec<u32>,
    /// Words written for some packet, including the sure ones.
    pub(crate) may: Vec<u32>,
}

/// Looks up a program's words.
#[derive(Clone, Copy)]
pub(crate) struct Uses<'p> {
    pub(crate) program: &'p Program,
}

/// The words of a header's block.
pub(crate) fn block(header: &Header) -> std::ops::Range<u32> {
    header.base..header.base + header.words
}

impl<'p> Uses<'p> {
    fn headers(self) -> &'p Headers {
        &self.program.headers
    }

    pub(crate) fn field(self, field: FieldId) -> std::ops::Range<u32> {
        let field = self.headers().field(field);
        field.word..field.word + field.words()
    }

    /// The field that starts at a word, if any.
    pub(crate) fn field_at(self, word: u32) -> Option<FieldId> {
        let field = self.field_of(word)?;
        (self.headers().field(field).word == word).then_some(field)
    }

    /// The field that a word belongs to; `None` for counts and fields of varying width.
    pub(crate) fn field_of(self, word: u32) -> Option<FieldId> {
        let headers = &self.headers().headers;
        let after = headers.partition_point(|header| header.base <= word);
        let header = headers.get(after.checked_sub(1)?)?;
        let mut fields = header.fields().chain([header.valid_field()]);
        let field = fields.find(|&field| self.field(field).contains(&word))?;
        (!self.headers().field(field).is_varbit).then_some(field)
    }

    fn base(self, header: HeaderId) -> u32 {
        self.headers().header(header).base
    }

    fn block(self, header: HeaderId) -> std::ops::Range<u32> {
        block(self.headers().header(header))
    }

    /// The validity words of the other members of a header's union.
    fn siblings(self, header: HeaderId) -> impl Iterator<Item = u32> + use<'p> {
        let union = self.headers().header(header).union;
        let members = union.map_or(&[][..], |union| &self.headers().union(union).headers[..]);
        members.iter().map(move |&member| self.base(member))
    }

    /// Adds the words that an expression reads.
    pub(crate) fn expr(self, expr: &Expr, reads: &mut Vec<u32>) {
        expr.visit(&mut |part| match part {
            Expr::Field(field) => reads.extend(self.field(*field)),
            Expr::FieldOf(header, index) => {
                for header in self.candidates(header, reads) {
                    if let Some(field) = self.headers().field_at(header, *index) {
                        reads.extend(self.field(field));
                    }
                }
            }
            Expr::Size(stack) | Expr::LastIndex(stack) => {
                reads.push(self.headers().stack(*stack).next_word);
            }
            Expr::IsValid(header) => {
                let candidates = self.candidates(header, reads);
                reads.extend(candidates.into_iter().map(|header| self.base(header)));
            }
            Expr::IsUnionValid(union) => {
                for union in self.unions(union, reads) {
                    let members = &self.headers().union(union).headers;
                    reads.extend(members.iter().map(|&header| self.base(header)));
                }
            }
            Expr::SameHeader(one, other) => {
                for header in [one, other] {
                    for header in self.candidates(header, reads) {
                        reads.extend(self.block(header));
                    }
                }
            }
            Expr::SameUnion(one, other) => {
                for union in [one, other] {
                    for union in self.unions(union, reads) {
                        reads.extend(self.union_blocks(union));
                    }
                }
            }
            Expr::Constant(_)
            | Expr::Argument(_)
            | Expr::Unary(..)
            | Expr::Binary(..)
            | Expr::Select(..) => {}
        });
    }

    /// The headers that an expression may select; adds the words that decide it.
    fn candidates(self, header: &HeaderExpr, reads: &mut Vec<u32>) -> Vec<HeaderId> {
        match header {
            HeaderExpr::Header(header) => vec![*header],
            HeaderExpr::Element(stack, index) => {
                self.expr(index, reads);
                self.headers().stack(*stack).headers.clone()
            }
            HeaderExpr::Last(stack) => {
                let stack = self.headers().stack(*stack);
                reads.push(stack.next_word);
                stack.headers.clone()
            }
            HeaderExpr::Member(union, index) => {
                let unions = self.unions(union, reads).into_iter();
                let member = |union| {
                    let members = &self.headers().union(union).headers;
                    members.get(*index as usize).copied()
                };
                unions.filter_map(member).collect()
            }
        }
    }

    fn unions(self, union: &UnionExpr, reads: &mut Vec<u32>) -> Vec<UnionId> {
        match union {
            UnionExpr::Union(union) => vec![*union],
            UnionExpr::Element(stack, index) => {
                self.expr(index, reads);
                self.headers().union_stack(*stack).unions.clone()
            }
            UnionExpr::Last(stack) => {
                let stack = self.headers().union_stack(*stack);
                reads.push(stack.next_word);
                stack.unions.clone()
            }
        }
    }

    fn union_blocks(self, union: UnionId) -> impl Iterator<Item = u32> + use<'p> {
        let members = &self.headers().union(union).headers;
        members.iter().flat_map(move |&header| self.block(header))
    }

    /// All words of a stack, including its count.
    fn stack(self, stack: AnyStack) -> Vec<u32> {
        let headers = self.headers();
        let mut words = Vec::new();
        match stack {
            AnyStack::Headers(stack) => {
                let stack = headers.stack(stack);
                words.push(stack.next_word);
                words.extend(stack.headers.iter().flat_map(|&header| self.block(header)));
            }
            AnyStack::Unions(stack) => {
                let stack = headers.union_stack(stack);
                words.push(stack.next_word);
                let unions = stack.unions.iter();
                words.extend(unions.flat_map(|&union| self.union_blocks(union)));
            }
        }
        words
    }

    /// Adds the words that a calculation reads; its payload is no word.
    pub(crate) fn calculation(self, id: CalculationId, reads: &mut Vec<u32>) {
        let calculation = &self.program.calculations.calculations[id.index()];
        for input in &calculation.input {
            match input {
                Input::Field(field) => {
                    let header = self.headers().field(*field).header;
                    self.length_of(header, reads);
                    reads.push(self.base(header));
                    reads.extend(self.field(*field));
                }
                Input::Header(header) => reads.extend(self.block(*header)),
                Input::Constant(..) | Input::Payload => {}
            }
        }
    }

    /// Adds the word that holds a header's length, if the length may vary.
    fn length_of(self, header: HeaderId, reads: &mut Vec<u32>) {
        let header = self.headers().header(header);
        reads.extend(header.varbit.map(|_| header.varbit_length_word()));
    }

    /// The words that a primitive reads and writes, for all packets.
    // One match, with an arm for each primitive.
    pub(crate) fn step(self, step: &Step) -> StepWords {
        let mut words = StepWords::default();
        let StepWords { reads, sure, may } = &mut words;
        match step {
            Step::SetWord(to, _) => sure.push(*to),
            Step::CopyWord(from, to, _) => {
                reads.push(*from);
                sure.push(*to);
            }
            Step::CopyWords(from, to, count) => {
                reads.extend(*from..from + count);
                sure.extend(*to..to + count);
            }
            Step::Assign(target, code) => {
                self.expr(code.expr(), reads);
                self.target(target, true, &mut words);
            }
            Step::Random(target, least, most) => {
                self.expr(least.expr(), reads);
                self.expr(most.expr(), reads);
                self.target(target, false, &mut words);
            }
            Step::Hash(target, base, calculation, count) => {
                self.expr(base.expr(), reads);
                self.expr(count.expr(), reads);
                self.calculation(*calculation, reads);
                self.target(target, true, &mut words);
            }
            Step::Meter(_, index, target) | Step::ReadRegister(target, _, index) => {
                self.expr(index.expr(), reads);
                self.target(target, false, &mut words);
            }
            Step::WriteRegister(_, index, value) => {
                self.expr(index.expr(), reads);
                self.expr(value.expr(), reads);
            }
            Step::AssignVarbit(from, to) => {
                reads.extend(self.field(*from));
                self.length_of(self.headers().field(*from).header, reads);
                sure.extend(self.field(*to));
                self.length_of(self.headers().field(*to).header, sure);
            }
            Step::JumpIfZero(code, _)
            | Step::Assert(code)
            | Step::Truncate(code)
            | Step::Clone(code, _)
            | Step::Count(_, code) => self.expr(code.expr(), reads),
            Step::Drop => {
                sure.push(self.program.standard.egress_spec.word);
                sure.extend(self.program.standard.mcast_grp.map(|spot| spot.word));
            }
            Step::Push(stack, code) | Step::Pop(stack, code) => {
                self.expr(code.expr(), reads);
                reads.extend(self.stack(*stack));
                may.extend(self.stack(*stack));
            }
            Step::AssignStack(from, to) => {
                reads.extend(self.stack(*from));
                may.extend(self.stack(*to));
            }
            Step::AssignUnion(from, to) => {
                for union in self.unions(from, reads) {
                    reads.extend(self.union_blocks(union));
                }
                for union in self.unions(to, reads) {
                    may.extend(self.union_blocks(union));
                }
            }
            Step::AssignHeader(from, to) => {
                for header in self.candidates(from, reads) {
                    reads.extend(self.block(header));
                }
                self.validated(to, &mut words);
            }
            Step::AddHeader(header) | Step::ValidateHeader(header) | Step::RemoveHeader(header) => {
                self.validated(header, &mut words);
            }
            Step::Nothing
            | Step::Jump(_)
            | Step::Exit
            | Step::Digest(_)
            | Step::Resubmit(_)
            | Step::Recirculate(_) => {}
        }
        words.may.extend_from_slice(&words.sure);
        words
    }

    fn target(self, target: &Target, is_sure: bool, words: &mut StepWords) {
        match target {
            Target::Field(field) if is_sure => words.sure.extend(self.field(*field)),
            Target::Field(field) => words.may.extend(self.field(*field)),
            Target::FieldOf(header, index) => {
                for header in self.candidates(header, &mut words.reads) {
                    if let Some(field) = self.headers().field_at(header, *index) {
                        words.may.extend(self.field(field));
                    }
                }
            }
        }
    }

    /// Notes that a header becomes valid or invalid; its length counts too.
    fn validated(self, header: &HeaderExpr, words: &mut StepWords) {
        for header in self.candidates(header, &mut words.reads) {
            words.reads.push(self.base(header));
            self.length_of(header, &mut words.reads);
            words.may.extend(self.block(header));
            words.may.extend(self.siblings(header));
        }
    }

    /// The words that a primitive writes, if they are the same for every packet.
    pub(crate) fn always_written(self, step: &Step) -> Option<Box<[u32]>> {
        let depends = matches!(
            step,
            Step::AssignHeader(..)
                | Step::AssignUnion(..)
                | Step::AssignStack(..)
                | Step::AddHeader(_)
                | Step::ValidateHeader(_)
                | Step::RemoveHeader(_)
                | Step::Assign(Target::FieldOf(..), _)
                | Step::Hash(Target::FieldOf(..), ..)
                | Step::ReadRegister(..)
                // They write no words, and are noted as effects.
                | Step::Count(..)
                | Step::WriteRegister(..)
        );
        (!depends).then(|| self.step(step).may.into())
    }

    /// Adds exactly the words that a primitive is about to write for this packet.
    pub(crate) fn written(self, step: &Step, scope: &Scope<'_>, into: &mut Vec<u32>) {
        let is_valid = |header: HeaderId| scope.words[self.base(header) as usize] != 0;
        match step {
            Step::AssignHeader(from, to) => {
                if let Some((from, to)) = scope.header(from).zip(scope.header(to)) {
                    self.header_written(is_valid(from), to, into);
                }
            }
            Step::AssignUnion(from, to) => {
                if let Some((from, to)) = scope.union(from).zip(scope.union(to)) {
                    self.union_written(from, to, &is_valid, into);
                }
            }
            Step::AssignStack(AnyStack::Headers(from), AnyStack::Headers(to)) => {
                let (from, to) = (self.headers().stack(*from), self.headers().stack(*to));
                into.push(to.next_word);
                for (&from, &to) in from.headers.iter().zip(&to.headers) {
                    self.header_written(is_valid(from), to, into);
                }
            }
            Step::AssignStack(AnyStack::Unions(from), AnyStack::Unions(to)) => {
                let headers = self.headers();
                let (from, to) = (headers.union_stack(*from), headers.union_stack(*to));
                into.push(to.next_word);
                for (&from, &to) in from.unions.iter().zip(&to.unions) {
                    self.union_written(from, to, &is_valid, into);
                }
            }
            Step::AddHeader(header) => match scope.header(header) {
                Some(header) if !is_valid(header) => self.header_written(true, header, into),
                _ => {}
            },
            Step::ValidateHeader(header) => {
                if let Some(header) = scope.header(header) {
                    into.push(self.base(header));
                    into.extend(self.siblings(header));
                }
            }
            Step::RemoveHeader(header) => {
                into.extend(scope.header(header).map(|header| self.base(header)));
            }
            Step::Assign(Target::FieldOf(header, index), _)
            | Step::Hash(Target::FieldOf(header, index), ..)
            | Step::ReadRegister(Target::FieldOf(header, index), ..) => {
                let header = scope.header(header);
                let field = header.and_then(|header| self.headers().field_at(header, *index));
                into.extend(field.into_iter().flat_map(|field| self.field(field)));
            }
            Step::ReadRegister(Target::Field(field), ..) => into.extend(self.field(*field)),
            // The remaining primitives write the same words for every packet.
            other => into.extend(self.step(other).may),
        }
    }

    fn header_written(self, becomes_valid: bool, to: HeaderId, into: &mut Vec<u32>) {
        match becomes_valid {
            true => {
                into.extend(self.block(to));
                into.extend(self.siblings(to));
            }
            false => into.push(self.base(to)),
        }
    }

    fn union_written(
        self,
        from: UnionId,
        to: UnionId,
        is_valid: &impl Fn(HeaderId) -> bool,
        into: &mut Vec<u32>,
    ) {
        let (from, to) = (self.headers().union(from), self.headers().union(to));
        for (&from, &to) in from.headers.iter().zip(&to.headers) {
            self.header_written(is_valid(from), to, into);
        }
    }
}
