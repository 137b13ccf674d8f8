//! Actions: small control-flow graphs of primitives.
//!
//! The primitives of an action keep their indices, since `_jump` and `_jump_if_zero` name them.
//! p4c compiles `if` to forward jumps and `for` to backward jumps. Everything that a primitive
//! needs is looked up here, once: places in the frame, cells of arrays, compiled expressions.

use crate::error::{LoadError, SourceLocation};
use crate::json::Node;

use super::arrays::Arrays;
use super::calculation::Calculations;
use super::code::Code;
use super::expression::{Binary, Expr, HeaderExpr, Reader, UnionExpr};
use super::headers::Headers;
use super::ids::{
    CalculationId, CounterId, FieldId, FieldListId, LearnListId, MeterId, RegisterId, StackId,
    UnionStackId,
};

/// Maximum words of an action's data.
pub(super) const DATA_WORDS_MAX: u32 = 1 << 12;

/// An action: parameters from a table's entry, and steps.
#[derive(Clone, Debug)]
pub struct Action {
    /// Its name; several actions may share it.
    pub name: String,
    /// Its id in the JSON.
    pub id: u32,
    /// Its parameters, as entries give them.
    pub parameters: Vec<Parameter>,
    /// Where each parameter is in an entry's data: first word and number of words.
    pub places: Vec<(u32, u32)>,
    /// Words of the data.
    pub data_words: u32,
    /// The steps, one for each primitive.
    pub steps: Vec<Step>,
    /// Its place in the P4 program.
    pub source: Option<SourceLocation>,
}

/// A parameter of an action.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Its width.
    pub width_bits: u32,
}

/// Where a value goes.
#[derive(Clone, Debug)]
pub enum Target {
    /// This field.
    Field(FieldId),
    /// A field of a header that depends on the packet.
    FieldOf(HeaderExpr, u32),
}

/// A stack of headers or of unions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AnyStack {
    /// A stack of headers.
    Headers(StackId),
    /// A stack of unions.
    Unions(UnionStackId),
}

/// One primitive.
#[derive(Clone, Debug)]
pub enum Step {
    /// Does nothing; for example, a log message.
    Nothing,
    /// Sets a field of up to 64 bits to a constant: the word, the number.
    SetWord(u32, u64),
    /// Copies a field to another: from, to, and the bits that fit.
    CopyWord(u32, u32, u64),
    /// Copies a field to another of the same width: from, to, words.
    CopyWords(u32, u32, u32),
    /// Assigns a value to a field.
    Assign(Target, Code),
    /// Assigns a varbit to another: from, to.
    AssignVarbit(FieldId, FieldId),
    /// Assigns a header to another of its type: from, to.
    AssignHeader(HeaderExpr, HeaderExpr),
    /// Assigns a union to another of its type: from, to.
    AssignUnion(UnionExpr, UnionExpr),
    /// Assigns a stack to another of its type: from, to.
    AssignStack(AnyStack, AnyStack),
    /// Makes a header valid; sets its fields to 0 if it was invalid.
    AddHeader(HeaderExpr),
    /// Makes a header valid and keeps its fields.
    ValidateHeader(HeaderExpr),
    /// Makes a header invalid.
    RemoveHeader(HeaderExpr),
    /// Moves elements towards the end of a stack.
    Push(AnyStack, Code),
    /// Moves elements towards the front of a stack.
    Pop(AnyStack, Code),
    /// Continues with the primitive of this index.
    Jump(u32),
    /// Continues with the primitive of this index if a value is 0.
    JumpIfZero(Code, u32),
    /// Ends the pipeline after this action.
    Exit,
    /// Drops the packet unless this is true.
    Assert(Code),
    /// Marks the packet to be dropped, unless a later step sends it.
    Drop,
    /// Draws a random number between two: to, least, most.
    Random(Target, Code, Code),
    /// Computes a hash: to, base, calculation, number of results.
    Hash(Target, Code, CalculationId, Code),
    /// Requests a digest to the controller.
    Digest(LearnListId),
    /// Requests a clone: the session, and what the clone keeps.
    Clone(Code, Option<FieldListId>),
    /// Requests that the packet start over as it came in.
    Resubmit(Option<FieldListId>),
    /// Requests that the packet start over as it would leave.
    Recirculate(Option<FieldListId>),
    /// Limits the departing packet to this many bytes.
    Truncate(Code),
    /// Counts the packet in a counter.
    Count(CounterId, Code),
    /// Runs a meter, which gives the packet a color.
    Meter(MeterId, Code, Target),
    /// Reads a register.
    ReadRegister(Target, RegisterId, Code),
    /// Writes a register: index, value.
    WriteRegister(RegisterId, Code, Code),
}

/// The parts of a program that actions refer to.
pub(super) struct Surroundings<'a> {
    pub(super) headers: &'a Headers,
    pub(super) arrays: &'a Arrays,
    pub(super) calculations: &'a Calculations,
}

impl Surroundings<'_> {
    /// Reads an action of the list of actions.
    pub(super) fn read_action(&self, node: &Node<'_>) -> Result<Action, LoadError> {
        let (mut parameters, mut places) = (Vec::new(), Vec::new());
        let mut data_words = 0;
        for parameter in node.list("runtime_data")? {
            let width = parameter.get("bitwidth")?;
            let width_bits = width.number()?;
            let words = width_bits.div_ceil(64);
            if width_bits == 0 || data_words + words > DATA_WORDS_MAX {
                return Err(width.refuse("an action's parameter is too narrow or too wide"));
            }
            places.push((data_words, words));
            data_words += words;
            parameters.push(Parameter {
                name: parameter.text_of("name")?.to_owned(),
                width_bits,
            });
        }
        let primitives = node.list("primitives")?;
        let mut steps = Vec::with_capacity(primitives.len());
        for primitive in &primitives {
            let step = self.read_step(primitive, &places)?;
            if let Step::Jump(to) | Step::JumpIfZero(_, to) = step
                && to as usize > primitives.len()
            {
                return Err(primitive.refuse("a jump out of the action"));
            }
            steps.push(step);
        }
        Ok(Action {
            name: node.text_of("name")?.to_owned(),
            id: node.number_of("id")?,
            parameters,
            places,
            data_words,
            steps,
            source: node.source(),
        })
    }

    /// Reads one primitive; `places` are the action's parameters.
    pub(super) fn read_step(
        &self,
        node: &Node<'_>,
        places: &[(u32, u32)],
    ) -> Result<Step, LoadError> {
        let reader = Reader {
            headers: self.headers,
            parameters: places.len() as u32,
        };
        let parameters = node.list("parameters")?;
        let primitive = Primitive {
            surroundings: self,
            reader,
            places,
            node,
            parameters: &parameters,
        };
        primitive.read()
    }
}

/// A primitive being read.
struct Primitive<'p, 'a> {
    surroundings: &'p Surroundings<'p>,
    reader: Reader<'p>,
    places: &'p [(u32, u32)],
    node: &'p Node<'a>,
    parameters: &'p [Node<'a>],
}

impl<'a> Primitive<'_, 'a> {
    // One match, with a line or two for each primitive.
    fn read(&self) -> Result<Step, LoadError> {
        let operator = self.node.text_of("op")?;
        let arithmetic = |binary| self.arithmetic(binary);
        Ok(match operator {
            "assign" | "modify_field" => self.assign(self.target(0)?, self.expr(1)?),
            "add_to_field" => self.update(Binary::Add)?,
            "subtract_from_field" => self.update(Binary::Subtract)?,
            "add" => arithmetic(Binary::Add)?,
            "subtract" => arithmetic(Binary::Subtract)?,
            "bit_xor" => arithmetic(Binary::Xor)?,
            "bit_or" => arithmetic(Binary::Or)?,
            "bit_and" => arithmetic(Binary::And)?,
            "shift_left" => arithmetic(Binary::ShiftLeft)?,
            "shift_right" => arithmetic(Binary::ShiftRight)?,
            "assign_VL" => self.assign_varbit()?,
            "assign_header" | "copy_header" => {
                let (to, from) = (self.header(0)?, self.header(1)?);
                let headers = self.surroundings.headers;
                let kind = |header: &HeaderExpr| headers.header(header.example(headers)).type_index;
                self.must(kind(&to) == kind(&from), "headers of different types")?;
                Step::AssignHeader(from, to)
            }
            "assign_union" => {
                let (to, from) = (self.union(0)?, self.union(1)?);
                let headers = self.surroundings.headers;
                let kind = |union: &UnionExpr| &headers.union(union.example(headers)).type_name;
                self.must(kind(&to) == kind(&from), "unions of different types")?;
                Step::AssignUnion(from, to)
            }
            "assign_header_stack" | "assign_union_stack" => {
                let (to, from) = (self.stack(0)?, self.stack(1)?);
                self.must(self.is_same_type(to, from), "stacks of different types")?;
                Step::AssignStack(from, to)
            }
            "add_header" => Step::AddHeader(self.header(0)?),
            "add_header_fast" => Step::ValidateHeader(self.header(0)?),
            "remove_header" => Step::RemoveHeader(self.header(0)?),
            "push" => Step::Push(self.stack(0)?, self.code(1)?),
            "pop" => Step::Pop(self.stack(0)?, self.code(1)?),
            "_jump" => Step::Jump(self.constant(0)?),
            "_jump_if_zero" => Step::JumpIfZero(self.code(0)?, self.constant(1)?),
            "exit" => Step::Exit,
            "assert" | "assume" => Step::Assert(self.code(0)?),
            "log_msg" | "no_op" => Step::Nothing,
            "mark_to_drop" | "drop" => Step::Drop,
            "modify_field_rng_uniform" => {
                Step::Random(self.target(0)?, self.code(1)?, self.code(2)?)
            }
            "modify_field_with_hash_based_offset" => {
                let name = self.parameter(2, "calculation")?;
                let calculation = self.surroundings.calculations.at(&name)?;
                Step::Hash(self.target(0)?, self.code(1)?, calculation, self.code(3)?)
            }
            "generate_digest" => {
                let id = self.constant(1)?;
                Step::Digest(self.surroundings.arrays.learn_list(self.node, id)?)
            }
            "clone_ingress_pkt_to_egress" | "clone_egress_pkt_to_egress" => {
                let list = match self.parameters.get(1) {
                    Some(_) => self.field_list(1)?,
                    None => None,
                };
                Step::Clone(self.code(0)?, list)
            }
            "resubmit" => Step::Resubmit(self.field_list(0)?),
            "recirculate" => Step::Recirculate(self.field_list(0)?),
            "truncate" => Step::Truncate(self.code(0)?),
            "count" => {
                let array = self.parameter(0, "counter_array")?;
                let counter = self.surroundings.arrays.find_counter(array.text()?);
                let counter = counter.ok_or_else(|| array.refuse("there is no such counter"))?;
                Step::Count(counter, self.code(1)?)
            }
            "execute_meter" => {
                let array = self.parameter(0, "meter_array")?;
                let meter = self.surroundings.arrays.find_meter(array.text()?);
                let meter = meter.ok_or_else(|| array.refuse("there is no such meter"))?;
                Step::Meter(meter, self.code(1)?, self.target(2)?)
            }
            "register_read" => {
                Step::ReadRegister(self.target(0)?, self.register(1)?, self.code(2)?)
            }
            "register_write" => {
                let register = self.register(0)?;
                let places = self.places;
                let headers = self.surroundings.headers;
                let width = self.surroundings.arrays.registers[register.index()].width_bits;
                let value = Code::stored(self.expr(2)?, width, headers, places);
                Step::WriteRegister(register, self.code(1)?, value)
            }
            other => {
                return Err(self.node.refuse(format!(
                    "the primitive {other:?} is not supported; v1model on simple_switch has none \
                     of this name that we know of"
                )));
            }
        })
    }

    fn must(&self, holds: bool, what: &str) -> Result<(), LoadError> {
        match holds {
            true => Ok(()),
            false => Err(self.node.refuse(what)),
        }
    }

    fn argument(&self, index: usize) -> Result<&Node<'a>, LoadError> {
        let missing = || {
            self.node
                .refuse(format!("the primitive lacks parameter {index}"))
        };
        self.parameters.get(index).ok_or_else(missing)
    }

    /// The value of a parameter of type `kind`.
    fn parameter(&self, index: usize, kind: &str) -> Result<Node<'a>, LoadError> {
        let argument = self.argument(index)?;
        match argument.get("type")?.is_text(kind) {
            true => argument.get("value"),
            false => Err(argument.refuse(format!("this must be of type {kind:?}"))),
        }
    }

    fn expr(&self, index: usize) -> Result<Expr, LoadError> {
        self.reader.read(self.argument(index)?)
    }

    fn code(&self, index: usize) -> Result<Code, LoadError> {
        Ok(Code::exact(
            self.expr(index)?,
            self.surroundings.headers,
            self.places,
        ))
    }

    fn header(&self, index: usize) -> Result<HeaderExpr, LoadError> {
        self.reader.header(self.argument(index)?, 0)
    }

    fn union(&self, index: usize) -> Result<UnionExpr, LoadError> {
        self.reader.union(self.argument(index)?, 0)
    }

    fn stack(&self, index: usize) -> Result<AnyStack, LoadError> {
        let argument = self.argument(index)?;
        match argument.text_of("type")? {
            "header_union_stack" => Ok(AnyStack::Unions(self.reader.union_stack(argument)?)),
            _ => Ok(AnyStack::Headers(self.reader.stack(argument)?)),
        }
    }

    fn is_same_type(&self, one: AnyStack, other: AnyStack) -> bool {
        let headers = self.surroundings.headers;
        match (one, other) {
            (AnyStack::Headers(one), AnyStack::Headers(other)) => {
                let (one, other) = (headers.stack(one), headers.stack(other));
                let kind = |id| headers.header(id).type_index;
                one.headers.len() == other.headers.len()
                    && kind(one.headers[0]) == kind(other.headers[0])
            }
            (AnyStack::Unions(one), AnyStack::Unions(other)) => {
                let (one, other) = (headers.union_stack(one), headers.union_stack(other));
                let kind = |id| &headers.union(id).type_name;
                one.unions.len() == other.unions.len()
                    && kind(one.unions[0]) == kind(other.unions[0])
            }
            _ => false,
        }
    }

    fn constant(&self, index: usize) -> Result<u32, LoadError> {
        let argument = self.argument(index)?;
        let expr = self.reader.read(argument)?;
        let number = expr
            .as_constant()
            .and_then(|number| u32::try_from(number).ok());
        number.ok_or_else(|| argument.refuse("this must be a constant from 0 to 4294967295"))
    }

    fn field_list(&self, index: usize) -> Result<Option<FieldListId>, LoadError> {
        let id = self.constant(index)?;
        self.surroundings
            .arrays
            .field_list(self.argument(index)?, id)
    }

    fn register(&self, index: usize) -> Result<RegisterId, LoadError> {
        let array = self.parameter(index, "register_array")?;
        let register = self.surroundings.arrays.find_register(array.text()?);
        register.ok_or_else(|| array.refuse("there is no such register"))
    }

    fn target(&self, index: usize) -> Result<Target, LoadError> {
        let argument = self.argument(index)?;
        match self.reader.read(argument)? {
            Expr::Field(field) => Ok(Target::Field(field)),
            Expr::FieldOf(header, index) => Ok(Target::FieldOf(*header, index)),
            _ => Err(argument.refuse("a value can be assigned to a field only")),
        }
    }

    /// Reads `field = field op value`.
    fn update(&self, binary: Binary) -> Result<Step, LoadError> {
        let (field, value) = (self.expr(0)?, self.expr(1)?);
        let value = Expr::Binary(binary, Box::new(field), Box::new(value));
        Ok(self.assign(self.target(0)?, value))
    }

    /// Reads `field = one op other`.
    fn arithmetic(&self, binary: Binary) -> Result<Step, LoadError> {
        let (one, other) = (self.expr(1)?, self.expr(2)?);
        let value = Expr::Binary(binary, Box::new(one), Box::new(other));
        Ok(self.assign(self.target(0)?, value))
    }

    fn assign(&self, target: Target, value: Expr) -> Step {
        assign(self.surroundings.headers, self.places, target, value)
    }

    fn assign_varbit(&self) -> Result<Step, LoadError> {
        let headers = self.surroundings.headers;
        let to = headers.field_of(&self.parameter(0, "field")?)?;
        let from = headers.field_of(&self.parameter(1, "field")?)?;
        let both = [headers.field(to), headers.field(from)];
        self.must(
            both.iter().all(|field| field.is_varbit),
            "a field that is no varbit",
        )?;
        let same = both[0].width_bits == both[1].width_bits;
        self.must(same, "varbits of different widths")?;
        Ok(Step::AssignVarbit(from, to))
    }
}

/// The fastest step that assigns a value.
pub(super) fn assign(
    headers: &Headers,
    places: &[(u32, u32)],
    target: Target,
    value: Expr,
) -> Step {
    let example = match &target {
        Target::Field(field) => *field,
        Target::FieldOf(header, index) => {
            let example = headers.field_at(header.example(headers), *index);
            example.expect("the reader checked the index")
        }
    };
    let to = headers.field(example);
    let width = to.width_bits;
    let value = match to.is_saturating {
        true => {
            let cast = match to.is_signed {
                true => Binary::SaturateSigned,
                false => Binary::Saturate,
            };
            Expr::Binary(
                cast,
                Box::new(value),
                Box::new(Expr::Constant(width.into())),
            )
        }
        false => value,
    };
    if let (Target::Field(_), false) = (&target, to.is_varbit) {
        let word = to.word;
        if let (Expr::Constant(number), ..=64) = (&value, width) {
            let mut words = [0];
            crate::program::exact::store(number, width, &mut words);
            return Step::SetWord(word, words[0]);
        }
        if let Expr::Field(from) = value {
            let from = headers.field(from);
            let plain = !from.is_signed && !from.is_varbit;
            if plain && width <= 64 && from.words() == 1 {
                return Step::CopyWord(from.word, word, super::code::low_mask(width));
            }
            if plain && from.width_bits == width {
                return Step::CopyWords(from.word, word, to.words());
            }
        }
    }
    let code = Code::stored(value, width, headers, places);
    Step::Assign(target, code)
}
