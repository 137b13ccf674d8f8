//! Writes expressions as BMv2's JSON again.
//!
//! BMv2 distinguishes numbers from booleans; our expressions do not. The type follows from what
//! operators take and give, and `b2d` and `d2b` convert.

use num_bigint::BigInt;
use serde_json::{Value, json};

use crate::program::Program;
use crate::program::expression::{Binary, Expr, HeaderExpr, Unary};
use crate::program::headers::VALID;
use crate::program::ids::FieldId;

use super::node::{inner, ours};

/// The name of the field that holds a derived value.
pub(super) fn derived_name(number: usize) -> String {
    format!("v_{number}")
}

/// A number as an operand or a parameter. `None` if it has parts that depend on the packet
/// (elements of stacks, members of unions).
pub(super) fn number(program: &Program, expr: &Expr) -> Option<Value> {
    Some(match expr {
        Expr::Constant(number) => constant(number),
        Expr::Field(field) => field_value(program, *field),
        Expr::Argument(number) => ours(&derived_name(*number as usize)),
        Expr::Unary(Unary::Complement, one) => {
            inner(json!({"op": "~", "left": null, "right": number(program, one)?}))
        }
        Expr::Binary(operator, left, right) if !gives_truth(*operator) => {
            let (left, right) = (number(program, left)?, number(program, right)?);
            inner(json!({"op": name(*operator), "left": left, "right": right}))
        }
        Expr::Select(condition, yes, no) => {
            let condition = truth(program, condition)?;
            let (yes, no) = (number(program, yes)?, number(program, no)?);
            inner(json!({"op": "?", "left": yes, "right": no, "cond": condition}))
        }
        truth_of => {
            let right = truth(program, truth_of)?;
            inner(json!({"op": "b2d", "left": null, "right": right}))
        }
    })
}

/// The same for a boolean.
fn truth(program: &Program, expr: &Expr) -> Option<Value> {
    Some(match expr {
        Expr::Unary(Unary::Not, one) => {
            inner(json!({"op": "not", "left": null, "right": truth(program, one)?}))
        }
        Expr::Unary(Unary::ToBool, one) => {
            inner(json!({"op": "d2b", "left": null, "right": number(program, one)?}))
        }
        Expr::IsValid(header) => {
            let HeaderExpr::Header(header) = **header else {
                return None;
            };
            let valid = program.headers.header(header).valid_field();
            let valid = field_value(program, valid);
            inner(json!({"op": "d2b", "left": null, "right": valid}))
        }
        Expr::Binary(operator, left, right) if gives_truth(*operator) => {
            let operand = match operator {
                Binary::BothTrue | Binary::EitherTrue => truth,
                _ => number,
            };
            let (left, right) = (operand(program, left)?, operand(program, right)?);
            inner(json!({"op": name(*operator), "left": left, "right": right}))
        }
        Expr::Constant(_) | Expr::Field(_) | Expr::Argument(_) | Expr::Select(..) => {
            inner(json!({"op": "d2b", "left": null, "right": number(program, expr)?}))
        }
        Expr::Unary(Unary::Complement, _) | Expr::Binary(..) => {
            inner(json!({"op": "d2b", "left": null, "right": number(program, expr)?}))
        }
        _ => return None,
    })
}

fn constant(number: &BigInt) -> Value {
    json!({"type": "hexstr", "value": match number.sign() {
        num_bigint::Sign::Minus => format!("-{:#x}", number.magnitude()),
        _ => format!("{:#x}", number.magnitude()),
    }})
}

pub(super) fn field_value(program: &Program, field: FieldId) -> Value {
    let shape = program.headers.field(field);
    let header = &program.headers.header(shape.header).name;
    let name = if shape.name == VALID {
        VALID
    } else {
        &shape.name
    };
    json!({"type": "field", "value": [header, name]})
}

fn gives_truth(operator: Binary) -> bool {
    matches!(
        operator,
        Binary::Equal
            | Binary::NotEqual
            | Binary::Less
            | Binary::LessOrEqual
            | Binary::Greater
            | Binary::GreaterOrEqual
            | Binary::BothTrue
            | Binary::EitherTrue
    )
}

fn name(operator: Binary) -> &'static str {
    match operator {
        Binary::Add => "+",
        Binary::Subtract => "-",
        Binary::Multiply => "*",
        Binary::Divide => "/",
        Binary::Remainder => "%",
        Binary::ShiftLeft => "<<",
        Binary::ShiftRight => ">>",
        Binary::And => "&",
        Binary::Or => "|",
        Binary::Xor => "^",
        Binary::TwosComplement => "two_comp_mod",
        Binary::Saturate => "usat_cast",
        Binary::SaturateSigned => "sat_cast",
        Binary::Equal => "==",
        Binary::NotEqual => "!=",
        Binary::Less => "<",
        Binary::LessOrEqual => "<=",
        Binary::Greater => ">",
        Binary::GreaterOrEqual => ">=",
        Binary::BothTrue => "and",
        Binary::EitherTrue => "or",
    }
}
