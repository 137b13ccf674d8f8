//! Turns an entry's match into patterns of a classifier.
//!
//! A range becomes the prefixes that cover it, at most two per bit; several ranges in one key
//! multiply. A match that needs more than [`PATTERNS_MAX`] patterns is refused.

use num_bigint::{BigInt, BigUint};

use crate::program::exact;
use crate::program::table::{KeyPart, Match, MatchKind, Table};

use super::error::WriteError;

/// Maximum patterns of one entry.
pub const PATTERNS_MAX: usize = 4096;

/// A value and a mask over the words of a table's key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct KeyPattern {
    pub(crate) value: Vec<u64>,
    pub(crate) mask: Vec<u64>,
}

/// The patterns of a match as a controller writes it.
pub(crate) fn patterns_of(table: &Table, matches: &[Match]) -> Result<Vec<KeyPattern>, WriteError> {
    patterns(table, &normalized(table, matches)?)
}

/// The normal form of an entry's match, so that equivalent matches are equal.
pub(super) fn normalized(table: &Table, matches: &[Match]) -> Result<Vec<Match>, WriteError> {
    if matches.len() != table.key.len() {
        return Err(WriteError::InvalidArgument(format!(
            "the key of {} has {} parts, not {}",
            table.name,
            table.key.len(),
            matches.len()
        )));
    }
    let parts = table.key.iter().zip(matches);
    parts
        .map(|(part, one)| Ok(masked(part, normalized_part(part, one)?)))
        .collect()
}

/// Checks that a part of a key can be matched in this way.
pub(crate) fn check_match(part: &KeyPart, one: &Match) -> Result<(), WriteError> {
    normalized_part(part, one).map(drop)
}

/// Clears the bits that the part's mask removes from the key.
fn masked(part: &KeyPart, one: Match) -> Match {
    let Some(words) = &part.mask else { return one };
    let mask = words.iter().fold(BigUint::ZERO, |mask, word| {
        (mask << 64_u32) | BigUint::from(*word)
    });
    match one {
        Match::Exact(value) => Match::Exact(value & mask),
        Match::Lpm(value, length) => Match::Lpm(value & mask, length),
        Match::Ternary(value, asked) => match asked & &mask {
            asked if asked.bits() == 0 => Match::Any,
            asked => Match::Ternary(value & mask, asked),
        },
        other => other,
    }
}

// One match, over the part's kind and the entry's match.
fn normalized_part(part: &KeyPart, one: &Match) -> Result<Match, WriteError> {
    let width = part.width_bits;
    let ones = || (BigUint::from(1_u8) << width) - 1_u8;
    let fits = |number: &BigUint| match number.bits() <= u64::from(width) {
        true => Ok(()),
        false => {
            let what = format!(
                "{number} does not fit into the {width} bits of {}",
                part.name
            );
            Err(WriteError::OutOfRange(what))
        }
    };
    let wrong = || {
        let what = format!(
            "{} is matched as {:?}, not as {one:?}",
            part.name, part.kind
        );
        Err(WriteError::InvalidArgument(what))
    };
    match (part.kind, one) {
        (MatchKind::Exact, Match::Exact(value)) => {
            fits(value)?;
            Ok(one.clone())
        }
        (MatchKind::Lpm, Match::Lpm(value, length)) => {
            fits(value)?;
            if *length > width {
                let what = format!("a prefix of {length} bits of the {width} of {}", part.name);
                return Err(WriteError::OutOfRange(what));
            }
            let dropped = width - length;
            Ok(match length {
                0 => Match::Any,
                _ => Match::Lpm(value >> dropped << dropped, *length),
            })
        }
        (MatchKind::Lpm, Match::Exact(value)) => {
            fits(value)?;
            Ok(Match::Lpm(value.clone(), width))
        }
        (MatchKind::Ternary, Match::Lpm(value, length)) if *length <= width => {
            let mask = ones() >> (width - length) << (width - length);
            normalized_part(part, &Match::Ternary(value.clone(), mask))
        }
        (MatchKind::Ternary | MatchKind::Optional, Match::Exact(value)) => {
            fits(value)?;
            Ok(Match::Ternary(value.clone(), ones()))
        }
        (MatchKind::Ternary, Match::Ternary(value, mask)) => {
            fits(value)?;
            fits(mask)?;
            Ok(match mask.bits() {
                0 => Match::Any,
                _ => Match::Ternary(value & mask, mask.clone()),
            })
        }
        (MatchKind::Optional, Match::Ternary(value, mask)) => match mask.bits() {
            0 => Ok(Match::Any),
            _ if *mask == ones() => normalized_part(part, &Match::Exact(value.clone())),
            _ => wrong(),
        },
        (MatchKind::Range, Match::Range(least, most)) => {
            fits(least)?;
            fits(most)?;
            if least > most {
                let what = format!("the range of {} ends before it begins", part.name);
                return Err(WriteError::InvalidArgument(what));
            }
            Ok(match least.bits() == 0 && *most == ones() {
                true => Match::Any,
                false => one.clone(),
            })
        }
        (MatchKind::Range, Match::Exact(value)) => {
            fits(value)?;
            normalized_part(part, &Match::Range(value.clone(), value.clone()))
        }
        (MatchKind::Exact, Match::Any) => {
            let what = format!("{} must be matched exactly", part.name);
            Err(WriteError::InvalidArgument(what))
        }
        (_, Match::Any) => Ok(Match::Any),
        _ => wrong(),
    }
}

/// The patterns that are together equivalent to `matches`, which must be normalized.
pub(super) fn patterns(table: &Table, matches: &[Match]) -> Result<Vec<KeyPattern>, WriteError> {
    let words = table.key_words as usize;
    let mut patterns = vec![KeyPattern {
        value: vec![0; words],
        mask: vec![0; words],
    }];
    for (part, one) in table.key.iter().zip(matches) {
        let choices = choices(part, one);
        if patterns.len() * choices.len() > PATTERNS_MAX {
            return Err(WriteError::ResourceExhausted(format!(
                "the ranges of this entry need more than {PATTERNS_MAX} patterns; use fewer or \
                 rounder ranges"
            )));
        }
        let mut next = Vec::with_capacity(patterns.len() * choices.len());
        for pattern in &patterns {
            for (value, mask) in &choices {
                let mut pattern = pattern.clone();
                place(part, value, &mut pattern.value);
                place(part, mask, &mut pattern.mask);
                next.push(pattern);
            }
        }
        patterns = next;
    }
    for pattern in &mut patterns {
        apply_key_masks(table, pattern);
    }
    Ok(patterns)
}

/// Removes bits from the pattern that the key never has.
fn apply_key_masks(table: &Table, pattern: &mut KeyPattern) {
    for part in &table.key {
        let Some(mask) = &part.mask else { continue };
        for (index, &mask) in mask.iter().enumerate() {
            let word = part.word as usize + index;
            let field = match part.words() {
                1 => super::super::program::code::low_mask(part.width_bits) << part.shift,
                _ => u64::MAX,
            };
            let keep = mask << part.shift | !field;
            // A bit that is wanted but never present stays in both, so that nothing matches.
            pattern.mask[word] &= keep | pattern.value[word];
        }
    }
}

/// The values and masks of one part.
fn choices(part: &KeyPart, one: &Match) -> Vec<(BigUint, BigUint)> {
    let width = part.width_bits;
    let ones = (BigUint::from(1_u8) << width) - 1_u8;
    match one {
        Match::Exact(value) => vec![(value.clone(), ones)],
        Match::Lpm(value, length) => {
            let dropped = width - length;
            vec![(value.clone(), ones >> dropped << dropped)]
        }
        Match::Ternary(value, mask) => vec![(value.clone(), mask.clone())],
        Match::Range(least, most) => prefixes(least, most, width),
        Match::Any => vec![(BigUint::ZERO, BigUint::ZERO)],
    }
}

/// The prefixes that cover a range, as values and masks.
fn prefixes(least: &BigUint, most: &BigUint, width: u32) -> Vec<(BigUint, BigUint)> {
    let ones = (BigUint::from(1_u8) << width) - 1_u8;
    let end: BigUint = most + 1_u8;
    let mut from = least.clone();
    let mut found = Vec::new();
    while from < end {
        // The largest block that begins here and does not exceed the end.
        let aligned = from.trailing_zeros().unwrap_or(u64::from(width)) as u32;
        let room: BigUint = &end - &from;
        let fitting = room.bits() as u32 - 1;
        let bits = aligned.min(fitting);
        let mask = &ones >> bits << bits;
        found.push((from.clone(), mask));
        from += BigUint::from(1_u8) << bits;
    }
    found
}

/// Writes a number to a part's place in the key.
fn place(part: &KeyPart, number: &BigUint, key: &mut [u64]) {
    let mut words = vec![0; part.words() as usize];
    exact::store(&BigInt::from(number.clone()), part.width_bits, &mut words);
    for (index, word) in words.iter().enumerate() {
        key[part.word as usize + index] |= word << part.shift;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_cover_a_range_once() {
        for (least, most) in [
            (0_u16, 0_u16),
            (0, 255),
            (1, 254),
            (7, 7),
            (3, 200),
            (128, 255),
        ] {
            let found = prefixes(&least.into(), &most.into(), 8);
            assert!(found.len() <= 14, "{least}..={most}");
            for key in 0..=255_u16 {
                let inside = found
                    .iter()
                    .filter(|(value, mask)| BigUint::from(key) & mask == *value);
                let expected = usize::from(least <= key && key <= most);
                assert_eq!(inside.count(), expected, "{key} in {least}..={most}");
            }
        }
    }
}
