//! A stored expression: its meaning, and its fast form.

use num_bigint::{BigInt, Sign};

use crate::program::exact::{self, Scope};

use super::cost;
use super::expression::Expr;
use super::headers::Headers;
use super::narrow::{self, Narrow, Need, Parameters, Registers, Seen};

/// An expression, compiled where 128 bits suffice.
#[derive(Clone, Debug)]
pub struct Code {
    expr: Expr,
    narrow: Option<Narrow>,
    cost: u64,
}

impl Code {
    /// Compiles for uses that need the whole value: conditions, indices, lengths.
    pub(crate) fn exact(expr: Expr, headers: &Headers, parameters: &Parameters) -> Code {
        let narrow = narrow::compile(&expr, headers, parameters, Need::Exact);
        Code::new(expr, narrow, headers, parameters)
    }

    /// Compiles a value that is stored in `width_bits` bits.
    pub(crate) fn stored(
        expr: Expr,
        width_bits: u32,
        headers: &Headers,
        parameters: &Parameters,
    ) -> Code {
        let need = if width_bits > 128 {
            Need::Signed
        } else {
            Need::LowBits
        };
        let narrow = narrow::compile(&expr, headers, parameters, need);
        Code::new(expr, narrow, headers, parameters)
    }

    fn new(expr: Expr, narrow: Option<Narrow>, headers: &Headers, parameters: &Parameters) -> Code {
        let cost = cost::of_expr(&expr, narrow.is_some(), headers, parameters);
        Code { expr, narrow, cost }
    }

    /// The cost of evaluating it ([`super::cost`]).
    pub(crate) fn cost(&self) -> u64 {
        self.cost
    }

    /// The expression.
    pub fn expr(&self) -> &Expr {
        &self.expr
    }

    /// Whether 128 bits suffice to evaluate it.
    pub fn is_narrow(&self) -> bool {
        self.narrow.is_some()
    }

    /// The lowest 128 bits of the value.
    #[inline]
    pub(crate) fn low_bits(&self, scope: &Scope<'_>) -> i128 {
        match &self.narrow {
            Some(narrow) => narrow.evaluate(&registers(scope)),
            None => low_bits(&scope.evaluate(&self.expr)),
        }
    }

    /// Whether the value is nonzero.
    #[inline]
    pub(crate) fn is_true(&self, scope: &Scope<'_>) -> bool {
        match &self.narrow {
            Some(narrow) => narrow.is_true(&registers(scope)),
            None => scope.evaluate(&self.expr).sign() != Sign::NoSign,
        }
    }

    /// Whether the value is nonzero; adds the frame bits that decide it. Returns `None` if they
    /// are not known, so that everything that the expression reads counts.
    pub(crate) fn examine_truth(&self, scope: &Scope<'_>, seen: &mut Seen) -> Option<bool> {
        let narrow = self.narrow.as_ref()?;
        Some(narrow.examine_truth(registers(scope), seen))
    }

    /// The value as an index or a length; `u64::MAX` if it is negative or greater.
    #[inline]
    pub(crate) fn index(&self, scope: &Scope<'_>) -> u64 {
        match &self.narrow {
            Some(narrow) => u64::try_from(narrow.evaluate(&registers(scope))).unwrap_or(u64::MAX),
            None => u64::try_from(&scope.evaluate(&self.expr)).unwrap_or(u64::MAX),
        }
    }

    /// The value in the form for storing.
    #[inline]
    pub(crate) fn value(&self, scope: &Scope<'_>) -> Stored {
        match &self.narrow {
            Some(narrow) => Stored::Narrow(narrow.evaluate(&registers(scope))),
            None => Stored::Wide(scope.evaluate(&self.expr)),
        }
    }
}

/// A value on its way into a field.
#[derive(Debug)]
pub(crate) enum Stored {
    Narrow(i128),
    Wide(BigInt),
}

impl Stored {
    /// Writes the value to the words of a field of this width.
    #[inline]
    pub(crate) fn put(&self, words: &mut [u64], width_bits: u32) {
        match self {
            Stored::Narrow(number) => put(*number, words, width_bits),
            Stored::Wide(number) => exact::store(number, width_bits, words),
        }
    }
}

/// Writes a number to the words of a field, the most significant word first.
#[inline]
pub(crate) fn put(number: i128, words: &mut [u64], width_bits: u32) {
    match words {
        [word] => *word = number as u64 & low_mask(width_bits),
        [high, low] => {
            *low = number as u64;
            *high = (number >> 64) as u64 & low_mask(width_bits - 64);
        }
        [top @ .., high, low] => {
            *low = number as u64;
            *high = (number >> 64) as u64;
            let sign = if number < 0 { u64::MAX } else { 0 };
            top.fill(sign);
            let unused = (top.len() as u32 + 2) * 64 - width_bits;
            top[0] &= u64::MAX >> unused;
        }
        [] => {}
    }
}

/// A mask of `bits` ones, up to 64.
#[inline]
pub(crate) const fn low_mask(bits: u32) -> u64 {
    match bits {
        0 => 0,
        1..=63 => (1 << bits) - 1,
        _ => u64::MAX,
    }
}

fn registers<'a>(scope: &Scope<'a>) -> Registers<'a> {
    Registers {
        words: scope.words,
        arguments: scope.arguments,
    }
}

fn low_bits(number: &BigInt) -> i128 {
    let mut words = [0; 2];
    exact::store(number, 128, &mut words);
    (u128::from(words[0]) << 64 | u128::from(words[1])) as i128
}
