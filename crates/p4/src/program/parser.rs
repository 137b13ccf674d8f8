//! The parser: a graph of states that extract headers and choose the next state by a key.
//!
//! BMv2 has no reject: a transition to nowhere ends parsing, and ingress always runs, with the
//! error in `standard_metadata.parser_error`.
//!
//! Each part of a key has its own words. The JSON pads the cases' values and masks to whole
//! bytes; they are split into these words. A value with a padding bit set can never match and
//! is omitted.

use num_bigint::BigInt;

use crate::error::{LoadError, SourceLocation};
use crate::json::Node;

use super::action::{Step, Surroundings, Target, assign};
use super::code::Code;
use super::expression::{Expr, Reader};
use super::headers::FIELD_BITS_MAX;
use super::ids::{FieldId, HeaderId, StackId, StateId, UnionStackId, ValueSetId};

/// Maximum words of a transition's key.
pub const KEY_WORDS_MAX: usize = 64;

/// The header to extract.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extracted {
    /// This one.
    Header(HeaderId),
    /// The next element of a stack.
    Next(StackId),
    /// A member of the next element of a stack of unions.
    NextUnion(UnionStackId, u32),
}

/// One step of a state.
#[derive(Clone, Debug)]
pub enum ParserStep {
    /// Extracts bytes to a header, with the bits of its varbit field if it has one.
    Extract(Extracted, Option<Code>),
    /// Runs an assignment or any other primitive.
    Do(Step),
    /// Copies bits ahead to a field: the field, bits to skip, bits to read.
    Lookahead(FieldId, u32, u32),
    /// Fails with an error unless this is true: the condition, the error.
    Verify(Code, Code),
    /// Skips this many bits.
    Advance(Code),
}

/// One part of a key.
#[derive(Clone, Debug)]
pub enum KeyPart {
    /// A field or value, with its width; it has `width.div_ceil(64)` words.
    Value(Code, u32),
    /// A field of up to 64 bits: its word.
    Word(u32),
    /// Bits ahead: how many to skip, how many to read.
    Lookahead(u32, u32),
}

impl KeyPart {
    /// Words of the part in the key.
    pub fn words(&self) -> usize {
        match self {
            KeyPart::Value(_, width) | KeyPart::Lookahead(_, width) => width.div_ceil(64) as usize,
            KeyPart::Word(_) => 1,
        }
    }
}

/// The condition of a transition.
#[derive(Clone, Debug)]
pub enum Case {
    /// The key equals a value under a mask.
    Bits(Vec<u64>, Vec<u64>),
    /// The key is in a value set: the use of the set, and a mask.
    InSet(usize, Vec<u64>),
}

/// A state.
#[derive(Clone, Debug)]
pub struct State {
    /// Its name.
    pub name: String,
    /// Its steps.
    pub steps: Vec<ParserStep>,
    /// The parts of its key.
    pub key: Vec<KeyPart>,
    /// Words of the key.
    pub key_words: usize,
    /// Cases with the next state, `None` for the end; the first match wins.
    pub cases: Vec<(Case, Option<StateId>)>,
    /// The next state if no case matches.
    pub default_next: Option<StateId>,
    /// Its place in the P4 program.
    pub source: Option<SourceLocation>,
}

/// A value set: keys that the controller writes.
#[derive(Clone, Debug)]
pub struct ValueSet {
    /// Its name.
    pub name: String,
    /// Bits of a member: the sum over the key's parts.
    pub width_bits: u32,
    /// Maximum number of members, if the program says so.
    pub max_size: Option<u32>,
}

/// A place that looks up a value set: the set, and the widths of the key's parts.
#[derive(Clone, Debug)]
pub struct ValueSetUse {
    /// The set.
    pub set: ValueSetId,
    /// Widths of the key's parts.
    pub widths: Vec<u32>,
}

/// The parser of a program.
#[derive(Clone, Debug, Default)]
pub struct Parser {
    /// Its states.
    pub states: Vec<State>,
    /// The state it begins with.
    pub start: Option<StateId>,
    /// Value sets.
    pub value_sets: Vec<ValueSet>,
    /// The places that look them up.
    pub uses: Vec<ValueSetUse>,
}

impl Parser {
    /// Finds a value set by name.
    pub fn find_value_set(&self, name: &str) -> Option<ValueSetId> {
        let index = self.value_sets.iter().position(|set| set.name == name)?;
        Some(ValueSetId(index as u32))
    }
}

/// Reads the parser that simple_switch uses.
pub(super) fn read(root: &Node<'_>, around: &Surroundings<'_>) -> Result<Parser, LoadError> {
    let mut parser = Parser::default();
    for node in root.list("parse_vsets")? {
        let width = node.get("compressed_bitwidth")?;
        let width_bits = width.number()?;
        if width_bits == 0 || width_bits as usize > KEY_WORDS_MAX * 64 {
            return Err(width.refuse("a value set of no bits, or too many"));
        }
        let max_size = node
            .find("max_size")
            .map(|size| size.number())
            .transpose()?;
        parser.value_sets.push(ValueSet {
            name: node.text_of("name")?.to_owned(),
            width_bits,
            max_size,
        });
    }
    let parsers = root.list("parsers")?;
    let found = parsers.iter().find(|one| named(one, "parser"));
    let node = found.ok_or_else(|| {
        root.refuse("there is no parser named \"parser\"; this is no complete v1model program")
    })?;
    let nodes = node.list("parse_states")?;
    let names: Vec<&str> = nodes
        .iter()
        .map(|state| state.text_of("name"))
        .collect::<Result<_, _>>()?;
    let find = |node: &Node<'_>| -> Result<StateId, LoadError> {
        let name = node.text()?;
        let index = names.iter().position(|state| *state == name);
        let index = index.ok_or_else(|| node.refuse(format!("there is no state {name:?}")))?;
        Ok(StateId(index as u32))
    };
    parser.start = node
        .find("init_state")
        .map(|start| find(&start))
        .transpose()?;
    for state in &nodes {
        let state = StateReader {
            around,
            node: state,
            find: &find,
        };
        let state = state.read(&parser.value_sets, &mut parser.uses)?;
        parser.states.push(state);
    }
    Ok(parser)
}

fn named(node: &Node<'_>, name: &str) -> bool {
    node.find("name").is_some_and(|found| found.is_text(name))
}

struct StateReader<'r, 'a> {
    around: &'r Surroundings<'r>,
    node: &'r Node<'a>,
    find: &'r dyn Fn(&Node<'_>) -> Result<StateId, LoadError>,
}

impl StateReader<'_, '_> {
    fn reader(&self) -> Reader<'_> {
        Reader {
            headers: self.around.headers,
            parameters: 0,
        }
    }

    fn read(&self, sets: &[ValueSet], uses: &mut Vec<ValueSetUse>) -> Result<State, LoadError> {
        let mut steps = Vec::new();
        for operation in self.node.list("parser_ops")? {
            self.read_operation(&operation, &mut steps)?;
        }
        let (mut key, mut widths) = (Vec::new(), Vec::new());
        for part in self.node.list("transition_key")? {
            let (part, width) = self.read_key_part(&part)?;
            key.push(part);
            widths.push(width);
        }
        let key_words = key.iter().map(KeyPart::words).sum();
        if key_words > KEY_WORDS_MAX {
            let what = format!("a transition's key has at most {KEY_WORDS_MAX} words of 64 bits");
            return Err(self.node.refuse(what));
        }
        let (mut cases, mut default_next) = (Vec::new(), None);
        for node in self.node.list("transitions")? {
            let next = node
                .find("next_state")
                .map(|next| (self.find)(&next))
                .transpose()?;
            let value = node.find("value");
            let is_default = |value: &Node<'_>| value.is_text("default");
            let kind = match node.find("type") {
                Some(kind) => kind.text()?,
                // Files of old versions have no types.
                None if value.as_ref().is_none_or(is_default) => "default",
                None => "hexstr",
            };
            match kind {
                "default" => default_next = next,
                "hexstr" => {
                    if let Some(case) = bits_case(&node, &widths)? {
                        cases.push((case, next));
                    }
                }
                "parse_vset" => {
                    let name = node.get("value")?;
                    let set = sets.iter().position(|set| name.is_text(&set.name));
                    let set = set.ok_or_else(|| name.refuse("there is no such value set"))?;
                    if sets[set].width_bits != widths.iter().sum::<u32>() {
                        return Err(node.refuse("the value set has another width than the key"));
                    }
                    let mask = mask_of(&node, &widths)?;
                    cases.push((Case::InSet(uses.len(), mask), next));
                    uses.push(ValueSetUse {
                        set: ValueSetId(set as u32),
                        widths: widths.clone(),
                    });
                }
                other => return Err(node.refuse(format!("a transition of type {other:?}"))),
            }
        }
        Ok(State {
            name: self.node.text_of("name")?.to_owned(),
            steps,
            key,
            key_words,
            cases,
            default_next,
            source: self.node.source(),
        })
    }

    // One match, with an arm for each operation.
    fn read_operation(
        &self,
        node: &Node<'_>,
        steps: &mut Vec<ParserStep>,
    ) -> Result<(), LoadError> {
        let parameters = node.list("parameters")?;
        let parameter = |index: usize| {
            let found = parameters.get(index);
            found.ok_or_else(|| node.refuse(format!("the operation lacks parameter {index}")))
        };
        let headers = self.around.headers;
        let exact = |node: &Node<'_>| -> Result<Code, LoadError> {
            Ok(Code::exact(self.reader().read(node)?, headers, &[]))
        };
        match node.text_of("op")? {
            "extract" => {
                let extracted = self.read_extracted(parameter(0)?)?;
                let header = self.example(extracted);
                if headers.header(header).varbit.is_some() {
                    return Err(node.refuse("a header with a varbit is extracted with its length"));
                }
                steps.push(ParserStep::Extract(extracted, None));
            }
            "extract_VL" => {
                let extracted = self.read_extracted(parameter(0)?)?;
                let header = self.example(extracted);
                if headers.header(header).varbit.is_none() {
                    return Err(node.refuse("a header without a varbit has no length to give"));
                }
                let bits = exact(parameter(1)?)?;
                steps.push(ParserStep::Extract(extracted, Some(bits)));
            }
            "set" => {
                let field = headers.field_of(&parameter(0)?.get("value")?)?;
                let value = parameter(1)?;
                if value.text_of("type")? == "lookahead" {
                    let (offset, bits) = lookahead(&value.get("value")?)?;
                    if bits > headers.field(field).width_bits.next_multiple_of(64) {
                        return Err(value.refuse("more bits than the field has room for"));
                    }
                    steps.push(ParserStep::Lookahead(field, offset, bits));
                } else {
                    let value = self.reader().read(value)?;
                    let step = assign(headers, &[], Target::Field(field), value);
                    steps.push(ParserStep::Do(step));
                }
            }
            "verify" => {
                let (condition, error) = (exact(parameter(0)?)?, exact(parameter(1)?)?);
                steps.push(ParserStep::Verify(condition, error));
            }
            "advance" => steps.push(ParserStep::Advance(exact(parameter(0)?)?)),
            "shift" => {
                let bytes = parameter(0)?.number()?;
                let bits = Expr::Constant(BigInt::from(bytes) * 8);
                steps.push(ParserStep::Advance(Code::exact(bits, headers, &[])));
            }
            "primitive" => {
                for primitive in &parameters {
                    let step = self.around.read_step(primitive, &[])?;
                    if matches!(step, Step::Jump(_) | Step::JumpIfZero(..)) {
                        return Err(primitive.refuse("a jump in a parser state"));
                    }
                    steps.push(ParserStep::Do(step));
                }
            }
            other => {
                return Err(node.refuse(format!("the parser operation {other:?} is not supported")));
            }
        }
        Ok(())
    }

    fn read_extracted(&self, node: &Node<'_>) -> Result<Extracted, LoadError> {
        let headers = self.around.headers;
        let value = node.get("value")?;
        let extracted = match node.text_of("type")? {
            "regular" => Extracted::Header(headers.header_at(&value)?),
            "stack" => Extracted::Next(headers.stack_at(&value)?),
            "union_stack" => {
                let stack = headers.union_stack_at(&value.at(0)?)?;
                let union = headers.union_stack(stack).unions[0];
                let member = headers.member_index(union, &value.at(1)?)?;
                Extracted::NextUnion(stack, member as u32)
            }
            other => return Err(node.refuse(format!("{other:?} cannot be extracted"))),
        };
        match headers.header(self.example(extracted)).is_metadata {
            true => Err(node.refuse("metadata is not on the wire")),
            false => Ok(extracted),
        }
    }

    fn example(&self, extracted: Extracted) -> HeaderId {
        let headers = self.around.headers;
        match extracted {
            Extracted::Header(header) => header,
            Extracted::Next(stack) => headers.stack(stack).headers[0],
            Extracted::NextUnion(stack, member) => {
                let union = headers.union_stack(stack).unions[0];
                headers.union(union).headers[member as usize]
            }
        }
    }

    fn read_key_part(&self, node: &Node<'_>) -> Result<(KeyPart, u32), LoadError> {
        if node.text_of("type")? == "lookahead" {
            let (offset, bits) = lookahead(&node.get("value")?)?;
            return Ok((KeyPart::Lookahead(offset, bits), bits));
        }
        let headers = self.around.headers;
        let expr = self.reader().read(node)?;
        let field = match &expr {
            Expr::Field(field) => *field,
            Expr::FieldOf(header, index) => headers
                .field_at(header.example(headers), *index)
                .expect("the reader checked the index"),
            _ => return Err(node.refuse("a transition's key is made of fields and lookahead")),
        };
        let field = headers.field(field);
        let width = field.width_bits;
        let part = match (&expr, field.words()) {
            (Expr::Field(_), 1) => KeyPart::Word(field.word),
            _ => KeyPart::Value(Code::stored(expr, width, headers, &[]), width),
        };
        Ok((part, width))
    }
}

fn lookahead(node: &Node<'_>) -> Result<(u32, u32), LoadError> {
    let (offset, bits) = (node.at(0)?.number()?, node.at(1)?.number()?);
    match bits > 0 && bits <= FIELD_BITS_MAX && offset <= FIELD_BITS_MAX {
        true => Ok((offset, bits)),
        false => Err(node.refuse("a lookahead of no bits, or too far")),
    }
}

fn mask_of(node: &Node<'_>, widths: &[u32]) -> Result<Vec<u64>, LoadError> {
    let mask = match node.find("mask") {
        Some(mask) => mask.big()?,
        None => -BigInt::from(1),
    };
    Ok(taken_apart(&mask, widths).0)
}

/// Reads a case of the JSON; `None` if no key can match it.
fn bits_case(node: &Node<'_>, widths: &[u32]) -> Result<Option<Case>, LoadError> {
    let value = node.get("value")?.big()?;
    let mask = mask_of(node, widths)?;
    let mask_padding = match node.find("mask") {
        Some(mask) => taken_apart(&mask.big()?, widths).1,
        None => -BigInt::from(1),
    };
    let (mut bits, padding) = taken_apart(&value, widths);
    if (padding & mask_padding) != BigInt::ZERO {
        return Ok(None);
    }
    for (bits, mask) in bits.iter_mut().zip(&mask) {
        *bits &= mask;
    }
    Ok(Some(Case::Bits(bits, mask)))
}

/// Splits a number, padded per part to whole bytes, into words for each part and padding bits.
fn taken_apart(number: &BigInt, widths: &[u32]) -> (Vec<u64>, BigInt) {
    let padded: u32 = widths.iter().map(|width| width.next_multiple_of(8)).sum();
    let mut rest = padded;
    let mut words = Vec::new();
    // Bits above the whole key count as padding too.
    let mut padding = match number.sign() {
        num_bigint::Sign::Minus => BigInt::ZERO,
        _ => number >> padded << padded,
    };
    for &width in widths {
        rest -= width.next_multiple_of(8);
        let part: BigInt = number >> rest;
        let ones = (BigInt::from(1) << width.next_multiple_of(8)) - 1;
        let low = (BigInt::from(1) << width) - 1;
        padding |= (&part & (ones - low)) << rest;
        let first = words.len();
        words.resize(first + width.div_ceil(64) as usize, 0);
        crate::program::exact::store(&part, width, &mut words[first..]);
    }
    (words, padding)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_padded_key_is_taken_apart() {
        // Nine bits, padded to sixteen, and four, padded to eight.
        let (words, padding) = taken_apart(&0x0001_ff0a.into(), &[9, 4]);
        assert_eq!((words, padding), (vec![0x1ff, 0xa], BigInt::ZERO));
        let (words, padding) = taken_apart(&0x0002_0010.into(), &[9, 4]);
        assert_eq!((words, padding), (vec![0, 0], 0x0002_0010.into()));
        let (words, _) = taken_apart(&-BigInt::from(1), &[9, 70]);
        assert_eq!(words, [0x1ff, 0x3f, u64::MAX]);
    }
}
