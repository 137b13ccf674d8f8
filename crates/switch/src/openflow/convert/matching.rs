//! Matches and ports, in both directions.

use thalweg_openflow as of;
use thalweg_openflow::message::port::PortNumber;
use thalweg_openflow::{Condition, ErrorCode, Refusal, Value, refuse};
use thalweg_packet::standard as f;
use thalweg_packet::{FieldId, PortId, TUNNEL_OPTIONS};
use thalweg_pipeline::{Match, Term};

use super::fields::{Piece, name_of, pieces};
use super::shape::Shape;

/// Bytes of a tunnel's option that rules compare and write.
const OPTION_BYTES: usize = 16;
/// OpenFlow's number in `actset_output` if there is no port; the pipeline has 0 then.
pub(in crate::openflow) const UNSET: u32 = 0xffff_fff7;

/// The pipeline's number of a port. Reserved numbers have 16 bits there, as in OpenFlow 1.0.
pub(in crate::openflow) fn port_id(port: PortNumber) -> PortId {
    match port.to_u16() {
        Some(number) if port.is_reserved() => PortId(number.into()),
        _ => PortId(port.0),
    }
}

/// OpenFlow's number of a port.
pub(in crate::openflow) fn port_number(port: PortId) -> PortNumber {
    match u16::try_from(port.0) {
        Ok(number) => PortNumber::from_u16(number),
        Err(_) => PortNumber(port.0),
    }
}

/// The pipeline's match.
///
/// # Errors
/// If the pipeline lacks a field, or two conditions contradict each other.
pub(in crate::openflow) fn matching(asked: &of::Match) -> Result<Match, Refusal> {
    let mut matching = Match::default();
    for condition in &asked.conditions {
        let Condition { field, value, mask } = condition;
        if *field == of::FieldId::PACKET_TYPE && mask.is_none() && value.number() == 0 {
            // A match without a packet type means Ethernet (`Match::compile_rule`).
            continue;
        }
        let Some(pieces) = pieces(*field) else {
            let what = format!("this switch has no field {field}");
            return Err(refuse(ErrorCode::OFPBMC_BAD_FIELD, what));
        };
        let mask = match mask {
            Some(mask) => mask.number(),
            // Wider fields have no pieces.
            None => ones(field.width_bits().min(128)),
        };
        fits(*field, value)?;
        let value = value.number() & mask;
        if matches!(*field, of::FieldId::IN_PORT | of::FieldId::IN_PORT_OXM) {
            let number = match *field {
                of::FieldId::IN_PORT => PortNumber::from_u16(value as u16),
                _ => PortNumber(value as u32),
            };
            let port = port_id(number).0;
            add(&mut matching, f::IN_PORT, port.into(), u32::MAX.into())?;
            continue;
        }
        if *field == of::FieldId::ACTSET_OUTPUT && value as u32 == UNSET {
            add(&mut matching, f::ACTSET_OUTPUT, 0, u32::MAX.into())?;
            continue;
        }
        for piece in pieces {
            add(
                &mut matching,
                piece.field,
                to_piece(value, piece),
                to_piece(mask, piece),
            )?;
        }
    }
    Ok(matching)
}

/// Refuses a value of a tunnel's option that is longer than the pipeline's fields.
pub(super) fn fits(field: of::FieldId, value: &Value) -> Result<(), Refusal> {
    let bytes = value.bytes();
    let above = bytes.len().saturating_sub(OPTION_BYTES);
    match bytes[..above].iter().all(|byte| *byte == 0) {
        true => Ok(()),
        false => {
            let what = format!("this switch compares and writes {OPTION_BYTES} bytes of {field}");
            Err(refuse(ErrorCode::OFPBMC_BAD_VALUE, what))
        }
    }
}

/// A value of a tunnel's option in as many words of 32 bits as it needs.
pub(in crate::openflow) fn option_value(number: u128) -> Value {
    let bits = (128 - number.leading_zeros()).max(1);
    Value::from_number(number, bits.div_ceil(32) as usize * 4)
}

fn add(matching: &mut Match, field: FieldId, value: u128, mask: u128) -> Result<(), Refusal> {
    let added = matching.add(field, value, mask);
    added.map_err(|error| refuse(ErrorCode::OFPBMC_DUP_FIELD, error.to_string()))
}

/// Bits of OpenFlow's field as bits of the pipeline's.
pub(super) fn to_piece(bits: u128, piece: &Piece) -> u128 {
    let ones = ones(piece.width_bits);
    (bits >> piece.of_offset & ones) << piece.offset
}

/// Bits of the pipeline's field as bits of OpenFlow's.
pub(super) fn from_piece(bits: u128, piece: &Piece) -> u128 {
    let ones = ones(piece.width_bits);
    (bits >> piece.offset & ones) << piece.of_offset
}

/// A number whose lowest `width_bits` bits are one.
pub(super) fn ones(width_bits: u16) -> u128 {
    match width_bits {
        0 => 0,
        _ => u128::MAX >> (128 - width_bits),
    }
}

/// OpenFlow's match, each field behind those that it needs.
pub(in crate::openflow) fn of_match(matching: &Match) -> of::Match {
    let shape = Shape::of(matching);
    let mut conditions: Vec<Condition> = matching
        .terms()
        .iter()
        .filter_map(|term| condition(term, &shape))
        .chain(present_options(matching))
        .collect();
    conditions.sort_by_key(|condition| condition.field);
    of::Match { conditions }
}

/// The options of a tunnel of which only the presence is compared.
fn present_options(matching: &Match) -> impl Iterator<Item = Condition> + '_ {
    let present = matching.term(f::TUN_OPTIONS).map_or(0, |term| term.value);
    let numbers = (0..TUNNEL_OPTIONS).filter(move |number| present >> number & 1 == 1);
    let fields = numbers.map(f::tunnel_option_field);
    let fields = fields.filter(|field| matching.term(*field).is_none());
    fields.filter_map(|field| {
        Some(Condition {
            field: name_of(field, &Shape::default())?.0,
            value: option_value(0),
            mask: Some(option_value(0)),
        })
    })
}

/// The condition on a tunnel's option: value and mask are equally long.
fn option_condition(field: of::FieldId, term: &Term) -> Condition {
    match term.mask {
        u128::MAX => Condition {
            field,
            value: option_value(term.value),
            mask: None,
        },
        mask => Condition {
            field,
            value: Value::from_number(term.value, option_value(mask).bytes().len()),
            mask: Some(option_value(mask)),
        },
    }
}

fn condition(term: &Term, shape: &Shape) -> Option<Condition> {
    let (field, piece) = name_of(term.field, shape)?;
    if field.is_variable() {
        return Some(option_condition(field, term));
    }
    let (bytes, width) = (field.bytes(), field.width_bits());
    if term.field == f::IN_PORT {
        let port = port_number(PortId(term.value as u32));
        return Some(Condition {
            field,
            value: Value::from_number(port.0.into(), bytes),
            mask: None,
        });
    }
    if term.field == f::ACTSET_OUTPUT && term.value == 0 {
        return Some(Condition {
            field,
            value: Value::from_number(UNSET.into(), bytes),
            mask: None,
        });
    }
    let mask = from_piece(term.mask, &piece);
    // `nw_tos` names six of its eight bits. A mask of all that is known of `ct_state` is
    // told as one, as Open vSwitch does.
    let is_whole = field != of::FieldId::CT_STATE
        && mask == from_piece(ones(piece.width_bits + piece.offset), &piece);
    Some(Condition {
        field,
        value: Value::from_number(from_piece(term.value, &piece), bytes),
        mask: (!is_whole).then(|| Value::from_number(mask & ones(width), bytes)),
    })
}
