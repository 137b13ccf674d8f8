//! Converts the matches of entries and value sets between messages and [`Match`].
//!
//! A match of anything is omitted from a message, and bits that do not matter are zero. So each
//! entry has exactly one form (P4Runtime 1.5.0, "Match Format"). A message in another form is
//! refused. So a lookup of an entry is a comparison of keys.

use super::Result;
use crate::change::{EntryKey, Match};
use crate::p4info::{Field, MatchKind, Table};
use crate::problem::{Code, Problem};
use crate::proto::p4::v1 as p4;
use crate::proto::p4::v1::field_match::FieldMatchType;
use crate::value::{BadValue, Value};

/// The key of an entry of a table.
pub(super) fn key_of(table: &Table, entry: &p4::TableEntry) -> Result<EntryKey> {
    let matches = matches_of(&table.fields, &entry.r#match)?;
    match (table.has_priorities, entry.priority) {
        (true, priority) if priority <= 0 => Err(Problem::invalid(format!(
            "a priority of {priority}; an entry of `{}` needs one above 0, as its key has a \
             ternary, range or optional field",
            table.name
        ))),
        (false, priority) if priority != 0 => Err(Problem::invalid(format!(
            "a priority of {priority}; entries of `{}` have none, leave it out",
            table.name
        ))),
        (_, priority) => Ok(EntryKey { priority, matches }),
    }
}

/// Converts messages in any order to a match for each field.
pub(super) fn matches_of(fields: &[Field], messages: &[p4::FieldMatch]) -> Result<Vec<Match>> {
    let mut found: Vec<Option<Match>> = vec![None; fields.len()];
    for message in messages {
        let place = fields.iter().position(|field| field.id == message.field_id);
        let Some(place) = place else {
            return Err(Problem::invalid(format!(
                "the key has no field {}; take the numbers from P4Info",
                message.field_id
            )));
        };
        let field = &fields[place];
        let found = &mut found[place];
        let matched = match_of(field, message.field_match_type.as_ref())
            .map_err(|problem| problem.at(format!("field `{}`", field.name)))?;
        if found.replace(matched).is_some() {
            return Err(Problem::invalid(format!(
                "field `{}` is given twice",
                field.name
            )));
        }
    }
    let pairs = fields.iter().zip(found);
    pairs
        .map(|(field, found)| match (found, field.kind) {
            (Some(found), _) => Ok(found),
            (None, MatchKind::Exact) => Err(Problem::invalid(format!(
                "field `{}` is missing; only fields that are not exact may be left out",
                field.name
            ))),
            (None, _) => Ok(Match::Any),
        })
        .collect()
}

fn match_of(field: &Field, message: Option<&FieldMatchType>) -> Result<Match> {
    let width = field.width;
    match (field.kind, message) {
        (MatchKind::Exact, Some(FieldMatchType::Exact(exact))) => {
            Ok(Match::Exact(number(&exact.value, width)?))
        }
        (MatchKind::Optional, Some(FieldMatchType::Optional(optional))) => {
            Ok(Match::Exact(number(&optional.value, width)?))
        }
        (MatchKind::Lpm, Some(FieldMatchType::Lpm(lpm))) => {
            let value = number(&lpm.value, width)?;
            let length = u32::try_from(lpm.prefix_len).unwrap_or(0);
            if !(1..=width).contains(&length) {
                return Err(Problem::invalid(format!(
                    "a prefix length of {}; give 1 to {width}, or leave the field out to match \
                     anything",
                    lpm.prefix_len
                )));
            }
            if !value.is_within(&Value::prefix(length, width)) {
                return Err(Problem::invalid(format!(
                    "{value} has bits outside its prefix of {length}; set them to zero"
                )));
            }
            Ok(Match::Prefix(value, length))
        }
        (MatchKind::Ternary, Some(FieldMatchType::Ternary(ternary))) => {
            let value = number(&ternary.value, width)?;
            let mask = number(&ternary.mask, width)?;
            if mask.is_zero() {
                return Err(Problem::invalid(
                    "a mask of zero; leave the field out to match anything",
                ));
            }
            if !value.is_within(&mask) {
                return Err(Problem::invalid(format!(
                    "{value} has bits outside its mask {mask}; set them to zero"
                )));
            }
            Ok(Match::Masked(value, mask))
        }
        (MatchKind::Range, Some(FieldMatchType::Range(range))) => {
            let low = number(&range.low, width)?;
            let high = number(&range.high, width)?;
            if low > high {
                return Err(Problem::invalid(format!(
                    "a range from {low} to {high} has nothing in it"
                )));
            }
            if low.is_zero() && high == Value::ones(width) {
                return Err(Problem::invalid(
                    "a range with all values; leave the field out to match anything",
                ));
            }
            Ok(Match::Range(low, high))
        }
        (_, None) => Err(Problem::invalid("its match is not set")),
        (kind, Some(_)) => Err(Problem::invalid(format!(
            "its match is of another kind; P4Info says {kind:?}"
        ))),
    }
}

/// A number of `width` bits.
pub(super) fn number(bytes: &[u8], width: u32) -> Result<Value> {
    Value::parse(bytes, width).map_err(out_of_range)
}

/// The error for bytes that are no number of their width.
pub(super) fn out_of_range(error: BadValue) -> Problem {
    Problem::new(Code::OutOfRange, error.to_string())
}

/// The messages for the matches of a key.
pub fn messages_of(fields: &[Field], matches: &[Match]) -> Vec<p4::FieldMatch> {
    let pairs = fields.iter().zip(matches);
    pairs
        .filter_map(|(field, matched)| {
            Some(p4::FieldMatch {
                field_id: field.id,
                field_match_type: Some(message_of(field.kind, matched)?),
            })
        })
        .collect()
}

fn message_of(kind: MatchKind, matched: &Match) -> Option<FieldMatchType> {
    use p4::field_match as message;
    let message = match matched {
        Match::Any => return None,
        Match::Exact(value) if kind == MatchKind::Optional => {
            let value = value.to_bytes();
            FieldMatchType::Optional(message::Optional { value })
        }
        Match::Exact(value) => FieldMatchType::Exact(message::Exact {
            value: value.to_bytes(),
        }),
        Match::Prefix(value, length) => FieldMatchType::Lpm(message::Lpm {
            value: value.to_bytes(),
            prefix_len: *length as i32,
        }),
        Match::Masked(value, mask) => FieldMatchType::Ternary(message::Ternary {
            value: value.to_bytes(),
            mask: mask.to_bytes(),
        }),
        Match::Range(low, high) => FieldMatchType::Range(message::Range {
            low: low.to_bytes(),
            high: high.to_bytes(),
        }),
    };
    Some(message)
}
