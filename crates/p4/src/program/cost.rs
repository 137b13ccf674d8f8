//! Computes how much work each part of a program is, before any packet arrives.
//!
//! A program may multiply fields of 65,536 bits in a loop, or hash the payload in each of a
//! thousand actions. It may send a frame of two megabytes to a group of thousands. So work is
//! counted. A packet that would exceed [`WORK_MAX`](crate::run::WORK_MAX) is dropped.
//!
//! ```text
//!   1 unit   a word that is moved, a node of a compiled expression, a product of two limbs,
//!            a byte that is hashed
//!   16       a node of an expression that needs integers that grow, a lookup in a table
//!   4        a word of a copy of a packet, since it takes memory until the copy is gone
//! ```
//!
//! 1. A cost is no less than the work for any packet. Where the packet decides (the element of
//!    a stack, the length of a number), the most expensive case counts. Only a hash's payload
//!    is counted when it is hashed.
//! 2. So a path through a pipeline costs the same for all packets that take it, and a cache can
//!    charge for the path that it saves ([`crate::cache`]).
//! 3. State that a controller makes large (entries, masks, sessions) is not counted here;
//!    copies are.
//!
//! The limit is a fraction of a second of work on current processors. An action that never jumps
//! back is charged as a whole when it begins.

use super::Program;
use super::action::{Action, AnyStack, DATA_WORDS_MAX, Step, Target};
use super::calculation::{Calculation, Input};
use super::code::Code;
use super::control::NodeKind;
use super::expression::{Binary, Expr, HeaderExpr, SHIFT_MAX, UnionExpr};
use super::headers::Headers;
use super::ids::{ActionId, CalculationId, FieldId, HeaderId, NodeId, StateId, UnionId};
use super::narrow::Parameters;
use super::parser::{Case, Extracted, KeyPart, ParserStep, State};

/// The cost of any table lookup; the next constant is that of a node of a big-integer
/// expression.
const LOOKUP: u64 = 16;
const NODE: u64 = 16;

/// Maximum cost of one product, so that sums of costs do not overflow.
const COST_MAX: u64 = 1 << 40;

/// Cost of a word in a copy of a packet.
pub(crate) const COPIED_WORD: u64 = 4;

/// The cost of an action.
#[derive(Clone, Debug, Default)]
pub(crate) struct ActionCost {
    /// The cost when it begins: all of it, if it is charged as a whole.
    pub(crate) begin: u64,
    /// The cost of each step of an action that loops or hashes the payload; else empty.
    pub(crate) steps: Box<[u64]>,
}

/// The costs of a program's parts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Costs {
    actions: Box<[ActionCost]>,
    nodes: Box<[u64]>,
    states: Box<[u64]>,
    digests: Box<[u64]>,
    /// Cost of beginning a pass of ingress and verifying checksums.
    pub(crate) arrival: u64,
    /// Cost of writing checksums and headers, without the payload.
    pub(crate) departure: u64,
}

impl Costs {
    /// Computes the costs of a program that has been read.
    pub(super) fn of(program: &Program) -> Costs {
        let meter = Measure {
            program,
            parameters: &[],
        };
        let words = |fields: &[FieldId]| fields.iter().map(|&one| meter.field(one)).sum::<u64>();
        let checksums = |is_wanted: fn(&super::calculation::Checksum) -> bool| {
            let wanted = program.checksums.iter().filter(|one| is_wanted(one));
            let costs = wanted.map(|one| {
                let condition = one.condition.as_ref().map_or(0, Code::cost);
                1 + condition + meter.calculation(one.calculation)
            });
            costs.sum::<u64>()
        };
        let frame = program.headers.initial.len() as u64;
        let emitted = program.deparser.iter().map(|&one| meter.header(one));
        let steps = program.deparser_steps.iter().map(|step| meter.step(step));
        Costs {
            actions: program
                .actions
                .iter()
                .map(|one| of_action(program, one))
                .collect(),
            nodes: (program.control.nodes.iter())
                .map(|node| meter.node(&node.kind))
                .collect(),
            states: program
                .parser
                .states
                .iter()
                .map(|one| meter.state(one))
                .collect(),
            digests: (program.arrays.learn_lists.iter())
                .map(|list| 1 + words(&list.fields))
                .collect(),
            arrival: frame + checksums(|one| one.is_verified),
            departure: 1 + emitted.chain(steps).sum::<u64>() + checksums(|one| one.is_updated),
        }
    }

    #[inline]
    pub(crate) fn action(&self, id: ActionId) -> &ActionCost {
        &self.actions[id.index()]
    }

    #[inline]
    pub(crate) fn node(&self, id: NodeId) -> u64 {
        self.nodes[id.index()]
    }

    #[inline]
    pub(crate) fn state(&self, id: StateId) -> u64 {
        self.states[id.index()]
    }

    pub(crate) fn digest(&self, list: super::ids::LearnListId) -> u64 {
        self.digests[list.index()]
    }
}

/// Whether a hash's input includes the payload.
pub(crate) fn has_payload(calculation: &Calculation) -> bool {
    let mut input = calculation.input.iter();
    input.any(|part| matches!(part, Input::Payload))
}

/// The cost of evaluating an expression: compiled, or with big integers.
pub(super) fn of_expr(
    expr: &Expr,
    is_narrow: bool,
    headers: &Headers,
    parameters: &Parameters,
) -> u64 {
    let around = Around {
        headers,
        parameters,
    };
    match is_narrow {
        true => {
            let mut cost = 0;
            expr.visit(&mut |part| {
                cost += match part {
                    Expr::SameHeader(one, _) => 1 + block(headers, one.example(headers)),
                    Expr::IsUnionValid(union) => {
                        1 + headers.union(union.example(headers)).headers.len() as u64
                    }
                    _ => 1,
                };
            });
            cost
        }
        false => around.grown(expr).cost,
    }
}

/// The context of an expression.
#[derive(Clone, Copy)]
struct Around<'a> {
    headers: &'a Headers,
    parameters: &'a Parameters,
}

/// A big-integer value: its maximum limbs, and its cost.
#[derive(Clone, Copy)]
struct Grown {
    limbs: u64,
    cost: u64,
}

fn limbs(bits: u64) -> u64 {
    bits / 64 + 1
}

impl Around<'_> {
    // One match, with an arm for each kind of expression.
    fn grown(self, expr: &Expr) -> Grown {
        let headers = self.headers;
        let leaf = |limbs: u64, found: u64| Grown {
            limbs,
            cost: NODE + limbs + found,
        };
        match expr {
            Expr::Constant(number) => leaf(limbs(number.bits()), 0),
            Expr::Field(field) => leaf(u64::from(headers.field(*field).words()) + 1, 0),
            Expr::Argument(index) => {
                let place = self.parameters.get(*index as usize);
                leaf(
                    u64::from(place.map_or(DATA_WORDS_MAX, |place| place.1)) + 1,
                    0,
                )
            }
            Expr::FieldOf(header, index) => {
                let field = headers.field_at(header.example(headers), *index);
                let words = field.map_or(0, |field| headers.field(field).words());
                leaf(u64::from(words) + 1, self.header(header))
            }
            Expr::Size(_) | Expr::LastIndex(_) => leaf(1, 0),
            Expr::IsValid(header) => leaf(1, self.header(header)),
            Expr::SameHeader(one, other) => {
                let words = 2 * block(headers, one.example(headers));
                leaf(1, words + self.header(one) + self.header(other))
            }
            Expr::IsUnionValid(union) => {
                let words = union_words(headers, union.example(headers));
                leaf(1, words + self.union(union))
            }
            Expr::SameUnion(one, other) => {
                let words = 2 * union_words(headers, one.example(headers));
                leaf(1, words + self.union(one) + self.union(other))
            }
            Expr::Unary(_, one) => {
                let one = self.grown(one);
                leaf(one.limbs + 1, one.cost)
            }
            Expr::Binary(operator, left, right) => {
                grown_binary(*operator, right, self.grown(left), self.grown(right))
            }
            Expr::Select(condition, yes, no) => {
                let [condition, yes, no] = [condition, yes, no].map(|one| self.grown(one));
                Grown {
                    limbs: yes.limbs.max(no.limbs),
                    cost: condition.cost + yes.cost.max(no.cost) + NODE,
                }
            }
        }
    }

    /// The cost of finding the header that an expression gives.
    fn header(self, header: &HeaderExpr) -> u64 {
        match header {
            HeaderExpr::Header(_) | HeaderExpr::Last(_) => 1,
            HeaderExpr::Element(_, index) => 1 + self.grown(index).cost,
            HeaderExpr::Member(union, _) => 1 + self.union(union),
        }
    }

    fn union(self, union: &UnionExpr) -> u64 {
        match union {
            UnionExpr::Union(_) | UnionExpr::Last(_) => 1,
            UnionExpr::Element(_, index) => 1 + self.grown(index).cost,
        }
    }
}

/// The result of an operator from those of its operands; `width` is the second operand.
fn grown_binary(operator: Binary, width: &Expr, left: Grown, right: Grown) -> Grown {
    let most = left.limbs.max(right.limbs);
    // Bits by which a number is shifted, or to which it is truncated.
    let bits = width
        .as_constant()
        .and_then(|bits| u64::try_from(bits).ok());
    let bits = limbs(bits.unwrap_or(SHIFT_MAX.into()).min(SHIFT_MAX.into()));
    let product = left.limbs.saturating_mul(right.limbs).min(COST_MAX);
    let (limbs, cost) = match operator {
        Binary::Add | Binary::Subtract | Binary::And | Binary::Or | Binary::Xor => (most + 1, most),
        Binary::Multiply => (left.limbs + right.limbs, product),
        Binary::Divide | Binary::Remainder => (most, product),
        Binary::ShiftLeft => (left.limbs + bits, left.limbs + bits),
        Binary::ShiftRight => (left.limbs, left.limbs),
        Binary::TwosComplement | Binary::Saturate | Binary::SaturateSigned => {
            (bits + 1, 4 * bits + left.limbs)
        }
        Binary::Equal
        | Binary::NotEqual
        | Binary::Less
        | Binary::LessOrEqual
        | Binary::Greater
        | Binary::GreaterOrEqual
        | Binary::BothTrue
        | Binary::EitherTrue => (1, most),
    };
    Grown {
        limbs,
        cost: NODE + cost + left.cost + right.cost,
    }
}

fn block(headers: &Headers, header: HeaderId) -> u64 {
    headers.header(header).words.into()
}

fn union_words(headers: &Headers, union: UnionId) -> u64 {
    let members = headers.union(union).headers.iter();
    members.map(|&member| block(headers, member)).sum()
}

fn of_action(program: &Program, action: &Action) -> ActionCost {
    let meter = Measure {
        program,
        parameters: &action.places,
    };
    let mut steps = action.steps.iter().enumerate();
    let is_stepped = steps.any(|(at, step)| match step {
        Step::Jump(to) | Step::JumpIfZero(_, to) => *to as usize <= at,
        Step::Hash(_, _, calculation, _) => {
            has_payload(&program.calculations.calculations[calculation.index()])
        }
        _ => false,
    });
    let steps = action.steps.iter().map(|step| meter.step(step));
    let begin = 1 + u64::from(action.data_words);
    match is_stepped {
        true => ActionCost {
            begin,
            steps: steps.collect(),
        },
        false => ActionCost {
            begin: begin + steps.sum::<u64>(),
            steps: Box::default(),
        },
    }
}

/// Measures everything but expressions.
struct Measure<'p> {
    program: &'p Program,
    /// The parameters of the action being measured.
    parameters: &'p Parameters,
}

impl<'p> Measure<'p> {
    fn headers(&self) -> &'p Headers {
        &self.program.headers
    }

    fn around(&self) -> Around<'p> {
        Around {
            headers: self.headers(),
            parameters: self.parameters,
        }
    }

    fn field(&self, field: FieldId) -> u64 {
        self.headers().field(field).words().into()
    }

    fn header(&self, header: HeaderId) -> u64 {
        block(self.headers(), header)
    }

    fn node(&self, kind: &NodeKind) -> u64 {
        match kind {
            NodeKind::If(condition, ..) => 1 + condition.cost(),
            NodeKind::Do(..) => 1,
            NodeKind::Table(table) => {
                let table = self.program.table(*table);
                let profile = table.profile.map(|id| &self.program.profiles[id.index()]);
                let selector = profile.and_then(|profile| profile.selector);
                let hash = selector.map_or(0, |selector| self.calculation(selector));
                LOOKUP + u64::from(table.key_words) + hash
            }
        }
    }

    fn state(&self, state: &State) -> u64 {
        let steps = state.steps.iter().map(|step| match step {
            ParserStep::Extract(extracted, length) => {
                let example = match extracted {
                    Extracted::Header(header) => Some(*header),
                    Extracted::Next(stack) => self.headers().stack(*stack).headers.first().copied(),
                    Extracted::NextUnion(stack, member) => {
                        let union = self.headers().union_stack(*stack).unions.first();
                        let members = union.map(|&union| &self.headers().union(union).headers);
                        members.and_then(|members| members.get(*member as usize).copied())
                    }
                };
                let words = example.map_or(0, |header| self.header(header));
                2 * words + length.as_ref().map_or(0, Code::cost)
            }
            ParserStep::Do(step) => self.step(step),
            ParserStep::Lookahead(field, _, bits) => self.field(*field) + limbs((*bits).into()),
            ParserStep::Verify(condition, error) => condition.cost() + error.cost(),
            ParserStep::Advance(bits) => bits.cost(),
        });
        let key = state.key.iter().map(|part| match part {
            KeyPart::Value(code, _) => code.cost() + part.words() as u64,
            KeyPart::Word(_) | KeyPart::Lookahead(..) => part.words() as u64,
        });
        let cases = state.cases.iter().map(|(case, _)| match case {
            Case::Bits(value, _) => 1 + value.len() as u64,
            Case::InSet(..) => LOOKUP + state.key_words as u64,
        });
        1 + steps.chain(key).chain(cases).sum::<u64>()
    }

    /// The words of a calculation's input in bytes; the payload is counted at run time.
    fn calculation(&self, id: CalculationId) -> u64 {
        let calculation = &self.program.calculations.calculations[id.index()];
        let input = calculation.input.iter().map(|part| match part {
            Input::Field(field) => 8 * self.field(*field),
            Input::Header(header) => 8 * self.header(*header),
            Input::Constant(bytes, _) => bytes.len() as u64,
            Input::Payload => 0,
        });
        LOOKUP + input.sum::<u64>()
    }

    fn target(&self, target: &Target) -> u64 {
        match target {
            Target::Field(field) => self.field(*field),
            Target::FieldOf(header, index) => {
                let field = header.example(self.headers());
                let field = self.headers().field_at(field, *index);
                field.map_or(0, |field| self.field(field)) + self.around().header(header)
            }
        }
    }

    /// The cost of writing a whole header and the validity of its union.
    fn whole(&self, header: &HeaderExpr) -> u64 {
        let example = header.example(self.headers());
        let union = self.headers().header(example).union;
        let others = union.map_or(0, |union| self.headers().union(union).headers.len() as u64);
        self.header(example) + others + self.around().header(header)
    }

    fn stack(&self, stack: AnyStack) -> u64 {
        match stack {
            AnyStack::Headers(stack) => {
                let elements = self.headers().stack(stack).headers.iter();
                elements.map(|&one| self.header(one) + 1).sum()
            }
            AnyStack::Unions(stack) => {
                let elements = self.headers().union_stack(stack).unions.iter();
                elements
                    .map(|&one| union_words(self.headers(), one) + 1)
                    .sum()
            }
        }
    }

    // One match, with an arm for each primitive.
    fn step(&self, step: &Step) -> u64 {
        let cost = match step {
            Step::Nothing
            | Step::SetWord(..)
            | Step::CopyWord(..)
            | Step::Jump(_)
            | Step::Exit
            | Step::Drop
            | Step::Digest(_)
            | Step::Resubmit(_)
            | Step::Recirculate(_) => 0,
            Step::CopyWords(_, _, words) => (*words).into(),
            Step::Assign(target, code) => self.target(target) + code.cost(),
            Step::AssignVarbit(from, _) => self.field(*from),
            Step::AssignHeader(from, to) => self.whole(from) + self.whole(to),
            Step::AssignUnion(from, to) => {
                let unions = [from, to].into_iter();
                let words = unions.map(|union| {
                    let example = union.example(self.headers());
                    let members = self.headers().union(example).headers.len() as u64;
                    union_words(self.headers(), example)
                        + members * members
                        + self.around().union(union)
                });
                words.sum()
            }
            Step::AssignStack(from, to) => self.stack(*from) + self.stack(*to),
            Step::AddHeader(header) | Step::ValidateHeader(header) | Step::RemoveHeader(header) => {
                self.whole(header)
            }
            Step::Push(stack, count) | Step::Pop(stack, count) => {
                2 * self.stack(*stack) + count.cost()
            }
            Step::JumpIfZero(code, _)
            | Step::Assert(code)
            | Step::Clone(code, _)
            | Step::Truncate(code)
            | Step::Count(_, code) => code.cost(),
            Step::Random(target, least, most) => {
                least.cost() + most.cost() + NODE + self.target(target)
            }
            Step::Hash(target, base, calculation, count) => {
                let codes = base.cost() + count.cost();
                codes + self.calculation(*calculation) + self.target(target)
            }
            Step::Meter(_, index, target) => index.cost() + NODE + self.target(target),
            Step::ReadRegister(target, array, index) => {
                let array = &self.program.arrays.registers[array.index()];
                let words = u64::from(array.width_bits.div_ceil(64));
                index.cost() + words + self.target(target)
            }
            Step::WriteRegister(array, index, value) => {
                let array = &self.program.arrays.registers[array.index()];
                index.cost() + value.cost() + u64::from(array.width_bits.div_ceil(64))
            }
        };
        1 + cost
    }
}
