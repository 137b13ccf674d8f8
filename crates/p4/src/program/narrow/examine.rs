//! Finds the frame bits that decided the value of a compiled expression.
//!
//! A cache that remembers where a condition led must know which bits decided it. All bits of
//! each field read would do, but would be far too many. `ttl > 1` for a time to live of 64 is
//! decided by its highest bit, and a false `address[31:28] == 14` by one of the four bits.
//!
//! [`Narrow::examine`] takes the bits of the value that matter, and returns bits of frame
//! words. It is sound: with the same data, any frame that agrees on these bits has a value that
//! agrees on the bits that matter. From the root to the leaves:
//!
//! ```text
//!   x & y      bits of x; those of y only where x has a one          (| the other way round)
//!   x + y      all bits up to the highest that matters               (- and * the same)
//!   x == y     if they differ: the highest bit in which they do; else all
//!   x < y      the bits down to the highest in which they differ
//!   x and y    if one is false, that one alone                       (or the other way round)
//!   not x      of a number that is not 0: one bit that is not
//! ```
//!
//! Cost: the parts of conditions (comparisons, `and`, `or`, `not`) are visited once, and the
//! bits of an operand that does not decide are removed again. Below a comparison each operand
//! is evaluated again for each level above it. That is acceptable for small trees, and only
//! packets that miss a cache pay for it.

use super::{Narrow, Registers, Two};

/// Words of the frame with some of their bits; a word may appear more than once.
pub(crate) type Seen = Vec<(u32, u64)>;

impl Narrow {
    /// Whether the value is nonzero; adds the bits that decide it.
    pub(crate) fn examine_truth(&self, registers: Registers<'_>, seen: &mut Seen) -> bool {
        let value = match self {
            Narrow::Not(operand) => return !operand.examine_truth(registers, seen),
            Narrow::ToBool(operand) => return operand.examine_truth(registers, seen),
            Narrow::Both(two @ (Two::BothTrue | Two::EitherTrue), both) => {
                // An operand that is false (or true) decides alone.
                let deciding = *two == Two::EitherTrue;
                let start = seen.len();
                if both.0.examine_truth(registers, seen) == deciding {
                    return deciding;
                }
                let middle = seen.len();
                if both.1.examine_truth(registers, seen) == deciding {
                    seen.drain(start..middle);
                    return deciding;
                }
                return !deciding;
            }
            Narrow::Both(two, both) => {
                let (left, right) = (&both.0, &both.1);
                let values = [left, right].map(|side| side.evaluate(&registers));
                let value = two.apply(values[0], values[1]) as u128;
                two.examine((left, right), values, registers, deciding(value), seen);
                return value != 0;
            }
            other => other.evaluate(&registers) as u128,
        };
        self.examine(registers, deciding(value), seen);
        value != 0
    }

    /// Adds the frame bits that decide the `need` bits of the value.
    // One match, with a line or two for each node.
    pub(crate) fn examine(&self, registers: Registers<'_>, need: u128, seen: &mut Seen) {
        if need == 0 {
            return;
        }
        let all = u128::MAX;
        match self {
            Narrow::Constant(_) | Narrow::Argument(_) | Narrow::ArgumentPair(_) => {}
            Narrow::Word(at) => seen.push((*at, need as u64)),
            Narrow::Pair(at) => {
                seen.push((*at, (need >> 64) as u64));
                seen.push((at + 1, need as u64));
            }
            Narrow::SignedWord(at, unused) => seen.push((*at, extended(need, 64 - unused) as u64)),
            Narrow::SignedPair(at, unused) => {
                let need = extended(need, 128 - unused);
                seen.push((*at, (need >> 64) as u64));
                seen.push((at + 1, need as u64));
            }
            Narrow::Element(index, words) => {
                index.examine(registers, all, seen);
                let index = usize::try_from(index.evaluate(&registers)).ok();
                if let Some(&at) = index.and_then(|index| words.get(index)) {
                    seen.push((at, need as u64));
                }
            }
            Narrow::Last(next, words) => {
                seen.push((*next, u64::MAX));
                let last = registers.words[*next as usize].checked_sub(1);
                if let Some(&at) = last.and_then(|last| words.get(last as usize)) {
                    seen.push((at, need as u64));
                }
            }
            Narrow::LastIndex(next) => seen.push((*next, u64::MAX)),
            Narrow::AnyOf(words) => {
                let valid = words.iter().find(|&&at| registers.words[at as usize] != 0);
                match valid {
                    Some(&at) => seen.push((at, u64::MAX)),
                    None => words.iter().for_each(|&at| seen.push((at, u64::MAX))),
                }
            }
            Narrow::SameBlock(one, other, words) => {
                same_block(registers, *one, *other, *words, seen);
            }
            Narrow::Complement(operand) => operand.examine(registers, need, seen),
            Narrow::Not(_)
            | Narrow::ToBool(_)
            | Narrow::Both(Two::BothTrue | Two::EitherTrue, _) => {
                self.examine_truth(registers, seen);
            }
            Narrow::SignExtend(operand, bits) => {
                operand.examine(registers, extended(need, *bits), seen);
            }
            Narrow::Clamp(operand, ..) | Narrow::AtMost(operand, _) => {
                operand.examine(registers, all, seen);
            }
            Narrow::ShiftRight(operand, bits) => {
                let bits = *bits.min(&127);
                let sign = u128::from(bits > 0) << 127;
                operand.examine(registers, need << bits | sign, seen);
            }
            Narrow::ShiftRightUnsigned(operand, bits) => {
                operand.examine(registers, need.checked_shl(*bits).unwrap_or(0), seen);
            }
            Narrow::ShiftLeft(operand, bits) => {
                operand.examine(registers, need.checked_shr(*bits).unwrap_or(0), seen);
            }
            Narrow::Slice { word, words, shift } => {
                let at = word + words - 1 - shift / 64;
                let both = u128::from(need as u64) << (shift % 64);
                seen.push((at, both as u64));
                if shift / 64 + 1 < *words {
                    seen.push((at - 1, (both >> 64) as u64));
                }
            }
            Narrow::Masked(at, _, mask) => seen.push((*at, need as u64 & mask)),
            Narrow::Both(two, both) => {
                let values = [&both.0, &both.1].map(|side| side.evaluate(&registers));
                two.examine((&both.0, &both.1), values, registers, need, seen);
            }
            Narrow::Select(three) => {
                three.0.examine_truth(registers, seen);
                match three.0.evaluate(&registers) != 0 {
                    true => three.1.examine(registers, need, seen),
                    false => three.2.examine(registers, need, seen),
                }
            }
        }
    }
}

impl Two {
    fn examine(
        self,
        (left, right): (&Narrow, &Narrow),
        values: [i128; 2],
        registers: Registers<'_>,
        need: u128,
        seen: &mut Seen,
    ) {
        let [one, other] = values.map(|value| value as u128);
        let mut both = |need: u128| {
            left.examine(registers, need, seen);
            right.examine(registers, need, seen);
        };
        let differs = highest(one ^ other);
        match self {
            Two::And => {
                left.examine(registers, need, seen);
                right.examine(registers, need & one, seen);
            }
            Two::Or => {
                left.examine(registers, need, seen);
                right.examine(registers, need & !one, seen);
            }
            Two::Xor => both(need),
            // Carries come from lower bits.
            Two::Add | Two::Subtract | Two::Multiply => both(up_to(highest(need))),
            Two::Equal | Two::NotEqual => match differs {
                0 => both(u128::MAX),
                bit => both(bit),
            },
            Two::Less | Two::LessOrEqual | Two::LessUnsigned | Two::LessOrEqualUnsigned => {
                match differs {
                    0 => both(u128::MAX),
                    bit => both(!(bit - 1)),
                }
            }
            Two::BothTrue | Two::EitherTrue => unreachable!("the caller's"),
            Two::Divide
            | Two::Remainder
            | Two::ShiftLeft
            | Two::ShiftRight
            | Two::ShiftRightUnsigned => both(u128::MAX),
        }
    }
}

/// Compares two headers of one type: the first one's validity, then the first differing word.
fn same_block(registers: Registers<'_>, one: u32, other: u32, words: u32, seen: &mut Seen) {
    seen.push((one, u64::MAX));
    let word = |at: u32| registers.words[at as usize];
    if word(one) == 0 {
        return;
    }
    let mut pairs = (0..words).map(|index| (one + index, other + index));
    match pairs.find(|&(one, other)| word(one) != word(other)) {
        Some((one, other)) => {
            seen.push((one, u64::MAX));
            seen.push((other, u64::MAX));
        }
        None => {
            for index in 0..words {
                seen.push((one + index, u64::MAX));
                seen.push((other + index, u64::MAX));
            }
        }
    }
}

/// The highest one bit of a number; 0 for 0.
fn highest(number: u128) -> u128 {
    number.checked_ilog2().map_or(0, |bit| 1 << bit)
}

/// The bits that decide whether a number is 0.
fn deciding(number: u128) -> u128 {
    match number {
        0 => u128::MAX,
        _ => highest(number),
    }
}

/// A bit and all bits below it.
fn up_to(bit: u128) -> u128 {
    bit | bit.wrapping_sub(1)
}

/// The `need` bits of a number that is sign-extended from `bits` bits.
fn extended(need: u128, bits: u32) -> u128 {
    let sign = 1 << (bits - 1);
    let below = need & up_to(sign);
    match need >> (bits - 1) {
        0 => below,
        _ => below | sign,
    }
}
