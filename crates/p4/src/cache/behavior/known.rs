//! Tracks fields as functions of the frame at the beginning of the pipeline.
//!
//! ```text
//!   tmp = hdr.index & 0xffffffff        tmp is  index & ...             a copy, a cast, a slice
//!   hash(row, {src, dst})               row is  #0: hash of src and dst
//!   read(count, rows, row)              count is  #1: rows[#0]          the key has #1
//!   read(next, chain, count)            next is  #2: chain[#1]
//! ```
//!
//! A compiler never reads a register at a field of the packet: it makes a temporary by a copy,
//! a cast or a hash. So each field to which the walk has surely given one value is known by
//! that value. The value is an expression of the original fields and of earlier derived values
//! ([`Derived`], which an expression names like an action's data).
//!
//! 1. A known value is the field's value on every path to this place, for every packet.
//! 2. It reads only original field values, registers that nothing has written since, and values
//!    derived before it.
//! 3. Values and their number are bounded: anything larger is not known.

use std::collections::BTreeMap;

use crate::program::Program;
use crate::program::action::{Step, Target};
use crate::program::calculation::{Algorithm, Input};
use crate::program::code::Code;
use crate::program::cost::has_payload;
use crate::program::expression::{Binary, Expr};
use crate::program::ids::{CalculationId, FieldId, RegisterId};

use super::words::Uses;

/// Maximum nodes of a known value.
const NODES_MAX: usize = 256;

/// Maximum values derived for one pipeline.
const DERIVED_MAX: usize = 256;

/// A value that is more than an expression.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Derived {
    /// A hash: base, calculation, number of results.
    ///
    /// `given` has the input fields that had another value by then.
    Hash {
        base: Expr,
        calculation: CalculationId,
        count: Expr,
        given: Vec<(FieldId, Expr)>,
    },
    /// A cell of an array of registers.
    Register { array: RegisterId, index: Expr },
}

impl Derived {
    /// Words of the value.
    pub(crate) fn words(&self, program: &Program) -> u32 {
        match self {
            Derived::Hash { .. } => 1,
            Derived::Register { array, .. } => {
                let array = &program.arrays.registers[array.index()];
                array.width_bits.div_ceil(64)
            }
        }
    }

    /// The expressions that the value is computed from.
    pub(crate) fn operands(&self) -> Vec<&Expr> {
        match self {
            Derived::Hash {
                base, count, given, ..
            } => {
                let given = given.iter().map(|(_, value)| value);
                [base, count].into_iter().chain(given).collect()
            }
            Derived::Register { index, .. } => vec![index],
        }
    }
}

/// The known fields, except those that still have their original value.
pub(super) type Known = BTreeMap<FieldId, Expr>;

/// The state at a place: possible writes, and known fields.
pub(super) trait Place {
    /// Whether a word may differ from its original value, or differs between packets anyway
    /// (time).
    fn may_differ(&self, word: u32) -> bool;
    /// Whether a register may have been written.
    fn is_written(&self, array: RegisterId) -> bool;
    /// The known fields.
    fn known(&self) -> &Known;
}

/// Derives values of a program.
pub(super) struct Deriver<'p> {
    pub(super) uses: Uses<'p>,
    pub(super) derived: Vec<Derived>,
}

impl Deriver<'_> {
    fn program(&self) -> &Program {
        self.uses.program
    }

    /// Expresses `expr` in original values; `None` if it is not known.
    pub(super) fn resolve(&self, expr: &Expr, place: &impl Place) -> Option<Expr> {
        let value = self.substitute(expr, place)?;
        let mut nodes = 0;
        value.visit(&mut |_| nodes += 1);
        (nodes <= NODES_MAX).then_some(value)
    }

    fn substitute(&self, expr: &Expr, place: &impl Place) -> Option<Expr> {
        Some(match expr {
            Expr::Constant(_) => expr.clone(),
            // An entry's data is known only with the entry.
            Expr::Argument(_) => return None,
            Expr::Field(field) => self.field(*field, place)?,
            Expr::Unary(operator, one) => {
                Expr::Unary(*operator, Box::new(self.substitute(one, place)?))
            }
            Expr::Binary(operator, left, right) => Expr::Binary(
                *operator,
                Box::new(self.substitute(left, place)?),
                Box::new(self.substitute(right, place)?),
            ),
            Expr::Select(condition, yes, no) => Expr::Select(
                Box::new(self.substitute(condition, place)?),
                Box::new(self.substitute(yes, place)?),
                Box::new(self.substitute(no, place)?),
            ),
            Expr::FieldOf(..)
            | Expr::Size(_)
            | Expr::LastIndex(_)
            | Expr::IsValid(_)
            | Expr::IsUnionValid(_)
            | Expr::SameHeader(..)
            | Expr::SameUnion(..) => {
                let mut has_arguments = false;
                expr.visit(&mut |part| has_arguments |= matches!(part, Expr::Argument(_)));
                let mut reads = Vec::new();
                self.uses.expr(expr, &mut reads);
                let is_as_it_was = reads.iter().all(|&word| !place.may_differ(word));
                (is_as_it_was && !has_arguments).then(|| expr.clone())?
            }
        })
    }

    fn field(&self, field: FieldId, place: &impl Place) -> Option<Expr> {
        if self.is_as_it_was(field, place) {
            return Some(Expr::Field(field));
        }
        place.known().get(&field).cloned()
    }

    fn is_as_it_was(&self, field: FieldId, place: &impl Place) -> bool {
        self.uses.field(field).all(|word| !place.may_differ(word))
    }

    /// The number of a register's cell among the derived values; `None` if its index is not
    /// known.
    pub(super) fn register(
        &mut self,
        array: RegisterId,
        index: &Code,
        place: &impl Place,
    ) -> Option<usize> {
        let index = self.resolve(index.expr(), place)?;
        self.number(Derived::Register { array, index })
    }

    fn hash(
        &mut self,
        (base, calculation, count): (&Code, CalculationId, &Code),
        place: &impl Place,
    ) -> Option<usize> {
        let shape = &self.program().calculations.calculations[calculation.index()];
        let counts = matches!(
            shape.algorithm,
            Algorithm::RoundRobin | Algorithm::RoundRobinConsistent
        );
        if counts || has_payload(shape) {
            return None;
        }
        let mut given = Vec::new();
        for input in &shape.input {
            let field = match input {
                Input::Field(field) => *field,
                Input::Header(header) => {
                    let header = self.program().headers.header(*header);
                    let mut words = super::words::block(header);
                    if words.any(|word| place.may_differ(word)) {
                        return None;
                    }
                    continue;
                }
                Input::Constant(..) | Input::Payload => continue,
            };
            let shape = self.program().headers.field(field);
            let header = self.program().headers.header(shape.header);
            let length = header.varbit.map(|_| header.varbit_length_word());
            let mut frame = std::iter::once(header.base).chain(length);
            if frame.any(|word| place.may_differ(word)) {
                return None;
            }
            if !self.is_as_it_was(field, place) && !shape.is_varbit {
                given.push((field, self.field(field, place)?));
            } else if !self.is_as_it_was(field, place) {
                return None;
            }
        }
        let hash = Derived::Hash {
            base: self.resolve(base.expr(), place)?,
            calculation,
            count: self.resolve(count.expr(), place)?,
            given,
        };
        self.number(hash)
    }

    fn number(&mut self, value: Derived) -> Option<usize> {
        if let Some(known) = self.derived.iter().position(|one| *one == value) {
            return Some(known);
        }
        if self.derived.len() >= DERIVED_MAX {
            return None;
        }
        self.derived.push(value);
        Some(self.derived.len() - 1)
    }

    /// The field to which a step gives a known value, with that value.
    pub(super) fn define(&mut self, step: &Step, place: &impl Place) -> Option<(FieldId, Expr)> {
        let (field, value) = match step {
            Step::SetWord(to, value) => (self.uses.field_at(*to)?, Expr::Constant((*value).into())),
            Step::CopyWord(from, to, mask) => {
                let value = self.field(self.uses.field_at(*from)?, place)?;
                let mask = Expr::Constant((*mask).into());
                let value = Expr::Binary(Binary::And, Box::new(value), Box::new(mask));
                (self.uses.field_at(*to)?, value)
            }
            Step::CopyWords(from, to, _) => {
                let value = self.field(self.uses.field_at(*from)?, place)?;
                (self.uses.field_at(*to)?, value)
            }
            Step::Assign(Target::Field(field), code) => (*field, self.resolve(code.expr(), place)?),
            Step::Hash(Target::Field(field), base, calculation, count) => {
                let number = self.hash((base, *calculation, count), place)?;
                (*field, Expr::Argument(number as u32))
            }
            Step::ReadRegister(Target::Field(field), array, index) => {
                // Past the end the field keeps its value, but such a path is a fault.
                if place.is_written(*array) {
                    return None;
                }
                let number = self.register(*array, index, place)?;
                (*field, Expr::Argument(number as u32))
            }
            _ => return None,
        };
        let shape = self.program().headers.field(field);
        (!shape.is_varbit).then(|| (field, cut(value, shape.width_bits, shape.is_signed)))
    }
}

/// A value truncated to a field of this width.
fn cut(value: Expr, width_bits: u32, is_signed: bool) -> Expr {
    let (operator, width) = match is_signed {
        true => (Binary::TwosComplement, width_bits.into()),
        false => {
            let ones = (num_bigint::BigInt::from(1) << width_bits) - 1;
            (Binary::And, ones)
        }
    };
    Expr::Binary(operator, Box::new(value), Box::new(Expr::Constant(width)))
}
