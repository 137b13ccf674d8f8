//! The action that makes flow entries (`NXAST_LEARN`, `NXAST_LEARN2`).

use super::subfield::{check, check_written, decode_name, encode_name, must_be_zero};
use super::{Action, Learn, LearnDestination, LearnSource, LearnSpec, Subfield};
use crate::error::{ErrorCode, Refusal, refuse};
use crate::field::Value;
use crate::wire::{Reader, Writer};

/// The source is a constant.
const IMMEDIATE: u16 = 1 << 13;
/// What is done with the bits.
const DESTINATION: u16 = 3 << 11;
const MATCH: u16 = 0 << 11;
const LOAD: u16 = 1 << 11;
const OUTPUT: u16 = 2 << 11;
/// The number of bits.
const WIDTH: u16 = 0x3ff;
/// Bits that have no meaning.
const RESERVED: u16 = 3 << 14;

/// The entry ends with a report; with the entry that made it; a bit says whether it was made.
const FLAGS: u16 = 0b111;
/// The flag of the result.
const WRITES_RESULT: u16 = 1 << 2;

pub(super) fn decode(is_second_form: bool, body: &mut Reader<'_>) -> Result<Action, Refusal> {
    let (idle_timeout_s, hard_timeout_s, priority) = (body.u16()?, body.u16()?, body.u16()?);
    let (cookie, flags) = (body.u64()?, body.u16()?);
    let table = body.u8()?;
    must_be_zero(body.take(1)?)?;
    let (fin_idle_timeout_s, fin_hard_timeout_s) = (body.u16()?, body.u16()?);
    let known = if is_second_form { FLAGS } else { 0b11 };
    if flags & !known != 0 || table == 0xff {
        let what = format!("learn with flags {flags:#x} in table {table}");
        return Err(refuse(ErrorCode::OFPBAC_BAD_ARGUMENT, what));
    }
    let (mut limit, mut result) = (0, None);
    if is_second_form {
        limit = body.u32()?;
        let offset = body.u16()?;
        must_be_zero(body.take(2)?)?;
        if flags & WRITES_RESULT != 0 {
            let field = decode_name(body)?;
            let bit = Subfield {
                field,
                offset,
                width_bits: 1,
            };
            result = Some(check_written(bit)?);
        } else if offset != 0 {
            return Err(refuse(
                ErrorCode::OFPBAC_BAD_ARGUMENT,
                "a place for no result",
            ));
        }
    }
    let mut specs = Vec::new();
    while body.len() >= 2 {
        let header = body.u16()?;
        if header == 0 {
            break;
        }
        specs.push(spec(header, body)?);
    }
    must_be_zero(body.rest())?;
    Ok(Action::Learn(Box::new(Learn {
        idle_timeout_s,
        hard_timeout_s,
        priority,
        cookie,
        flags,
        table,
        fin_idle_timeout_s,
        fin_hard_timeout_s,
        limit,
        result,
        specs,
    })))
}

fn spec(header: u16, body: &mut Reader<'_>) -> Result<LearnSpec, Refusal> {
    let width_bits = header & WIDTH;
    let bad = |what: &str| refuse(ErrorCode::OFPBAC_BAD_ARGUMENT, what);
    if header & RESERVED != 0 || header & DESTINATION == DESTINATION || width_bits == 0 {
        return Err(bad("a part of learn that has no meaning"));
    }
    let source = match header & IMMEDIATE {
        0 => LearnSource::Field(check(bits(width_bits, body)?)?),
        _ => {
            // A constant has whole words of 16 bits.
            let bytes = usize::from(width_bits).div_ceil(16) * 2;
            LearnSource::Immediate(Value::from_bytes(body.take(bytes)?))
        }
    };
    let destination = match header & DESTINATION {
        MATCH => LearnDestination::Match(check(bits(width_bits, body)?)?),
        LOAD => LearnDestination::Load(check_written(bits(width_bits, body)?)?),
        _ => LearnDestination::Output,
    };
    Ok(LearnSpec {
        source,
        destination,
        width_bits,
    })
}

fn bits(width_bits: u16, body: &mut Reader<'_>) -> Result<Subfield, Refusal> {
    let field = decode_name(body)?;
    Ok(Subfield {
        field,
        offset: body.u16()?,
        width_bits,
    })
}

/// Whether the action needs its second form.
pub(super) fn needs_second_form(learn: &Learn) -> bool {
    learn.limit != 0 || learn.flags & WRITES_RESULT != 0
}

/// Writes what follows the header.
pub(super) fn encode(learn: &Learn, writer: &mut Writer) {
    writer.u16(learn.idle_timeout_s);
    writer.u16(learn.hard_timeout_s);
    writer.u16(learn.priority);
    writer.u64(learn.cookie);
    writer.u16(learn.flags);
    writer.u8(learn.table);
    writer.u8(0);
    writer.u16(learn.fin_idle_timeout_s);
    writer.u16(learn.fin_hard_timeout_s);
    if needs_second_form(learn) {
        writer.u32(learn.limit);
        writer.u16(learn.result.map_or(0, |bit| bit.offset));
        writer.u16(0);
        if let Some(bit) = learn.result {
            encode_name(bit.field, None, writer);
        }
    }
    for spec in &learn.specs {
        let (immediate, from) = match &spec.source {
            LearnSource::Immediate(_) => (IMMEDIATE, None),
            LearnSource::Field(bits) => (0, Some(bits)),
        };
        let (kind, to) = match &spec.destination {
            LearnDestination::Match(bits) => (MATCH, Some(bits)),
            LearnDestination::Load(bits) => (LOAD, Some(bits)),
            LearnDestination::Output => (OUTPUT, None),
        };
        writer.u16(immediate | kind | spec.width_bits & WIDTH);
        if let LearnSource::Immediate(value) = &spec.source {
            writer.put(value.bytes());
        }
        for bits in [from, to].into_iter().flatten() {
            encode_name(bits.field, None, writer);
            writer.u16(bits.offset);
        }
    }
}
