//! Defines the meaning of expressions with big integers: the slow oracle of `program::narrow`.
//!
//! It also evaluates expressions that do not fit into 128 bits.

use num_bigint::{BigInt, Sign};

use crate::program::expression::{Binary, Expr, HeaderExpr, SHIFT_MAX, Unary, UnionExpr};
use crate::program::headers::{Field, Headers};
use crate::program::ids::{FieldId, HeaderId, UnionId};

/// The inputs of an expression.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    /// The program's headers.
    pub headers: &'a Headers,
    /// The packet's frame.
    pub words: &'a [u64],
    /// The action's data, all parameters one after the other.
    pub arguments: &'a [u64],
    /// Where each parameter is in `arguments`: first word and number of words.
    pub parameters: &'a [(u32, u32)],
}

impl Scope<'_> {
    /// The value of an expression.
    pub fn evaluate(&self, expr: &Expr) -> BigInt {
        match expr {
            Expr::Constant(number) => number.clone(),
            Expr::Field(field) => self.field(*field),
            Expr::Argument(index) => {
                let (first, count) = self.parameters[*index as usize];
                unsigned(&self.arguments[first as usize..(first + count) as usize])
            }
            Expr::FieldOf(header, index) => match self.header(header) {
                Some(header) => {
                    let field = self.headers.field_at(header, *index);
                    self.field(field.expect("the loader checked the index"))
                }
                None => BigInt::ZERO,
            },
            Expr::Size(stack) => self.word(self.headers.stack(*stack).next_word).into(),
            Expr::LastIndex(stack) => {
                BigInt::from(self.word(self.headers.stack(*stack).next_word)) - 1
            }
            Expr::IsValid(header) => {
                let header = self.header(header);
                truth(header.is_some_and(|header| self.is_valid(header)))
            }
            Expr::IsUnionValid(union) => {
                let union = self.union(union);
                truth(union.is_some_and(|union| self.valid_member(union).is_some()))
            }
            Expr::SameHeader(one, other) => {
                let both = self.header(one).zip(self.header(other));
                truth(both.is_some_and(|(one, other)| self.is_same(one, other)))
            }
            Expr::SameUnion(one, other) => {
                let both = self.union(one).zip(self.union(other));
                let members = both
                    .and_then(|(one, other)| self.valid_member(one).zip(self.valid_member(other)));
                truth(members.is_some_and(|((place, one), (other_place, other))| {
                    place == other_place && self.is_same(one, other)
                }))
            }
            Expr::Unary(operator, operand) => unary(*operator, self.evaluate(operand)),
            Expr::Binary(operator, left, right) => {
                binary(*operator, self.evaluate(left), self.evaluate(right))
            }
            Expr::Select(condition, yes, no) => match is_zero(&self.evaluate(condition)) {
                false => self.evaluate(yes),
                true => self.evaluate(no),
            },
        }
    }

    fn word(&self, word: u32) -> u64 {
        self.words[word as usize]
    }

    /// The number that a field holds.
    pub fn field(&self, id: FieldId) -> BigInt {
        let field = self.headers.field(id);
        let number = unsigned(&self.words[range(field)]);
        match field.is_signed {
            true => twos_complement(number, field.width_bits),
            false => number,
        }
    }

    fn is_valid(&self, header: HeaderId) -> bool {
        self.word(self.headers.header(header).base) != 0
    }

    fn valid_member(&self, union: UnionId) -> Option<(usize, HeaderId)> {
        let members = self.headers.union(union).headers.iter().copied();
        members
            .enumerate()
            .find(|&(_, member)| self.is_valid(member))
    }

    fn is_same(&self, one: HeaderId, other: HeaderId) -> bool {
        let block = |id: HeaderId| {
            let header = self.headers.header(id);
            &self.words[header.base as usize..(header.base + header.words) as usize]
        };
        let types = [one, other].map(|id| self.headers.header(id).type_index);
        types[0] == types[1] && self.is_valid(one) && block(one) == block(other)
    }

    /// The header that an expression gives; `None` past the end of a stack.
    pub fn header(&self, header: &HeaderExpr) -> Option<HeaderId> {
        match header {
            HeaderExpr::Header(header) => Some(*header),
            HeaderExpr::Element(stack, index) => {
                let index = usize::try_from(self.evaluate(index)).ok()?;
                self.headers.stack(*stack).headers.get(index).copied()
            }
            HeaderExpr::Last(stack) => {
                let stack = self.headers.stack(*stack);
                let last = self.word(stack.next_word).checked_sub(1)?;
                stack.headers.get(last as usize).copied()
            }
            HeaderExpr::Member(union, index) => {
                let union = self.union(union)?;
                self.headers
                    .union(union)
                    .headers
                    .get(*index as usize)
                    .copied()
            }
        }
    }

    /// The union that an expression gives; `None` past the end of a stack.
    pub fn union(&self, union: &UnionExpr) -> Option<UnionId> {
        match union {
            UnionExpr::Union(union) => Some(*union),
            UnionExpr::Element(stack, index) => {
                let index = usize::try_from(self.evaluate(index)).ok()?;
                self.headers.union_stack(*stack).unions.get(index).copied()
            }
            UnionExpr::Last(stack) => {
                let stack = self.headers.union_stack(*stack);
                let last = self.word(stack.next_word).checked_sub(1)?;
                stack.unions.get(last as usize).copied()
            }
        }
    }
}

/// The words of a field.
pub(crate) fn range(field: &Field) -> std::ops::Range<usize> {
    field.word as usize..(field.word + field.words()) as usize
}

/// The number in words, the most significant first.
pub(crate) fn unsigned(words: &[u64]) -> BigInt {
    let digits = words
        .iter()
        .rev()
        .flat_map(|&word| [word as u32, (word >> 32) as u32]);
    BigInt::from_slice(Sign::Plus, &digits.collect::<Vec<u32>>())
}

/// Writes the lowest bits of a number, in two's complement, to words, the most significant
/// first.
pub(crate) fn store(number: &BigInt, width_bits: u32, words: &mut [u64]) {
    let low: BigInt = number & ((BigInt::from(1) << width_bits) - 1);
    let digits = low.iter_u64_digits();
    words.fill(0);
    for (word, digit) in words.iter_mut().rev().zip(digits) {
        *word = digit;
    }
}

fn truth(is_true: bool) -> BigInt {
    u8::from(is_true).into()
}

fn is_zero(number: &BigInt) -> bool {
    number.sign() == Sign::NoSign
}

fn unary(operator: Unary, operand: BigInt) -> BigInt {
    match operator {
        Unary::Complement => -operand - 1,
        Unary::Not => truth(is_zero(&operand)),
        Unary::ToBool => truth(!is_zero(&operand)),
    }
}

fn twos_complement(number: BigInt, width_bits: u32) -> BigInt {
    let one = BigInt::from(1);
    let low: BigInt = number & ((&one << width_bits) - 1);
    match width_bits > 0 && low.bit(u64::from(width_bits - 1)) {
        true => low - (one << width_bits),
        false => low,
    }
}

/// The width that an operand gives, capped at that of the widest field.
fn width_of(number: &BigInt) -> u32 {
    u32::try_from(number).map_or(SHIFT_MAX, |width| width.min(SHIFT_MAX))
}

fn binary(operator: Binary, left: BigInt, right: BigInt) -> BigInt {
    match operator {
        Binary::Add => left + right,
        Binary::Subtract => left - right,
        Binary::Multiply => left * right,
        Binary::Divide if is_zero(&right) => BigInt::ZERO,
        Binary::Divide => left / right,
        Binary::Remainder if is_zero(&right) => BigInt::ZERO,
        Binary::Remainder => left % right,
        Binary::ShiftLeft => match u32::try_from(&right) {
            Ok(bits) if bits <= SHIFT_MAX => left << bits,
            _ => BigInt::ZERO,
        },
        // A right shift rounds down, also for a negative number.
        Binary::ShiftRight => match u32::try_from(&right) {
            Ok(bits) => left >> bits,
            Err(_) if left.sign() == Sign::Minus => (-1).into(),
            Err(_) => BigInt::ZERO,
        },
        Binary::And => left & right,
        Binary::Or => left | right,
        Binary::Xor => left ^ right,
        Binary::TwosComplement => twos_complement(left, width_of(&right)),
        Binary::Saturate => {
            let most = (BigInt::from(1) << width_of(&right)) - 1;
            left.clamp(BigInt::ZERO, most)
        }
        Binary::SaturateSigned => {
            let half = BigInt::from(1) << width_of(&right).max(1) >> 1;
            left.clamp(-&half, half - 1)
        }
        Binary::Equal => truth(left == right),
        Binary::NotEqual => truth(left != right),
        Binary::Less => truth(left < right),
        Binary::LessOrEqual => truth(left <= right),
        Binary::Greater => truth(left > right),
        Binary::GreaterOrEqual => truth(left >= right),
        Binary::BothTrue => truth(!is_zero(&left) && !is_zero(&right)),
        Binary::EitherTrue => truth(!is_zero(&left) || !is_zero(&right)),
    }
}
