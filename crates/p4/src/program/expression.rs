//! Expressions as in the JSON, with names resolved.
//!
//! Arithmetic on BMv2 uses *unbounded integers*. A field is read as the number it holds (in
//! two's complement if it is signed). Operators never overflow, and a value is truncated only
//! when it is stored. So the compiler writes widths out: `(a + b) & 0xff`, `two_comp_mod(x,
//! 8)`. A boolean is 0 or 1 here; `d2b` turns any other number into 1, and `b2d` changes
//! nothing.
//!
//! Where P4 leaves room or BMv2 would abort, the result is 0: a read past the end of a stack, a
//! division by zero, and a left shift by more than [`SHIFT_MAX`] bits.
//!
//! [`crate::program::exact`] defines the meaning, with big integers; `narrow` compiles what fits
//! into 128 bits, which is almost everything.

use num_bigint::BigInt;

use crate::error::LoadError;
use crate::json::Node;

use super::headers::Headers;
use super::ids::{FieldId, HeaderId, StackId, UnionId, UnionStackId};

/// Maximum bits of a left shift; a wider shift gives 0.
///
/// No field is as wide, and without a bound one packet could demand gigabytes.
pub const SHIFT_MAX: u32 = 1 << 16;

/// Maximum nesting depth of expressions.
const DEPTH_MAX: u32 = 100;

/// A number or boolean computed from a packet and an action's data.
#[derive(Clone, PartialEq, Debug)]
pub enum Expr {
    /// A constant.
    Constant(BigInt),
    /// A field, including `$valid$`.
    Field(FieldId),
    /// The n-th parameter of the action.
    Argument(u32),
    /// A field of the header that a header expression gives.
    FieldOf(Box<HeaderExpr>, u32),
    /// How many elements of a stack are in use.
    Size(StackId),
    /// The index of the last element in use: one less than the size.
    LastIndex(StackId),
    /// Whether a header is valid.
    IsValid(Box<HeaderExpr>),
    /// Whether a union has a valid member.
    IsUnionValid(Box<UnionExpr>),
    /// Whether two headers of one type are both valid and equal.
    SameHeader(Box<HeaderExpr>, Box<HeaderExpr>),
    /// Whether two unions have the same valid member, with equal fields.
    SameUnion(Box<UnionExpr>, Box<UnionExpr>),
    /// An operator with one operand.
    Unary(Unary, Box<Expr>),
    /// An operator with two.
    Binary(Binary, Box<Expr>, Box<Expr>),
    /// The second if the first is not 0, else the third.
    Select(Box<Expr>, Box<Expr>, Box<Expr>),
}

/// A header expression; its header may depend on the packet.
#[derive(Clone, PartialEq, Debug)]
pub enum HeaderExpr {
    /// This one.
    Header(HeaderId),
    /// The element of a stack with this index.
    Element(StackId, Expr),
    /// The last element of a stack that is in use.
    Last(StackId),
    /// A member of a union.
    Member(UnionExpr, u32),
}

/// A union expression; its union may depend on the packet.
#[derive(Clone, PartialEq, Debug)]
pub enum UnionExpr {
    /// This one.
    Union(UnionId),
    /// The element of a stack with this index.
    Element(UnionStackId, Expr),
    /// The last element of a stack that is in use.
    Last(UnionStackId),
}

/// Operators with one operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unary {
    /// `~`: -x - 1.
    Complement,
    /// `not`.
    Not,
    /// Turns any nonzero number into 1.
    ToBool,
}

/// Operators with two operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the names are those of the operators")]
pub enum Binary {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    ShiftLeft,
    ShiftRight,
    And,
    Or,
    Xor,
    /// Truncates the first operand to the bits that the second gives, in two's complement.
    TwosComplement,
    /// The nearest unsigned number with as many bits as the second operand gives.
    Saturate,
    /// The nearest signed number with as many bits as the second operand gives.
    SaturateSigned,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    BothTrue,
    EitherTrue,
}

impl Expr {
    /// The value of a constant expression.
    pub fn as_constant(&self) -> Option<&BigInt> {
        match self {
            Expr::Constant(number) => Some(number),
            _ => None,
        }
    }

    /// Calls `seen` for this expression and then for every expression inside it.
    pub fn visit(&self, seen: &mut impl FnMut(&Expr)) {
        seen(self);
        match self {
            Expr::Unary(_, one) => one.visit(seen),
            Expr::Binary(_, left, right) => {
                left.visit(seen);
                right.visit(seen);
            }
            Expr::Select(condition, yes, no) => {
                condition.visit(seen);
                yes.visit(seen);
                no.visit(seen);
            }
            Expr::FieldOf(header, _) | Expr::IsValid(header) => header.visit(seen),
            Expr::SameHeader(one, other) => {
                one.visit(seen);
                other.visit(seen);
            }
            Expr::IsUnionValid(union) => union.visit(seen),
            Expr::SameUnion(one, other) => {
                one.visit(seen);
                other.visit(seen);
            }
            Expr::Constant(_)
            | Expr::Field(_)
            | Expr::Argument(_)
            | Expr::Size(_)
            | Expr::LastIndex(_) => {}
        }
    }
}

impl HeaderExpr {
    fn visit(&self, seen: &mut impl FnMut(&Expr)) {
        match self {
            HeaderExpr::Element(_, index) => index.visit(seen),
            HeaderExpr::Member(union, _) => union.visit(seen),
            HeaderExpr::Header(_) | HeaderExpr::Last(_) => {}
        }
    }

    /// A header of the type that this gives.
    pub fn example(&self, headers: &Headers) -> HeaderId {
        match self {
            HeaderExpr::Header(header) => *header,
            HeaderExpr::Element(stack, _) | HeaderExpr::Last(stack) => {
                headers.stack(*stack).headers[0]
            }
            HeaderExpr::Member(union, index) => {
                headers.union(union.example(headers)).headers[*index as usize]
            }
        }
    }
}

impl UnionExpr {
    fn visit(&self, seen: &mut impl FnMut(&Expr)) {
        if let UnionExpr::Element(_, index) = self {
            index.visit(seen);
        }
    }

    /// A union of the type that this gives.
    pub fn example(&self, headers: &Headers) -> UnionId {
        match self {
            UnionExpr::Union(union) => *union,
            UnionExpr::Element(stack, _) | UnionExpr::Last(stack) => {
                headers.union_stack(*stack).unions[0]
            }
        }
    }
}

/// Reads expressions.
pub(super) struct Reader<'h> {
    pub(super) headers: &'h Headers,
    /// Number of the action's parameters; 0 outside of actions.
    pub(super) parameters: u32,
}

impl Reader<'_> {
    /// Reads any type/value object, or null for 0.
    pub(super) fn read(&self, node: &Node<'_>) -> Result<Expr, LoadError> {
        self.value(node, 0)
    }

    fn value(&self, node: &Node<'_>, depth: u32) -> Result<Expr, LoadError> {
        if depth > DEPTH_MAX {
            return Err(node.refuse(format!("expressions are nested more than {DEPTH_MAX} deep")));
        }
        if node.find("op").is_some() {
            return self.operator(node, depth + 1);
        }
        let value = node.get("value")?;
        Ok(match node.text_of("type")? {
            "expression" => self.value(&value, depth + 1)?,
            "field" => Expr::Field(self.headers.field_of(&value)?),
            "hexstr" => Expr::Constant(value.big()?),
            "bool" => Expr::Constant(u8::from(value.flag()?).into()),
            "local" | "runtime_data" => {
                let index = value.number()?;
                if index >= self.parameters {
                    return Err(value.refuse("the action has no such parameter"));
                }
                Expr::Argument(index)
            }
            "stack_field" => {
                let stack = self.headers.stack_at(&value.at(0)?)?;
                let first = self.headers.stack(stack).headers[0];
                let field = self.headers.index_in_type(first, &value.at(1)?)?;
                Expr::FieldOf(Box::new(HeaderExpr::Last(stack)), field)
            }
            "union_stack_field" => {
                let stack = self.headers.union_stack_at(&value.at(0)?)?;
                let union = UnionExpr::Last(stack);
                let example = union.example(self.headers);
                let member = self.headers.member_index(example, &value.at(1)?)?;
                let header = HeaderExpr::Member(union, member as u32);
                let example = header.example(self.headers);
                let field = self.headers.index_in_type(example, &value.at(2)?)?;
                Expr::FieldOf(Box::new(header), field)
            }
            other => {
                return Err(node.refuse(format!(
                    "a value of type {other:?} is not supported in an expression"
                )));
            }
        })
    }

    fn operator(&self, node: &Node<'_>, depth: u32) -> Result<Expr, LoadError> {
        let left = || self.operand(node, "left", depth);
        let right = || self.operand(node, "right", depth);
        let unary = |operator| Ok(Expr::Unary(operator, Box::new(right()?)));
        let operator = node.text_of("op")?;
        if let Some(binary) = binary(operator) {
            // A minus without a left operand negates.
            return Ok(Expr::Binary(binary, Box::new(left()?), Box::new(right()?)));
        }
        match operator {
            "~" => unary(Unary::Complement),
            "not" => unary(Unary::Not),
            "d2b" => unary(Unary::ToBool),
            "b2d" => right(),
            "==b" => Ok(Expr::Binary(
                Binary::Equal,
                Box::new(left()?),
                Box::new(right()?),
            )),
            "!=b" => Ok(Expr::Binary(
                Binary::NotEqual,
                Box::new(left()?),
                Box::new(right()?),
            )),
            "?" => {
                let condition = self.value(&node.get("cond")?, depth)?;
                let (yes, no) = (left()?, right()?);
                Ok(Expr::Select(
                    Box::new(condition),
                    Box::new(yes),
                    Box::new(no),
                ))
            }
            "valid" => Ok(Expr::IsValid(Box::new(
                self.header(&node.get("right")?, depth)?,
            ))),
            "valid_union" => {
                let union = self.union(&node.get("right")?, depth)?;
                Ok(Expr::IsUnionValid(Box::new(union)))
            }
            "==h" | "!=h" => {
                let one = self.header(&node.get("left")?, depth)?;
                let other = self.header(&node.get("right")?, depth)?;
                let same = Expr::SameHeader(Box::new(one), Box::new(other));
                Ok(negated_if(operator == "!=h", same))
            }
            "==u" | "!=u" => {
                let one = self.union(&node.get("left")?, depth)?;
                let other = self.union(&node.get("right")?, depth)?;
                let same = Expr::SameUnion(Box::new(one), Box::new(other));
                Ok(negated_if(operator == "!=u", same))
            }
            "last_stack_index" => Ok(Expr::LastIndex(self.stack(&node.get("right")?)?)),
            "size_stack" => Ok(Expr::Size(self.stack(&node.get("right")?)?)),
            "access_field" => {
                let header = self.header(&node.get("left")?, depth)?;
                let index = node.get("right")?;
                let field = index.number()?;
                let example = self.headers.header(header.example(self.headers));
                match field < example.field_count {
                    true => Ok(Expr::FieldOf(Box::new(header), field)),
                    false => Err(index.refuse("the header has no such field")),
                }
            }
            other => Err(node.refuse(format!("the operator {other:?} is not supported"))),
        }
    }

    fn operand(&self, node: &Node<'_>, side: &str, depth: u32) -> Result<Expr, LoadError> {
        match node.find(side) {
            Some(operand) => self.value(&operand, depth),
            None => Ok(Expr::Constant(0.into())),
        }
    }

    /// Reads a header: by name, or as an expression.
    pub(super) fn header(&self, node: &Node<'_>, depth: u32) -> Result<HeaderExpr, LoadError> {
        if depth > DEPTH_MAX {
            return Err(node.refuse("expressions are nested too deep"));
        }
        if let Some(operator) = node.find("op") {
            return match operator.text()? {
                "dereference_header_stack" | "dereference_stack" => {
                    let stack = self.stack(&node.get("left")?)?;
                    let index = self.operand(node, "right", depth + 1)?;
                    Ok(HeaderExpr::Element(stack, index))
                }
                "access_union_header" => {
                    let union = self.union(&node.get("left")?, depth + 1)?;
                    let example = union.example(self.headers);
                    let member = self.headers.member_index(example, &node.get("right")?)?;
                    Ok(HeaderExpr::Member(union, member as u32))
                }
                other => Err(node.refuse(format!("{other:?} gives no header"))),
            };
        }
        let value = node.get("value")?;
        match node.text_of("type")? {
            "header" => Ok(HeaderExpr::Header(self.headers.header_at(&value)?)),
            "expression" => self.header(&value, depth + 1),
            other => Err(node.refuse(format!("a value of type {other:?} is no header"))),
        }
    }

    /// Reads a union: by name, or as an expression.
    pub(super) fn union(&self, node: &Node<'_>, depth: u32) -> Result<UnionExpr, LoadError> {
        if depth > DEPTH_MAX {
            return Err(node.refuse("expressions are nested too deep"));
        }
        if let Some(operator) = node.find("op") {
            if !operator.is_text("dereference_union_stack") {
                return Err(node.refuse("this gives no header union"));
            }
            let stack = self.union_stack(&node.get("left")?)?;
            let index = self.operand(node, "right", depth + 1)?;
            return Ok(UnionExpr::Element(stack, index));
        }
        let value = node.get("value")?;
        match node.text_of("type")? {
            "header_union" => Ok(UnionExpr::Union(self.headers.union_at(&value)?)),
            "expression" => self.union(&value, depth + 1),
            other => Err(node.refuse(format!("a value of type {other:?} is no header union"))),
        }
    }

    /// Reads a stack by name.
    pub(super) fn stack(&self, node: &Node<'_>) -> Result<StackId, LoadError> {
        self.headers.stack_at(&unwrapped(node, "header_stack")?)
    }

    /// Reads a stack of unions by name.
    pub(super) fn union_stack(&self, node: &Node<'_>) -> Result<UnionStackId, LoadError> {
        self.headers
            .union_stack_at(&unwrapped(node, "header_union_stack")?)
    }
}

/// The value of a type/value object of type `kind`, without the expressions around it.
fn unwrapped<'a>(node: &Node<'a>, kind: &str) -> Result<Node<'a>, LoadError> {
    let mut node = node.clone();
    for _ in 0..DEPTH_MAX {
        let value = node.get("value")?;
        match node.text_of("type")? {
            "expression" => node = value,
            found if found == kind => return Ok(value),
            other => return Err(node.refuse(format!("a value of type {other:?}, not {kind:?}"))),
        }
    }
    Err(node.refuse("expressions are nested too deep"))
}

fn negated_if(is_negated: bool, expr: Expr) -> Expr {
    match is_negated {
        true => Expr::Unary(Unary::Not, Box::new(expr)),
        false => expr,
    }
}

fn binary(operator: &str) -> Option<Binary> {
    Some(match operator {
        "+" => Binary::Add,
        "-" => Binary::Subtract,
        "*" => Binary::Multiply,
        "/" => Binary::Divide,
        "%" => Binary::Remainder,
        "<<" => Binary::ShiftLeft,
        ">>" => Binary::ShiftRight,
        "&" => Binary::And,
        "|" => Binary::Or,
        "^" => Binary::Xor,
        "two_comp_mod" => Binary::TwosComplement,
        "usat_cast" => Binary::Saturate,
        "sat_cast" => Binary::SaturateSigned,
        "==" => Binary::Equal,
        "!=" => Binary::NotEqual,
        "<" => Binary::Less,
        "<=" => Binary::LessOrEqual,
        ">" => Binary::Greater,
        ">=" => Binary::GreaterOrEqual,
        "and" => Binary::BothTrue,
        "or" => Binary::EitherTrue,
        _ => return None,
    })
}
