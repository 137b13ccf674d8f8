//! Resolves the names and values of a script for a program.

use num_bigint::{BigInt, BigUint};

use crate::program::Program;
use crate::program::ids::{ActionId, TableId};
use crate::program::table::{KeyPart, Match, MatchKind, Table};
use crate::state::ActionCall;

/// Whether a script means this full name: all of it, or its last parts.
pub(crate) fn is_meant(full: &str, written: &str) -> bool {
    full == written
        || full
            .strip_suffix(written)
            .is_some_and(|before| before.ends_with('.'))
}

/// The only item whose name matches.
fn only<T>(
    found: impl Iterator<Item = (String, T)>,
    written: &str,
    kind: &str,
) -> Result<T, String> {
    let mut candidates: Vec<(String, T)> =
        found.filter(|(name, _)| is_meant(name, written)).collect();
    if let Some(exact) = candidates.iter().position(|(name, _)| name == written) {
        return Ok(candidates.swap_remove(exact).1);
    }
    match candidates.len() {
        1 => Ok(candidates.swap_remove(0).1),
        0 => Err(format!("there is no {kind} {written:?}")),
        _ => Err(format!(
            "more than one {kind} could be {written:?}; write more of its name"
        )),
    }
}

/// The table that a name means.
pub(crate) fn table(program: &Program, written: &str) -> Result<TableId, String> {
    let tables = program.tables.iter().zip(0..);
    only(
        tables.map(|(table, index)| (table.name.clone(), TableId(index))),
        written,
        "table",
    )
}

/// The action of a table that a name means.
pub(crate) fn action(program: &Program, table: &Table, written: &str) -> Result<ActionId, String> {
    let actions = table.actions.iter();
    let named = actions.map(|&id| (program.action(id).name.clone(), id));
    only(named, written, &format!("action of {}", table.name))
}

/// The action of a table with a script's parameters, in any order.
pub(super) fn call(
    program: &Program,
    table: TableId,
    written: &str,
    arguments: &[(String, String)],
) -> Result<ActionCall, String> {
    let id = action(program, program.table(table), written)?;
    let action = program.action(id);
    if let Some((name, _)) = arguments.iter().find(|(name, _)| {
        !action
            .parameters
            .iter()
            .any(|parameter| is_meant(&parameter.name, name))
    }) {
        return Err(format!("{} has no parameter {name:?}", action.name));
    }
    let mut data = Vec::new();
    for parameter in &action.parameters {
        let value = arguments
            .iter()
            .find(|(name, _)| is_meant(&parameter.name, name));
        let value = value.ok_or_else(|| format!("{} needs {:?}", action.name, parameter.name))?;
        data.push(positive(&value.1)?);
    }
    Ok(ActionCall { action: id, data })
}

pub(super) fn positive(text: &str) -> Result<BigUint, String> {
    let number: Option<BigInt> = crate::json::parse_number(text);
    let number = number.and_then(|number| BigUint::try_from(number).ok());
    number.ok_or_else(|| format!("{text:?} is no number"))
}

/// An entry's condition on each part of a key; a part that is not named matches anything.
pub(super) fn matches(
    program: &Program,
    table: &Table,
    written: &[(String, String)],
) -> Result<Vec<Match>, String> {
    let mut matches: Vec<Option<Match>> = vec![None; table.key.len()];
    for (name, value) in written {
        let place = part(program, table, name)?;
        if matches[place].is_some() {
            return Err(format!("{name:?} is given twice"));
        }
        matches[place] = Some(one_match(&table.key[place], value)?);
    }
    let parts = table.key.iter().zip(matches);
    let filled = parts.map(|(part, found)| {
        found.unwrap_or(match part.kind {
            MatchKind::Exact => Match::Exact(BigUint::ZERO),
            _ => Match::Any,
        })
    });
    Ok(filled.collect())
}

/// The index of the key part that a name means.
fn part(program: &Program, table: &Table, written: &str) -> Result<usize, String> {
    let mut name = written.to_owned();
    // A stack's index is written `$3`.
    if let Some((before, after)) = written.split_once('$')
        && after.starts_with(|digit: char| digit.is_ascii_digit())
    {
        let end = after
            .find(|digit: char| !digit.is_ascii_digit())
            .unwrap_or(after.len());
        name = format!("{before}[{}]{}", &after[..end], &after[end..]);
    }
    if let Some(header) = name.strip_suffix(".valid") {
        name = format!("{header}.$valid$");
    }
    let names = |part: &KeyPart| [part.name.clone(), program.headers.field_name(part.field)];
    let valid = format!("{name}.$valid$");
    for wanted in [&name, &valid] {
        let met = |part: &KeyPart| names(part).iter().any(|full| is_meant(full, wanted));
        if let Some(place) = table.key.iter().position(met) {
            return Ok(place);
        }
    }
    let known: Vec<&str> = table.key.iter().map(|part| part.name.as_str()).collect();
    Err(format!(
        "the key of {} has no {written:?}, only {}",
        table.name,
        known.join(", ")
    ))
}

fn one_match(part: &KeyPart, text: &str) -> Result<Match, String> {
    if let Some((value, length)) = text.split_once('/') {
        let length = length
            .parse()
            .map_err(|_| format!("{length:?} is no length of a prefix"))?;
        return Ok(Match::Lpm(positive(value)?, length));
    }
    if let Some((least, most)) = text.split_once("->").or_else(|| text.split_once("..")) {
        return Ok(Match::Range(positive(least)?, positive(most)?));
    }
    if let Some((value, mask)) = text.split_once("&&&") {
        return Ok(Match::Ternary(positive(value)?, positive(mask)?));
    }
    if text.contains('*') {
        return starred_match(part, text);
    }
    let value = positive(text)?;
    Ok(match part.kind {
        MatchKind::Lpm => Match::Lpm(value, part.width_bits),
        _ => Match::Exact(value),
    })
}

/// A number with `*` digits: a prefix where the key has one, else a mask.
fn starred_match(part: &KeyPart, text: &str) -> Result<Match, String> {
    let (value, mask) = starred(text)?;
    let width = part.width_bits;
    let ones = (BigUint::from(1_u8) << width) - 1_u8;
    // The first digit may have more bits than the field.
    let mask = mask & &ones;
    if part.kind != MatchKind::Lpm {
        return Ok(Match::Ternary(value, mask));
    }
    let rest = ones ^ mask;
    let after: BigUint = &rest + 1_u8;
    if (&rest & after).bits() > 0 || value.bits() > u64::from(width) {
        return Err(format!(
            "{text:?} is no prefix of {}, which has {width} bits: write all its digits, those that \
             do not matter last, or VALUE/LENGTH",
            part.name
        ));
    }
    Ok(Match::Lpm(value, width - rest.bits() as u32))
}

/// `0x1*`, `0o1*` and `0b1*` as value and mask.
fn starred(text: &str) -> Result<(BigUint, BigUint), String> {
    let (bits, digits) = match text.get(..2) {
        Some("0x" | "0X") => (4, &text[2..]),
        Some("0o" | "0O") => (3, &text[2..]),
        Some("0b" | "0B") => (1, &text[2..]),
        _ if text == "*" => return Ok((BigUint::ZERO, BigUint::ZERO)),
        _ => {
            return Err(format!(
                "{text:?}: only numbers that begin with 0x, 0o or 0b may have a *"
            ));
        }
    };
    if digits.len() > 16_384 {
        return Err("too many digits".to_owned());
    }
    let (mut value, mut mask) = (BigUint::ZERO, BigUint::ZERO);
    for digit in digits.chars().filter(|digit| *digit != '_') {
        value <<= bits;
        mask <<= bits;
        if digit != '*' {
            let digit = digit
                .to_digit(1 << bits)
                .ok_or_else(|| format!("{digit:?} is no digit"))?;
            value |= BigUint::from(digit);
            mask |= BigUint::from((1_u8 << bits) - 1);
        }
    }
    Ok((value, mask))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_met_by_their_last_parts() {
        assert!(is_meant("c.t", "t") && is_meant("c.t", "c.t"));
        assert!(!is_meant("c.at", "t") && !is_meant("t", "c.t"));
    }

    #[test]
    fn stars_do_not_matter() {
        assert_eq!(starred("0x1*f"), Ok((0x10f_u32.into(), 0xf0f_u32.into())));
        assert_eq!(starred("0b1*"), Ok((2_u32.into(), 2_u32.into())));
        assert_eq!(starred("0o7*"), Ok((0o70_u32.into(), 0o70_u32.into())));
        assert!(starred("1*").is_err());
    }

    #[test]
    fn stars_at_the_end_make_a_prefix() {
        let part = |kind, width_bits| KeyPart {
            name: "key".to_owned(),
            kind,
            field: crate::program::ids::FieldId(0),
            width_bits,
            mask: None,
            from_word: 0,
            valid_word: None,
            word: 0,
            shift: 0,
        };
        let lpm = |text: &str| one_match(&part(MatchKind::Lpm, 32), text);
        let prefix = |value: u32, length| Ok(Match::Lpm(value.into(), length));
        assert_eq!(lpm("0xc0a8****"), prefix(0xc0a8_0000, 16));
        assert_eq!(lpm("0xc0a80001"), prefix(0xc0a8_0001, 32));
        assert_eq!(lpm("0x********"), prefix(0, 0));
        assert_eq!(lpm("*"), prefix(0, 0));
        assert_eq!(
            lpm("0b1_0******_********_********_********"),
            prefix(0x8000_0000, 2)
        );
        // The stars are not at the end, or the number has fewer digits than the field.
        for text in ["0xc0**0001", "0x*0a80001", "0xc0a8**", "0xc0a8*****"] {
            let error = lpm(text).expect_err(text);
            assert!(
                error.contains("is no prefix of key, which has 32 bits"),
                "{error}"
            );
        }
        // Nine bits have three digits; the first has one bit.
        let nine = part(MatchKind::Lpm, 9);
        assert_eq!(one_match(&nine, "0x1**"), prefix(0x100, 1));
        let nine = part(MatchKind::Ternary, 9);
        let masked = Match::Ternary(0x100_u32.into(), 0x10f_u32.into());
        assert_eq!(one_match(&nine, "0x1*0"), Ok(masked));
    }
}
