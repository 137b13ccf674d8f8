//! The type of a register or digest, and the conversion of its values to messages.
//!
//! A program has a flat list of numbers; the standard has a tree of messages (`P4Data`). A
//! [`Shape`] is the type as a tree, whose leaves are the numbers in order.
//!
//! Types without a fixed count of numbers (`varbit`, header unions, stacks, enumerations
//! without a representation) are not supported. Such an object is in the catalog but is refused
//! when it is read or written.

use crate::Value;
use crate::problem::Problem;
use crate::proto::p4::config::v1 as info;
use crate::proto::p4::v1 as p4;
use crate::proto::p4::v1::p4_data::Data;

/// A type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `bit<W>`, and types that it represents.
    Bits(u32),
    /// `bool`.
    Bool,
    /// A serializable enumeration, by its width.
    Enumeration(u32),
    /// `struct`.
    Struct(Vec<Shape>),
    /// `tuple`.
    Tuple(Vec<Shape>),
    /// `header`, whose validity comes before its fields.
    Header(Vec<u32>),
    /// An unsupported type, by its name.
    Unsupported(&'static str),
}

/// Maximum nesting depth of types.
const MAX_DEPTH: usize = 32;

impl Shape {
    /// The type of a specification, with the named types in `types`.
    pub(super) fn of(
        specification: Option<&info::P4DataTypeSpec>,
        types: &info::P4TypeInfo,
    ) -> Result<Shape, String> {
        build(specification, types, MAX_DEPTH)
    }

    /// The width of each of its numbers, in order; a validity and a `bool` have one bit.
    pub fn widths(&self) -> Vec<u32> {
        let mut widths = Vec::new();
        self.add_widths(&mut widths);
        widths
    }

    fn add_widths(&self, widths: &mut Vec<u32>) {
        match self {
            Shape::Bits(width) | Shape::Enumeration(width) => widths.push(*width),
            Shape::Bool => widths.push(1),
            Shape::Struct(members) | Shape::Tuple(members) => {
                members.iter().for_each(|member| member.add_widths(widths));
            }
            Shape::Header(fields) => {
                widths.push(1);
                widths.extend(fields);
            }
            Shape::Unsupported(_) => {}
        }
    }

    /// Checks that it can be read and written.
    ///
    /// # Errors
    /// `UNIMPLEMENTED`, with the type.
    pub fn check(&self) -> Result<(), Problem> {
        match self {
            Shape::Unsupported(what) => Err(Problem::unsupported(format!(
                "values of type {what} are not supported; use bit<W>, bool, struct or header"
            ))),
            Shape::Struct(members) | Shape::Tuple(members) => {
                members.iter().try_for_each(Shape::check)
            }
            _ => Ok(()),
        }
    }

    /// The message for these numbers; `None` if their count is wrong.
    pub fn to_data(&self, numbers: &[Value]) -> Option<p4::P4Data> {
        let mut rest = numbers.iter();
        let data = self.message(&mut rest)?;
        rest.next().is_none().then_some(data)
    }

    fn message<'a>(&self, rest: &mut impl Iterator<Item = &'a Value>) -> Option<p4::P4Data> {
        let data = match self {
            Shape::Bits(_) => Data::Bitstring(rest.next()?.to_bytes()),
            Shape::Bool => Data::Bool(!rest.next()?.is_zero()),
            Shape::Enumeration(_) => Data::EnumValue(rest.next()?.to_bytes()),
            Shape::Struct(members) => Data::Struct(messages(members, rest)?),
            Shape::Tuple(members) => Data::Tuple(messages(members, rest)?),
            Shape::Header(fields) => {
                let is_valid = !rest.next()?.is_zero();
                let mut bitstrings = Vec::with_capacity(fields.len());
                for _ in fields {
                    bitstrings.push(rest.next()?.to_bytes());
                }
                if !is_valid {
                    bitstrings.clear();
                }
                Data::Header(p4::P4Header {
                    is_valid,
                    bitstrings,
                })
            }
            Shape::Unsupported(_) => return None,
        };
        Some(p4::P4Data { data: Some(data) })
    }

    /// The numbers of a message.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if it has another type, `OUT_OF_RANGE` if a number is too wide.
    pub fn numbers(&self, data: Option<&p4::P4Data>) -> Result<Vec<Value>, Problem> {
        self.check()?;
        let mut numbers = Vec::new();
        self.take(data, &mut numbers)?;
        Ok(numbers)
    }

    fn take(&self, data: Option<&p4::P4Data>, numbers: &mut Vec<Value>) -> Result<(), Problem> {
        let Some(data) = data.and_then(|data| data.data.as_ref()) else {
            return Err(Problem::invalid(
                "data is not set; send a value of the type",
            ));
        };
        match (self, data) {
            (Shape::Bits(width), Data::Bitstring(bytes))
            | (Shape::Enumeration(width), Data::EnumValue(bytes)) => {
                numbers.push(parse(bytes, *width)?);
            }
            (Shape::Bool, Data::Bool(value)) => numbers.push(Value::from(u64::from(*value))),
            (Shape::Struct(members), Data::Struct(values))
            | (Shape::Tuple(members), Data::Tuple(values)) => {
                expect_count(members.len(), values.members.len())?;
                for (member, value) in members.iter().zip(&values.members) {
                    member.take(Some(value), numbers)?;
                }
            }
            (Shape::Header(fields), Data::Header(header)) => {
                numbers.push(Value::from(u64::from(header.is_valid)));
                if !header.is_valid {
                    expect_count(0, header.bitstrings.len())?;
                    numbers.extend(fields.iter().map(|_| Value::from(0)));
                    return Ok(());
                }
                expect_count(fields.len(), header.bitstrings.len())?;
                for (width, bytes) in fields.iter().zip(&header.bitstrings) {
                    numbers.push(parse(bytes, *width)?);
                }
            }
            _ => {
                return Err(Problem::invalid(format!(
                    "the value is of another type; P4Info says {self:?}"
                )));
            }
        }
        Ok(())
    }
}

fn messages<'a>(
    members: &[Shape],
    rest: &mut impl Iterator<Item = &'a Value>,
) -> Option<p4::P4StructLike> {
    let mut messages = Vec::with_capacity(members.len());
    for member in members {
        messages.push(member.message(rest)?);
    }
    Some(p4::P4StructLike { members: messages })
}

fn parse(bytes: &[u8], width: u32) -> Result<Value, Problem> {
    Value::parse(bytes, width)
        .map_err(|error| Problem::new(crate::Code::OutOfRange, error.to_string()))
}

fn expect_count(expected: usize, given: usize) -> Result<(), Problem> {
    if expected == given {
        return Ok(());
    }
    Err(Problem::invalid(format!(
        "the value has {given} members; the type has {expected}"
    )))
}

fn build(
    specification: Option<&info::P4DataTypeSpec>,
    types: &info::P4TypeInfo,
    depth: usize,
) -> Result<Shape, String> {
    use info::p4_data_type_spec::TypeSpec;
    if depth == 0 {
        return Err(format!(
            "types are more than {MAX_DEPTH} deep in each other"
        ));
    }
    let Some(specification) = specification.and_then(|spec| spec.type_spec.as_ref()) else {
        return Err("the type is not set".to_owned());
    };
    let shape = match specification {
        TypeSpec::Bitstring(bits) => bits_of(bits)?,
        TypeSpec::Bool(_) => Shape::Bool,
        TypeSpec::Tuple(tuple) => Shape::Tuple(
            tuple
                .members
                .iter()
                .map(|member| build(Some(member), types, depth - 1))
                .collect::<Result<_, _>>()?,
        ),
        TypeSpec::Struct(name) => {
            let named = types.structs.get(&name.name);
            let named = named.ok_or_else(|| unknown("struct", &name.name))?;
            let members = named.members.iter();
            let members = members.map(|member| build(member.type_spec.as_ref(), types, depth - 1));
            Shape::Struct(members.collect::<Result<_, _>>()?)
        }
        TypeSpec::Header(name) => {
            let named = types.headers.get(&name.name);
            let named = named.ok_or_else(|| unknown("header", &name.name))?;
            return header_of(named);
        }
        TypeSpec::SerializableEnum(name) => {
            let named = types.serializable_enums.get(&name.name);
            let named = named.ok_or_else(|| unknown("enumeration", &name.name))?;
            let width = named.underlying_type.map_or(0, |bits| bits.bitwidth);
            Shape::Enumeration(width_of(width)?)
        }
        TypeSpec::NewType(name) => {
            use info::p4_new_type_spec::Representation;
            let named = types.new_types.get(&name.name);
            let named = named.ok_or_else(|| unknown("type", &name.name))?;
            match &named.representation {
                Some(Representation::OriginalType(original)) => {
                    return build(Some(original), types, depth - 1);
                }
                Some(Representation::TranslatedType(translation)) => {
                    use info::p4_new_type_translation::SdnType;
                    match translation.sdn_type {
                        Some(SdnType::SdnBitwidth(width)) => Shape::Bits(width_of(width)?),
                        _ => Shape::Unsupported("a type that is translated to strings"),
                    }
                }
                None => return Err(format!("type `{}` has no representation", name.name)),
            }
        }
        TypeSpec::HeaderUnion(_) => Shape::Unsupported("header_union"),
        TypeSpec::HeaderStack(_) => Shape::Unsupported("header stack"),
        TypeSpec::HeaderUnionStack(_) => Shape::Unsupported("header_union stack"),
        TypeSpec::Enum(_) => Shape::Unsupported("enum"),
        TypeSpec::Error(_) => Shape::Unsupported("error"),
    };
    Ok(shape)
}

fn header_of(named: &info::P4HeaderTypeSpec) -> Result<Shape, String> {
    let mut fields = Vec::with_capacity(named.members.len());
    for member in &named.members {
        match member.type_spec.as_ref().map(bits_of).transpose()? {
            Some(Shape::Bits(width)) => fields.push(width),
            _ => return Ok(Shape::Unsupported("header with varbit")),
        }
    }
    Ok(Shape::Header(fields))
}

fn bits_of(bits: &info::P4BitstringLikeTypeSpec) -> Result<Shape, String> {
    use info::p4_bitstring_like_type_spec::TypeSpec;
    match &bits.type_spec {
        Some(TypeSpec::Bit(bit)) => Ok(Shape::Bits(width_of(bit.bitwidth)?)),
        Some(TypeSpec::Int(_)) => Ok(Shape::Unsupported("int<W>")),
        Some(TypeSpec::Varbit(_)) => Ok(Shape::Unsupported("varbit<W>")),
        None => Err("a string of bits has no type".to_owned()),
    }
}

fn unknown(kind: &str, name: &str) -> String {
    format!("there is no {kind} `{name}` in type_info")
}

fn width_of(width: i32) -> Result<u32, String> {
    match u32::try_from(width) {
        Ok(width) if (1..=super::MAX_WIDTH).contains(&width) => Ok(width),
        _ => Err(format!(
            "a width of {width} bits; write 1 to {}",
            super::MAX_WIDTH
        )),
    }
}
