//! Compiles expressions to 128-bit arithmetic.
//!
//! BMv2's language has unbounded integers, but nearly every expression fits into 128 bits.
//! [`compile`] goes up from the leaves and tracks two facts for each node. The lowest 128 bits
//! of its value are always right. And if a [`Bound`] of the value is known and fits, the 128
//! bits are the whole value.
//!
//! ```text
//!   + - * & | ^ ~ <<     low bits need only low bits: always compiled, exact while the bound fits
//!   x & constant         exact again, however wide x is: the widths that the compiler wrote out
//!   two_comp_mod(x, w)   exact again, from the low bits of x
//!   >> / % == < usat ..  need all of their operands: compiled if these are exact
//! ```
//!
//! So `(a + b) & 0xffffffff` never uses more than two registers, and a 128-bit address is moved
//! and compared without a big integer. Expressions that cannot be compiled go to
//! [`crate::program::exact`], which is also the oracle: a test compares both on random expressions.
//!
//! Evaluation allocates nothing.

use num_bigint::BigInt;

use super::expression::{Binary, Expr, HeaderExpr, SHIFT_MAX, Unary, UnionExpr};
use super::headers::{Field, Headers};

mod examine;
#[cfg(test)]
mod tests;

pub(crate) use examine::Seen;

/// The lowest 128 bits of an expression's value, in two's complement.
#[derive(Clone, Debug)]
pub(crate) enum Narrow {
    Constant(i128),
    /// An unsigned field of up to 64 bits.
    Word(u32),
    /// The last two words of a wider field.
    Pair(u32),
    /// A signed field: the low bits, and the shift that moves its sign to the top.
    SignedWord(u32, u32),
    SignedPair(u32, u32),
    Argument(u32),
    ArgumentPair(u32),
    /// A field of up to 64 bits in a stack's element: its words, one per element.
    Element(Box<Narrow>, Box<[u32]>),
    /// The same for the last element in use, with the word that counts elements.
    Last(u32, Box<[u32]>),
    LastIndex(u32),
    AnyOf(Box<[u32]>),
    SameBlock(u32, u32, u32),
    Complement(Box<Narrow>),
    Not(Box<Narrow>),
    ToBool(Box<Narrow>),
    SignExtend(Box<Narrow>, u32),
    Clamp(Box<Narrow>, i128, i128),
    /// Saturates a value that is not negative.
    AtMost(Box<Narrow>, u128),
    ShiftRight(Box<Narrow>, u32),
    ShiftRightUnsigned(Box<Narrow>, u32),
    ShiftLeft(Box<Narrow>, u32),
    /// Up to 64 bits of a field of any width, from some bit upwards.
    Slice {
        word: u32,
        words: u32,
        shift: u32,
    },
    /// `word & mask` and `~word & mask`: the word, the bits to invert, the mask.
    ///
    /// Both are frequent in parsers.
    Masked(u32, u64, u64),
    Both(Two, Box<(Narrow, Narrow)>),
    Select(Box<(Narrow, Narrow, Narrow)>),
}

/// Operators that evaluate both operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Two {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    And,
    Or,
    Xor,
    ShiftLeft,
    ShiftRight,
    ShiftRightUnsigned,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    LessUnsigned,
    LessOrEqualUnsigned,
    BothTrue,
    EitherTrue,
}

/// A bound of a value: it is a number of this many bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Bound {
    bits: u32,
    is_signed: bool,
}

impl Bound {
    const BOOL: Bound = Bound::unsigned(1);

    const fn unsigned(bits: u32) -> Bound {
        Bound {
            bits,
            is_signed: false,
        }
    }

    const fn signed(bits: u32) -> Bound {
        Bound {
            bits,
            is_signed: true,
        }
    }

    /// Bits in two's complement.
    fn signed_bits(self) -> u32 {
        self.bits + u32::from(!self.is_signed)
    }

    /// Keeps the bound only if it fits into 128 bits.
    fn fitting(self) -> Option<Bound> {
        (self.bits <= 128).then_some(self)
    }
}

/// Where the action's parameters are in its data: first word and number of words.
pub(crate) type Parameters = [(u32, u32)];

/// The inputs of a compiled or exact evaluation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registers<'a> {
    pub(crate) words: &'a [u64],
    pub(crate) arguments: &'a [u64],
}

/// What 128 bits must represent of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Need {
    /// Its lowest 128 bits.
    LowBits,
    /// All of it; a leading one may or may not be a sign.
    Exact,
    /// All of it, in two's complement.
    Signed,
}

/// Compiles an expression to 128 bits; `None` if they do not suffice.
pub(crate) fn compile(
    expr: &Expr,
    headers: &Headers,
    parameters: &Parameters,
    need: Need,
) -> Option<Narrow> {
    let compiler = Compiler {
        headers,
        parameters,
    };
    let (narrow, bound) = compiler.compile(expr)?;
    let suffices = match need {
        Need::LowBits => true,
        Need::Exact => bound.is_some(),
        Need::Signed => bound.is_some_and(|bound| bound.signed_bits() <= 128),
    };
    suffices.then_some(narrow)
}

struct Compiler<'a> {
    headers: &'a Headers,
    parameters: &'a Parameters,
}

type Compiled = Option<(Narrow, Option<Bound>)>;

impl Compiler<'_> {
    // One match, with an arm for each kind of expression.
    fn compile(&self, expr: &Expr) -> Compiled {
        match expr {
            Expr::Constant(number) => Some(constant(number)),
            Expr::Field(field) => Some(load(self.headers.field(*field))),
            Expr::Argument(index) => {
                let (word, words) = self.parameters[*index as usize];
                Some(match words {
                    1 => (Narrow::Argument(word), Some(Bound::unsigned(64))),
                    2 => (Narrow::ArgumentPair(word), Some(Bound::unsigned(128))),
                    _ => (Narrow::ArgumentPair(word + words - 2), None),
                })
            }
            Expr::FieldOf(header, index) => self.field_of(header, *index),
            Expr::Size(stack) => {
                let word = self.headers.stack(*stack).next_word;
                Some((Narrow::Word(word), Some(Bound::unsigned(32))))
            }
            Expr::LastIndex(stack) => {
                let word = self.headers.stack(*stack).next_word;
                Some((Narrow::LastIndex(word), Some(Bound::signed(33))))
            }
            Expr::IsValid(header) => match &**header {
                HeaderExpr::Header(id) => {
                    let word = self.headers.header(*id).base;
                    Some((Narrow::Word(word), Some(Bound::BOOL)))
                }
                other => self.words_of(other, |header| header.base, Bound::BOOL),
            },
            Expr::IsUnionValid(union) => match &**union {
                UnionExpr::Union(union) => {
                    let members = self.headers.union(*union).headers.iter();
                    let bases = members.map(|&header| self.headers.header(header).base);
                    Some((Narrow::AnyOf(bases.collect()), Some(Bound::BOOL)))
                }
                _ => None,
            },
            Expr::SameHeader(one, other) => match (&**one, &**other) {
                (HeaderExpr::Header(one), HeaderExpr::Header(other)) => {
                    let (one, other) = (self.headers.header(*one), self.headers.header(*other));
                    let same = match one.type_index == other.type_index {
                        true => Narrow::SameBlock(one.base, other.base, one.words),
                        false => Narrow::Constant(0),
                    };
                    Some((same, Some(Bound::BOOL)))
                }
                _ => None,
            },
            Expr::SameUnion(..) => None,
            Expr::Unary(operator, operand) => {
                let (operand, bound) = self.compile(operand)?;
                let operand = Box::new(operand);
                Some(match operator {
                    Unary::Complement => {
                        let bound = bound.map(|bound| Bound::signed(bound.signed_bits()));
                        (Narrow::Complement(operand), bound.and_then(Bound::fitting))
                    }
                    Unary::Not => (Narrow::Not(operand), Some(bound.map(|_| Bound::BOOL)?)),
                    Unary::ToBool => (Narrow::ToBool(operand), Some(bound.map(|_| Bound::BOOL)?)),
                })
            }
            Expr::Binary(operator, left, right) => self.binary(*operator, left, right),
            Expr::Select(condition, yes, no) => {
                let (condition, known) = self.compile(condition)?;
                known?;
                let ((yes, yes_bound), (no, no_bound)) = (self.compile(yes)?, self.compile(no)?);
                let bound = yes_bound.zip(no_bound);
                let bound = bound.and_then(|(yes, no)| either(yes, no).fitting());
                Some((Narrow::Select(Box::new((condition, yes, no))), bound))
            }
        }
    }

    /// Compiles a field of a header that depends on the packet.
    fn field_of(&self, header: &HeaderExpr, index: u32) -> Compiled {
        if let HeaderExpr::Header(header) = header {
            let field = self.headers.field_at(*header, index)?;
            return Some(load(self.headers.field(field)));
        }
        let example = self.headers.field_at(header.example(self.headers), index)?;
        let example = self.headers.field(example);
        if example.width_bits > 64 || example.is_signed {
            return None;
        }
        let bound = Bound::unsigned(example.width_bits);
        let word_of = |header: &super::headers::Header| {
            self.headers.fields[(header.first_field.0 + index) as usize].word
        };
        self.words_of(header, word_of, bound)
    }

    /// One word of each element of a stack.
    fn words_of(
        &self,
        header: &HeaderExpr,
        word_of: impl Fn(&super::headers::Header) -> u32,
        bound: Bound,
    ) -> Compiled {
        let words = |stack| {
            let elements = self.headers.stack(stack).headers.iter();
            elements
                .map(|&id| word_of(self.headers.header(id)))
                .collect()
        };
        let narrow = match header {
            HeaderExpr::Header(id) => Narrow::Word(word_of(self.headers.header(*id))),
            HeaderExpr::Last(stack) => {
                Narrow::Last(self.headers.stack(*stack).next_word, words(*stack))
            }
            HeaderExpr::Element(stack, index) => {
                let (index, known) = self.compile(index)?;
                known?;
                Narrow::Element(Box::new(index), words(*stack))
            }
            HeaderExpr::Member(..) => return None,
        };
        Some((narrow, Some(bound)))
    }

    // One match, with an arm for each kind of operator.
    fn binary(&self, operator: Binary, left: &Expr, right: &Expr) -> Compiled {
        match operator {
            Binary::TwosComplement | Binary::Saturate | Binary::SaturateSigned => {
                return self.cast(operator, left, right);
            }
            Binary::ShiftLeft | Binary::ShiftRight => return self.shift(operator, left, right),
            Binary::And => {
                // The low bits of a wide field after a shift.
                for (wide, mask) in [(left, right), (right, left)] {
                    if let Some(slice) = self.slice(wide, mask) {
                        return Some(slice);
                    }
                }
            }
            _ => {}
        }
        let ((left, left_bound), (right, right_bound)) =
            (self.compile(left)?, self.compile(right)?);
        let both = left_bound.zip(right_bound);
        let pair = |two, left, right| Narrow::Both(two, Box::new((left, right)));
        let closed = |two, bound: Option<Bound>| {
            Some((
                pair(two, left.clone(), right.clone()),
                bound.and_then(Bound::fitting),
            ))
        };
        match operator {
            Binary::Add => closed(Two::Add, both.map(|(left, right)| sum(left, right))),
            Binary::Subtract => closed(
                Two::Subtract,
                both.map(|(left, right)| {
                    Bound::signed(left.signed_bits().max(right.signed_bits()) + 1)
                }),
            ),
            Binary::Multiply => closed(
                Two::Multiply,
                both.map(|(left, right)| match left.is_signed || right.is_signed {
                    false => Bound::unsigned(left.bits + right.bits),
                    true => Bound::signed(left.signed_bits() + right.signed_bits()),
                }),
            ),
            Binary::And => {
                let bound = masked(left_bound, right_bound);
                match masked_word(&left, &right).or_else(|| masked_word(&right, &left)) {
                    Some(narrow) => Some((narrow, bound.and_then(Bound::fitting))),
                    None => closed(Two::And, bound),
                }
            }
            Binary::Or => closed(Two::Or, both.map(|(left, right)| either(left, right))),
            Binary::Xor => closed(Two::Xor, both.map(|(left, right)| either(left, right))),
            Binary::BothTrue | Binary::EitherTrue => {
                both?;
                let two = match operator {
                    Binary::BothTrue => Two::BothTrue,
                    _ => Two::EitherTrue,
                };
                Some((pair(two, left, right), Some(Bound::BOOL)))
            }
            Binary::Divide | Binary::Remainder => {
                let (over, under) = both?;
                if over.is_signed || under.is_signed {
                    return None;
                }
                Some(match operator {
                    Binary::Divide => (pair(Two::Divide, left, right), Some(over)),
                    _ => (pair(Two::Remainder, left, right), Some(under)),
                })
            }
            Binary::Equal
            | Binary::NotEqual
            | Binary::Less
            | Binary::LessOrEqual
            | Binary::Greater
            | Binary::GreaterOrEqual => comparison(operator, left, right, both?),
            Binary::ShiftLeft
            | Binary::ShiftRight
            | Binary::TwosComplement
            | Binary::Saturate
            | Binary::SaturateSigned => unreachable!("handled above"),
        }
    }

    /// Compiles a cast to a width, which must be constant.
    fn cast(&self, operator: Binary, value: &Expr, width: &Expr) -> Compiled {
        let width = u32::try_from(width.as_constant()?).ok()?;
        let (value, bound) = self.compile(value)?;
        let value = Box::new(value);
        match operator {
            Binary::TwosComplement if (1..=128).contains(&width) => {
                Some((Narrow::SignExtend(value, width), Some(Bound::signed(width))))
            }
            Binary::Saturate if (1..=127).contains(&width) => {
                let most = (1_u128 << width) - 1;
                let narrow = match bound?.is_signed {
                    true => Narrow::Clamp(value, 0, most as i128),
                    false => Narrow::AtMost(value, most),
                };
                Some((narrow, Some(Bound::unsigned(width))))
            }
            Binary::SaturateSigned if (1..=127).contains(&width) => {
                let half = 1_i128 << (width - 1);
                let narrow = match bound?.is_signed {
                    true => Narrow::Clamp(value, -half, half - 1),
                    false => Narrow::AtMost(value, (half - 1) as u128),
                };
                Some((narrow, Some(Bound::signed(width))))
            }
            _ => None,
        }
    }

    fn shift(&self, operator: Binary, value: &Expr, amount: &Expr) -> Compiled {
        let (value, bound) = self.compile(value)?;
        if let Some(amount) = amount.as_constant() {
            let amount = u32::try_from(amount).ok()?;
            return match operator {
                Binary::ShiftLeft if amount > SHIFT_MAX => {
                    Some((Narrow::Constant(0), Some(Bound::BOOL)))
                }
                Binary::ShiftLeft => {
                    let bound = bound.map(|bound| Bound {
                        bits: bound.bits + amount,
                        ..bound
                    });
                    let bound = bound.and_then(Bound::fitting);
                    Some((Narrow::ShiftLeft(Box::new(value), amount), bound))
                }
                _ => {
                    let bound = bound?;
                    let value = Box::new(value);
                    let bits = bound.bits.saturating_sub(amount).max(1);
                    Some(match bound.is_signed {
                        true => (Narrow::ShiftRight(value, amount), Some(Bound::signed(bits))),
                        false => {
                            let bound = Some(Bound::unsigned(bits));
                            (Narrow::ShiftRightUnsigned(value, amount), bound)
                        }
                    })
                }
            };
        }
        let (amount, amount_bound) = self.compile(amount)?;
        if amount_bound?.is_signed {
            return None;
        }
        let pair = |two| Narrow::Both(two, Box::new((value, amount)));
        match operator {
            Binary::ShiftLeft => Some((pair(Two::ShiftLeft), None)),
            _ => match bound?.is_signed {
                true => Some((pair(Two::ShiftRight), bound)),
                false => Some((pair(Two::ShiftRightUnsigned), bound)),
            },
        }
    }

    /// Compiles `(field >> n) & mask` for a field wider than 128 bits.
    fn slice(&self, wide: &Expr, mask: &Expr) -> Compiled {
        let mask = u64::try_from(mask.as_constant()?).ok()?;
        let Expr::Binary(Binary::ShiftRight, field, amount) = wide else {
            return None;
        };
        let Expr::Field(field) = **field else {
            return None;
        };
        let field = self.headers.field(field);
        let shift = u32::try_from(amount.as_constant()?).ok()?;
        if field.is_signed || field.width_bits <= 128 || shift >= field.width_bits {
            return None;
        }
        let slice = Narrow::Slice {
            word: field.word,
            words: field.words(),
            shift,
        };
        let bits = 64 - mask.leading_zeros();
        let both = Box::new((slice, Narrow::Constant(mask.into())));
        let bound = Bound::unsigned(bits.max(1));
        Some((Narrow::Both(Two::And, both), Some(bound)))
    }
}

fn constant(number: &BigInt) -> (Narrow, Option<Bound>) {
    let modulus = BigInt::from(1) << 128_u32;
    let low: BigInt = number & (modulus - 1);
    let low = u128::try_from(&low).expect("128 bits");
    let bits = number.bits().min(1 << 20) as u32;
    let bound = match number.sign() {
        num_bigint::Sign::Minus => Bound::signed(bits + 1),
        _ => Bound::unsigned(bits.max(1)),
    };
    (Narrow::Constant(low as i128), bound.fitting())
}

fn load(field: &Field) -> (Narrow, Option<Bound>) {
    let last = field.word + field.words() - 1;
    let bits = field.width_bits;
    match (field.is_signed, bits) {
        (false, ..=64) => (Narrow::Word(last), Some(Bound::unsigned(bits))),
        (true, ..=64) => (
            Narrow::SignedWord(last, 64 - bits),
            Some(Bound::signed(bits)),
        ),
        (false, ..=128) => (Narrow::Pair(last - 1), Some(Bound::unsigned(bits))),
        (true, ..=128) => (
            Narrow::SignedPair(last - 1, 128 - bits),
            Some(Bound::signed(bits)),
        ),
        _ => (Narrow::Pair(last - 1), None),
    }
}

fn sum(left: Bound, right: Bound) -> Bound {
    match left.is_signed || right.is_signed {
        false => Bound::unsigned(left.bits.max(right.bits) + 1),
        true => Bound::signed(left.signed_bits().max(right.signed_bits()) + 1),
    }
}

fn either(left: Bound, right: Bound) -> Bound {
    match left.is_signed || right.is_signed {
        false => Bound::unsigned(left.bits.max(right.bits)),
        true => Bound::signed(left.signed_bits().max(right.signed_bits())),
    }
}

/// Compiles a word or its complement under a 64-bit mask.
fn masked_word(value: &Narrow, mask: &Narrow) -> Option<Narrow> {
    let Narrow::Constant(mask) = mask else {
        return None;
    };
    let mask = u64::try_from(*mask).ok()?;
    match value {
        Narrow::Word(at) => Some(Narrow::Masked(*at, 0, mask)),
        Narrow::Complement(of) => match **of {
            Narrow::Word(at) => Some(Narrow::Masked(at, u64::MAX, mask)),
            _ => None,
        },
        _ => None,
    }
}

/// The bound of a `&`: a nonnegative operand bounds the result.
fn masked(left: Option<Bound>, right: Option<Bound>) -> Option<Bound> {
    let positive = |bound: Option<Bound>| bound.filter(|bound| !bound.is_signed);
    match (positive(left), positive(right)) {
        (Some(left), Some(right)) => Some(Bound::unsigned(left.bits.min(right.bits))),
        (Some(one), None) | (None, Some(one)) => Some(one),
        (None, None) => left.zip(right).map(|(left, right)| either(left, right)),
    }
}

/// Compiles a comparison of two exact values.
fn comparison(operator: Binary, left: Narrow, right: Narrow, both: (Bound, Bound)) -> Compiled {
    let is_unsigned = comparable(both)?;
    let (left, right) = match operator {
        Binary::Greater | Binary::GreaterOrEqual => (right, left),
        _ => (left, right),
    };
    let two = match (operator, is_unsigned) {
        (Binary::Equal, _) => Two::Equal,
        (Binary::NotEqual, _) => Two::NotEqual,
        (Binary::Less | Binary::Greater, true) => Two::LessUnsigned,
        (Binary::Less | Binary::Greater, false) => Two::Less,
        (_, true) => Two::LessOrEqualUnsigned,
        (_, false) => Two::LessOrEqual,
    };
    Some((
        Narrow::Both(two, Box::new((left, right))),
        Some(Bound::BOOL),
    ))
}

/// Whether to compare as unsigned numbers; `None` if 128 bits cannot tell the two apart.
fn comparable((left, right): (Bound, Bound)) -> Option<bool> {
    if !left.is_signed && !right.is_signed {
        return Some(true);
    }
    let fits = left.signed_bits() <= 128 && right.signed_bits() <= 128;
    fits.then_some(false)
}

impl Narrow {
    /// Whether the value for a packet is nonzero. Conditions are evaluated more often than
    /// numbers, and need no number of their own.
    #[inline]
    pub(crate) fn is_true(&self, registers: &Registers<'_>) -> bool {
        match self {
            Narrow::Word(at) => registers.words[*at as usize] != 0,
            Narrow::Not(operand) => !operand.is_true(registers),
            Narrow::ToBool(operand) => operand.is_true(registers),
            Narrow::Both(two, both) => match (two, &both.0, &both.1) {
                (Two::BothTrue, left, right) => left.is_true(registers) && right.is_true(registers),
                (Two::EitherTrue, left, right) => {
                    left.is_true(registers) || right.is_true(registers)
                }
                (Two::Equal, Narrow::Word(at), Narrow::Constant(number)) => {
                    i128::from(registers.words[*at as usize]) == *number
                }
                _ => self.evaluate(registers) != 0,
            },
            _ => self.evaluate(registers) != 0,
        }
    }

    /// The value for a packet.
    // One match, with a line or two for each node. Registers are passed by reference: a copy
    // per node would take longer than most nodes.
    pub(crate) fn evaluate(&self, registers: &Registers<'_>) -> i128 {
        let word = |word: u32| registers.words[word as usize];
        let pair = |word: u32| {
            let words = &registers.words[word as usize..word as usize + 2];
            (u128::from(words[0]) << 64 | u128::from(words[1])) as i128
        };
        match self {
            Narrow::Constant(number) => *number,
            Narrow::Word(at) => i128::from(word(*at)),
            Narrow::Pair(at) => pair(*at),
            Narrow::SignedWord(at, unused) => i128::from((word(*at) << unused) as i64 >> unused),
            Narrow::SignedPair(at, unused) => pair(*at) << unused >> unused,
            Narrow::Argument(at) => i128::from(registers.arguments[*at as usize]),
            Narrow::ArgumentPair(at) => {
                let words = &registers.arguments[*at as usize..*at as usize + 2];
                (u128::from(words[0]) << 64 | u128::from(words[1])) as i128
            }
            Narrow::Element(index, words) => {
                let index = usize::try_from(index.evaluate(registers)).ok();
                let at = index.and_then(|index| words.get(index));
                at.map_or(0, |&at| i128::from(word(at)))
            }
            Narrow::Last(next, words) => {
                let last = word(*next).checked_sub(1);
                let at = last.and_then(|last| words.get(last as usize));
                at.map_or(0, |&at| i128::from(word(at)))
            }
            Narrow::LastIndex(next) => i128::from(word(*next)) - 1,
            Narrow::AnyOf(words) => words.iter().any(|&at| word(at) != 0).into(),
            Narrow::SameBlock(one, other, words) => {
                let block = |at: u32| &registers.words[at as usize..(at + words) as usize];
                (word(*one) != 0 && block(*one) == block(*other)).into()
            }
            Narrow::Complement(operand) => !operand.evaluate(registers),
            Narrow::Not(operand) => (operand.evaluate(registers) == 0).into(),
            Narrow::ToBool(operand) => (operand.evaluate(registers) != 0).into(),
            Narrow::SignExtend(operand, bits) => {
                let unused = 128 - bits;
                operand.evaluate(registers) << unused >> unused
            }
            Narrow::Clamp(operand, least, most) => operand.evaluate(registers).clamp(*least, *most),
            Narrow::AtMost(operand, most) => {
                (operand.evaluate(registers) as u128).min(*most) as i128
            }
            Narrow::ShiftRight(operand, bits) => operand.evaluate(registers) >> bits.min(&127),
            Narrow::ShiftRightUnsigned(operand, bits) => {
                let value = operand.evaluate(registers) as u128;
                value.checked_shr(*bits).unwrap_or(0) as i128
            }
            Narrow::ShiftLeft(operand, bits) => {
                operand.evaluate(registers).checked_shl(*bits).unwrap_or(0)
            }
            Narrow::Slice { word, words, shift } => {
                let from_last = shift / 64;
                let at = word + words - 1 - from_last;
                let high = match from_last + 1 < *words {
                    true => registers.words[at as usize - 1],
                    false => 0,
                };
                let both = u128::from(high) << 64 | u128::from(registers.words[at as usize]);
                i128::from((both >> (shift % 64)) as u64)
            }
            Narrow::Masked(at, turned, mask) => i128::from((word(*at) ^ turned) & mask),
            Narrow::Both(two, both) => {
                two.apply(both.0.evaluate(registers), both.1.evaluate(registers))
            }
            Narrow::Select(three) => match three.0.evaluate(registers) != 0 {
                true => three.1.evaluate(registers),
                false => three.2.evaluate(registers),
            },
        }
    }
}

impl Two {
    #[inline]
    fn apply(self, left: i128, right: i128) -> i128 {
        let amount = || u32::try_from(right as u128).unwrap_or(u32::MAX);
        match self {
            Two::Add => left.wrapping_add(right),
            Two::Subtract => left.wrapping_sub(right),
            Two::Multiply => left.wrapping_mul(right),
            Two::Divide => (left as u128).checked_div(right as u128).unwrap_or(0) as i128,
            Two::Remainder => (left as u128).checked_rem(right as u128).unwrap_or(0) as i128,
            Two::And => left & right,
            Two::Or => left | right,
            Two::Xor => left ^ right,
            Two::ShiftLeft => left.checked_shl(amount()).unwrap_or(0),
            Two::ShiftRight => left >> amount().min(127),
            Two::ShiftRightUnsigned => (left as u128).checked_shr(amount()).unwrap_or(0) as i128,
            Two::Equal => (left == right).into(),
            Two::NotEqual => (left != right).into(),
            Two::Less => (left < right).into(),
            Two::LessOrEqual => (left <= right).into(),
            Two::LessUnsigned => ((left as u128) < right as u128).into(),
            Two::LessOrEqualUnsigned => (left as u128 <= right as u128).into(),
            Two::BothTrue => (left != 0 && right != 0).into(),
            Two::EitherTrue => (left != 0 || right != 0).into(),
        }
    }
}
